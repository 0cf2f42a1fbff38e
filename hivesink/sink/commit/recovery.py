"""Recovery of one writer by hand: a preview of it and the recovery itself, from the same plans."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hivesink.core.actions import Action, Decide, Refuse, describe
from hivesink.core.losing import questionable, reopenable, together
from hivesink.core.partition import LivePartition, PartitionKey, by_table
from hivesink.core.plan import Policy, plan, until_look
from hivesink.core.progress import count
from hivesink.core.seen import NOTHING, GivenUp, Seen, abandoned, losses
from hivesink.errors import EpochTaken, HiveSinkError, PartitionPathInvalid, UnknownTable
from hivesink.sink.commit.executor import Executor, StaleError, lost_error
from hivesink.sink.commit.observe import load, load_begun, load_commits, look_at_files, look_at_tracks
from hivesink.sink.task.segments import lost_slices

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from hivesink.core.epoch import Epoch
    from hivesink.core.lifecycle import History, Identity
    from hivesink.core.manifest import PartEntry
    from hivesink.core.rolling import Opened, OpenRows
    from hivesink.sink.commit.context import CommitContext


@dataclass(frozen=True, slots=True)
class Loss:
    """A decided part whose rows are given up, or would have to be, and why."""

    part: PartEntry
    reason: str

    @property
    def key(self) -> PartitionKey:
        return self.part.key

    @property
    def rows(self) -> int:
        return self.part.rows

    @property
    def target(self) -> str:
        return self.part.target


@dataclass(frozen=True, slots=True)
class LostSlice:
    """Rows that wait and are given up, or would have to be, and why. `target` is their segment's path."""

    opened: Opened
    target: str
    reason: str

    @property
    def key(self) -> PartitionKey:
        return self.opened.key

    @property
    def rows(self) -> int:
        return self.opened.slice.rows


@dataclass(frozen=True, slots=True)
class Recovered:
    """What recovery did or would do. `lost` are the parts that are given up; in a preview also those that stop it.

    `given_up` are rows that waited.
    """

    epoch: Epoch
    actions: tuple[Action, ...]
    lost: tuple[Loss, ...]
    given_up: tuple[LostSlice, ...]
    waiting: OpenRows
    """The rows that still wait to be rolled."""

    def described(self) -> list[tuple[str, str]]:
        """Each action in words: what it does, and to what. The last are the rolls of what waits."""
        waiting = ((key, one.rows) for key, one in self.waiting.buckets.items() if one.slices)
        rolls = ((f"{table} {partition}".strip(), rows) for (table, partition), rows in waiting)
        lines = [line for action in self.actions for line in describe(action)]
        return [*lines, *(("roll", f"{name} ({count(rows, 'row')})") for name, rows in sorted(rolls))]


def preview(context: CommitContext, policy: Policy, *, given_up: GivenUp = NOTHING) -> Recovered:
    """Everything that `recover` would do. Changes nothing. Raises what `recover` raises, except EpochTaken."""
    history, tracks = load_begun(context)
    stamp = context.stamp()
    actions: list[Action] = []
    seen = _look_for_losses(context, history, everywhere=given_up != NOTHING)
    given_up = together(history, seen, given_up)
    lost = _losses(history, seen, given_up)
    slices = tuple(_slices(context, history, given_up))
    given_up = _with_records(context, history, given_up)
    again = (seen, given_up) if reopenable(history, seen, given_up) else (Seen(), NOTHING)
    # It shuts out an older try, lets rows wait again, and gives up parts: none of it changes what this one look shows.
    for look, gone in ((Seen(tracks=tracks), NOTHING), again, (seen, given_up)):
        starting = look.tracks is not None
        first = list(until_look(plan(history, look, stamp, policy, starting=starting, given_up=gone)))
        if first and isinstance(first[-1], Decide):
            actions += first
            history = history.decided(first[-1].manifest)
    # Recovery creates a dropped table again.
    seen = look_at_files(context, history, listed(context, history.places))
    tracks = look_at_tracks(context, history.epoch)
    actions += plan(history, Seen(seen.files, seen.partitions, tracks), stamp, policy)
    return Recovered(history.epoch, tuple(actions), lost, slices, history.rows)


def recover(
    context: CommitContext, identity: Identity | None, policy: Policy, *, given_up: GivenUp = NOTHING
) -> Recovered:
    """Finish everything that the log has decided, except what is given up: the log stops answering for that.

    Gives nothing up if a part that isn't given up stops it.

    Raises EpochTaken if another run is at work, LogDamaged, NewerFormat, and what `Executor.finish` raises.
    """
    try:
        return _recover(context, identity, policy, given_up)
    except (EpochTaken, StaleError):
        # A manifest that the previous run got no answer for has arrived between the look and the decision; or another
        # recovery has published what was to be put away.
        return _recover(context, identity, policy, given_up)


