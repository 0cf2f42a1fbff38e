from __future__ import annotations

import gc
import io
import json
import re
from datetime import datetime
from decimal import Decimal as Number
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hivesink.config.options import ParquetCompression, SinkConfig
from hivesink.core.table import Column, SortKey, field_ids
from hivesink.core.typetext import parse_type
from hivesink.decode.arrowtypes import arrow_schema
from hivesink.formats.parquet import Dictionaries, ParquetFormat

# ruff: noqa: DTZ001  wall clocks without a zone are what a Hive TIMESTAMP holds


COLUMNS = {
    "z": "int",
    "b": "tinyint",
    "dec": "decimal(9,2)",
    "wide": "decimal(38,18)",
    "ts": "timestamp",
    "list": "array<timestamp>",
    "kv": "map<string,decimal(5,1)>",
    "rec": "struct<d:date,s:string>",
    "text": "varchar(5)",
}
HIVE = {"parquet.compression": "gzip", "parquet.block.size": "1MB"}
SCHEMA = arrow_schema([Column(name, parse_type(kind)) for name, kind in COLUMNS.items()])
ROW = {
    "z": 1,
    "b": -128,
    "dec": Number("1.50"),
    "wide": Number("0.000000000000000001"),
    "ts": datetime(9999, 12, 31, 23, 59, 59, 999999),
    "list": [datetime(1582, 10, 15), None],
    "kv": [("é", Number("9999.9"))],
    "rec": {"d": None, "s": ""},
    "text": "漢字",
}
NULLS = dict.fromkeys(COLUMNS)


def written(*tables: pa.Table, form: ParquetFormat | None = None) -> io.BytesIO:
    stream = io.BytesIO()
    writer = (form or ParquetFormat(SCHEMA)).open(stream)
    for table in tables:
        writer.write(table)
    writer.close()
    assert not stream.closed
    stream.seek(0)
    return stream


def rows(*found: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(found), schema=SCHEMA)


def leaves(stream: io.BytesIO) -> dict[str, str]:
    """Each leaf's path and physical type."""
    schema = pq.ParquetFile(stream).schema
    return {schema.column(place).path: schema.column(place).physical_type for place in range(len(schema))}


def test_physical_types_that_hive_2_reads() -> None:
    """INT64 timestamps and integer decimals make its reader throw."""
    assert leaves(written(rows(ROW))) == {
        "z": "INT32",
        "b": "INT32",
        "dec": "FIXED_LEN_BYTE_ARRAY",
        "wide": "FIXED_LEN_BYTE_ARRAY",
        "ts": "INT96",
        "list.list.element": "INT96",
        "kv.key_value.key": "BYTE_ARRAY",
        "kv.key_value.value": "FIXED_LEN_BYTE_ARRAY",
        "rec.d": "INT32",
        "rec.s": "BYTE_ARRAY",
        "text": "BYTE_ARRAY",
    }


def test_the_file_does_not_pass_for_one_of_parquet_mr() -> None:
    """Hive and Impala would take its timestamps for instants and shift them: see `docs/types.md`."""
    metadata = pq.ParquetFile(written(rows(ROW))).metadata
    assert metadata.created_by.startswith("parquet-cpp-arrow")
    assert metadata.metadata is None


def test_each_write_is_a_row_group() -> None:
    stream = written(rows(ROW, ROW), rows(NULLS))
    metadata = pq.ParquetFile(stream).metadata
    assert [metadata.row_group(place).num_rows for place in range(metadata.num_row_groups)] == [2, 1]
    stream.seek(0)
    assert ParquetFormat.measure(stream).rows == 3
    assert ParquetFormat.measure(written()).rows == 0, "a file without rows is whole"


def test_a_row_group_is_not_cut_at_arrows_default() -> None:
    schema = pa.schema([("n", pa.int8())])
    stream = written(pa.table({"n": pa.nulls(1_500_000, pa.int8())}), form=ParquetFormat(schema))
    assert pq.ParquetFile(stream).metadata.num_row_groups == 1


@pytest.mark.parametrize("compression", ParquetCompression)
def test_compression(compression: ParquetCompression) -> None:
    form = ParquetFormat(SCHEMA, compression=compression)
    stream = written(rows(ROW), form=form)
    assert form.extension == {"GZIP": ".gz", "NONE": ""}.get(compression.name, f".{compression.value}") + ".parquet"
    codec = "UNCOMPRESSED" if compression is ParquetCompression.NONE else compression.name
    assert pq.ParquetFile(stream).metadata.row_group(0).column(0).compression == codec


def chunks(stream: io.BytesIO, group: int = 0) -> dict[str, Any]:
    """The metadata of a row group's columns, by the leaves' paths."""
    metadata = pq.ParquetFile(stream).metadata.row_group(group)
    found = (metadata.column(place) for place in range(metadata.num_columns))
    return {column.path_in_schema: column for column in found}


def test_the_declared_order_names_leaves() -> None:
    """Columns that stand behind nested ones, which are several leaves."""
    stream = written(rows(ROW), form=ParquetFormat(SCHEMA, order=(SortKey("text", True), SortKey("z"))))
    metadata = pq.ParquetFile(stream).metadata.row_group(0)
    declared = [
        (metadata.column(key.column_index).path_in_schema, key.descending, key.nulls_first)
        for key in metadata.sorting_columns
    ]
    assert declared == [("text", True, False), ("z", False, False)]


def test_a_writer_that_is_dropped_does_not_finish_its_file() -> None:
    """Pyarrow's own would, and into a closed file it would fail."""
    stream = io.BytesIO()
    writer = ParquetFormat(SCHEMA).open(stream)
    writer.write(rows(ROW))
    stream.close()
    del writer
    gc.collect()


