"""The manifest: what an epoch of a writer decided. `docs/manifest.md` describes every field."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass, replace
from datetime import datetime
from operator import add

from hivesink.core.epoch import Epoch, LastBatch
from hivesink.core.offsets import SourceOffset
from hivesink.core.partition import PartitionKey, is_aside, known_as
from hivesink.core.partition_commit import Watermark

REQUEUE = "requeue"
"""The kind of an epoch that removes lost parts whose rows wait again, or are dead letters again."""
FORGET = "forget"
"""The kind of an epoch that removes parts, or rows that waited, whose loss a person has accepted."""
KINDS = ("batch", "roll", "commit", "watermark", "fence", "move", REQUEUE, FORGET)
"""Why there are epochs."""
REPLAYS = "rejects-replay"
"""The writer of replays of dead letters: they have a log of their own, so that they disturb no job."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Row counts of an epoch, or running totals; `read` is the sum of the others but `extra`, rows above records."""

    read: int = 0
    written: int = 0
    rejected: int = 0
    dropped: int = 0
    late: int = 0
    skipped: int = 0
    extra: int = 0

    @property
    def records(self) -> int:
        """How many the source had."""
        return self.read - self.extra

    def __add__(self, other: Rows) -> Rows:
        return Rows(*map(add, astuple(self), astuple(other)))

    @property
    def balanced(self) -> bool:
        return self.read == self.written + self.rejected + self.dropped + self.late + self.skipped


@dataclass(frozen=True, slots=True)
class _InPartition:
    """`table` is `database.name`, `partition` its escaped path (`dt=2024-01-02`), `""` in an unpartitioned table."""

    table: str
    partition: str

    @property
    def key(self) -> PartitionKey:
        return self.table, self.partition


@dataclass(frozen=True, slots=True)
class PartEntry(_InPartition):
    """A part that the epoch publishes."""

    staged: str
    target: str
    length: int
    rows: int

    @property
    def folder(self) -> str:
        return self.target.rpartition("/")[0]

    @property
    def name(self) -> str:
        return self.target.rpartition("/")[2]

    @property
    def hidden(self) -> str:
        """The name under which it waits."""
        return self.staged.rpartition("/")[2]

    @property
    def was_set_aside(self) -> bool:
        """Its partition was new, so no user statement may remove it by right before its epoch is settled."""
        return is_aside(self.staged.rpartition("/")[0])


