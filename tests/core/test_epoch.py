from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from hivesink.core.epoch import (
    BatchId,
    BatchRef,
    Epoch,
    HistoryPolicy,
    LastBatch,
    New,
    NextBatch,
    QueryHistory,
    Replay,
    judge,
    read_before,
    wrote_instead,
)
from hivesink.core.offsets import FilesOffset, KafkaOffset
from hivesink.errors import (
    BatchBehindLog,
    CheckpointLeftOver,
    ForeignHistory,
    HiveSinkError,
    InputChanged,
    OffsetsDontChain,
    OffsetsRunBack,
    ReplayDiffers,
    ResumeImpossible,
)

if TYPE_CHECKING:
    from hivesink.core.offsets import SourceOffset


def at(offset: int) -> tuple[SourceOffset, ...]:
    return (KafkaOffset.of({"t": {"0": offset}}),)


def batch(number: int, start: int, end: int, query: str = "q") -> BatchRef:
    return BatchRef(query, BatchId(number), at(start), at(end))


def coming(number: int, start: int | None, end: int | None = None, query: str | None = "q") -> NextBatch:
    """The first batch of a query that hasn't started: what a checkpoint tells of it."""
    ends = None if end is None else at(end)
    return NextBatch("/checkpoint", query, BatchId(number), None if start is None else at(start), ends)


LAST = LastBatch(Epoch(8), batch(4, 40, 50))
NONE, APPEND, STALE, RESUME = (
    HistoryPolicy(),
    HistoryPolicy(append=Epoch(8)),
    HistoryPolicy(append=Epoch(7)),
    HistoryPolicy(resume=True),
)


@pytest.mark.parametrize(
    ("last", "ref", "history_policy", "want"),
    [
        (LAST, batch(3, 30, 40), RESUME, BatchBehindLog),
        (LAST, batch(0, 50, 40, "new"), RESUME, OffsetsRunBack),
        (LAST, batch(0, 50, 60, "new"), RESUME, New()),
        (LAST, batch(0, 49, 60, "new"), RESUME, OffsetsDontChain),
        (LAST, coming(0, None, query=None), RESUME, New()),
        (LAST, coming(0, None, query="new"), RESUME, New()),
        (LAST, coming(0, 0, 60, "new"), RESUME, CheckpointLeftOver),
        (LAST, coming(0, 50, 60, "new"), RESUME, New()),
        (LAST, coming(1, 10, None, "new"), RESUME, OffsetsDontChain),
        (LAST, coming(1, 50, None, "new"), RESUME, New()),
    ],
)
def test_a_new_checkpoint_that_resumes(
    last: LastBatch | None, ref: BatchRef, history_policy: HistoryPolicy, want: New | Replay | type[HiveSinkError]
) -> None:
    if isinstance(want, type):
        with pytest.raises(want, match="/log"):
            judge(last, ref, history_policy, "/log", raw=True)
    else:
        assert judge(last, ref, history_policy, "/log", raw=True) == want


def test_a_checkpoint_that_is_not_there_is_told_with_its_place() -> None:
    with pytest.raises(ForeignHistory) as told:
        judge(LAST, coming(0, None, query=None), NONE, "/log", raw=True)
    where = coming(0, None).checkpoint
    assert f"checkpoint {where} (a relative path is looked for in the folder where the job runs) isn't" in str(
        told.value
    )


@pytest.mark.parametrize("side", ["log", "query"])
def test_files_cannot_resume(side: str) -> None:
    files: tuple[SourceOffset, ...] = (FilesOffset(3, "ab", 1),)
    end, start = (files, at(50)) if side == "log" else (at(50), files)
    last = LastBatch(Epoch(8), BatchRef("q", BatchId(4), at(40), end))
    with pytest.raises(ResumeImpossible, match="resume works for one Kafka source"):
        judge(last, BatchRef("new", BatchId(0), start, start), RESUME, "/log", raw=True)


def test_files_are_not_told_to_resume() -> None:
    last = LastBatch(Epoch(8), BatchRef("q", BatchId(4), at(40), (FilesOffset(3, "ab", 1),)))
    with pytest.raises(
        ForeignHistory, match=r"append=8\) .*move away first, and for good, what was read already"
    ) as told:
        judge(last, batch(0, 50, 60, "new"), NONE, "/log", raw=True)
    assert "resume" not in str(told.value)
    # Also true of an older checkpoint that somebody has restored.
    assert "query new's checkpoint isn't the one that its newest batch came from; to go on: start" in str(told.value)


@pytest.mark.parametrize("error", [ForeignHistory, ReplayDiffers])
def test_refusals_name_both_ways_on(error: type[HiveSinkError]) -> None:
    ref = batch(0, 50, 60, "new") if error is ForeignHistory else batch(4, 40, 57)
    with pytest.raises(error, match=r"resume=True and hivesink\.sources\.kafka\(…, resume=sink\).*append=8"):
        judge(LAST, ref, NONE, "/log", raw=True)


@pytest.mark.parametrize("was_raw", [True, False])
def test_rows_that_would_be_taken_in_another_way_are_refused(was_raw: bool) -> None:
    last = replace(LAST, raw=was_raw)
    for coming_next in (batch(5, 50, 60), coming(5, 50, 60), coming(5, None)):
        with pytest.raises(InputChanged, match=r"append=8\)$") as told:
            judge(last, coming_next, STALE, "/log", raw=not was_raw)
        assert ("more columns than `value`" in str(told.value)) is was_raw
        assert judge(last, coming_next, APPEND, "/log", raw=not was_raw) == New()
        assert judge(last, coming_next, NONE, "/log", raw=was_raw) == New()
    assert judge(last, last.ref, NONE, "/log", raw=not was_raw) == Replay(Epoch(8))


