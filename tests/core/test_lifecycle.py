from __future__ import annotations

import re
from collections import deque
from dataclasses import replace
from pathlib import Path

import pytest

from hivesink.core.epoch import Epoch
from hivesink.core.lifecycle import (
    NEXT,
    EpochState,
    History,
    Identity,
    IllegalStepError,
    Mark,
    OpenEpoch,
    PartState,
)
from hivesink.core.manifest import REQUEUE
from hivesink.core.records import Commit, OpenBucket, Slice
from tests.contracts.manifests import AT, small

KEY = ("demo.events", "dt=a")
STATES = [*EpochState, *PartState]
ENDS = {EpochState.SHUT_OUT, EpochState.SETTLED, PartState.DISCARDED, PartState.FORGOTTEN, PartState.REQUEUED}


def test_every_state_and_every_step_stands_in_the_table() -> None:
    assert set(NEXT) == set(STATES)
    assert {state for state in STATES if not NEXT[state]} == ENDS


@pytest.mark.parametrize(("kind", "first"), [(EpochState, EpochState.BEGUN), (PartState, PartState.IN_PROGRESS)])
def test_every_state_is_reached_from_the_first_by_steps_of_its_own_kind(
    kind: type[EpochState | PartState], first: EpochState | PartState
) -> None:
    reached, waiting = {first}, deque([first])
    while waiting:
        for found in NEXT[waiting.popleft()].values():
            assert isinstance(found, kind)
            if found not in reached:
                reached.add(found)
                waiting.append(found)
    assert reached == set(kind)


def test_what_is_decided_never_goes_back() -> None:
    before = {EpochState.BEGUN, EpochState.SHUT_OUT}
    for state in (EpochState.DECIDED, EpochState.PUBLISHED, EpochState.SETTLED):
        assert not set(NEXT[state].values()) & before
    hidden = {PartState.IN_PROGRESS, PartState.PENDING, PartState.DISCARDED}
    for part in (PartState.DECIDED, PartState.FINISHED):
        assert not set(NEXT[part].values()) & hidden


@pytest.mark.parametrize("state", EpochState)
@pytest.mark.parametrize("mark", Mark)
def test_a_mark_takes_an_epoch_on_or_is_refused(state: EpochState, mark: Mark) -> None:
    after = EpochState(mark.value)
    history = History(Identity("w", "aa", (), (), "/log"), open=(OpenEpoch(small(1), state),))
    if state is after and mark in {Mark.VERIFIED, Mark.SETTLED}:
        assert [epoch.state for epoch in history.marked(Epoch(1), mark).open] == [state] * (mark is Mark.VERIFIED)
    elif after in NEXT[state].values():
        assert [epoch.state for epoch in history.marked(Epoch(1), mark).open] == [after] * (mark is not Mark.SETTLED)
    else:
        with pytest.raises(IllegalStepError, match=mark.value):
            history.marked(Epoch(1), mark)


def test_the_drawing_in_the_docs_is_the_table() -> None:
    text = Path("docs/architecture.md").read_text(encoding="utf-8")
    drawn = set()
    kinds: dict[str, type[EpochState | PartState]] = {"epoch": EpochState, "part": PartState}
    kind: type[EpochState | PartState] = EpochState
    arrow = re.compile(
        r"^(epoch|part)? +([a-z]+(?: [a-z]+)?) +--([a-z ]+)--> +([a-z]+(?: [a-z]+)?)(?:  .*)?$", re.MULTILINE
    )
    for found in arrow.finditer(text):
        kind = kinds.get(found[1] or "", kind)
        drawn.add((kind(found[2]), found[3], kind(found[4])))
    assert drawn == {(state, taken, after) for state, steps in NEXT.items() for taken, after in steps.items()}


@pytest.mark.parametrize("others", [True, False])
def test_a_requeue_withdraws_a_commit_until_none_of_its_rows_waits(others: bool) -> None:
    waits = OpenBucket.of((Slice("1-aat0-0.arrow", 0, 9, 5),), AT, AT)
    other = ((("demo.events", "dt=b"), waits),) if others else ()
    commits = [(Commit(*KEY, revision, rows=2, files=1),) for revision in range(1, 4)]
    roll = replace(small(1), kind="roll", commits=commits[0])
    again = replace(small(2), kind=REQUEUE, remove=("/part",), commits=commits[1], waiting=((KEY, waits), *other))
    gone = replace(small(3), kind="forget", forgotten=5, commits=commits[2], waiting=other)
    history = History(Identity("w", "aa", (), (), "/log"), open=(OpenEpoch(roll), OpenEpoch(again)))
    assert history.committed() == {}
    assert history.decided(gone).committed() == {KEY: commits[2][0]}
