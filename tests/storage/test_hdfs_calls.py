"""NameNodes that don't answer: every call ends, says what it knows, and goes on where another one answers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from hivesink.errors import OutcomeUnknown, StoreUnavailable, Unsupported
from hivesink.storage.hdfs import HdfsFileSystem
from hivesink.storage.hdfs_address import Address
from hivesink.storage.hdfs_answers import Failed, Kind, judge
from hivesink.storage.hdfs_calls import HdfsCalls
from hivesink.storage.hdfs_files import NewFile, Place
from tests.storage.realhdfs import apart, hdfs_folder


class Clock:
    """Time that passes only where somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.sleeps: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.sleeps.append(seconds)

    def calls(self, timeout: float = 1.0) -> dict[str, Any]:
        """Fields of `HdfsCalls`."""
        times = {"tick": lambda: self.now, "sleep": self.sleep, "chance": lambda: 0.5}
        return {"window": 10.0, "timeout": timeout, **times}


def file_system(properties: Mapping[str, str], clock: Clock, timeout: float = 1.0) -> HdfsFileSystem:
    return apart(properties, **clock.calls(timeout))


@pytest.fixture
def silent() -> Iterator[str]:
    """host:port of a server that accepts connections, as a stopped NameNode does, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def refusing() -> str:
    """host:port where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def test_a_namenode_that_is_down_is_waited_for_and_named(refusing: str, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    with pytest.raises(StoreUnavailable, match="Connection refused") as told:
        file_system({}, clock).length(f"hdfs://{refusing}/a")
    assert refusing in str(told.value)
    assert clock.sleeps == sorted(clock.sleeps)
    assert 6 < clock.now <= 10
    (said,) = caplog.messages
    assert said.startswith(f"the NameNode {refusing}: Connection refused (os error 111); asked again for ")


def test_a_refused_connection_is_surely_not_done(refusing: str) -> None:
    fs = file_system({}, Clock())
    with pytest.raises(StoreUnavailable, match="Connection refused"):
        fs.rename(f"hdfs://{refusing}/a", f"hdfs://{refusing}/b")
    with pytest.raises(StoreUnavailable, match="Connection refused"):
        fs.delete(f"hdfs://{refusing}/a")


def test_silence_leaves_a_changing_call_open_and_is_tried_again_by_a_look(silent: str) -> None:
    clock = Clock()
    fs = file_system({}, clock, timeout=0.3)
    with pytest.raises(OutcomeUnknown, match=f"{silent}.*may have happened"):
        fs.rename(f"hdfs://{silent}/a", f"hdfs://{silent}/b")
    assert clock.sleeps == []
    with pytest.raises(StoreUnavailable, match=silent):
        fs.length(f"hdfs://{silent}/a")
    assert len(clock.sleeps) > 3


def test_an_unknown_host_is_said_at_once() -> None:
    clock = Clock()
    with pytest.raises(Unsupported, match=r"nohost\.invalid:8020.*nameservices of this site: ns"):
        file_system({"dfs.nameservices": "ns"}, clock).length("hdfs://nohost.invalid/a")
    assert clock.sleeps == []


@pytest.mark.parametrize(
    ("site", "waits"),
    [
        ({}, False),
        # A nameservice whose hdfs-site.xml is missing.
        ({"fs.defaultFS": "hdfs://nohost"}, False),
        ({"fs.defaultFS": "hdfs://nohost:8020"}, True),
        ({"dfs.namenode.rpc-address.nohost:8020": "nohost:8020"}, True),
    ],
)
def test_a_host_that_is_surely_one_may_lose_its_name_for_a_while(site: Mapping[str, str], waits: bool) -> None:
    """As a container does that restarts."""
    clock, address = Clock(), Address("nohost:8020", ("nohost:8020",))
    calls = HdfsCalls(address, site, **clock.calls())

    def look_up(_: object) -> None:
        message = "failed to lookup address information: Name or service not known"
        raise OSError(message)

    with pytest.raises(Failed) as told:
        calls.ask(look_up, repeatable=False)
    assert (told.value.kind, bool(clock.sleeps)) == ((Kind.NOT_TAKEN if waits else Kind.UNKNOWN_HOST), waits)
    assert calls.ask(lambda _: "an answer", repeatable=False) == "an answer"
    with pytest.raises(Failed) as told:
        calls.ask(look_up, repeatable=False)
    assert told.value.kind is Kind.NOT_TAKEN
    assert clock.sleeps
    # In a write it is a DataNode's.
    place = Place("hdfs://nohost:8020/a", "/a", calls)
    with pytest.raises(StoreUnavailable, match="nohost"):
        NewFile(place, object, 1 << 20)._step(look_up)  # type: ignore[arg-type]


class Writer:
    """Stands for hdfs-native's. One that `fails` finds a dead DataNode."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails, self.data = fails, b""

    def write(self, piece: bytes) -> None:
        if self.fails:
            message = "Connection refused (os error 111)"
            raise OSError(message)
        self.data += piece

    def close(self) -> None:
        """Nothing to do."""


class Deletable(Place):
    def remove(self) -> bool:
        return True


def test_a_file_is_begun_anew_only_until_its_first_packet_is_written() -> None:
    calls = HdfsCalls(Address("nn:8020", ("nn:8020",)), {}, **Clock().calls())
    place = Deletable("hdfs://nn:8020/a", "/a", calls)
    made = [Writer(fails=True), Writer(fails=True), Writer()]
    begun = iter(made)
    file = NewFile(place, lambda: next(begun), 1 << 30)  # type: ignore[arg-type,return-value]
    file.write(b"rows" * (1 << 16))
    assert [len(writer.data) for writer in made] == [0, 0, 1 << 18]
    made[2].fails = True
    with pytest.raises(StoreUnavailable, match="nn:8020"):
        file.write(b"more" * (1 << 16))
    # hdfs-native would complete the file without the lost block.
    with pytest.raises(ValueError, match="an earlier write"):
        file.finish()


def _nameservice(first: str, second: str) -> dict[str, str]:
    return {
        "fs.defaultFS": "hdfs://ns",
        "dfs.nameservices": "ns",
        "dfs.ha.namenodes.ns": "nn1,nn2",
        "dfs.namenode.rpc-address.ns.nn1": first,
        "dfs.namenode.rpc-address.ns.nn2": second,
    }


@pytest.mark.parametrize("standby", ["refusing", "silent"])
@pytest.mark.parametrize("order", ["first", "second"])
def test_on_hdfs_a_nameservice_whose_other_namenode_does_not_answer(
    request: pytest.FixtureRequest, standby: str, order: str
) -> None:
    authority, _, path = hdfs_folder(request).removeprefix("hdfs://").partition("/")
    dead: str = request.getfixturevalue(standby)
    pair = (dead, authority) if order == "first" else (authority, dead)
    fs = file_system(_nameservice(*pair), Clock())
    calls: list[Callable[[], object]] = [
        lambda: fs.length(f"hdfs:///{path}/none"),
        lambda: fs.write_new(f"hdfs:///{path}/a", b"x"),
        lambda: fs.rename(f"hdfs://ns/{path}/a", f"hdfs:///{path}/b"),
    ]
    for call in calls:
        call()
    assert fs.read(f"hdfs:///{path}/b") == b"x"
    assert HdfsFileSystem({}).read(f"hdfs://{authority}/{path}/b") == b"x"


def test_a_call_that_takes_the_whole_window_is_not_made_again() -> None:
    """The client of a write waits for NameNodes itself."""
    clock = Clock()
    calls = HdfsCalls(Address("nn:8020", ("nn:8020",)), {}, **clock.calls(timeout=5.0))

    def slow(_: object) -> None:
        clock.sleep(11)
        message = "Connection refused (os error 111)"
        raise OSError(message)

    with pytest.raises(Failed):
        calls.create(slow)
    assert clock.sleeps == [11]


def test_a_call_that_hangs_keeps_nobody_else(silent: str) -> None:
    fs = file_system({}, Clock(), timeout=0.2)
    before = threading.active_count()
    for _ in range(3):
        with pytest.raises(OutcomeUnknown):
            fs.delete(f"hdfs://{silent}/a")
    assert threading.active_count() <= before + 3


TRACE = '\\n\\tat org.apache.hadoop.hdfs.server.namenode.FSNamesystem.startFile(FSNamesystem.java:2745)\\n")'


def rpc(java: str, message: str) -> RuntimeError:
    return RuntimeError(f'RPCError("org.apache.hadoop.{java}", "{message}{TRACE}')


def gss(major: int, minor: int, words: str) -> RuntimeError:
    """As hdfs-native words the C library's two numbers."""
    return RuntimeError(
        f'GSSAPIError(GssMajorCodes {{ raw: "0x{major:08x}", calling_error: "none" }}, {minor}, "{words}")'
    )


DENIED = r"Permission denied: user=alice, access=WRITE, inode=\"/w\":root:hive:drwxr-xr-x"
NO_KMS = "File is in an HDFS encryption zone but no KMS provider is configured"
NO_TICKET = "No Kerberos credentials available (default cache: FILE:/tmp/krb5cc_0)"
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
        (
            rpc("hdfs.protocol.NSQuotaExceededException", "The quota"),
            Kind.REFUSED,
            "NSQuotaExceededException: The quota",
        ),
        (rpc("java.io.IOException", "Source /a and destination /b must both be directories"), Kind.EXISTS, None),
        (rpc("java.io.IOException", "/z/a can't be moved from an encryption zone."), Kind.UNSUPPORTED, None),
        (rpc("hdfs.server.namenode.SafeModeException", "Cannot create file /w. Name node"), Kind.NOT_TAKEN, None),
        (rpc("ipc.RetriableException", SAFE_MODE), Kind.NOT_TAKEN, None),
        (rpc("ipc.RetriableException", "NameNode still not started"), Kind.NOT_TAKEN, None),
        (rpc("ipc.StandbyException", "Operation category WRITE is not"), Kind.NOT_TAKEN, None),
        (rpc("fs.PathIsNotEmptyDirectoryException", "/w is non empty"), Kind.EXISTS, None),
        (rpc("hdfs.server.namenode.LeaseExpiredException", "No lease on /w/a"), Kind.MISSING, None),
        (rpc("fs.InvalidPathException", "Invalid /x:y"), Kind.REFUSED, "InvalidPathException: Invalid /x:y"),
        (OSError("Connection refused (os error 111)"), Kind.NOT_TAKEN, "Connection refused (os error 111)"),
        (OSError("RPC listener disconnected"), Kind.UNANSWERED, None),
        (OSError(f"{NO_NAME}Name or service not known"), Kind.UNKNOWN_HOST, None),
        (OSError(f"{NO_NAME}Temporary failure in name"), Kind.NOT_TAKEN, None),
        (RuntimeError('DataTransferError("All nodes failed for write")'), Kind.NO_DATA, None),
        (NotImplementedError(NO_KMS), Kind.UNSUPPORTED, None),
        (RuntimeError(f'OperationFailed("{NO_KMS}")'), Kind.UNSUPPORTED, None),
        (gss(0x70000, 2529639053, f"No credentials were: {NO_TICKET}"), Kind.NO_LOGIN, NO_TICKET),
        (gss(0xD0000, 2529639068, "Unspecified: Cannot contact any KDC"), Kind.NOT_TAKEN, "Cannot contact any KDC"),
        (RuntimeError("NoSASLMechanism"), Kind.REFUSED, "NoSASLMechanism"),
    ],
)
def test_each_says_what_happened_in_one_line(error: Exception, kind: Kind, reason: str | None) -> None:
    failure = judge(error)
    assert (failure.kind, failure.reason) == (kind, reason or failure.reason)
    assert not any(text in failure.reason for text in ("\n", "\\n", "\tat"))
