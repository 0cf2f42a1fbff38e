"""ORC: what is in the files, and which values can't be. What readers make of it: tests/integration/test_types.py."""

from __future__ import annotations

import gc
import io
from datetime import date, datetime, timedelta
from decimal import Decimal as Number
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import orc

from hivesink.config.options import OrcCompression, SinkConfig
from hivesink.core.table import Column
from hivesink.core.typetext import parse_type
from hivesink.decode.arrowtypes import arrow_schema
from hivesink.errors import InvalidOption
from hivesink.formats.orc import OrcFormat
from hivesink.formats.parquet import ParquetFormat
from hivesink.ports.rows import BadRow
from hivesink.sink.task.messages import InputShape
from hivesink.storage.local import LocalFileSystem
from hivesink.storage.rename_store import RenameFileStore
from tests.sink.task.taskrun import Run

# ruff: noqa: DTZ001  wall clocks without a zone are what a Hive TIMESTAMP holds

COLUMNS = {
    "z": "int",
    "b": "tinyint",
    "ok": "boolean",
    "wide": "decimal(38,18)",
    "ts": "timestamp",
    "list": "array<timestamp>",
    "kv": "map<string,decimal(5,1)>",
    "rec": "struct<d:date,at:timestamp>",
    "by": "map<int,array<struct<at:timestamp>>>",
    "text": "varchar(5)",
    "raw": "binary",
    "x": "double",
}
SCHEMA = arrow_schema([Column(name, parse_type(kind)) for name, kind in COLUMNS.items()])
NOON = datetime(1969, 12, 31, 12)
LATE = datetime(2262, 4, 11, 23, 47, 16, 854775)
ROW = {
    "z": 1,
    "b": -128,
    "ok": True,
    "wide": Number("9" * 20 + "." + "9" * 18),
    "ts": LATE,
    "list": [datetime(1677, 9, 22), None],
    "kv": [("é", Number("9999.9"))],
    "rec": {"d": date(1, 1, 1), "at": NOON},
    "by": [(1, [{"at": NOON}, None]), (2, None)],
    "text": "漢字",
    "raw": b"\x00\xff",
    "x": float("-inf"),
}
NULLS = dict.fromkeys(COLUMNS)


def rows(*found: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(found), schema=SCHEMA)


def written(*tables: pa.Table, form: OrcFormat | None = None) -> io.BytesIO:
    stream = io.BytesIO()
    writer = (form or OrcFormat(SCHEMA)).open(stream)
    for table in tables:
        writer.write(table)
    writer.close()
    assert not stream.closed
    stream.seek(0)
    return stream


@pytest.mark.parametrize("compression", OrcCompression)
@pytest.mark.parametrize("tables", [[], [rows(ROW, NULLS)], [rows(ROW), rows(NULLS, ROW), rows(NULLS)]])
def test_what_is_written_comes_back(compression: OrcCompression, tables: list[pa.Table]) -> None:
    form = OrcFormat(SCHEMA, compression, bloom=("z", "text"))
    stream = written(*tables, form=form)
    whole = pa.concat_tables([SCHEMA.empty_table(), *tables])
    content = form.measure(stream)
    assert (content.rows, content.raw_bytes) == (whole.num_rows, sum(table.nbytes for table in tables))
    assert orc.ORCFile(stream).compression == {"NONE": "UNCOMPRESSED"}.get(compression.name, compression.name)
    stream.seek(0)
    assert pa.Table.from_batches(form.read(stream, SCHEMA, 2), SCHEMA).equals(whole)
    stream.seek(0)
    wanted = pa.schema([("text", pa.string()), ("new", pa.date32()), ("z", pa.int64())])
    found = pa.Table.from_batches(form.read(stream, wanted, 2), wanted).to_pylist()
    assert found == [{"text": row["text"], "new": None, "z": row["z"]} for row in whole.to_pylist()]


def _nested(kind: pa.DataType, number: int) -> Any:
    """A value that only `number` has, and a null at some level of every few."""
    if number % 5 == kind.num_fields:
        return None
    if pa.types.is_struct(kind):
        return {field.name: _nested(field.type, number * 7 + place) for place, field in enumerate(kind, 1)}
    if pa.types.is_map(kind):
        return [(key, _nested(kind.item_type, number * 7 + key)) for key in range(number % 3)]
    if pa.types.is_list(kind):
        return [_nested(kind.value_type, number * 7 + place) for place in range(number % 4)]
    return str(number) if pa.types.is_string(kind) else number