def files(counter: int, *paths: tuple[int, str]) -> tuple[SourceOffset, ...]:
    return (FilesOffset.of(counter, paths),)


FILES = LastBatch(Epoch(8), BatchRef("q", BatchId(4), files(0), files(1, (1, "a"), (1, "b"))))


def test_a_file_batch_that_comes_again_names_what_was_read() -> None:
    again = BatchRef("q", BatchId(4), files(0), files(2, (1, "b"), (1, "a"), (2, "c")))
    with pytest.raises(
        ReplayDiffers, match=r"append=8\) .*move away first, and for good, the 2 files .*: b, a\)"
    ) as told:
        judge(FILES, again, NONE, "/log", raw=True)
    assert "resume" not in str(told.value)


@pytest.mark.parametrize("planned", ["abc", "cab"], ids=["oldest first", "latestFirst"])
def test_a_file_batch_that_an_older_checkpoint_plans_anew_names_what_was_read(planned: str) -> None:
    again = BatchRef("q", BatchId(4), files(0), files(1, *((1, path) for path in planned)))
    with pytest.raises(ReplayDiffers, match=r"the 2 files .*: a, b\)"):
        judge(FILES, again, NONE, "/log", raw=True)
    assert read_before(FILES, again) == ("a", "b")
    # Of a later batch the same names are new files.
    assert read_before(FILES, replace(again, batch=BatchId(5))) == ()


@pytest.mark.parametrize("query", ["q", "new"])
def test_files_that_are_not_just_the_logged_ones_are_not_said_to_be_read(query: str) -> None:
    other = BatchRef(query, BatchId(4), files(0), files(2, (1, "a"), (1, "c")))
    assert read_before(FILES, other) == ()
    assert read_before(None, other) == ()


def test_an_error_names_a_few_of_many_files() -> None:
    many = tuple((1, f"f{number:02d}") for number in range(20))
    last = LastBatch(Epoch(8), BatchRef("q", BatchId(4), files(0), files(1, *many)))
    again = BatchRef("q", BatchId(4), files(0), files(2, *many, (2, "new")))
    with pytest.raises(ReplayDiffers, match=r"the 20 files .*: f00, f01, f02, f03, f04 and 15 more"):
        judge(last, again, NONE, "/log", raw=True)


@pytest.mark.parametrize("history_policy", [NONE, RESUME])
def test_a_checkpoint_that_a_refused_start_left_is_to_be_deleted(history_policy: HistoryPolicy) -> None:
    with pytest.raises(HiveSinkError, match=r"delete .*/checkpoint.* in the table|in the table: delete /checkpoint"):
        judge(LAST, coming(0, 0, 60, "new"), history_policy, "/log", raw=True)


def test_a_foreign_history_found_with_a_batch_names_its_checkpoint() -> None:
    with pytest.raises(ForeignHistory, match=r"query new's checkpoint /other/checkpoint \("):
        judge(LAST, batch(0, 50, 60, "new"), NONE, "/log", raw=True, checkpoint="/other/checkpoint")


def test_a_checkpoint_that_starts_at_the_logs_end_may_stay() -> None:
    with pytest.raises(ForeignHistory) as told:
        judge(LAST, coming(0, 50, 60, "new"), NONE, "/log", raw=True)
    assert "delete" not in str(told.value)


@pytest.mark.parametrize(
    ("own", "held", "trimmed", "number", "want"),
    [
        # A renamed writer, killed before Spark committed its batch; one that was committed; and the old name again.
        (None, {0, 3}, False, 3, True),
        (None, {3}, True, 3, True),
        (None, {0, 3}, False, 4, False),
        (1, {2}, False, 2, True),
        (1, {2, 3}, False, 3, True),
        (1, {2}, False, 3, False),
        # The names alternate.
        (2, {1, 3}, False, 3, True),
        # The other log no longer holds its first manifests.
        (1, {9}, True, 9, True),
        (1, {9}, True, 10, False),
        # Two sinks of one query, one of them a batch behind.
        (2, {0, 1, 2, 3}, False, 3, False),
        (2, {3}, True, 3, False),
        (3, {3}, False, 3, False),
    ],
)
def test_whose_batch_it_is(own: int | None, held: set[int], trimmed: bool, number: int, want: bool) -> None:
    def history(writer: str, log: str, batches: set[int], *, cut: bool) -> QueryHistory:
        newest = LastBatch(Epoch(1), batch(max(batches), 0, 1))
        return QueryHistory(writer, log, newest, lambda: frozenset(map(BatchId, batches)), trimmed=cut)

    others = history("b", "/b", held, cut=trimmed)
    # Of several logs of one writer, the newest batch counts: a reset has put the others aside.
    mine = [] if own is None else [history("a", "/a", {own}, cut=True), history("a", "/a.reset", {0}, cut=False)]
    assert wrote_instead("a", [*mine, others], BatchId(number)) == (others if want else None)
    assert wrote_instead("a", [*mine, others], BatchId(number), beside={"b"}) is None
