"""Dead letters: the table `<table>__rejected`, by day so that old ones can be dropped, and where a record came from."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, islice
from math import isfinite
from typing import Any

import pyarrow as pa
from pyarrow import types

from hivesink.config.options import SinkConfig
from hivesink.core.column_source import ELEMENT, PATH, RECORD, ROW, named_file, stream_column
from hivesink.core.table import Array, Column, Primitive, Struct, TableName, TableSpec
from hivesink.errors import Unsupported
from hivesink.ports.rows import BadRow
from hivesink.sink.task.assign import row_columns
from hivesink.sink.task.messages import InputShape, TaskPlan

_SHOWN = 80
"""Bytes of a record that an error shows."""
_MOST_TIMES = 16
"""How much longer a record's letters may be than one letter of all."""

_POSITION = ("topic", "partition", "offset")
_HEADERS = Array(Struct((("key", Primitive.STRING), ("value", Primitive.BINARY))))
_HEADERS_IN_ARROW = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_ELEMENT, SCHEMA_OF = "element", "schema_id"
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
    ("headers", _HEADERS, _HEADERS_IN_ARROW, "Kafka's headers, where the table has a column of them"),
    ("line", Primitive.BIGINT, pa.int64(), "its line in the file, from 1, where that is known"),
    (
        _ELEMENT,
        Primitive.BIGINT,
        pa.int64(),
        "its place in its record, from 0, where that holds many: value has it alone",
    ),
    (SCHEMA_OF, Primitive.STRING, pa.string(), "names the content of the schema file that it was read by"),
)
STREAM = InputShape("value", "timestamp", "topic", "partition", "offset", PATH)
"""What `as_stream` makes of dead letters."""
KEPT = {
    "key": "record_key",
    "timestamp": "record_time",
    "topic": "topic",
    "partition": "partition_id",
    "offset": "record_offset",
    "headers": "headers",
    PATH: "source",
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
    """The columns of dead letters. Raises Unsupported for a table that has not all of them, so is none.

    Only the last ones may be missing, which tables had not from the beginning.
    """
    own = rejected_spec(table.name, None, external=False)
    there = {(column.name, column.type) for column in table.columns}
    later = {_ELEMENT, SCHEMA_OF}
    columns = [column for column in own.columns if column.name not in later or (column.name, column.type) in there]
    missing = [f"{column.name} {column.type}" for column in columns if (column.name, column.type) not in there]
    if missing or [(column.name, column.type) for column in table.partition_columns] != [("dt", Primitive.STRING)]:
        why = f"it lacks {', '.join(missing)}" if missing else "it isn't partitioned by dt alone"
        what = f"{table.name}, which exists and is no dead-letter table of hivesink's ({why}),"
        way = "rename it (ALTER TABLE … RENAME TO …): the job's start, or `hivesink recover`, creates it again and "
        raise Unsupported(what, "bad records are written there", f"{way}publishes what waits for it")
    return tuple(columns)


def position(row: pa.RecordBatch, shape: InputShape, line: int | None) -> str:
    """Where a record came from, for error messages; `line` is that of its file."""
    topics, partitions, offsets, paths = _places(row, shape)
    element = _elements(row)[0]
    part = f" element {element}" if element.is_valid else ""
    if partitions[0].is_valid:
        return f"topic {topics[0]} partition {partitions[0]} offset {offsets[0]}{part}"
    where = named_file(paths[0]) if paths[0] else "the stream"
    where = f"{where}{part}" if line is None else f"{where} line {line}{part}"
    value: bytes | None = _values(row, shape)[0].as_py()
    if value is None:
        return f"{where}: null"
    shown = "an empty line" if not value.strip() else value[:_SHOWN].decode("utf-8", "replace")
    return f"{where}: {shown}{'…' if len(value) > _SHOWN and value.strip() else ''}"


def gathered(rows: pa.RecordBatch, shape: InputShape) -> tuple[pa.RecordBatch, list[int]]:
    """`rows` of the stream, one for all of a record whose letters would be too long; and which of them are left.

    Each letter of an element repeats what its record has beside the list.
    """
    if ELEMENT not in rows.schema.names:
        return rows, list(range(rows.num_rows))
    cells, left = dict(zip(rows.schema.names, rows.columns, strict=True)), list[int]()
    before, text, after = cells[shape.value or ""].flatten()
    records, numbers, texts = (column.to_pylist() for column in (cells[RECORD], cells[ELEMENT], text))
    for _, group in groupby(range(len(texts)), records.__getitem__):
        first, *others = group
        every = [texts[place] or b"" for place in (first, *others)]
        beside, alone = (
            sum(map(len, some)) for some in ([end[first].as_py() or b"" for end in (before, after)], every)
        )
        if len(every) * beside + alone > _MOST_TIMES * (beside + alone):
            texts[first], numbers[first], others = b",".join(every), None, []
        left += first, *others
    values = pa.StructArray.from_arrays([before, pa.array(texts, text.type), after], ["before", "text", "after"])
    cells |= {shape.value or "": values, ELEMENT: pa.array(numbers, pa.int64())}
    return pa.RecordBatch.from_pydict(cells).take(pa.array(left)), left


def letters(
    rows: pa.RecordBatch, plan: TaskPlan, bad: Sequence[BadRow], lines: Sequence[int | None], ids: Iterator[str]
) -> pa.Table:
    """Rows of the dead-letter table for `rows` of the stream, which are `bad`.

    `lines` has the line of each in its file; each gets the next of `ids`.
    """
    shape, kafkas = plan.shape, frozenset({"key", "timestamp", "headers"})
    if not shape.is_raw:
        # Rows of the table may be made of it.
        kafkas = beside_records(plan.target.spec, plan.config)
        kept = {name: name if name in kafkas else None for name in _POSITION}
        shape = replace(shape, topic=kept["topic"], partition=kept["partition"], offset=kept["offset"])
    key, time, headers = (_cells(rows, name if name in kafkas else None) for name in ("key", "timestamp", "headers"))
    topics, partitions, offsets, paths = _places(rows, shape)
    cells = {
        "value": _values(rows, shape),
        "field": [row.field for row in bad],
        "reason": [row.reason for row in bad],
        "topic": topics,
        "partition_id": partitions,
        "record_offset": offsets,
        "source": paths,
        "arrived_at": [plan.arrival.replace(tzinfo=None)] * len(bad),
        "id": list(islice(ids, len(bad))),
        "record_key": key,
        # Without its zone, an instant is its wall clock in UTC. What has no zone is no instant.
        "record_time": time.cast(pa.timestamp("us")) if getattr(time.type, "tz", None) else pa.nulls(len(bad)),
        "headers": headers,
        "line": list(lines),
        _ELEMENT: _elements(rows),
        SCHEMA_OF: [plan.schema] * len(bad),
    }
    return pa.Table.from_pydict(cells, schema=SCHEMA)


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


def _cells(rows: pa.RecordBatch, name: str | None) -> pa.Array:
    """A column, nulls where there is none. Texts are bytes: Spark reads lines as they are."""
    # A stream that is asked only for what its rows need has no position.
    at = -1 if name is None else rows.schema.get_field_index(name)
    cells = pa.nulls(rows.num_rows) if at < 0 else rows.column(at)
    if types.is_large_string(cells.type):
        return cells.view(pa.large_binary())
    return cells.view(pa.binary()) if types.is_string(cells.type) else cells


def _elements(rows: pa.RecordBatch) -> pa.Array:
    """Where in its record each row is; null for all of the record."""
    return rows.column(ELEMENT) if ELEMENT in rows.schema.names else pa.nulls(rows.num_rows, pa.int64())


def _places(rows: pa.RecordBatch, shape: InputShape) -> tuple[list[str | None], pa.Array, pa.Array, list[str | None]]:
    """Topic, partition, offset and file of each record."""
    topics, paths = (
        [None if cell is None else cell.decode("utf-8", "replace") for cell in _cells(rows, name).to_pylist()]
        for name in (shape.topic, shape.path)
    )
    if shape.topic_name:
        topics = [shape.topic_name] * rows.num_rows
    return topics, _cells(rows, shape.partition), _cells(rows, shape.offset), paths


def _values(rows: pa.RecordBatch, shape: InputShape) -> pa.Array:
    """The raw records; for decoded ones their columns as JSON, where each text keeps the bytes it came with."""
    if shape.value is not None:
        cells = _cells(rows, shape.value)
        if types.is_struct(cells.type):
            # None of a record without a value.
            given = ([text for text in cell.values() if text is not None] for cell in cells.to_pylist())
            return pa.array([b"".join(some) if some else None for some in given], pa.binary())
        return cells
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    for name in (shape.block, ROW):
        columns.pop(name, None)
    records = ({name: _plain(cells[row]) for name, cells in columns.items()} for row in range(rows.num_rows))
    texts = (json.dumps(record, default=_text, ensure_ascii=False) for record in records)
    return pa.array([text.encode("utf-8", "surrogateescape") for text in texts], pa.binary())


def _text(cell: Any) -> str:
    """As the decoder reads it, for the key of a map too: BINARY as base64."""
    if isinstance(cell, bool):
        return str(cell).lower()
    return b64encode(cell).decode() if isinstance(cell, bytes) else str(cell)


def _plain(cell: pa.Scalar) -> Any:  # noqa: PLR0911  one per type
    """The value in Python's own types. Texts may hold any bytes, since Spark reads lines as they are."""
    kind = cell.type
    if not cell.is_valid:
        return None
    if types.is_string(kind) or types.is_large_string(kind):
        return cell.as_buffer().to_pybytes().decode("utf-8", "surrogateescape")
    if types.is_struct(kind):
        return {kind.field(at).name: _plain(cell[at]) for at in range(kind.num_fields)}
    if types.is_map(kind):
        return {_text(_plain(entry["key"])): _plain(entry["value"]) for entry in cell.values}
    if types.is_list(kind) or types.is_large_list(kind):
        return [_plain(item) for item in cell.values]
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
