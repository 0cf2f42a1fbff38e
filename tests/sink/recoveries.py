"""Recovery as `hivesink recover` does it, and its `--dry-run`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from hivesink.cli.recover import describe
from hivesink.core.plan import Policy
from hivesink.sink.commit.recovery import ALL, Accepted, Recorder, finish_accepting, forget_waiting, recover
from hivesink.sink.commit.runner import PlanRunner

if TYPE_CHECKING:
    from collections.abc import Callable

    from hivesink.core.actions import Action
    from hivesink.core.lifecycle import Identity
    from hivesink.sink.commit.context import CommitContext
    from hivesink.sink.commit.recovery import Loss


POLICY = Policy()


@dataclass(frozen=True)
class Recovered:
    runner: PlanRunner
    lines: list[tuple[str, str]]
    losses: list[Loss]


def by_hand(
    context: CommitContext,
    policy: Policy = POLICY,
    identity: Identity | None = None,
    *,
    forget: str | None = None,
    dry_run: bool = False,
) -> Recovered:
    """`forget` is a partition, or ALL."""
    performed: list[Action] = []
    losses: list[Loss] = []
    kind = Recorder if dry_run else PlanRunner
    begin = partial(kind.begin, context, identity, policy, performed.append)
    finish: Callable[[PlanRunner], None] = PlanRunner.finish
    if forget is not None:
        finish = partial(finish_accepting, accepted=Accepted(frozenset({forget}), losses.extend))
    runner = recover(begin, finish)
    return Recovered(runner, [line for action in performed for line in describe(action)], losses)


def forget_rows(context: CommitContext, forget: str = ALL) -> list[Loss]:
    """What waits can't be rolled, and a person accepts its loss."""
    losses: list[Loss] = []
    runner = PlanRunner.begin(context, None, POLICY)
    forget_waiting(runner, Accepted(frozenset({forget}), losses.extend))
    runner.clean_up()
    return losses


__all__ = ["ALL", "Recovered", "by_hand", "forget_rows"]
