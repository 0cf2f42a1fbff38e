"""Recovery of a writer: the start of a job, `hivesink recover` and its `--dry-run` all go through `recover`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Literal

from hivesink.core import actions
from hivesink.core.actions import PartLocator, Snapshot, StagingArea, Winner, missing_parts
from hivesink.core.manifest import Manifest, Opened, PartEntry, Slice
from hivesink.core.partition import LivePartition, PartitionKey, by_table
from hivesink.core.repair import forget, requeueable
from hivesink.core.rolling import OpenRows
from hivesink.errors import EpochTaken, PartitionInvalid, RegistrationFailed, UnknownTable
from hivesink.ports import SegmentStore
from hivesink.sink.commit.context import CommitContext
from hivesink.sink.commit.observe import lengths, look_at_staging, search, take_snapshot
from hivesink.sink.commit.runner import PlanRunner, StaleError, loss_error
from hivesink.sink.task.segments import lost_slices

ALL = "all"
"""Stands for every partition, where a person names those whose losses are accepted."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Rows of a partition that can't be published, in the file at `path`.

    The reason: `missing` is a part that is nowhere in the table's folders; `refused` if the metastore doesn't register
    its partition; `waiting` in a segment, and can't be encoded.
    """

    key: PartitionKey
    path: str
    rows: int
    reason: Literal["missing", "refused", "waiting"]
    slice: Slice | None = None
    """Where the rows wait."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """What a person says: rows of these `partitions` (or ALL) that can't be published are gone.

    `confirm` is called with all of them before each decision; it raises to prevent it.
    """

    partitions: frozenset[str]
    confirm: Callable[[Sequence[Loss]], None]

    def has(self, key: PartitionKey) -> bool:
        return ALL in self.partitions or key[1] in self.partitions


def recover(begin: Callable[[], PlanRunner], finish: Callable[[PlanRunner], None] = PlanRunner.finish) -> PlanRunner:
    """Finish everything that the log has decided, and remove what was not; `begin` reads the log.

    Raises EpochTaken if another run is at work, LogDamaged, and what `finish` raises.
    """

    def once() -> PlanRunner:
        runner = begin()
        finish(runner)
        runner.clean_up()
        return runner

    try:
        return once()
    except (EpochTaken, StaleError):
        # A manifest that the previous run got no answer for has arrived between the look and the decision; or another
        # recovery has advanced the same epochs.
        return once()


def finish_accepting(runner: PlanRunner, accepted: Accepted) -> None:
    """As `PlanRunner.finish`, but what can't be published and is `accepted` as lost is forgotten.

    Missing parts are looked for in all of the table's folders, once: what is there is published.
    Raises what `confirm` raises.
    """
    history = runner.history
    # The table may have been created again, with other columns.
    snapshot = runner.look(listed(runner.context, history.places))
    again = {part for parts in requeueable(history, snapshot).values() for part in parts}
    missing = {action.part for action in missing_parts(history, snapshot.files, snapshot.partitions)} - again
    wanted = [part for _, part in history.live_parts if part in missing and accepted.has(part.key)]
    if wanted:
        _forget_missing(runner, accepted, wanted)
    try:
        runner.finish()
    except RegistrationFailed as error:
        refused = {(error.table, name) for name in error.partitions}
        parts = [part for part in runner.history.waiting if part.key in refused and accepted.has(part.key)]
        if not parts:
            raise
        accepted.confirm(_losses(parts, "refused"))
        stamp, rows = runner.context.stamp(), sum(part.rows for part in parts)
        runner.decide(forget(runner.history, stamp, parts, rows=rows))
        runner.finish()


def _forget_missing(runner: PlanRunner, accepted: Accepted, wanted: Sequence[PartEntry]) -> None:
    visible = search(runner.context, wanted)
    locator = PartLocator(lengths(runner.context, visible))
    gone: list[PartEntry] = []
    read: list[PartEntry] = []
    moved: list[PartEntry] = []
    for part in wanted:
        match locator.next_action(part):
            case actions.PartMissing():
                gone.append(part)
            case actions.Publish(_, source) if not visible[source]:
                moved.append(replace(part, staged=source))
            case actions.Publish() | actions.AlreadyPublished():
                # Readers find it, in a partition that was renamed, say.
                read.append(part)
    if gone:
        accepted.confirm(_losses(gone, "missing"))
    rows = sum(part.rows for part in gone)
    runner.decide(forget(runner.history, runner.context.stamp(), [*gone, *read], moved=moved, rows=rows))


def _losses(parts: Iterable[PartEntry], reason: Literal["missing", "refused"]) -> list[Loss]:
    return [Loss(part.key, part.target, part.rows, reason) for part in parts]


def forget_waiting(runner: PlanRunner, accepted: Accepted) -> None:
    """Forget the rows that wait in the partitions that are `accepted` as lost: nothing could encode them."""
    opened = [waiting for waiting in runner.history.rows.opened if accepted.has(waiting.key)]
    if opened:
        accepted.confirm(_waiting(opened, runner.context.log.segments))
        slices, rows = {waiting.slice for waiting in opened}, sum(waiting.slice.rows for waiting in opened)
        runner.decide(forget(runner.history, runner.context.stamp(), slices=slices, rows=rows))
        runner.finish()


def unreadable(rows: OpenRows, segments: SegmentStore, accepted: Accepted) -> list[Loss]:
    """The rows that wait in `accepted` partitions and can't be read."""
    gone = lost_slices(rows, segments) if accepted.partitions else {}
    return _waiting([waiting for waiting in gone if accepted.has(waiting.key)], segments)


