"""The manifest: what one epoch of one writer decided. `docs/manifest.md` describes every field."""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from operator import add
from typing import TYPE_CHECKING

from hivesink.core.bucket import given_up
from hivesink.core.epoch import Epoch, LastBatch
from hivesink.core.partfile import Pending

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from hivesink.core.partition import PartitionKey
    from hivesink.core.partition_commit import Commit
    from hivesink.core.rolling import OpenBucket, Opened
    from hivesink.core.watermark import Watermark

FORMAT = 1
REOPEN = "reopen"
"""The kind of an epoch after which the rows of lost parts wait again."""
REPLAYS = "rejects-replay"
"""The writer of replays of dead letters: they have a log of their own, so that they disturb no job."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Row counts of an epoch, or running totals; `read` is the sum of the others."""

    read: int = 0
    written: int = 0
    rejected: int = 0
    dropped: int = 0
    late: int = 0
    skipped: int = 0

    def __add__(self, other: Rows) -> Rows:
        return Rows(*map(add, astuple(self), astuple(other)))

    @property
    def balanced(self) -> bool:
        return self.read == self.written + self.rejected + self.dropped + self.late + self.skipped


NO_ROWS = Rows()


@dataclass(frozen=True, slots=True)
class PartEntry:
    """A part that the epoch publishes. `partition` is its escaped path, `""` in an unpartitioned table."""

    table: str
    partition: str
    staged: str
    target: str
    length: int
    rows: int

    @property
    def pending(self) -> Pending:
        return Pending(self.staged, self.target, self.length)

    @property
    def key(self) -> PartitionKey:
        return self.table, self.partition

    @property
    def folder(self) -> str:
        return self.target.rpartition("/")[0]

    @property
    def name(self) -> str:
        return self.target.rpartition("/")[2]

    @property
    def put_away(self) -> str:
        """The path of its file once its partition is given up: never `staged`, so only a decision brings it back."""
        first, second = given_up(self.target)
        return second if first == self.staged else first

    @property
    def restored(self) -> str:
        """The path at which a person restores it under its hidden name."""
        return f"{self.folder}/{self.hidden}"

    @property
    def hidden(self) -> str:
        """The name under which it waits."""
        return self.staged.rpartition("/")[2]

    def way_back(self, path: str) -> str:
        """What to do about its file at `path`, where no start looks."""
        is_finished = path.rpartition("/")[2] == self.name
        return f"found at {path}: move it back to {self.folder if is_finished else self.staged.rpartition('/')[0]}"


@dataclass(frozen=True, slots=True)
class Move:
    """A part that an earlier epoch placed in a folder where its partition doesn't live.

    From this epoch on, `part` replaces what `epoch` published, or should have published, at `was`.
    """

    epoch: Epoch
    was: str
    part: PartEntry


