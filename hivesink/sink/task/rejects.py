"""Dead letters: the table `<table>__rejected`, by day so that old ones can be dropped, and where a record came from."""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import replace
from itertools import islice
from math import isfinite
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import types

from hivesink.core.column_source import LINE, PATH, ROW, named_file, stream_column
from hivesink.core.table import Array, Column, Primitive, Struct, TableName, TableSpec
from hivesink.errors import Unsupported
from hivesink.sink.task.assign import row_columns
from hivesink.sink.task.messages import InputShape

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hivesink.config.options import SinkConfig
    from hivesink.ports import BadRow
    from hivesink.sink.task.messages import TaskPlan

_SHOWN = 80
"""Bytes of a record that an error shows."""

_POSITION = ("topic", "partition", "offset")
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_COLUMNS = (
    ("value", Primitive.BINARY, pa.binary(), "the record as it came"),
    ("field", Primitive.STRING, pa.string(), "the column that it doesn't fit, null for the whole record"),
    ("reason", Primitive.STRING, pa.string(), "why it doesn't fit"),
    ("topic", Primitive.STRING, pa.string(), "Kafka topic"),
    ("partition_id", Primitive.INT, pa.int32(), "Kafka partition"),
    ("record_offset", Primitive.BIGINT, pa.int64(), "Kafka offset"),
    ("source", Primitive.STRING, pa.string(), "the file that it came from"),
    ("arrived_at", Primitive.TIMESTAMP, pa.timestamp("us"), "the batch's arrival, UTC"),
    ("id", Primitive.STRING, pa.string(), "names the record"),
    ("record_key", Primitive.BINARY, pa.binary(), "Kafka's key, where the table has a column of it"),
    ("record_time", Primitive.TIMESTAMP, pa.timestamp("us"), "Kafka's timestamp, UTC, where the table needs it"),
    (
        "headers",
        Array(Struct((("key", Primitive.STRING), ("value", Primitive.BINARY)))),
        _HEADERS,
        "Kafka's headers, where the table has a column of them",
    ),
    ("line", Primitive.BIGINT, pa.int64(), "its line in the file, from 1, where that is known"),
)
STREAM = InputShape(
    value="value",
    timestamp="timestamp",
    topic="topic",
    partition="partition",
    offset="offset",
    path=PATH,
    line=LINE,
)
"""What `as_stream` makes of dead letters."""
KEPT = {
    "key": "record_key",
    "timestamp": "record_time",
    "topic": "topic",
    "partition": "partition_id",
    "offset": "record_offset",
    "headers": "headers",
    PATH: "source",
    LINE: "line",
}
"""Columns of a stream beside its records, and where dead letters have them."""

SCHEMA = pa.schema([(name, arrow) for name, _, arrow, _ in _COLUMNS])


def rejected_spec(table: TableName, location: str | None, *, external: bool) -> TableSpec:
    """The dead-letter table that goes with `table`."""
    return TableSpec(
        name=table.rejected,
        columns=tuple(Column(name, kind, comment) for name, kind, _, comment in _COLUMNS),
        partition_columns=(Column("dt", Primitive.STRING, "the UTC day of arrival, yyyy-MM-dd"),),
        location=location,
        comment=f"records that did not fit {table}",
        external=external,
        properties=(("discover.partitions", "false"),),
    )


def columns_of(table: TableSpec) -> tuple[Column, ...]:
    """The columns of dead letters. Raises Unsupported for a table that has not all of them, so is none."""
    own = rejected_spec(table.name, None, external=False)
    missing = [*_missing(own.columns, table.columns), *_missing(own.partition_columns, table.partition_columns)]
    if missing or len(table.partition_columns) != len(own.partition_columns):
        why = f"it lacks {', '.join(missing)}" if missing else "it isn't partitioned by dt alone"
        what = f"{table.name}, which exists and is no dead-letter table of hivesink's ({why}),"
        way = "rename it (ALTER TABLE … RENAME TO …): the job's start, or `hivesink recover`, creates it again and "
        raise Unsupported(what, "bad records are written there", f"{way}publishes what waits for it")
    return own.columns


