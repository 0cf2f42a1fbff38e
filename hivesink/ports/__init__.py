"""The interfaces that the sink needs adapters for. They name purposes, not system calls: S3 can't rename.

The suites in `tests/contracts/` test every adapter. `ports/rows.py` has those of decoders and file formats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import BinaryIO, Protocol, TypeVar

from hivesink.core.epoch import Epoch
from hivesink.core.lifecycle import EpochState, Floor
from hivesink.core.log import PROPERTY, LogView, RootRecord, StagingIntent
from hivesink.core.manifest import Manifest, Recorded
from hivesink.core.partfile import Finished, InProgress, Pending
from hivesink.core.partition import Estimate, LivePartition, NewPartition
from hivesink.core.table import TableName, TableSpec
from hivesink.ports.rows import Receipts, SchemaStore

_T = TypeVar("_T")
_Closed_co = TypeVar("_Closed_co", covariant=True)


class NewFile(Protocol[_Closed_co]):
    """A part or a segment that a task attempt is writing to `stream`; nobody else sees or touches it."""

    @property
    def stream(self) -> BinaryIO: ...

    def close_for_commit(self) -> _Closed_co:
        """Make bytes and name durable. Raises StoreUnavailable (a full disk, say), LogMissing."""

    def abort(self) -> None:
        """Delete it. Raises nothing: what stays behind is a leftover, which recovery sweeps."""


class FileStore(Protocol):
    """Part files of tables: hidden until published, published whole or not at all. Shared by threads.

    Every method but `canonical` may raise StoreUnavailable.
    """

    @property
    def parallelism(self) -> int:
        """How many calls are worth making at a time."""

    @property
    def keeps_staged(self) -> bool:
        """Whether staged parts stay until the sink deletes them; False where others may delete them by right."""

    def run_parallel(self, calls: Iterable[Callable[[], _T]]) -> list[_T]:
        """The results of independent `calls` on this store, in order, `parallelism` of them at a time.

        Raises the first error in that order, once all calls that were begun have ended.
        """

    def canonical(self, location: str) -> str:
        """`location` in the spelling that comparisons use; outside this store, judging by its text."""

    def create(self, part: InProgress) -> NewFile[Pending]:
        """Begin `part`, with its folders; closed, it is pending. Never reuses an existing file. Raises NotWritable."""

    def set_aside(self, part: Pending, folder: str) -> Pending:
        """Let `part` wait in `folder`, still hidden and durably so. Does nothing if the part has vanished.

        Raises NotWritable, OutcomeUnknown, TargetTaken.
        """

    def publish(self, part: Pending) -> Finished:
        """Make `part` visible at its target, in any folder, all or nothing, and durably so. Idempotent.

        Raises PartLost, TargetTaken, NotWritable, OutcomeUnknown.
        """

    def discard(self, staged: Iterable[str]) -> None:
        """Delete staged parts, past any trash; ValueError for any other path. A missing part is no error."""

    def remove(self, files: Iterable[Finished]) -> None:
        """Delete visible files for good. A file that is missing or of another length is no error."""

    def staged(self, folder: str) -> Sequence[str]:
        """The staged parts in `folder`, of any writer; none if the folder is missing."""

    def visible(self, folder: str) -> Sequence[Finished]:
        """The files directly in `folder` that readers see, whose names begin with neither `.` nor `_`, by name."""

    def find(self, path: str) -> Finished | None:
        """The file at `path`, or None."""

    def open(self, path: str) -> BinaryIO:
        """A visible file, to read."""

    def mark(self, path: str) -> None:
        """Create an empty file (a success file) and its folders. An existing file stays as it is."""

    def walk(self, folder: str) -> Iterable[str]:
        """`folder` and every folder below it, hidden ones included; none if it is missing."""

    def prune(self, folders: Iterable[str]) -> None:
        """Delete those of `folders` that are empty, never their contents."""


class SegmentStore(Protocol):
    """The segments of a log. Each name is used once."""

    def create(self, name: str) -> NewFile[None]:
        """Raises NotWritable, StoreUnavailable."""

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Raises StoreUnavailable; SegmentLost if the segment is missing or too short."""

    def path(self, name: str) -> str:
        """Where that segment is, for messages."""

    def lengths(self) -> Mapping[str, int]:
        """The bytes of all segments by name, finished or not."""

    def drop(self, names: Iterable[str]) -> None:
        """Delete segments. A missing segment is no error."""


