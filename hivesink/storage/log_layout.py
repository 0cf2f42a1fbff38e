"""A log's files: their names, formatted and parsed here and nowhere else, its segments, its partition commits.

<log> is <root>/<writer>/<number>; the next number is begun after a reset.
<root>/.schemas/<number>.json                         a registry's schema, by which records were read (`registry`)
<root>/.schemas/<SHA-256>.json                        of a schema file
<root>/.schemas/<number>.unknown                      since when the registry hasn't known it
<root>/.consumers/<consumer>/<number>.json            what a consumer of changes has acknowledged
<log>/uid
<log>/manifests/0000000012.json, and beside it 0000000012.publishing, .published, .verified, .settled
<log>/manifests/floor-0000000007
<log>/manifests/over                                  a reset has put the log aside
<log>/manifests/.0000000012.json.<attempt>.tmp        not yet decided
<log>/touched/<epoch>-<attempt>t<task attempt>-<task>-<chunk>
<log>/segments/<epoch>-<attempt>t<task attempt>-<task>.arrow    rows that wait (`core.rolling`)
<log>/commits/<floor>.json                            partition commits of trimmed epochs, the newest of each partition
"""

from __future__ import annotations

import contextlib
import random
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from hivesink import errors
from hivesink.core import manifest_json
from hivesink.core.epoch import Epoch
from hivesink.core.lifecycle import MARKS, EpochState
from hivesink.core.log import LogView, StagingIntent
from hivesink.core.manifest import Recorded, newest
from hivesink.storage.fs import Entry, Files, abandon, begin, delete, join, put_once, read_listed, retry_unknown

OVER = "over"
_OTHERS = 15.0
"""Seconds in which tasks that store the same schema at once have made room for each other."""
_NUMBER = r"(\d{10,})"
_MANIFEST = re.compile(rf"{_NUMBER}\.(json|{'|'.join(mark.value for mark in MARKS)})", re.ASCII)
_FLOOR = re.compile(rf"floor-{_NUMBER}", re.ASCII)
_TEMPORARY = re.compile(rf"\.(?:floor-)?{_NUMBER}(?:\.(?:json|publishing))?\.[0-9a-f]+\.tmp", re.ASCII)
_TOUCHED = re.compile(r"(\d+)-([0-9a-f]{8,32})t(\d+)-(\d+)-(\d+)", re.ASCII)


def epoch_name(epoch: Epoch, ending: str = "json") -> str:
    """The epoch's manifest, or another file beside it: a mark, which is empty."""
    return f"{epoch:010d}.{ending}"


def floor_name(epoch: Epoch) -> str:
    """The running totals of every epoch up to `epoch`."""
    return f"floor-{epoch:010d}"


def touched_name(touched: StagingIntent) -> str:
    """A file for each task attempt and chunk."""
    return f"{touched.epoch}-{touched.attempt}t{touched.task_attempt}-{touched.task}-{touched.chunk}"


def parse_touched(name: str) -> StagingIntent | None:
    """The inverse of `touched_name`, but for the folders; None for any other name."""
    parts = _TOUCHED.fullmatch(name)
    if parts is None:
        return None
    epoch, attempt, task_attempt, task, chunk = parts.groups()
    return StagingIntent(Epoch(int(epoch)), attempt, int(task_attempt), int(task), int(chunk))


def parse_view(entries: Iterable[Entry]) -> LogView:
    """What a listing of `manifests` says; names that aren't a log's are passed over."""
    floor, manifests, marks, is_over = Epoch(0), set[Epoch](), dict[Epoch, frozenset[EpochState]](), False
    for entry in entries:
        if parts := _FLOOR.fullmatch(entry.name):
            floor = max(floor, Epoch(int(parts[1])))
        elif parts := _MANIFEST.fullmatch(entry.name):
            epoch = Epoch(int(parts[1]))
            if parts[2] == "json":
                manifests.add(epoch)
            # Marks are empty. By a longer one a reset holds the mark's place: no parts of that epoch may be published.
            elif not (entry.length and parts[2] == EpochState.PUBLISHING.value):
                marks[epoch] = marks.get(epoch, frozenset()) | {EpochState(parts[2])}
        is_over = is_over or entry.name == OVER
    return LogView(
        floor=floor,
        manifests=tuple(sorted(epoch for epoch in manifests if epoch > floor)),
        marks={epoch: known for epoch, known in marks.items() if epoch > floor},
        is_over=is_over,
    )


def is_dead(name: str, floor: Epoch, head: Epoch) -> bool:
    """Whether a floor at `floor` makes a file of `manifests` useless, in a log that has come to `head`."""
    if parts := _TEMPORARY.fullmatch(name):
        return int(parts[1]) <= head
    if parts := _FLOOR.fullmatch(name):
        return int(parts[1]) < floor
    parts = _MANIFEST.fullmatch(name)
    return parts is not None and int(parts[1]) <= floor


