"""What a file batch has read already, and whose batch it is where a writer was renamed."""

from __future__ import annotations

import pytest

from hivesink.core.epoch import BatchId, BatchRef, Epoch, LastBatch, read_before
from hivesink.core.offsets import FilesOffset


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