def test_rows_of_another_schema_are_refused() -> None:
    with pytest.raises(ValueError, match="schema"):
        written(pa.table({"z": [1]}))


def test_floats_have_no_bounds_which_would_hide_nan() -> None:
    names = {"x": "double", "rec": "struct<f:float,n:int>", "kv": "map<string,array<double>>", "n": "int"}
    form = ParquetFormat(arrow_schema([Column(name, parse_type(kind)) for name, kind in names.items()]))
    row = {"x": 1.0, "rec": {"f": 1.0, "n": 1}, "kv": [("k", [1.0, None])], "n": 1}
    group = pq.read_metadata(written(pa.Table.from_pylist([row], schema=form.schema), form=form)).row_group(0)
    columns = [group.column(place) for place in range(group.num_columns)]
    bounded = {column.path_in_schema for column in columns if column.statistics and column.statistics.has_min_max}
    assert bounded == {"rec.n", "kv.key_value.key", "n"}


def test_settings() -> None:
    assert ParquetFormat.of(SCHEMA, SinkConfig.parse({})) == ParquetFormat(SCHEMA)
    expected = ParquetFormat(SCHEMA, ParquetCompression.GZIP, 1 << 20)
    assert ParquetFormat.of(SCHEMA, SinkConfig.parse(HIVE)) == expected


def test_every_field_has_its_id() -> None:
    kinds = {"id": "int", "tags": "array<string>", "m": "map<string,int>", "s": "struct<a:int,b:array<date>>"}
    columns = [Column(name, parse_type(kind)) for name, kind in kinds.items()]
    row = {"id": 1, "tags": ["a"], "m": [("k", 2)], "s": {"a": 1, "b": [None]}}
    schema = arrow_schema(columns)
    form = ParquetFormat.of(schema, SinkConfig.parse({}), ids=field_ids(columns, {}))
    stream = written(pa.Table.from_pylist([row], schema=schema), form=form)
    numbered = re.findall(r"field_id=(\d+) (\w+)", str(pq.ParquetFile(stream).schema))
    names = ["id", "tags", "element", "m", "key", "value", "s", "a", "b", "element"]
    assert numbered == [(str(number), name) for number, name in enumerate(names, 1)]


@pytest.mark.parametrize(("setting", "physical"), [("int96", "INT96"), ("micros", "INT64")])
def test_timestamps_are_stored_as_the_setting_says(setting: str, physical: str) -> None:
    schema = pa.schema([("at", pa.timestamp("us"))])
    table = pa.table({"at": [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)]}, schema=schema)
    form = ParquetFormat.of(schema, SinkConfig.parse({"sink.parquet.timestamp": setting}))
    stream = written(table, form=form)
    column = pq.ParquetFile(stream).schema.column(0)
    assert column.physical_type == physical
    if physical == "INT64":
        wall_clock = {"isAdjustedToUTC": False, "timeUnit": "microseconds"}
        assert json.loads(column.logical_type.to_json()).items() >= wall_clock.items()
    assert pq.read_table(stream, coerce_int96_timestamp_unit="us").equals(table)


def having(name: str, column: list[Any]) -> tuple[str, ...]:
    return Dictionaries().of(pa.table({name: column}))


@pytest.mark.parametrize(
    ("column", "has_one"),
    [
        ([1, 2, 1, 2], True),
        ([1, 2, 3, 1], False),
        ([None, None, "a", "a"], True),
        ([None, None, None, "a"], False),
        ([None, None], False),
        ([True, True, True, True], False),
        ([float("nan")] * 4, True),
        ([1] * 2, True),
        ([], False),
    ],
)
def test_half_of_the_values_may_be_distinct(column: list[Any], has_one: bool) -> None:
    assert (having("a", column) == ("a",)) == has_one


def test_nested_values_count_alone() -> None:
    deep = [{"same": 1, "list": [{"own": n, "same": "x"}, {"own": -n, "same": "x"}]} for n in range(1, 20)]
    assert having("a", deep) == ("a.same", "a.list.list.element.same")


def test_every_type_has_one_where_a_file_says_so() -> None:
    table = rows(*[ROW] * 100, NULLS)
    form = ParquetFormat(SCHEMA)
    stream = written(table, form=form)
    paths = {path for path, column in chunks(stream).items() if column.has_dictionary_page}
    others = {path for path, column in chunks(stream).items() if column.physical_type == "BOOLEAN"}
    assert paths == chunks(stream).keys() - others - {"rec.d"}  # which is null in all rows
    assert set(Dictionaries().of(table)) == paths
    assert pq.read_table(stream, coerce_int96_timestamp_unit="us").equals(table)


def test_a_larger_sample_decides_again_and_a_slice_counts_alone() -> None:
    found = Dictionaries()
    assert found.of(pa.table({"a": [[1, 1]]})) == ("a.list.element",)
    assert found.of(pa.table({"a": [[1, 2], [3, 4]]})) == ("a.list.element",)
    assert found.of(pa.table({"a": [[1, 2], [3, 4], [5, 6]]})) == ()
    repeated = pa.table({"a": [[n] for n in range(100)] + [[7]] * 100})
    assert found.of(repeated.slice(100)) == ("a.list.element",)
    assert found.of(repeated.slice(0, 100)) == ("a.list.element",)


def test_maps_count_in_their_slice() -> None:
    kind = pa.map_(pa.string(), pa.int32())
    # Distinct in the first rows, repeated in the whole.
    table = pa.table({"m": pa.array([[(f"k{n}", n)] for n in range(50)] + [[("k", 7)]] * 100, kind)})
    assert Dictionaries().of(table.slice(0, 50)) == ()
    assert Dictionaries().of(table.slice(50)) == ("m.key_value.key", "m.key_value.value")
    assert Dictionaries().of(table) == ("m.key_value.key", "m.key_value.value")
