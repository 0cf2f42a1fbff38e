"""What each text of hdfs-native says about the call; recorded from Hadoop 3.5.0 and hdfs-native 0.14.7."""

from __future__ import annotations

import pytest

from hivesink.storage.hdfs_failures import CallAbandoned, Failure, Kind, Unreported, judge

TRACE = '\\n\\tat org.apache.hadoop.hdfs.server.namenode.FSNamesystem.startFile(FSNamesystem.java:2745)\\n")'


def rpc(java: str, message: str) -> RuntimeError:
    return RuntimeError(f'RPCError("org.apache.hadoop.{java}", "{message}{TRACE}')


DENIED = r"Permission denied: user=alice, access=WRITE, inode=\"/w\":root:hive:drwxr-xr-x"
NO_KMS = "File is in an HDFS encryption zone but no KMS provider is configured"
NO_NODES = "File /w/a could only be written to 0 of the 1 minReplication nodes. There are 0 datanode(s) running"
NO_NAME = "failed to lookup address information: "
SAFE_MODE = "org.apache.hadoop.hdfs.server.namenode.SafeModeException: Name node is in safe mode."


@pytest.mark.parametrize(
    ("error", "kind", "reason"),
    [
        (FileExistsError("/w/t already exists\n\tat org.x"), Kind.EXISTS, "/w/t already exists"),
        (FileNotFoundError("rename source /a is not found.\n\tat"), Kind.MISSING, "rename source /a is not found."),
        (FileNotFoundError("rename destination parent /q/g1 not found."), Kind.NO_PARENT, None),
        (FileNotFoundError("Parent directory doesn't exist: /q"), Kind.NO_PARENT, None),
        (rpc("security.AccessControlException", DENIED), Kind.DENIED, DENIED.replace("\\", "")),
        (rpc("security.AccessControlException", "/w/t (is not a directory)"), Kind.NOT_A_FOLDER, None),
        (rpc("fs.ParentNotDirectoryException", "/w/t (is not a directory)"), Kind.NOT_A_FOLDER, None),
        (rpc("hdfs.protocol.NSQuotaExceededException", "The quota of /q"), Kind.QUOTA, "The quota of /q"),
        (rpc("hdfs.protocol.DSQuotaExceededException", "The DiskSpace quota"), Kind.QUOTA, None),
        (rpc("hdfs.protocol.QuotaByStorageTypeExceededException", "Quota by type"), Kind.QUOTA, None),
        (rpc("java.io.IOException", NO_NODES), Kind.NO_ROOM, None),
        (rpc("java.io.IOException", "Source /a and destination /b must both be directories"), Kind.EXISTS, None),
        (rpc("java.io.IOException", "/z/a can't be moved from an encryption zone."), Kind.UNSUPPORTED, None),
        (rpc("hdfs.server.namenode.SafeModeException", "Cannot create file /w. Name node"), Kind.SAFE_MODE, None),
        (rpc("ipc.RetriableException", SAFE_MODE), Kind.SAFE_MODE, None),
        (rpc("ipc.RetriableException", "NameNode still not started"), Kind.NOT_TAKEN, None),
        (rpc("ipc.StandbyException", "Operation category WRITE is not"), Kind.NOT_TAKEN, None),
        (rpc("fs.PathIsNotEmptyDirectoryException", "/w is non empty"), Kind.EXISTS, None),
        (rpc("hdfs.server.namenode.LeaseExpiredException", "No lease on /w/a"), Kind.MISSING, None),
        (rpc("fs.InvalidPathException", "Invalid /x:y"), Kind.REFUSED, "InvalidPathException: Invalid /x:y"),
        (OSError("Connection refused (os error 111)"), Kind.NOT_TAKEN, "Connection refused (os error 111)"),
        (OSError("RPC listener disconnected"), Kind.UNANSWERED, None),
        (OSError(f"{NO_NAME}Name or service not known"), Kind.UNKNOWN_HOST, None),
        (OSError(f"{NO_NAME}Temporary failure in name"), Kind.NOT_TAKEN, None),
        (CallAbandoned("no answer within 30 s"), Kind.UNANSWERED, "no answer within 30 s"),
        (Unreported("the DataNodes have reported 0 of its 3 bytes"), Kind.NO_DATA, None),
        (RuntimeError('DataTransferError("All nodes failed for write")'), Kind.NO_DATA, None),
        (NotImplementedError(NO_KMS), Kind.UNSUPPORTED, None),
        (RuntimeError(f'OperationFailed("{NO_KMS}")'), Kind.UNSUPPORTED, None),
        (RuntimeError("NoSASLMechanism"), Kind.REFUSED, "NoSASLMechanism"),
    ],
)
def test_each_says_what_happened_in_one_line(error: Exception, kind: Kind, reason: str | None) -> None:
    failure = judge(error)
    assert failure == Failure(kind, reason or failure.reason)
    assert not any(text in failure.reason for text in ("\n", "\\n", "\tat"))