def _waiting(opened: Iterable[Opened], segments: SegmentStore) -> list[Loss]:
    return [
        Loss(waiting.key, segments.path(waiting.slice.segment), waiting.slice.rows, "waiting", waiting.slice)
        for waiting in opened
    ]


@dataclass(slots=True)
class Recorder(PlanRunner):
    """Performs nothing: keeps in memory what the actions would make of log, files and partitions."""

    files: dict[str, int | None] = field(default_factory=dict)
    partitions: dict[PartitionKey, LivePartition] = field(default_factory=dict)

    def read_again(self) -> None:
        """Nobody was shut out."""

    def decide(self, manifest: Manifest) -> None:
        self.history = self.history.decided(manifest)
        self.log_action(actions.Decide(manifest))

    def look(self, live: Mapping[PartitionKey, LivePartition] | None = None) -> Snapshot:
        known = listed(self.context, self.history.places) if live is None else live
        snapshot = take_snapshot(self.context, self.history, {**known, **self.partitions})
        files = {**snapshot.files, **self.files}
        return replace(snapshot, files={path: length for path, length in files.items() if length is not None})

    def look_at_staging(self, winners: frozenset[Winner], *, segments: bool) -> StagingArea:
        staging = look_at_staging(self.context, self.history.epoch, winners, segments=segments)
        return replace(staging, staged=tuple(path for path in staging.staged if self.files.get(path, 0) is not None))

    def _perform(self, action: actions.Action) -> None:
        match action:
            case actions.Decide(manifest):
                self.decide(manifest)
                return
            case actions.ClearAccurate(table, partitions):
                live = listed(self.context, ((table, name) for name in partitions))
                self.partitions |= {key: replace(home, accurate=False) for key, home in live.items()}
            case actions.Register(table, partitions):
                for name, location in partitions:
                    new = LivePartition(name, location, accurate=False, columns_behind=False)
                    self.partitions[table, name] = new
            case actions.Publish(part, source):
                self.files |= {source: None, part.target: part.length}
            case actions.PartMissing():
                raise loss_error(action, self.history.identity.tables[0])
            case actions.DeleteReplaced(parts):
                self.files |= {part.target: None for part in parts}
            case actions.SetMark(mark, epoch):
                self.history = self.history.marked(epoch, mark)
            case actions.Trim(epoch):
                self.history = replace(self.history, floor=epoch)
        self.log_action(action)


def listed(context: CommitContext, places: Iterable[PartitionKey]) -> dict[PartitionKey, LivePartition]:
    """The registered ones of `places`; none of a table that was dropped, or created again with other columns."""
    registered: dict[PartitionKey, LivePartition] = {}
    for table, partitions in by_table(places).items():
        with suppress(UnknownTable, PartitionInvalid):
            registered |= context.lookup((table, partition) for partition in partitions)
    return registered
