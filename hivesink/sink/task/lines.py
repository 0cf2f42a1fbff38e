"""The number of a row's line in its file, from the block that Spark read it in.

Spark counts no lines. A task that gets each row of its blocks, in order, counts them from the beginning of a block; how
many lines are before the block, another look at the file tells. `places_of` says whether a stream's tasks do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from hivesink.core.column_source import Metadata
from hivesink.errors import HiveSinkError, StoreUnavailable, Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable

    from hivesink.sink.task.messages import TaskPlan

_FARTHEST = 1 << 30
"""Bytes of a file that are read again for the line of a bad record. A file may have bad records in every block."""
_CHUNK = 4 << 20
_SPLIT_WHILE_PACKED = ".bz2"
"""Hadoop reads other packed files as one block each."""


@dataclass(slots=True)
class LineNumbers:
    """Follows the batches of one task. `routed`: another task has followed the rows before they were moved."""

    plan: TaskPlan
    open: Callable[[str], BinaryIO]
    """Opens a file of the source, to read. May raise HiveSinkError, OSError."""
    routed: bool = False
    _block: tuple[str | None, int] | None = None
    """Path and beginning of the newest row's block."""
    _rows: int = 0
    """How many rows of it have come."""
    _before: dict[tuple[str, int], int] = field(default_factory=dict)

    def follow(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """`batch` with each row's number counted from the beginning of its block, from 0, as `row` of its place."""
        at = self._column(batch)
        if at is None or self.routed or not batch.num_rows or not types.is_struct(batch.schema.field(at).type):
            return batch
        paths, blocks, own = self._paths(batch), np.asarray(batch.column(at).field("block")), batch.schema.field(at)
        begins = np.empty(batch.num_rows, bool)
        begins[0] = (paths[0].as_py(), int(blocks[0])) != self._block
        begins[1:] = np.asarray(pc.not_equal(paths[1:], paths[:-1])) | (np.diff(blocks) != 0)
        numbers = np.arange(batch.num_rows)
        firsts = np.concatenate([[-self._rows], np.flatnonzero(begins)])
        rows = numbers - firsts[np.cumsum(begins)]
        self._block, self._rows = (paths[-1].as_py(), int(blocks[-1])), int(rows[-1]) + 1
        both = pa.array(blocks), pa.array(rows)
        return batch.set_column(at, own, pa.StructArray.from_arrays(both, fields=list(own.type)))

    def of(self, followed: pa.RecordBatch, row: int) -> int | None:
        """The line of that row, from 1; None where nobody knows, or its file can't be read again."""
        at = self._column(followed)
        found: int | dict[str, int] | None = None if at is None else followed.column(at)[row].as_py()
        if not isinstance(found, dict):
            return found
        if found["block"] > _FARTHEST:
            return None
        try:
            return self._lines_before(self._paths(followed)[row].as_py(), found["block"]) + found["row"] + 1
        except (HiveSinkError, OSError):
            # The record counts, with or without its line.
            return None

    def numbered(self, followed: pa.RecordBatch) -> pa.RecordBatch:
        """`followed` with the number of each row's line, where a column of the table needs it.

        Raises Unsupported, StoreUnavailable where a file can't be read again.
        """
        at = self._column(followed)
        is_wanted = Metadata.LINE in self.plan.config.sources.values()
        if not is_wanted or at is None or not types.is_struct(followed.schema.field(at).type):
            return followed
        paths, place = self._paths(followed).dictionary_encode(), followed.column(at)
        codes, blocks = np.asarray(paths.indices), np.asarray(place.field("block"))
        numbers = np.asarray(place.field("row")) + 1
        for code, block in set(zip(codes.tolist(), blocks.tolist(), strict=True)):
            numbers[(codes == code) & (blocks == block)] += self._required(paths.dictionary[code].as_py(), block)
        return followed.set_column(at, pa.field(followed.schema.field(at).name, pa.int64()), pa.array(numbers))

    def _required(self, path: str, block: int) -> int:
        try:
            return self._lines_before(path, block)
        except FileNotFoundError as error:
            raise StoreUnavailable(action="count the lines of", path=path, reason="it is gone") from error

    def _column(self, batch: pa.RecordBatch) -> int | None:
        name = self.plan.shape.line
        at = -1 if name is None else batch.schema.get_field_index(name)
        return None if at < 0 else at

    def _paths(self, batch: pa.RecordBatch) -> pa.Array:
        return batch.column(batch.schema.get_field_index(self.plan.shape.path))

    def _lines_before(self, path: str, block: int) -> int:
        """How many lines of the file are in earlier blocks. Raises what `open` raises; Unsupported."""
        if not block:
            return 0
        if path.endswith(_SPLIT_WHILE_PACKED):
            msg = f"numbering the lines of {path}"
            raise Unsupported(msg, "Spark reads bzip2 in blocks", "pack it with gzip, or drop the setting file.line")
        if (path, block) not in self._before:
            with self.open(unquote(path)) as stream:
                self._before[path, block] = lines_before(stream, block)
        return self._before[path, block]


def lines_before(stream: BinaryIO, block: int) -> int:
    """How many lines of a file Hadoop reads in the blocks before the one that begins at `block` (bytes, not 0).

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
    # A line that ends with both ends after the second one.
    ends -= last == b"\r" and stream.read(1) == b"\n"
    return ends + 1
