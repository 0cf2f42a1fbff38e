"""Recovery of one writer by hand: what it would do, and doing it, from the same plans."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hivesink.core.actions import Decide
from hivesink.core.lifecycle import Stamp
from hivesink.core.partition import by_table
from hivesink.core.plan import NOTHING, abandoned, plan, until_look
from hivesink.core.seen import Seen, losses
from hivesink.errors import EpochTaken, UnknownTable
from hivesink.sink.commit.executor import Executor
from hivesink.sink.commit.observe import load, load_begun, look_at_files, look_at_tracks

if TYPE_CHECKING:
    from hivesink.core.actions import Action
    from hivesink.core.epoch import Epoch
    from hivesink.core.lifecycle import History, Identity
    from hivesink.core.manifest import PartEntry
    from hivesink.core.partition import LivePartition, PartitionKey
    from hivesink.core.plan import GivenUp, Policy
    from hivesink.sink.commit.context import CommitContext


@dataclass(frozen=True, slots=True)
class Loss:
    """A decided part whose rows are given up, or would have to be, and why."""

    part: PartEntry
    reason: str


@dataclass(frozen=True, slots=True)
class Recovered:
    """What recovery does, or would do. `lost` are the parts that are given up, or that stand in its way."""

    epoch: Epoch
    actions: tuple[Action, ...]
    lost: tuple[Loss, ...]

    def told(self) -> list[tuple[str, str]]:
        """Each action in words: what is done, and to what."""
        return [line for action in self.actions for line in action.describe()]


def preview(context: CommitContext, policy: Policy, *, given_up: GivenUp = NOTHING) -> Recovered:
    """Everything that `recover` would do, by looking alone. Raises what `recover` raises, but EpochTaken."""
    history, tracks = load_begun(context)
    stamp = Stamp(context.now(), context.token())
    actions: list[Action] = []
    lost = _losses(context, history, given_up)
    # Shutting out an older try, and giving up, ask nothing of the metastore.
    for seen, gone in ((Seen(tracks=tracks), NOTHING), (_look_for_losses(context, history), given_up)):
        first = list(until_look(plan(history, seen, stamp, policy, starting=True, given_up=gone)))
        if first and isinstance(first[-1], Decide):
            actions += first
            history = history.decided(first[-1].manifest)
    seen = look_at_files(context, history, _listed(context, history))
    tracks = look_at_tracks(context, history.epoch)
    actions += plan(history, Seen(seen.files, seen.partitions, tracks), stamp, policy)
    return Recovered(history.epoch, tuple(actions), lost)


def recover(
    context: CommitContext, identity: Identity | None, policy: Policy, *, given_up: GivenUp = NOTHING
) -> Recovered:
    """Bring everything to what the log decided, and take what is given up out of the log's hands.

    Raises EpochTaken where another run is at work, LogDamaged, NewerFormat, LogCopied, and what `Executor.finish`
    raises.
    """
    try:
        return _recover(context, identity, policy, given_up)
    except EpochTaken:
        # A manifest to which the run before this one got no answer has arrived between a look and a decision here.
        return _recover(context, identity, policy, given_up)


def _recover(context: CommitContext, identity: Identity | None, policy: Policy, given_up: GivenUp) -> Recovered:
    done: list[Action] = []
    executor = Executor.begin(context, identity, policy, done.append)
    lost = tuple(
        loss
        for loss in _losses(context, executor.history, given_up)
        if loss.part.target in given_up.targets or loss.part.partition in given_up.partitions
    )
    if lost:
        executor.decide(_look_for_losses(context, executor.history), given_up=given_up)
    executor.finish()
    executor.clean_up()
    return Recovered(executor.history.epoch, tuple(done), lost)


def find_losses(context: CommitContext, given_up: GivenUp = NOTHING) -> tuple[Loss, ...]:
    """The parts that no publish can bring back, and those of partitions that are given up.

    Raises LogDamaged, NewerFormat, LogCopied.
    """
    return _losses(context, load(context), given_up)


def _losses(context: CommitContext, history: History, given_up: GivenUp) -> tuple[Loss, ...]:
    seen = _look_for_losses(context, history)
    found = {refused.part: refused.reason for refused in losses(history, seen.files, seen.partitions)}
    for part in abandoned(history, seen.files, given_up):
        found.setdefault(part, "its partition is given up")
    return tuple(Loss(part, reason) for part, reason in found.items())


def _look_for_losses(context: CommitContext, history: History) -> Seen:
    # The table may have been made anew, with other columns: only what is published needs to know what is listed.
    is_asked = any(found.is_published for found in history.open)
    return look_at_files(context, history, _listed(context, history) if is_asked else None)


def _listed(context: CommitContext, history: History) -> dict[PartitionKey, LivePartition]:
    """The partitions that are listed; of a table that somebody has dropped none, since recovery makes it again."""
    found: dict[PartitionKey, LivePartition] = {}
    for table, partitions in by_table(history.folders()).items():
        with suppress(UnknownTable):
            found |= context.lookup((table, partition) for partition in partitions)
    return found