@dataclass(frozen=True, slots=True)
class Manifest:
    """One epoch. `at` is UTC and never before the last manifest's; `zones` are the tables' bucket zones.

    `kind` says why the epoch exists: `batch` (rows of a micro-batch), `roll` (rows that waited become part files),
    `fence` (recovery shut out an older try at this epoch), `move` (parts go where their partition lives), `accept-lost`
    (a person accepted that the parts in `lost` are gone), `reopen` (the parts in `lost` are gone, and their rows wait
    again). `log` is the folder of its log. `options` are the settings that the run gave itself,
    which outrank the table's: whoever finishes its epochs uses them too. `settings` are all that the run goes by, but
    for those at their default: the table's may have changed since its start.

    `opened` are the rows that wait from this epoch on, `rolled` the buckets whose waiting rows it has encoded, all but
    those that still wait in `waiting`; this, if it isn't None, holds all buckets that are open after it. `given_up` are
    rows that waited, whose loss a person accepted. `commits` are the partitions that it commits.
    """

    writer: str
    uid: str
    epoch: Epoch
    attempt: str
    kind: str
    at: datetime
    settled: Epoch
    last_batch: LastBatch | None = None
    rows: Rows = NO_ROWS
    parts: tuple[PartEntry, ...] = ()
    moves: tuple[Move, ...] = ()
    lost: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    zones: tuple[tuple[str, str], ...] = ()
    log: str = ""
    options: tuple[tuple[str, str], ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    opened: tuple[Opened, ...] = ()
    rolled: tuple[PartitionKey, ...] = ()
    given_up: tuple[Opened, ...] = ()
    waiting: tuple[tuple[PartitionKey, OpenBucket], ...] | None = None
    commits: tuple[Commit, ...] = ()
    watermark: Watermark | None = None

    def publishes(self) -> tuple[PartEntry, ...]:
        """Every part that this epoch must publish, its own and the moved ones."""
        return self.parts + tuple(move.part for move in self.moves)

    @property
    def accepted(self) -> tuple[str, ...]:
        """The targets whose loss a person accepted."""
        return () if self.kind == REOPEN else self.lost

    @property
    def given_up_rows(self) -> int:
        return sum(one.slice.rows for one in self.given_up)

    @property
    def is_bare(self) -> bool:
        """It publishes no part, commits no partition, and accepts no part's loss."""
        return not (self.publishes() or self.lost or self.commits)

    def follow(self, *, kind: str, attempt: str, at: datetime, settled: Epoch) -> Manifest:
        """The next epoch's manifest, with what is carried forward and nothing of its own yet."""
        return replace(
            self,
            epoch=Epoch(self.epoch + 1),
            kind=kind,
            attempt=attempt,
            at=max(at, self.at),
            settled=settled,
            rows=NO_ROWS,
            parts=(),
            moves=(),
            lost=(),
            opened=(),
            rolled=(),
            given_up=(),
            waiting=None,
            commits=(),
        )


@dataclass(frozen=True, slots=True)
class Floor:
    """Epochs up to `epoch` are settled and their manifests deleted; `totals` are their row counts.

    `files` counts the parts that they published, `lost` the rows whose loss a person accepted.
    """

    epoch: Epoch
    totals: Rows
    files: int = 0
    lost: int = 0


def standing(manifests: Iterable[Manifest]) -> Iterator[tuple[Manifest, PartEntry]]:
    """Each part that no later epoch has moved or taken out as lost, with the epoch that answers for it.

    `manifests` are sorted by epoch. A part may return to a path that it was moved from: the last epoch counts.
    """
    known = tuple(manifests)
    taken = {
        target: manifest.epoch
        for manifest in known
        for target in (*(move.was for move in manifest.moves), *manifest.lost)
    }
    for manifest in known:
        for part in manifest.publishes():
            if taken.get(part.target, 0) <= manifest.epoch:
                yield manifest, part


def lost_parts(manifests: Iterable[Manifest]) -> Iterator[tuple[Manifest, PartEntry]]:
    """Each part whose loss a person accepted, with the epoch that answered for it. `manifests` are sorted by epoch."""
    known = tuple(manifests)
    accepted = {target for manifest in known for target in manifest.accepted}
    newest: dict[str, tuple[Manifest, PartEntry]] = {}
    for manifest in known:
        yield from (newest.pop(target) for target in manifest.accepted if target in newest)
        newest |= {part.target: (manifest, part) for part in manifest.publishes() if part.target in accepted}


def floor_over(before: Floor | None, manifests: Iterable[Manifest], epoch: Epoch) -> Floor:
    """The floor at `epoch`, which replaces `before` and the manifests up to it.

    `manifests` continue from `before` past `epoch`, up to one that says that `epoch` is settled, or to the head. A loss
    is accepted while the epoch that answers for its part is unsettled: each lost part is counted once, by the floor
    that replaces that epoch's manifest.
    """
    start = before or Floor(Epoch(0), NO_ROWS)
    known = tuple(manifests)
    gone = [manifest for manifest in known if start.epoch < manifest.epoch <= epoch]
    return Floor(
        epoch=epoch,
        totals=sum((manifest.rows for manifest in gone), start.totals),
        files=start.files + sum(len(manifest.parts) for manifest in gone),
        lost=start.lost
        + sum(part.rows for manifest, part in lost_parts(known) if manifest.epoch <= epoch)
        + sum(manifest.given_up_rows for manifest in gone),
    )