class CommitLog(Protocol):
    """A writer's log in `location`. At most one run can create an epoch's manifest. Reading raises LogDamaged."""

    @property
    def location(self) -> str: ...

    def uid(self, fresh: str | None) -> str | None:
        """The writer's uid: as stored, else the manifests', else `fresh`. Given `fresh`, it is stored."""

    def view(self) -> LogView: ...

    def floor(self) -> Floor | None:
        """The highest floor."""

    def manifest(self, epoch: Epoch) -> Manifest:
        """LogDamaged also if it is missing, or another log's."""

    def create(self, manifest: Manifest) -> None:
        """Decide the epoch: the point of no return.

        Returns only if this very manifest (its attempt id) is the epoch's, also after an unknown outcome. Raises
        EpochTaken if another is, or if a floor shows that clean-up reopened the slot; FencedOut if it was created but
        somebody has gone on from it (the epoch is decided); LogMissing if the log was put aside or deleted under this
        run; StoreUnavailable if it certainly wasn't created and can't be any more; OutcomeUnknown otherwise.
        """

    def mark(self, epoch: Epoch, mark: EpochState) -> None:
        """Idempotent and durable."""

    def touch(self, touched: StagingIntent) -> None:
        """Record the folders, durably, before a file is created in them. Called by tasks."""

    def touched(self) -> Sequence[StagingIntent]:
        """All touched-lists, sorted, without their folders."""

    def folders(self, touched: StagingIntent) -> tuple[str, ...]:
        """The folders of a touched-list; none if it was forgotten meanwhile."""

    def forget(self, lists: Iterable[StagingIntent]) -> None:
        """Delete touched-lists. A missing list is no error."""

    @property
    def segments(self) -> SegmentStore:
        """The rows that wait across epochs."""

    def records(self) -> Sequence[Recorded]:
        """The partition commits of epochs that were trimmed."""

    def trim(self, floor: Floor, records: Sequence[Recorded] = ()) -> None:
        """Keep `records`, write the floor, then delete manifests and marks at or below it, and older floors."""

    def end(self, at: datetime) -> None:
        """Put the log aside, durably, at `at` (UTC): nobody decides an epoch in it any more. Idempotent."""

    def ended(self) -> datetime | None:
        """When (UTC) it was put aside."""


class LogRoot(Protocol):
    """The root of a table's log, the folder `location`: it remembers the table, and holds a log for each writer."""

    @property
    def location(self) -> str: ...

    def records(self) -> Sequence[RootRecord]:
        """The table as each start with a change has left it, the newest last. Raises LogDamaged."""

    def claim(self, record: RootRecord) -> RootRecord:
        """Store `record`, if there is none, durably. Returns the newest record."""

    def update(self, record: RootRecord) -> None:
        """Add `record`, which counts from now on. Durable."""

    def log(self, writer: str) -> CommitLog:
        """The log of `writer`, which may not exist yet: never a log that was put aside."""

    def logs(self) -> Mapping[str, CommitLog]:
        """The log of each writer that has begun, sorted by name; none that was put aside."""

    def ended(self) -> Mapping[str, CommitLog]:
        """The logs that were put aside, by writer and number: `flights/1`."""

    def accepted(self) -> Sequence[str]:
        """The uids whose files in the table are the user's own, without a log."""

    def accept(self, uid: str) -> None:
        """Add to `accepted`, durably."""

    def receipts(self, consumer: str) -> Receipts: ...

    @property
    def schemas(self) -> SchemaStore:
        """Of the records that any log's rows were read from."""


@dataclass(frozen=True, slots=True)
class LiveTable:
    """A table as the metastore holds it: its spec with every property, and where it lives."""

    spec: TableSpec
    location: str

    @property
    def log(self) -> str | None:
        """The property by which the table names its log, as text."""
        return self.spec.options.get(PROPERTY)


class Metastore(Protocol):
    """A metastore, as far as readers need it to find every published row and never a wrong count.

    Partitions are named by their escaped path; `""` is an unpartitioned table itself. All calls take many partitions
    and are few round trips. Every method may raise MetastoreUnreachable, NotWritable; changing ones RegistrationFailed,
    RegistrationUnknown. If a change is refused for some partitions, it is made for the others all the same:
    RegistrationFailed names the refused ones. `address` is for messages, and holds no secret.
    """

    @property
    def address(self) -> str: ...

    def table(self, name: TableName) -> LiveTable:
        """Raises UnknownTable; Unsupported if the sink can't write such a table."""

    def create(self, spec: TableSpec) -> None:
        """Create the table completely or not at all. Raises TableReplaced if it exists, Unsupported."""

    def names(self, table: LiveTable) -> Sequence[str]:
        """The names of all registered partitions, without order. A single quick call."""

    def lookup(self, table: LiveTable, partitions: Sequence[str] | None) -> Mapping[str, LivePartition]:
        """Those of `partitions` that are registered by exactly that name: databases may mix up two names.

        None: all of them, for what rarely happens: it takes long where there are many. Raises TableReplaced if the
        table no longer names the log that `table` names; Unsupported if the sink can't write such a table any more.
        """

    def add(self, table: LiveTable, partitions: Sequence[NewPartition]) -> None:
        """Register each partition, or update it to the table's current columns.

        Never claims accurate statistics, and makes the table claim none, as `clear_accurate` does.
        A partition that somebody else registers first keeps its location: look it up afterwards.
        """

    def set_property(self, name: TableName, key: str, value: str) -> None:
        """Set one of the table's properties. Raises UnknownTable.

        A metastore has no compare-and-set: somebody who read the table before may write its old properties back.
        """

    def tables_with(self, key: str) -> Mapping[TableName, str]:
        """All tables, of every database, that have the property `key`, with its value. May raise Unsupported."""

    def clear_accurate(self, table: LiveTable, partitions: Sequence[str]) -> None:
        """Remove `COLUMN_STATS_ACCURATE` from these, if any, and the table: Hive counts rows itself (HIVE-11266)."""

    def estimate(self, table: LiveTable, estimates: Sequence[Estimate]) -> None:
        """Write figures that planners use and no query is answered from, if it can: the flag goes with that change."""

    def announce(self, table: LiveTable, files: Mapping[str, Sequence[str]]) -> None:
        """Fire the metastore's INSERT event for each partition, with the files that were added to it.

        Raises Unsupported if this adapter can't, also for none at all.
        """

    def close(self) -> None: ...