@pytest.mark.parametrize(
    "kind",
    [
        "struct<a:int>",
        "struct<a:string,b:int>",
        "struct<a:struct<b:int,c:string>>",
        "struct<a:struct<b:struct<c:struct<d:string>>>>",
        "struct<a:array<int>,b:map<int,string>>",
        "struct<a:struct<b:array<struct<c:int>>>>",
        "array<struct<a:struct<b:int>>>",
        "array<array<string>>",
        "map<int,struct<a:struct<b:string>,c:array<int>>>",
        "map<int,map<int,int>>",
    ],
)
def test_each_row_keeps_its_own_nested_values(kind: str) -> None:
    """Rows come as slices, in chunks. pyarrow's ORC writer would give them the nulls and values of their neighbours."""
    schema = arrow_schema([Column("n", parse_type(kind))])
    values = [_nested(schema.field(0).type, number) for number in range(240)]
    whole = pa.table({"n": pa.array(values, schema.field(0).type)})
    # One without a null above, whose writer leaves out what is below; some batches in a write.
    full = whole.filter(pc.is_valid(whole["n"]))
    chunks = pa.concat_tables([full.slice(3, 20), whole.slice(7, 90), whole.slice(200)])
    for form in (OrcFormat(schema), OrcFormat(schema, row_group=17 * 50), ParquetFormat(schema)):
        slices = [whole.slice(start, 61) for start in (1, 8, 63, 64)]
        for table in (full, whole, *slices, chunks, chunks.slice(15, 100)):
            stream = io.BytesIO()
            writer = form.open(stream)
            writer.write(table)
            writer.write(table.slice(5))
            writer.close()
            stream.seek(0)
            found = pa.Table.from_batches(form.read(stream, schema, 1000), schema)["n"].to_pylist()
            assert found == [*table["n"].to_pylist(), *table.slice(5)["n"].to_pylist()]
            segment = io.BytesIO()
            with pa.ipc.new_stream(segment, schema) as ipc:
                ipc.write_table(table)
            assert pa.ipc.open_stream(segment.getvalue()).read_all()["n"].to_pylist() == table["n"].to_pylist()


def test_rows_with_lists_share_stripes() -> None:
    """Their batches are small: ORC's writer copies a batch's items for each row."""
    table = pa.table({"ids": pa.array([[row, row + 1] for row in range(50_000)], pa.list_(pa.int64()))})
    assert orc.ORCFile(written(table, table)).nstripes == 1


def test_each_write_is_a_stripe_and_many_small_rows_are_some() -> None:
    schema = pa.schema([("n", pa.int64())])
    table = pa.table({"n": [number * number % 65_537 for number in range(100_000)]})
    assert orc.ORCFile(written(table, table, form=OrcFormat(schema))).nstripes == 2
    assert orc.ORCFile(written(table, form=OrcFormat(schema, row_group=17 * 25_000))).nstripes == 4


def test_bloom_filters_are_of_the_columns_behind_maps_too() -> None:
    """A filter of any other column would leave no filter here: the last number is its own."""
    schema = arrow_schema([Column("kv", parse_type("map<int,map<int,int>>")), Column("text", parse_type("string"))])
    table = pa.table({"kv": [[(1, [(2, 3)])]] * 5000, "text": list(map(str, range(5000)))}, schema=schema)
    plain, filtered = (len(written(table, form=OrcFormat(schema, bloom=names)).getvalue()) for names in ((), ("text",)))
    # 6.2 bits a row of the stride.
    assert filtered - plain > 1000


def test_columns_beyond_the_tables_come_last() -> None:
    form = OrcFormat(pa.schema([("n", pa.int64())]))
    assert orc.ORCFile(written(pa.table({"n": [1], "gone": ["a"]}), form=form)).schema.names == ["n", "gone"]


def test_a_writer_that_is_dropped_does_not_finish_its_file() -> None:
    stream = io.BytesIO()
    writer = OrcFormat(SCHEMA).open(stream)
    writer.write(rows(ROW))
    before = stream.getvalue()
    del writer
    gc.collect()
    assert stream.getvalue() == before
    with pytest.raises(ValueError, match=r"postscript|too small"):
        OrcFormat.measure(io.BytesIO(before))