def _missing(needed: Iterable[Column], there: Iterable[Column]) -> list[str]:
    kinds = {column.name: column.type for column in there}
    return [f"{column.name} {column.type}" for column in needed if kinds.get(column.name) != column.type]


def position(batch: pa.RecordBatch, shape: InputShape, row: int, line: int | None) -> str:
    """Where a record came from, for error messages; `line` is that of its file."""
    topic, partition, offset, path = _source(batch, shape, row)
    if partition is not None:
        return f"topic {topic} partition {partition} offset {offset}"
    there = named_file(path) if path else "the stream"
    return f"{there if line is None else f'{there} line {line}'}: {_shown(_value(batch, shape, row))}"


def rejected_rows(
    batch: pa.RecordBatch, plan: TaskPlan, bad: Sequence[BadRow], lines: Sequence[int | None], ids: Iterator[str]
) -> tuple[pa.Table, str]:
    """Rows of the dead-letter table for the `bad` rows of `batch`, and their partition.

    `lines` has the line of each in its file; each gets the next of `ids`.
    """
    arrival, shape, kafkas = plan.arrival, plan.shape, _kafkas(plan)
    if not shape.is_raw:
        # Rows of the table may be made of it.
        kept = {name: name if name in kafkas else None for name in _POSITION}
        shape = replace(shape, topic=kept["topic"], partition=kept["partition"], offset=kept["offset"])
    rows = batch.take(pa.array([row.index for row in bad], pa.int64()))
    key, time, headers = (_cells(rows, name if name in kafkas else None) for name in ("key", "timestamp", "headers"))
    cells = {
        "value": _cells(rows, shape.value) if shape.value else [_value(rows, shape, row) for row in range(len(bad))],
        "field": [row.field for row in bad],
        "reason": [row.reason for row in bad],
        "topic": [shape.topic_name] * len(bad) if shape.topic_name else _texts(_cells(rows, shape.topic)),
        "partition_id": _cells(rows, shape.partition),
        "record_offset": _cells(rows, shape.offset),
        "source": _texts(_cells(rows, shape.path)),
        "arrived_at": [arrival.replace(tzinfo=None)] * len(bad),
        "id": list(islice(ids, len(bad))),
        "record_key": key,
        # Without its zone, an instant is its wall clock in UTC. What has no zone is no instant.
        "record_time": time.cast(pa.timestamp("us")) if getattr(time.type, "tz", None) else pa.nulls(len(bad)),
        "headers": headers,
        "line": list(lines),
    }
    return pa.Table.from_pydict(cells, schema=SCHEMA), f"dt={arrival:%Y-%m-%d}"


def as_stream(rows: pa.RecordBatch, mended: Mapping[str, bytes | None]) -> pa.RecordBatch:
    """The records of dead letters as the stream had them, in the columns of `STREAM`; `mended` has values by id."""
    values = rows.column("value")
    if mended:
        both = zip(rows.column("id").to_pylist(), values.to_pylist(), strict=True)
        values = pa.array([mended.get(letter, value) for letter, value in both], pa.binary())
    # Times without a zone are UTC here.
    time = rows.column("record_time").cast(pa.timestamp("us", "UTC"))
    kept = {name: rows.column(column) for name, column in KEPT.items()}
    return pa.RecordBatch.from_pydict({**kept, "value": values, "timestamp": time})


def beside_records(spec: TableSpec, config: SinkConfig) -> frozenset[str]:
    """The stream's columns, beside those of the records themselves, that rows of the table are made of."""
    names = {column[0] for source in config.sources.values() if (column := stream_column(source))}
    own = {column.name for column in row_columns(spec, config)}
    return frozenset(names | ({config["sink.bucket.time-column"]} & {"timestamp"} - own))


