"""Places in HDFS, files as Python's file objects, and the servers that are behind them."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from operator import methodcaller
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.request import urlopen

from hivesink.errors import HiveSinkError, StoreUnavailable
from hivesink.storage.fs import RangedFile
from hivesink.storage.hdfs_address import Address, accepts, resolve
from hivesink.storage.hdfs_answers import ABSENT, Failed, Kind
from hivesink.storage.hdfs_calls import HdfsCalls

if TYPE_CHECKING:
    from hdfs_native import Client, FileReader, FileStatus, FileWriter


_T = TypeVar("_T")
_BUFFER = 1 << 18
_STEP = 300.0
"""Seconds for a step of a write: hdfs-native gives DataNodes a minute each before it goes on without them."""


@dataclass(frozen=True, slots=True)
class Place:
    """A location, its `path` in the file system, and how to ask about it, with hivesink's errors."""

    location: str
    path: str
    calls: HdfsCalls

    def ask(self, action: str, call: Callable[[Client, str], _T], *, changing: bool = False) -> _T | None:
        """The answer about `path`, or None where there is nothing."""
        with self.refusing(action, changing=changing):
            try:
                return self.calls.ask(lambda client: call(client, self.path), repeatable=not changing)
            except Failed as error:
                # A folder that isn't empty is there, and stays.
                if error.kind not in ABSENT and not (changing and error.kind is Kind.EXISTS):
                    raise
        return None

    def status(self) -> FileStatus | None:
        return self.ask("look at", lambda client, path: client.get_file_info(path))

    def delete(self, action: str = "delete") -> bool:
        """Delete the file or the empty folder. False where there is none."""
        return bool(self.ask(action, lambda client, path: client.delete(path, recursive=False), changing=True))

    def remove(self) -> bool:
        """Whether the file is surely gone, after another try to delete it."""
        with suppress(HiveSinkError):
            return self.delete() or self.status() is None
        return False

    @contextmanager
    def refusing(self, action: str, *, changing: bool = False) -> Iterator[None]:
        """Raise hivesink's error instead of Failed."""
        try:
            yield
        except Failed as error:
            raise self.calls.refusal(action, self.location, error, changing=changing) from error


class NewFile(io.RawIOBase):
    """A file at `place` that is being written; small writes are joined. Only `finish` completes it.

    Closing without `finish` leaves an incomplete file, which its writer deletes.
    With the first packet hdfs-native connects to the DataNodes that the NameNode names, and fails if one of them is
    dead: then the file is deleted and created anew for a while, until the NameNode names others.
    At the end of each block of `block` bytes the file is closed and appended to: HDFS answers
    NotReplicatedYetException while no DataNode has reported the last block, and hdfs-native takes that for the end.
    """

    def __init__(self, place: Place, create: Callable[[], FileWriter], block: int) -> None:
        super().__init__()
        self._place = place
        self._create = create
        self._block = block
        self._writer: FileWriter | None = create()
        self._pauses = place.calls.pauses()
        self._sent = 0
        self._waiting = bytearray()
        # The data sent until the first packet is certainly written; then None.
        self._kept: list[bytes] | None = []
        self._broken: Kind | None = None

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._sent + len(self._waiting)

    def write(self, data: Any, /) -> int:
        piece = memoryview(data).cast("B")
        self._waiting += piece
        if len(self._waiting) >= _BUFFER:
            self._restarting(self._send)
        return len(piece)

    def finish(self) -> None:
        """Send the rest and complete the file: its length is then what `tell` says."""

        def complete() -> None:
            if self._waiting:
                self._send()
            self._step(methodcaller("close"))

        self._restarting(complete)
        self.close()

    def close(self) -> None:
        self._waiting.clear()
        self._writer = None
        super().close()

    def _restarting(self, act: Callable[[], None]) -> None:
        """Do it; begin the file anew after an error, as long as nothing of it is certainly written."""
        while True:
            try:
                act()
            except StoreUnavailable:  # noqa: PERF203 - to try again
                unreached = self._broken is Kind.NO_DATA
                if self._kept is None or not unreached or not any(self._place.remove() for _ in self._pauses):
                    raise
                self._writer, self._broken = self._create(), None
                self._waiting[:0] = b"".join(self._kept)
                self._kept, self._sent = [], 0
            else:
                return

    def _send(self) -> None:
        data = bytes(self._waiting)
        self._waiting.clear()
        if self._kept is not None:
            self._kept.append(data)
        while data:
            filled = self._sent % self._block
            if self._sent and not filled:
                self._step(methodcaller("close"))
                self._broken = Kind.REFUSED
                with self._place.refusing("write"):
                    self._writer = self._place.calls.create(lambda client: client.append(self._place.path))
                self._broken = None
            piece, data = data[: self._block - filled], data[self._block - filled :]
            self._step(methodcaller("write", piece))
            self._sent += len(piece)
        if self._sent >= _BUFFER:
            self._kept = None

    def _step(self, step: Callable[[FileWriter], Any]) -> None:
        writer = self._writer
        if writer is None or self._broken:
            # hdfs-native would complete the file without the lost block.
            message = "an earlier write of this file has failed"
            raise ValueError(message)
        # Also where a step is cut short.
        self._broken = Kind.REFUSED
        try:
            self._place.calls.bounded(lambda: step(writer), _STEP)
        except (OSError, RuntimeError, NotImplementedError, Failed) as error:
            failure = self._place.calls.judged(error)
            if failure.kind is Kind.MISSING:
                failure = Failed(Kind.REFUSED, f"somebody deleted it meanwhile: {failure.reason}")
            elif failure.kind is Kind.NOT_TAKEN:
                # Most likely by a DataNode: the client of a write waits for NameNodes by itself.
                failure = Failed(Kind.NO_DATA, failure.reason)
            self._broken = failure.kind
            with self._place.refusing("write"):
                raise failure from error
        self._broken = None