@dataclass(frozen=True, slots=True)
class Manifest:
    """An epoch. `at` is UTC and never before the last manifest's; `zones` are the tables' bucket zones.

    `kind` says why the epoch exists, as in KINDS. `log` is the folder of its log. `options` are the settings that the
    run gave itself, which outrank the table's: whoever finishes its epochs uses them too. `settings` are all that the
    run goes by, but for those at their default: the table's may have changed since its start. `columns` are the table's
    then, by name, with their types.

    `add` are the parts that it answers for from now on, `remove` the targets of those of earlier epochs that nobody
    answers for any more. A part under a removed target's name has moved. `forgotten` counts rows whose loss a person
    accepted.

    `replaces` are parts of dead letters, of any log of the table, whose records `add` has: as rows, or as dead letters
    again. They are deleted once all of `add` can be read. A requeue that gives `add` up repeats them, and they stay.

    `opened` are the rows that wait from this epoch on, `rolled` the buckets whose waiting rows it has encoded, all but
    those that still wait in `waiting`; this, if it isn't None, holds all buckets that are open after it, and `reads`
    where the batches began of which they have rows. `commits` are the partitions that it commits.
    """

    writer: str
    uid: str
    epoch: Epoch
    attempt: str
    kind: str
    at: datetime
    settled: Epoch
    last_batch: LastBatch | None = None
    rows: Rows = Rows()
    add: tuple[PartEntry, ...] = ()
    remove: tuple[str, ...] = ()
    replaces: tuple[PartEntry, ...] = ()
    forgotten: int = 0
    tables: tuple[str, ...] = ()
    zones: tuple[tuple[str, str], ...] = ()
    log: str = ""
    options: tuple[tuple[str, str], ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    opened: tuple[Opened, ...] = ()
    rolled: tuple[PartitionKey, ...] = ()
    waiting: tuple[tuple[PartitionKey, OpenBucket], ...] | None = None
    reads: tuple[Read, ...] = ()
    commits: tuple[Commit, ...] = ()
    watermark: Watermark | None = None
    columns: tuple[tuple[str, str], ...] = ()

    @property
    def created(self) -> tuple[PartEntry, ...]:
        """The parts that it adds, without those that it moves."""
        moved = {target.rpartition("/")[2] for target in self.remove}
        return tuple(part for part in self.add if part.name not in moved)

    @property
    def is_bare(self) -> bool:
        """It changes no part and commits no partition."""
        return not (self.add or self.remove or self.commits)


def live_parts(manifests: Iterable[Manifest]) -> Iterator[tuple[Manifest, PartEntry]]:
    """Each part that no later epoch has removed, with the epoch that answers for it. `manifests` are sorted by epoch.

    A part may return to a path that it was moved from: the last epoch counts.
    """
    known = tuple(manifests)
    removed = {target: manifest.epoch for manifest in known for target in manifest.remove}
    for manifest in known:
        for part in manifest.add:
            if removed.get(part.target, 0) <= manifest.epoch:
                yield manifest, part


def recorded(manifest: Manifest) -> tuple[Recorded, ...]:
    """What `manifest` commits."""
    end = manifest.last_batch.ref.end if manifest.last_batch else ()
    mark = manifest.watermark.at if manifest.watermark else None
    return tuple(Recorded(commit, manifest.epoch, manifest.at, mark, end) for commit in manifest.commits)


@dataclass(frozen=True, slots=True)
class Slice:
    """The rows of a bucket in a segment, a file of a task in the writer's log: `length` bytes from `offset` on.

    They are an Arrow IPC stream. `crc32` is their checksum, as zlib has it.
    """

    segment: str
    offset: int
    length: int
    rows: int
    crc32: int = 0


@dataclass(frozen=True, slots=True)
class Opened(_InPartition):
    """A slice that an epoch has opened, with its bucket."""

    slice: Slice


@dataclass(frozen=True, slots=True)
class OpenBucket:
    """What isn't committed yet of a partition. `first` and `last` are the times (UTC) of its oldest and newest epoch.

    `slices` hold its rows that wait, `rows` of them in `bytes` of segments; `published` rows in `files` are readable
    already.
    """

    slices: tuple[Slice, ...]
    first: datetime
    last: datetime
    rows: int
    bytes: int
    published: int = 0
    files: int = 0

    @classmethod
    def of(cls, slices: tuple[Slice, ...], first: datetime, last: datetime) -> OpenBucket:
        return cls(slices, first, last, sum(part.rows for part in slices), sum(part.length for part in slices))

    def only(self, slices: Iterable[Slice] = ()) -> OpenBucket:
        """With `slices` for those that wait."""
        return replace(OpenBucket.of(tuple(slices), self.first, self.last), published=self.published, files=self.files)


@dataclass(frozen=True, slots=True)
class Read:
    """Where the batch of `epoch`, decided `at` (UTC), and perhaps some after it, began.

    `start` has the first offset of each Kafka partition that they read.
    """

    epoch: Epoch
    at: datetime
    start: SourceOffset


@dataclass(frozen=True, slots=True)
class Commit(_InPartition):
    """What is committed of a partition.

    `revision` is 1, 2, 3…; `rows` and `files` count all that the writer has published in the partition.
    """

    revision: int
    rows: int
    files: int


@dataclass(frozen=True, slots=True)
class Recorded:
    """A commit with the epoch that decided it, its time (UTC), the watermark then, and the offsets that it covers."""

    commit: Commit
    epoch: Epoch
    at: datetime
    watermark: datetime | None
    end: tuple[SourceOffset, ...]


def newest(records: Iterable[Recorded], table: str | None = None) -> dict[PartitionKey, Recorded]:
    """The newest record of each partition, whatever the order; as it is known where the log's table is `table`.

    An epoch of kind `move` repeats a revision: its own offsets cover rows that came later.
    """
    by_key: dict[PartitionKey, Recorded] = {}
    for record in records:
        commit = record.commit
        key = commit.key if table is None else known_as(commit.key, table)
        before = by_key.get(key)
        if before is None or (commit.revision, -record.epoch) > (before.commit.revision, -before.epoch):
            by_key[key] = record if key == commit.key else replace(record, commit=replace(commit, table=key[0]))
    return by_key


def commit_after(before: Commit | None, key: PartitionKey, rows: int, files: int) -> Commit:
    """The next revision, with so many more rows and files."""
    was = before or Commit(*key, 0, 0, 0)
    return Commit(*key, was.revision + 1, was.rows + rows, was.files + files)