def _recover(context: CommitContext, identity: Identity | None, policy: Policy, given_up: GivenUp) -> Recovered:
    done: list[Action] = []
    executor = Executor.begin(context, identity, policy, done.append)
    seen = _look_for_losses(context, executor.history, everywhere=given_up != NOTHING)
    given_up = together(executor.history, seen, given_up)
    targets, given_up = given_up.targets | given_up.waiting, _with_records(context, executor.history, given_up)
    if given_up != NOTHING:
        for left in _stopping(executor.history, seen, given_up, targets):
            raise lost_error(executor.history, seen, left)
    if reopenable(executor.history, seen, given_up):
        executor.decide(seen, given_up=given_up)
    lost = tuple(loss for loss in _losses(executor.history, seen, given_up) if loss.part.target in targets)
    slices = tuple(_slices(context, executor.history, given_up))
    if lost or slices:
        executor.decide(seen, given_up=given_up)
    executor.finish()
    executor.clean_up()
    return Recovered(executor.history.epoch, tuple(done), lost, slices, executor.history.rows)


def find_maybe_read(context: CommitContext) -> tuple[Loss, ...]:
    """The lost parts whose rows can be published again, though readers may have had them.

    Those of a replay are all its parts: the next replay does it again. Raises ReplaySplit, LogDamaged, NewerFormat,
    and whatever ends the search for their files.
    """
    history = load(context)
    seen = _look_for_losses(context, history, everywhere=True)
    found = [one.part for parts in questionable(history, seen).values() for one in parts]
    parts = [part for _, part in history.standing]
    if together(history, seen, GivenUp(again=frozenset(part.target for part in parts))).waiting:
        found = parts
    return tuple(Loss(part, "readers may have had its rows") for part in found)


def find_losses(
    context: CommitContext,
    partitions: Collection[PartitionKey] = (),
    *,
    accept: bool = True,
    again: frozenset[str] = frozenset(),
) -> tuple[Loss, ...]:
    """With `accept` the parts that no publish can bring back, none that only lie elsewhere; and all of `partitions`.

    None of the targets `again`, whose rows wait again. Raises ReplaySplit, LogDamaged, NewerFormat, and
    whatever ends the search for their files.
    """
    if not accept and not partitions:
        return ()
    history = load(context)
    waiting = frozenset(part.target for _, part in history.standing if part.key in partitions)
    seen = _look_for_losses(context, history, everywhere=True)
    targets = frozenset(part.target for _, part in history.standing) if accept else frozenset[str]()
    found = _losses(history, seen, together(history, seen, GivenUp(targets, waiting, again=again)))
    return tuple(loss for loss in found if loss.target not in again and (accept or loss.key in partitions))


def find_lost_slices(
    context: CommitContext, partitions: Collection[PartitionKey] = (), *, accept: bool = True
) -> tuple[LostSlice, ...]:
    """With `accept` the rows that wait and can't be read, for which all segments are; and all of `partitions`.

    Raises LogDamaged, NewerFormat, StoreUnavailable.
    """
    segments = context.log.segments
    gone = lost_slices(load(context).rows, segments) if accept else {}
    # A job that runs beside this may have rolled them meanwhile, and deleted their segments.
    waiting = (one for one in load(context).rows.opened if one in gone or one.key in partitions)
    why = "its partition is given up"
    return tuple(
        LostSlice(one, segments.path(one.slice.segment), gone[one].reason if one in gone else why) for one in waiting
    )


def _slices(context: CommitContext, history: History, given_up: GivenUp) -> Iterator[LostSlice]:
    for one in history.rows.opened:
        if one in given_up.slices:
            yield LostSlice(one, context.log.segments.path(one.slice.segment), "its rows are given up")


def _with_records(context: CommitContext, history: History, given_up: GivenUp) -> GivenUp:
    if not given_up.slices:
        return given_up
    return replace(given_up, records=load_commits(context, next(iter(history.identity.tables), None)))


def _losses(history: History, seen: Seen, given_up: GivenUp) -> tuple[Loss, ...]:
    refused = losses(history, seen.files, seen.partitions)
    again = {one.part for parts in reopenable(history, seen, given_up).values() for one in parts}
    reasons = {action.part: action.reason for action in refused if action.astray is None and action.part not in again}
    is_whole = history.is_replay and given_up.waiting.issuperset(part.target for _, part in history.standing)
    why = "its replay is given up as a whole" if is_whole else "its partition is given up"
    for part in abandoned(history, seen, given_up):
        reasons.setdefault(part, why)
    return tuple(Loss(part, reason) for part, reason in reasons.items())


def _stopping(history: History, seen: Seen, given_up: GivenUp, targets: Collection[str]) -> Iterator[Refuse]:
    """The lost parts that stay when `targets` are given up and others wait again."""
    done = {loss.part for loss in _losses(history, seen, given_up) if loss.part.target in targets}
    done |= {one.part for parts in reopenable(history, seen, given_up).values() for one in parts}
    return (loss for loss in losses(history, seen.files, seen.partitions) if loss.part not in done)


def _look_for_losses(context: CommitContext, history: History, *, everywhere: bool) -> Seen:
    # The table may have been created again with other columns.
    live = listed(context, history.places, PartitionPathInvalid)
    return look_at_files(context, history, live, everywhere=everywhere)


def listed(
    context: CommitContext, places: Iterable[PartitionKey], *passed: type[HiveSinkError]
) -> dict[PartitionKey, LivePartition]:
    """The registered ones of `places`. A dropped table has none, nor one that raises one of `passed`."""
    registered: dict[PartitionKey, LivePartition] = {}
    for table, partitions in by_table(places).items():
        with suppress(UnknownTable, *passed):
            registered |= context.lookup((table, partition) for partition in partitions)
    return registered