def stored(place: Place, reader: FileReader) -> RangedFile:
    """A file to read, seekable."""

    def read(start: int, size: int) -> bytes:
        with place.refusing("read"):
            return place.calls.ask(lambda _: reader.read_range(start, size), repeatable=True)

    return RangedFile(read, len(reader))


def open_whole(client: Client, hdfs_path: str) -> FileReader:
    """A reader of the whole file: just after a close, hdfs-native may see nothing of the last block.

    The NameNode counts the block in the file's length once the writer has committed it, but gives it to readers only
    once a DataNode has reported it (`dfs.namenode.file.close.num-committed-allowed`).
    """
    reader = client.read(hdfs_path)
    written = client.get_file_info(hdfs_path).length
    if len(reader) < written:
        raise Failed(Kind.NO_DATA, f"the DataNodes have reported {len(reader)} of its {written} bytes")
    return reader


def servers(properties: Mapping[str, str], location: str) -> Iterator[tuple[str, Callable[[], str]]]:
    """Each NameNode of a location, asked by itself, then all together, and the hosts of the site's KMS."""

    def look(asked: Address) -> str:
        calls = HdfsCalls(asked, properties, window=0.0, timeout=10.0)
        try:
            calls.ask(lambda client: client.get_file_info("/"), repeatable=True)
        except Failed as error:
            if asked != whole and "in state standby" in error.reason:
                return "standby"
            place = f"hdfs://{asked.authority}/"
            raise calls.refusal(action="look at", path=place, failure=error, changing=False) from error
        return "active" + _about(asked.authority, properties)

    def listen(host: str) -> str:
        if not accepts(host):
            raise StoreUnavailable(action="reach", path=host, reason="nothing takes a connection there")
        return "takes connections"

    whole, _ = resolve(location, properties)
    for asked in dict.fromkeys([*(Address(each, (each,)) for each in whole.namenodes), whole]):
        yield str(asked).removeprefix("the "), partial(look, asked)
    # kms://https@host;host2:9600/kms
    kms = re.match(r"kms://\w+@([^/]+):(\d+)", properties.get("hadoop.security.key.provider.path", ""))
    for host in (f"{name}:{kms[2]}" for name in kms[1].split(";")) if kms else ():
        yield f"KMS {host}", partial(listen, host)


def _about(namenode: str, properties: Mapping[str, str]) -> str:
    """What only the NameNode's page of counters tells; nothing if that is elsewhere, or asks for a login itself."""
    host, named = namenode.rpartition(":")[0], "dfs.namenode.http-address"
    ports = {at.rpartition(":")[2].strip() for name, at in properties.items() if name.startswith(named)}
    for port in ports or {"9870"}:
        counters = f"http://{host}:{port}/jmx?qry=Hadoop:service=NameNode,name=NameNode*"
        with suppress(OSError, ValueError, LookupError), urlopen(counters, timeout=3) as answer:
            told = {name: value for bean in json.load(answer)["beans"] for name, value in bean.items()}
            return f", Hadoop {told['SoftwareVersion']}, asks for {'a' if told['SecurityEnabled'] else 'no'} login"
    return ""
