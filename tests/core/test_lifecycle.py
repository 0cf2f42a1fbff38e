from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from hivesink.core.epoch import Epoch
from hivesink.core.lifecycle import MARKS, NEXT, EpochState, History, Identity, IllegalStepError, OpenEpoch
from hivesink.core.manifest import REQUEUE, Commit, OpenBucket, Slice
from tests.contracts.manifests import AT, small

KEY = ("demo.events", "dt=a")


def test_every_state_is_reached_and_what_is_decided_never_goes_back() -> None:
    assert set(NEXT) == set(EpochState)
    assert {state for state in NEXT if not NEXT[state]} == {EpochState.SHUT_OUT, EpochState.SETTLED}
    reached = [EpochState.BEGUN]
    for state in reached:
        reached += [after for after in NEXT[state].values() if after not in reached]
    assert set(reached) == set(EpochState)
    before = {EpochState.BEGUN, EpochState.SHUT_OUT}
    assert not any(before & set(NEXT[state].values()) for state in set(EpochState) - before)


@pytest.mark.parametrize("state", EpochState)
@pytest.mark.parametrize("mark", MARKS)
def test_a_mark_takes_an_epoch_on_or_is_refused(state: EpochState, mark: EpochState) -> None:
    history = History(Identity("w", "aa", (), (), "/log"), open=(OpenEpoch(small(1), state),))
    if state is mark and mark in {EpochState.VERIFIED, EpochState.SETTLED}:
        assert [epoch.state for epoch in history.marked(Epoch(1), mark).open] == [state] * (mark is EpochState.VERIFIED)
    elif mark in NEXT[state].values():
        left = [] if mark is EpochState.SETTLED else [mark]
        assert [epoch.state for epoch in history.marked(Epoch(1), mark).open] == left
    else:
        with pytest.raises(IllegalStepError, match=mark.value):
            history.marked(Epoch(1), mark)


def test_the_drawing_in_the_docs_is_the_table() -> None:
    text = Path("docs/architecture.md").read_text(encoding="utf-8")
    drawing = text[text.index("\nepoch    begun") : text.index("\npart     in progress")]
    drawn = re.findall(
        r"^(?:epoch)? +([a-z]+(?: [a-z]+)?) +--([a-z ]+)--> +([a-z]+(?: [a-z]+)?)", drawing, re.MULTILINE
    )
    steps = {(state.value, taken, after.value) for state, to in NEXT.items() for taken, after in to.items()}
    assert set(drawn) == steps


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
