"""The number of a row's line in its file, from the block that Spark read it in.

Spark counts no lines. A task that gets each row of its blocks, in order, counts them from the beginning of a block; how
many lines are before the block, another look at the file tells. Only where that holds has the plan's shape a `block`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hivesink.core.column_source import LINE, Metadata, named_file
from hivesink.errors import HiveSinkError, Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from hivesink.sink.task.messages import TaskPlan

ROW = "hivesink row"
"""The name of a column that no stream has."""
_FARTHEST = 1 << 30
"""Bytes of a file that are read again for the line of a bad record. A file may have bad records in every block."""
_CHUNK = 4 << 20
_SPLIT_WHILE_PACKED = ".bz2"
"""Hadoop reads other packed files as a block each."""


@dataclass(slots=True)
class LineNumbers:
    """Follows the batches of a task, or those that another task has followed before they were moved."""

    plan: TaskPlan
    open: Callable[[str], BinaryIO]
    """Opens a file of the source, to read. Raises StoreUnavailable, Unsupported."""
    _block: tuple[str | None, int] | None = None
    """Path and beginning of the newest row's block."""
    _rows: int = 0
    """How many rows of it have come."""
    _before: dict[tuple[str, int], int | None] = field(default_factory=dict)
    """By block, the lines before it; None: nobody can tell."""

    def follow(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """`batch` with a last column `ROW`, the rows of its block before each row, unless it has that already."""
        if self.plan.shape.block not in batch.schema.names or ROW in batch.schema.names:
            return batch
        paths, blocks = self._places(batch)
        rows = np.arange(batch.num_rows)
        if len(rows):
            begins = np.empty(len(rows), bool)
            begins[0] = (paths[0].as_py(), int(blocks[0])) != self._block
            begins[1:] = np.asarray(pc.not_equal(paths[1:], paths[:-1])) | (np.diff(blocks) != 0)
            firsts = np.concatenate([[-self._rows], np.flatnonzero(begins)])
            rows -= firsts[np.cumsum(begins)]
            self._block, self._rows = (paths[-1].as_py(), int(blocks[-1])), int(rows[-1]) + 1
        return pa.RecordBatch.from_arrays([*batch.columns, pa.array(rows)], [*batch.schema.names, ROW])

    def of(self, followed: pa.RecordBatch, row: int) -> int | None:
        """The line of that row, from 1; None where nobody knows, or its file can't be read again."""
        shape, names = self.plan.shape, followed.schema.names
        if shape.line in names:
            given: int | None = followed.column(names.index(shape.line))[row].as_py()
            return given
        if shape.block not in names:
            return None
        paths, blocks = self._places(followed)
        if blocks[row] > _FARTHEST:
            return None
        block = paths[row].as_py(), int(blocks[row])
        if block not in self._before:
            try:
                self._before[block] = self._lines_before(*block)
            except (HiveSinkError, OSError):
                # The record counts, with or without its line; and a server that is away is asked once.
                self._before[block] = None
        before, inside = self._before[block], int(followed.column(names.index(ROW))[row].as_py())
        return None if before is None else before + inside + 1

    def numbered(self, followed: pa.RecordBatch) -> pa.RecordBatch:
        """`followed` with a column `LINE`, where a column of the table comes from it.

        Raises Unsupported, StoreUnavailable where a file can't be read again.
        """
        names = followed.schema.names
        if self.plan.shape.block not in names or Metadata.LINE not in self.plan.config.sources.values():
            return followed
        paths, blocks = self._places(followed)
        files = paths.dictionary_encode()
        codes, numbers = np.asarray(files.indices), np.asarray(followed.column(names.index(ROW))) + 1
        for code, block in set(zip(codes.tolist(), blocks.tolist(), strict=True)):
            path = files.dictionary[code].as_py()
            before = self._before.get((path, block))
            if before is None:
                before = self._before[path, block] = self._lines_before(path, block)
            numbers[(codes == code) & (blocks == block)] += before
        return pa.RecordBatch.from_arrays([*followed.columns, pa.array(numbers)], [*names, LINE])

    def _places(self, batch: pa.RecordBatch) -> tuple[pa.Array, NDArray[np.int64]]:
        names, shape = batch.schema.names, self.plan.shape
        return batch.column(names.index(shape.path)), np.asarray(batch.column(names.index(shape.block)))

    def _lines_before(self, path: str, block: int) -> int:
        """How many lines of the file are in earlier blocks. Raises what `open` raises; Unsupported."""
        if not block:
            return 0
        if path.endswith(_SPLIT_WHILE_PACKED):
            msg = f"numbering the lines of {named_file(path)}"
            raise Unsupported(msg, "Spark reads bzip2 in blocks", "pack it with gzip, or drop the setting file.line")
        with self.open(unquote(path)) as stream:
            return lines_before(stream, block)


def lines_before(stream: BinaryIO, block: int) -> int:
    """How many lines of a file Hadoop reads in the blocks before the block that begins at `block` (bytes, not 0).

    A block has the lines that begin after its first byte and not after the next block's (LineRecordReader). Lines end
    with CR, LF or both.
    """
    ends, left, last = 0, block, b""
    while left:
        chunk = stream.read(min(left, _CHUNK))
        if not chunk:
            break
        ends += chunk.count(b"\n") + chunk.count(b"\r") - chunk.count(b"\r\n")
        ends -= last == b"\r" and chunk[:1] == b"\n"
        left, last = left - len(chunk), chunk[-1:]
    # A line that ends with both ends after the second.
    ends -= last == b"\r" and stream.read(1) == b"\n"
    return ends + 1
