"""What a file batch has read already, and whose batch it is where a writer was renamed."""

from __future__ import annotations

import pytest

from hivesink.core.epoch import BatchId, BatchRef, Epoch, LastBatch, QueryHistory, read_before, wrote_instead
from hivesink.core.offsets import FilesOffset, NoOffset


def files(counter: int, paths: str = "") -> tuple[FilesOffset]:
    return (FilesOffset.of(counter, tuple((counter, path) for path in paths)),)


FILES = LastBatch(Epoch(8), BatchRef("q", BatchId(4), files(0), files(1, "ab")))


@pytest.mark.parametrize(
    ("query", "number", "end", "read"),
    [
        ("q", 4, (FilesOffset.of(2, ((1, "b"), (1, "a"), (2, "c"))),), ("b", "a")),
        # Planned anew by an older checkpoint: the oldest files first, or the newest (latestFirst).
        ("q", 4, files(1, "abc"), ("a", "b")),
        ("q", 4, files(1, "cab"), ("a", "b")),
        # Not just the logged ones.
        ("q", 4, (FilesOffset.of(2, ((1, "a"), (1, "c"))),), ()),
        # Of a later batch, or of another query, the same names are new files.
        ("q", 5, files(1, "abc"), ()),
        ("p", 4, files(1, "abc"), ()),
    ],
)
def test_the_files_of_a_batch_that_were_read_before(
    query: str, number: int, end: tuple[FilesOffset], read: tuple[str, ...]
) -> None:
    again = BatchRef(query, BatchId(number), files(0), end)
    assert read_before(FILES, again) == read
    assert read_before(None, again) == ()


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
        newest = LastBatch(Epoch(1), BatchRef("q", BatchId(max(batches)), (NoOffset(),), (NoOffset(),)))
        return QueryHistory(writer, log, newest, lambda: frozenset(map(BatchId, batches)), trimmed=cut)

    others = history("b", "/b", held, cut=trimmed)
    # Of several logs of one writer, the newest batch counts: a reset has put the others aside.
    mine = [] if own is None else [history("a", "/a", {own}, cut=True), history("a", "/a.reset", {0}, cut=False)]
    assert wrote_instead("a", [*mine, others], BatchId(number)) == (others if want else None)
    assert wrote_instead("a", [*mine, others], BatchId(number), beside={"b"}) is None