def test_rows_of_another_schema_are_refused() -> None:
    with pytest.raises((ValueError, TypeError), match="schema"):
        written(rows(ROW), pa.table({"z": [1]}))


LEFT_OUT = "between 1582-10-05 and 1582-10-14, days that readers of ORC don't have"
EARLY = "before 1970, with a fraction of a second, which ORC can't hold"
BEFORE = datetime(1970, 1, 1) - timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("cell", "field", "why"),
    [
        ({"ts": BEFORE}, "ts", EARLY),
        ({"ts": datetime(1, 1, 1, 0, 0, 0, 1)}, "ts", EARLY),
        ({"list": [None, NOON, BEFORE]}, "list", EARLY),
        ({"rec": {"d": None, "at": BEFORE}}, "rec.at", EARLY),
        ({"by": [(1, None), (2, [None, {"at": BEFORE}])]}, "by.value.at", EARLY),
        (
            {"ts": NOON, "list": [datetime(1, 1, 1)], "rec": {"d": None, "at": datetime(1969, 12, 31, 23, 59, 59)}},
            None,
            EARLY,
        ),
        ({"ts": datetime(1582, 10, 5)}, "ts", LEFT_OUT),
        ({"rec": {"d": date(1582, 10, 14), "at": None}}, "rec.d", LEFT_OUT),
        ({"ts": datetime(1582, 10, 4, 23, 59, 59), "rec": {"d": date(1582, 10, 15), "at": None}}, None, EARLY),
        ({"ts": datetime(1970, 1, 1, 0, 0, 0, 1)}, None, EARLY),
    ],
)
def test_values_that_it_can_not_hold(cell: dict[str, Any], field: str | None, why: str) -> None:
    form, table = OrcFormat(SCHEMA), rows(NULLS, ROW, NULLS | cell, ROW)
    # A slice is told apart from what is around it, and columns may be missing.
    for some, place in ((table, 2), (table.slice(1), 1), (table.slice(2, 1), 0), (table.drop_columns(["z"]), 2)):
        assert list(form.unfit(some)) == ([BadRow(place, field, why)] if field else [])


def test_they_are_bad_records(tmp_path: Any) -> None:
    columns = (Column("id", parse_type("int")), Column("ts", parse_type("timestamp")))
    options = {"sink.on-bad-record": "dead-letter"}
    store = RenameFileStore(LocalFileSystem())
    for number, shape in enumerate((InputShape(value="value"), InputShape())):
        run = Run(store, str(tmp_path / str(number)), columns, options=options, shape=shape, format="ORC")
        if shape.is_raw:
            texts = [b'{"id":1,"ts":"1969-12-31 23:59:59.5"}', b'{"id":"x"}', b'{"id":2,"ts":"1969-12-31 23:59:59"}']
            batch = {"value": pa.array(texts)}
        else:
            batch = {"id": pa.array([1, 2]), "ts": pa.array([BEFORE, NOON], pa.timestamp("us"))}
        report = run(pa.RecordBatch.from_pydict(batch))
        assert (report.rows.written, report.rows.rejected) == (1, 1 + shape.is_raw)
        suffixes = {part.table: part.target.split(".", 1)[1] for part in report.parts}
        assert suffixes == {"db.t": "zlib.orc", "db.t__rejected": "snappy.parquet"}


def test_settings() -> None:
    assert OrcFormat.of(SCHEMA, SinkConfig.parse({})) == OrcFormat(SCHEMA)
    given = {
        "orc.compress": "SNAPPY",
        "orc.stripe.size": "1048576",
        "orc.row.index.stride": "5000",
        "orc.bloom.filter.columns": "Text, z",
    }
    expected = OrcFormat(SCHEMA, OrcCompression.SNAPPY, 1 << 20, 5000, ("text", "z"))
    assert OrcFormat.of(SCHEMA, SinkConfig.parse(given)) == expected
    odd = {"orc.compress": "LZO", "orc.row.index.stride": "0"}
    with pytest.raises(InvalidOption) as told:
        SinkConfig.parse(odd)
    assert [problem.split(" = ")[0] for problem in told.value.problems] == list(odd)