def _kafkas(plan: TaskPlan) -> frozenset[str]:
    """The stream's columns that are Kafka's: of decoded rows only those that the table needs."""
    if plan.shape.is_raw:
        return frozenset({"key", "timestamp", "headers"})
    return beside_records(plan.target.spec, plan.config)


def _cells(rows: pa.RecordBatch, name: str | None) -> pa.Array:
    """A column, nulls where there is none. Texts are bytes: Spark reads lines as they are."""
    # A stream that is asked only for what its rows need has no position.
    at = -1 if name is None else rows.schema.get_field_index(name)
    cells = pa.nulls(rows.num_rows) if at < 0 else rows.column(at)
    if types.is_large_string(cells.type):
        return cells.view(pa.large_binary())
    return cells.view(pa.binary()) if types.is_string(cells.type) else cells


def _texts(cells: pa.Array) -> list[str | None]:
    return [None if cell is None else cell.decode("utf-8", "replace") for cell in cells.to_pylist()]


def _source(batch: pa.RecordBatch, shape: InputShape, row: int) -> tuple[Any, Any, Any, Any]:
    def at(name: str | None) -> Any:
        # A stream that is asked only for what its rows need has no position.
        column = -1 if name is None else batch.schema.get_field_index(name)
        return None if column < 0 else _plain(batch.column(column)[row], "replace")

    return shape.topic_name or at(shape.topic), at(shape.partition), at(shape.offset), at(shape.path)


def _value(batch: pa.RecordBatch, shape: InputShape, row: int) -> bytes | None:
    """The raw record; for a decoded one its columns as JSON, where each text keeps the bytes it came with."""
    if shape.value is not None:
        return _octets(batch.column(batch.schema.get_field_index(shape.value))[row])
    cells = zip(batch.schema.names, batch.columns, strict=True)
    record = {name: _plain(column[row], "surrogateescape") for name, column in cells if name not in {shape.block, ROW}}
    return json.dumps(record, default=_text, ensure_ascii=False).encode("utf-8", "surrogateescape")


def _key(value: Any) -> str:
    """The name of a field, as the decoder reads it for the key of a map."""
    return str(value).lower() if isinstance(value, bool) else _text(value)


def _text(cell: Any) -> str:
    """As the decoder reads it: BINARY as base64."""
    return b64encode(cell).decode() if isinstance(cell, bytes) else str(cell)


def _octets(cell: pa.Scalar) -> bytes | None:
    # Not `as_py`: Spark reads lines as they are, so text may hold any bytes.
    return cell.as_buffer().to_pybytes() if cell.is_valid else None


def _plain(cell: pa.Scalar, errors: str) -> Any:  # noqa: PLR0911  one per type
    """The value in Python's own types; `errors` is how bytes that aren't UTF-8 are decoded."""
    kind = cell.type
    if not cell.is_valid:
        return None
    if types.is_string(kind) or types.is_large_string(kind):
        return (_octets(cell) or b"").decode("utf-8", errors)
    if types.is_struct(kind):
        return {kind.field(at).name: _plain(cell[at], errors) for at in range(kind.num_fields)}
    if types.is_map(kind):
        return {_key(_plain(entry["key"], errors)): _plain(entry["value"], errors) for entry in cell.values}
    if types.is_list(kind) or types.is_large_list(kind):
        return [_plain(item, errors) for item in cell.values]
    try:
        if types.is_timestamp(kind) and kind.tz is not None:
            # Some zones had offsets with seconds, which no decoder reads.
            return cell.cast(pa.timestamp(kind.unit, "UTC")).as_py()
        value = cell.as_py()
        # JSON has no such number.
        return str(value) if isinstance(value, float) and not isfinite(value) else value
    except (OverflowError, ValueError):
        # A time outside the years 1 to 9999, which Python can't hold.
        return f"{cell.value} {kind}"


def _shown(value: bytes | None) -> str:
    if value is not None and not value.strip():
        return "an empty line"
    text = "null" if value is None else value[:_SHOWN].decode("utf-8", "replace")
    return text if value is None or len(value) <= _SHOWN else f"{text}…"
