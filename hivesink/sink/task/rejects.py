"""Dead letters: the table `<table>__rejected`, and where a bad record came from.

The table is partitioned by `dt`, the UTC day on which the batch arrived, so that it can be kept for a while and
dropped by day.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import types

from hivesink.core.table import Column, Primitive, TableName, TableSpec

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from hivesink.sink.task.messages import InputShape

_SHOWN = 80
"""Bytes of a record that an error shows."""

_COLUMNS = (
    Column("value", Primitive.BINARY, "the record as it came"),
    Column("field", Primitive.STRING, "the column that it doesn't fit, null for the whole record"),
    Column("reason", Primitive.STRING, "why it doesn't fit"),
    Column("topic", Primitive.STRING, "Kafka topic"),
    Column("partition_id", Primitive.INT, "Kafka partition"),
    Column("record_offset", Primitive.BIGINT, "Kafka offset"),
    Column("source", Primitive.STRING, "the file that it came from"),
    Column("arrived_at", Primitive.TIMESTAMP, "the batch's arrival, UTC"),
)

_SCHEMA = pa.schema(
    [
        pa.field("value", pa.binary()),
        pa.field("field", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("topic", pa.string()),
        pa.field("partition_id", pa.int32()),
        pa.field("record_offset", pa.int64()),
        pa.field("source", pa.string()),
        pa.field("arrived_at", pa.timestamp("us")),
    ]
)


@dataclass(frozen=True, slots=True)
class Problem:
    """An input row that doesn't fit the table."""

    row: int
    field: str | None
    reason: str


def rejected_spec(table: TableName, location: str | None, *, external: bool) -> TableSpec:
    """The dead-letter table that goes with `table`."""
    return TableSpec(
        name=table.rejected,
        columns=_COLUMNS,
        partition_columns=(Column("dt", Primitive.STRING, "the UTC day of arrival, yyyy-MM-dd"),),
        location=location,
        comment=f"records that did not fit {table}",
        external=external,
        properties=(("discover.partitions", "false"),),
    )


def position(batch: pa.RecordBatch, shape: InputShape, row: int) -> str:
    """Where a record came from, for people."""
    topic, partition, offset, path = _source(batch, shape, row)
    if partition is not None:
        return f"topic {topic} partition {partition} offset {offset}"
    return f"{path or 'the stream'}: {_shown(_value(batch, shape, row))}"


def rejected_rows(
    batch: pa.RecordBatch, shape: InputShape, problems: Sequence[Problem], arrival: datetime
) -> tuple[pa.Table, str]:
    """Rows of the dead-letter table for `problems`, and their partition."""
    rows = []
    for problem in problems:
        topic, partition, offset, path = _source(batch, shape, problem.row)
        rows.append(
            {
                "value": _value(batch, shape, problem.row),
                "field": problem.field,
                "reason": problem.reason,
                "topic": topic,
                "partition_id": partition,
                "record_offset": offset,
                "source": path,
                "arrived_at": arrival.replace(tzinfo=None),
            }
        )
    return pa.Table.from_pylist(rows, schema=_SCHEMA), f"dt={arrival:%Y-%m-%d}"


def _source(batch: pa.RecordBatch, shape: InputShape, row: int) -> tuple[Any, Any, Any, Any]:
    def at(name: str | None) -> Any:
        # A stream that is asked only for what its rows need has no position.
        place = -1 if name is None else batch.schema.get_field_index(name)
        return None if place < 0 else _plain(batch.column(place)[row], "replace")

    return shape.topic_name or at(shape.topic), at(shape.partition), at(shape.offset), at(shape.path)


def _value(batch: pa.RecordBatch, shape: InputShape, row: int) -> bytes | None:
    """The raw record; of a decoded one, its columns as JSON, in which each text has the bytes that it came with."""
    if shape.value is not None:
        return _octets(batch.column(batch.schema.get_field_index(shape.value))[row])
    cells = zip(batch.schema.names, batch.columns, strict=True)
    record = {name: _plain(column[row], "surrogateescape") for name, column in cells}
    return json.dumps(record, default=str, ensure_ascii=False).encode("utf-8", "surrogateescape")


def _octets(cell: pa.Scalar) -> bytes | None:
    # Not `as_py`: Spark reads lines as they are, so a text may hold any bytes.
    return cell.as_buffer().to_pybytes() if cell.is_valid else None


def _plain(cell: pa.Scalar, errors: str) -> Any:  # noqa: PLR0911  one a type
    """The value in Python's own types; `errors` says what becomes of bytes that aren't UTF-8."""
    kind = cell.type
    if not cell.is_valid:
        return None
    if types.is_string(kind) or types.is_large_string(kind):
        return (_octets(cell) or b"").decode("utf-8", errors)
    if types.is_struct(kind):
        return {kind.field(place).name: _plain(cell[place], errors) for place in range(kind.num_fields)}
    if types.is_map(kind):
        return [(_plain(entry["key"], errors), _plain(entry["value"], errors)) for entry in cell.values]
    if types.is_list(kind) or types.is_large_list(kind):
        return [_plain(item, errors) for item in cell.values]
    try:
        return cell.as_py()
    except (OverflowError, ValueError):
        # A time that Python has no figure for, beyond the years 1 to 9999.
        return f"{cell.value} {kind}"


def _shown(value: bytes | None) -> str:
    text = "null" if value is None else value[:_SHOWN].decode("utf-8", "replace")
    return text if value is None or len(value) <= _SHOWN else f"{text}…"
