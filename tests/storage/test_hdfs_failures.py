"""What each text of hdfs-native says about the call; recorded from Hadoop 3.5.0 and hdfs-native 0.14.7."""

from __future__ import annotations

import pytest

from hivesink.storage.hdfs_failures import CallAbandoned, Failure, Kind, judge

TRACE = '\\n\\tat org.apache.hadoop.hdfs.server.namenode.FSNamesystem.startFile(FSNamesystem.java:2745)\\n")'


def rpc(java: str, message: str) -> RuntimeError:
    return RuntimeError(f'RPCError("{java}", "{message}{TRACE}')


@pytest.mark.parametrize(
    ("error", "kind", "reason"),
    [
        (FileExistsError("/w/t already exists\n\tat org.x"), Kind.EXISTS, "/w/t already exists"),
        (FileNotFoundError("rename source /a is not found.\n\tat"), Kind.MISSING, "rename source /a is not found."),
        (FileNotFoundError("rename destination parent /q/g1 not found."), Kind.NO_PARENT, None),
        (FileNotFoundError("Parent directory doesn't exist: /q"), Kind.NO_PARENT, None),
        (
            rpc(
                "org.apache.hadoop.security.AccessControlException",
                r"Permission denied: user=alice, access=WRITE, inode=\"/w\":root:hive:drwxr-xr-x",
            ),
            Kind.DENIED,
            'Permission denied: user=alice, access=WRITE, inode="/w":root:hive:drwxr-xr-x',
        ),
        (
            rpc("org.apache.hadoop.security.AccessControlException", "/w/t (is not a directory)"),
            Kind.NOT_A_FOLDER,
            None,
        ),
        (rpc("org.apache.hadoop.fs.ParentNotDirectoryException", "/w/t (is not a directory)"), Kind.NOT_A_FOLDER, None),
        (
            rpc(
                "org.apache.hadoop.hdfs.protocol.NSQuotaExceededException",
                "The NameSpace quota (directories and files) of directory /q is exceeded: quota=2 file count=3",
            ),
            Kind.QUOTA,
            "The NameSpace quota (directories and files) of directory /q is exceeded: quota=2 file count=3",
        ),
        (
            rpc("org.apache.hadoop.hdfs.protocol.DSQuotaExceededException", "The DiskSpace quota"),
            Kind.QUOTA,
            None,
        ),
        (
            rpc(
                "java.io.IOException",
                "File /w/a could only be written to 0 of the 1 minReplication nodes. There are 0 datanode(s) running",
            ),
            Kind.NO_ROOM,
            None,
        ),
        (rpc("java.io.IOException", "Source /a and destination /b must both be directories"), Kind.EXISTS, None),
        (rpc("java.io.IOException", "/z/a can't be moved from an encryption zone."), Kind.UNSUPPORTED, None),
        (
            rpc("org.apache.hadoop.hdfs.server.namenode.SafeModeException", "Cannot create file /w. Name node is in"),
            Kind.SAFE_MODE,
            None,
        ),
        (
            rpc(
                "org.apache.hadoop.ipc.RetriableException",
                "org.apache.hadoop.hdfs.server.namenode.SafeModeException: Name node is in safe mode.",
            ),
            Kind.SAFE_MODE,
            None,
        ),
        (rpc("org.apache.hadoop.ipc.RetriableException", "NameNode still not started"), Kind.NOT_TAKEN, None),
        (rpc("org.apache.hadoop.ipc.StandbyException", "Operation category WRITE is not"), Kind.NOT_TAKEN, None),
        (OSError("Connection refused (os error 111)"), Kind.NOT_TAKEN, "Connection refused (os error 111)"),
        (OSError("RPC listener disconnected"), Kind.UNANSWERED, None),
        (OSError("failed to lookup address information: Name or service not known"), Kind.UNKNOWN_HOST, None),
        (OSError("failed to lookup address information: Temporary failure in name"), Kind.NOT_TAKEN, None),
        (CallAbandoned("no answer within 30 s"), Kind.UNANSWERED, "no answer within 30 s"),
        (RuntimeError('DataTransferError("All nodes failed for write")'), Kind.NO_DATA, None),
        (NotImplementedError("File is in an HDFS encryption zone but no KMS"), Kind.UNSUPPORTED, None),
        (
            RuntimeError('OperationFailed("File is in an HDFS encryption zone but no KMS provider is configured")'),
            Kind.UNSUPPORTED,
            None,
        ),
        (
            rpc("org.apache.hadoop.fs.InvalidPathException", "Invalid path name /x:y"),
            Kind.REFUSED,
            "InvalidPathException: Invalid path name /x:y",
        ),
        (RuntimeError("NoSASLMechanism"), Kind.REFUSED, "NoSASLMechanism"),
    ],
)
def test_each_says_what_happened_in_one_line(error: Exception, kind: Kind, reason: str | None) -> None:
    found = judge(error)
    assert found.kind is kind
    assert "\n" not in found.reason
    assert "\\n" not in found.reason
    assert "\tat" not in found.reason
    if reason is not None:
        assert found == Failure(kind, reason)
