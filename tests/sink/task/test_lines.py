"""The numbers of lines: how many are before a block, and which rows have none."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivesink.core.table import Column, Primitive
from hivesink.errors import StoreUnavailable, Unsupported
from hivesink.sink.task.messages import InputShape
from hivesink.sink.task.route import LineNumbers, lines_before
from hivesink.storage.rename_store import RenameFileStore
from tests.inmemory.filesystem import MemoryFileSystem
from tests.sink.task.taskrun import Run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CONTENT = b"1\n2\r\n3\r4\n5\n6\n"
Row = tuple[str, int]


def source(path: str) -> BinaryIO:
    assert path in {"file:/in/a b", "file:/in/c", "file:/in/d.bz2"}
    return io.BytesIO(CONTENT)


def numbers(open_source: Callable[[str], BinaryIO] = source, options: dict[str, str] | None = None) -> LineNumbers:
    columns = (Column("id", Primitive.INT), Column("n", Primitive.BIGINT))
    shape = InputShape(value="value", path="_path", block="_block")
    run = Run(RenameFileStore(MemoryFileSystem()), "/w/t", columns, options=options or {}, shape=shape)
    return LineNumbers(run.plan, open_source)


def batch(rows: Sequence[Row]) -> pa.RecordBatch:
    paths, blocks = [path for path, _ in rows], [block for _, block in rows]
    return pa.RecordBatch.from_pydict({"_path": pa.array(paths, pa.string()), "_block": pa.array(blocks, pa.int64())})


def lines(rows: Sequence[Row], size: int = 2, made: LineNumbers | None = None) -> list[int | None]:
    """The line of each row, where they come in batches of `size`."""
    of = made or numbers()
    found = []
    for at in range(0, len(rows), size):
        some = of.follow(batch(rows[at : at + size]))
        found += of.of(some).to_pylist()
    return found


A, C = "file:/in/a%20b", "file:/in/c"
WHOLE = [(A, 0), (A, 0), (A, 0), (C, 5), (C, 5), (A, 5), (C, 0)]


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_rows_are_counted_from_their_block_and_blocks_from_the_file(size: int) -> None:
    # The line that begins at byte 5 is of the block before.
    assert lines(WHOLE, size) == [1, 2, 3, 4, 5, 4, 1]


def test_rows_that_were_followed_before_they_were_moved() -> None:
    followed = numbers().follow(batch(WHOLE))
    moved = followed.take(pa.array([4, 0, 6, 2]))
    second = numbers()
    assert second.of(second.follow(moved)).to_pylist() == [5, 1, 1, 3]


def test_what_can_not_be_read_again_has_no_number_and_is_asked_for_once() -> None:
    asked = []

    def away(path: str) -> BinaryIO:
        asked.append(path)
        raise StoreUnavailable(action="read", path=path, reason="no answer")

    assert lines(WHOLE, made=numbers(away)) == [1, 2, 3, None, None, None, 1]
    assert len(asked) == 2
    packed = "file:/in/d.bz2"
    assert lines([(packed, 0), (packed, 5)]) == [1, None]
    assert lines([(A, 0), (A, 1 << 31)]) == [1, None]


def test_numbers_that_the_stream_has_already() -> None:
    own = pa.RecordBatch.from_pydict({"_path": pa.array([A]), "_line": pa.array([7], pa.int64())})
    shape = InputShape(value="value", path="_path", line="_line")
    made = LineNumbers(replace(numbers().plan, shape=shape), source)
    assert made.of(made.follow(own)).to_pylist() == [7]


NUMBERED = {"sink.column.n.from": "file.line"}


@pytest.mark.parametrize("size", [1, 2, 7])
def test_a_column_of_numbers(size: int) -> None:
    made = numbers(options=NUMBERED)
    found = []
    for at in range(0, len(WHOLE), size):
        found += made.numbered(made.follow(batch(WHOLE[at : at + size]))).column("_line").to_pylist()
    assert found == [1, 2, 3, 4, 5, 4, 1]
    none = made.numbered(made.follow(batch([])))
    assert none.schema.field("_line").type == pa.int64()


def test_a_column_of_numbers_that_nobody_knows() -> None:
    def gone(path: str) -> BinaryIO:
        raise StoreUnavailable(action="read", path=path, reason="it is not there")

    made = numbers(gone, NUMBERED)
    with pytest.raises(StoreUnavailable, match=r"/in/(c|a b): it is not there"):
        made.numbered(made.follow(batch(WHOLE)))
    made = numbers(options=NUMBERED)
    with pytest.raises(
        Unsupported, match=r"numbering the lines of /in/d\.bz2 is not supported: Spark reads bzip2 in blocks"
    ):
        made.numbered(made.follow(batch([("file:/in/d.bz2", 5)])))


class Slow(io.BytesIO):
    """Gives some bytes at a time."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(size if size and size > 0 else 3, 3))


@given(st.lists(st.sampled_from([b"a", b"\r", b"\n", b"\r\n", b"xyz"]), min_size=2).map(b"".join), st.data())
def test_lines_before_a_block(content: bytes, data: st.DataObject) -> None:
    block = data.draw(st.integers(1, len(content)))
    ends = [found.end() for found in re.finditer(rb"\r\n|\r|\n", content)]
    begins = [0, *ends]
    for stream in (io.BytesIO(content), Slow(content)):
        assert lines_before(stream, block) == sum(begin <= block for begin in begins)