@dataclass(frozen=True, slots=True)
class LogSegments:
    """Implements `ports.SegmentStore` in `folder`, the log's `segments`, beside its `uid`."""

    files: Files
    folder: str

    def create(self, name: str) -> _NewSegment:
        path = self.path(name)
        return _NewSegment(self, path, begin(self.files, path))

    def path(self, name: str) -> str:
        return join(self.folder, name)

    def read(self, name: str, offset: int, length: int) -> bytes:
        path = self.path(name)
        try:
            with contextlib.closing(self.files.open(path)) as stream:
                stream.seek(offset)
                data = stream.read(length)
        except FileNotFoundError as error:
            raise errors.SegmentLost(path, "it is missing") from error
        if len(data) != length:
            raise errors.SegmentLost(path, f"it has {offset + len(data)} bytes of {offset + length}")
        return data

    def lengths(self) -> Mapping[str, int]:
        return {entry.name: entry.length for entry in self.files.list(self.folder) if entry.length is not None}

    def drop(self, names: Iterable[str]) -> None:
        for name in names:
            delete(self.files, self.path(name))


@dataclass(frozen=True, slots=True)
class _NewSegment:
    """Implements `ports.NewFile`."""

    log: LogSegments
    path: str
    stream: BinaryIO

    def close_for_commit(self) -> None:
        self.log.files.sync_close(self.stream, self.path)
        self.log.files.make_durable(self.log.folder)

    def abort(self) -> None:
        abandon(self.log.files, self.path, self.stream)


@dataclass(frozen=True, slots=True)
class LogSchemas:
    """Implements `ports.SchemaStore` in the folder `location`."""

    files: Files
    location: str

    def get(self, name: str) -> bytes | None:
        return self.files.read(join(self.location, name))

    def put(self, name: str, data: bytes) -> bytes:
        # Tasks store the same at once, and take away each other's temporary file: at another moment they don't.
        until = time.monotonic() + _OTHERS
        while True:
            try:
                return put_once(self.files, join(self.location, name), data)
            except errors.StoreUnavailable:  # noqa: PERF203 - to try again
                if time.monotonic() > until:
                    raise
                time.sleep(random.uniform(0, 1))  # noqa: S311  no secret


@dataclass(frozen=True, slots=True)
class LogReceipts:
    """Implements `ports.Receipts` in `folder`: each file is a receipt, and the highest number counts."""

    files: Files
    folder: str

    def newest(self) -> tuple[int, bytes | None]:
        def read() -> tuple[int, bytes | None]:
            number = parse_view(self.files.list(self.folder)).head
            return number, read_listed(self.files, self.path(number)) if number else None

        return retry_unknown("read the receipts in", self.folder, read)

    def add(self, number: int, data: bytes) -> None:
        path = self.path(number)
        stored, entries = put_once(self.files, path, data), self.files.list(self.folder)
        # Others may have come further, and deleted the receipt that had this number.
        if stored != data or parse_view(entries).head > number:
            reason = "another call has acknowledged changes meanwhile; look again"
            raise errors.StoreUnavailable(action="create", path=path, reason=reason)
        for entry in entries:
            if is_dead(entry.name, Epoch(number - 1), Epoch(number)):
                delete(self.files, join(self.folder, entry.name))

    def path(self, number: int) -> str:
        return join(self.folder, epoch_name(Epoch(number)))


@dataclass(frozen=True, slots=True)
class Ledger:
    """Each file in `folder` holds the newest commit of each partition from some epochs, up to that in its name.

    A new file takes in those before it that are at most twice as long, so there are few files, and a record is
    rewritten a few times in its life. What two files hold both says the same: a merge may be cut short anywhere.
    """

    files: Files
    folder: str

    def read(self) -> Sequence[Recorded]:
        """The newest commit of each partition. Raises LogDamaged, StoreUnavailable."""

        def read() -> Sequence[Recorded]:
            return list(newest(record for epoch in self._epochs() for record in self._records(epoch)).values())

        return retry_unknown("read the partition commits of", self.folder, read)

    def add(self, floor: Epoch, records: Sequence[Recorded]) -> None:
        """Keep `records`, of epochs up to `floor`. Does nothing if that has been done. Raises as `read` does."""

        def merge() -> None:
            epochs = self._epochs()
            if not records or (epochs and epochs[-1] >= floor):
                return
            merged, taken = records, list[Epoch]()
            for epoch in reversed(epochs):
                before = self._records(epoch)
                if len(before) > 2 * len(merged):
                    break
                merged = list(newest([*before, *merged]).values())
                taken.append(epoch)
            put_once(self.files, self.path(floor), manifest_json.encode_records(merged))
            for epoch in taken:
                delete(self.files, self.path(epoch))

        retry_unknown("merge the partition commits of", self.folder, merge)

    def _epochs(self) -> tuple[Epoch, ...]:
        """The files have names as manifests do, of the highest epochs that they cover."""
        return parse_view(self.files.list(self.folder)).manifests

    def _records(self, epoch: Epoch) -> Sequence[Recorded]:
        """Raises FileNotFoundError if another has merged it since the listing."""
        path = self.path(epoch)
        return manifest_json.decode_records(read_listed(self.files, path), path)

    def path(self, epoch: Epoch) -> str:
        return join(self.folder, epoch_name(epoch))
