from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hivesink.core.epoch import BatchId, BatchRef, Epoch, LastBatch, New, Replay, Ways, judge
from hivesink.core.offsets import FilesOffset, KafkaOffset
from hivesink.errors import (
    BatchBehindLog,
    BatchesMissing,
    ForeignHistory,
    HiveSinkError,
    LogMissing,
    OffsetsDontChain,
    ReplayDiffers,
    ResumeImpossible,
)

if TYPE_CHECKING:
    from hivesink.core.offsets import SourceOffset


def at(offset: int) -> tuple[SourceOffset, ...]:
    return (KafkaOffset.of({"t": {"0": offset}}),)


def batch(number: int, start: int, end: int, query: str = "q") -> BatchRef:
    return BatchRef(query, BatchId(number), at(start), at(end))


LAST = LastBatch(Epoch(8), batch(4, 40, 50))
NONE, APPEND, STALE, RESUME = Ways(), Ways(append=Epoch(8)), Ways(append=Epoch(7)), Ways(resume=True)


@pytest.mark.parametrize(
    ("last", "ref", "ways", "want"),
    [
        (None, batch(0, 0, 5), NONE, New()),
        (None, batch(3, 0, 5), NONE, LogMissing),
        (None, batch(3, 0, 5), Ways(append=Epoch(0)), New(appended=True)),
        (None, batch(3, 0, 5), STALE, LogMissing),
        (LAST, batch(5, 50, 60), NONE, New()),
        (LAST, batch(4, 40, 50), NONE, Replay(Epoch(8))),
        (LAST, batch(4, 40, 50), APPEND, Replay(Epoch(8))),
        (LAST, batch(4, 40, 57), NONE, ReplayDiffers),
        (LAST, batch(4, 39, 50), NONE, ReplayDiffers),
        (LAST, batch(4, 40, 57), APPEND, New(appended=True)),
        (LAST, batch(4, 40, 57), STALE, ReplayDiffers),
        (LAST, batch(3, 30, 40), NONE, BatchBehindLog),
        (LAST, batch(3, 30, 40), RESUME, BatchBehindLog),
        (LAST, batch(6, 50, 60), NONE, BatchesMissing),
        (LAST, batch(6, 50, 60), APPEND, New(appended=True)),
        (LAST, batch(6, 50, 60), STALE, BatchesMissing),
        (LAST, batch(5, 51, 60), NONE, OffsetsDontChain),
        (LAST, batch(5, 51, 60), APPEND, New(appended=True)),
        (LAST, batch(5, 51, 60), STALE, OffsetsDontChain),
        (LAST, batch(0, 50, 60, "new"), NONE, ForeignHistory),
        (LAST, batch(4, 40, 50, "new"), NONE, ForeignHistory),
        (LAST, batch(0, 0, 60, "new"), APPEND, New(appended=True)),
        (LAST, batch(0, 0, 60, "new"), STALE, ForeignHistory),
        (LAST, batch(0, 50, 60, "new"), RESUME, New()),
        (LAST, batch(0, 49, 60, "new"), RESUME, OffsetsDontChain),
    ],
)
def test_every_branch(
    last: LastBatch | None, ref: BatchRef, ways: Ways, want: New | Replay | type[HiveSinkError]
) -> None:
    if isinstance(want, type):
        with pytest.raises(want, match="/log"):
            judge(last, ref, ways, "/log")
    else:
        assert judge(last, ref, ways, "/log") == want


@pytest.mark.parametrize("side", ["log", "query"])
def test_files_cannot_resume(side: str) -> None:
    files: tuple[SourceOffset, ...] = (FilesOffset(3, "ab", 1),)
    end, start = (files, at(50)) if side == "log" else (at(50), files)
    last = LastBatch(Epoch(8), BatchRef("q", BatchId(4), at(40), end))
    with pytest.raises(ResumeImpossible, match="resume works for Kafka only"):
        judge(last, BatchRef("new", BatchId(0), start, start), RESUME, "/log")


def test_files_are_not_told_to_resume() -> None:
    last = LastBatch(Epoch(8), BatchRef("q", BatchId(4), at(40), (FilesOffset(3, "ab", 1),)))
    with pytest.raises(ForeignHistory, match=r"append=8 .*move away first what was read already") as told:
        judge(last, batch(0, 50, 60, "new"), NONE, "/log")
    assert "resume" not in str(told.value)


@pytest.mark.parametrize("error", [ForeignHistory, ReplayDiffers])
def test_refusals_name_both_ways_on(error: type[HiveSinkError]) -> None:
    ref = batch(0, 50, 60, "new") if error is ForeignHistory else batch(4, 40, 57)
    with pytest.raises(error, match=r"(?s)resume=True.*append=8"):
        judge(LAST, ref, NONE, "/log")
