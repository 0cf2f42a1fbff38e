"""Dead letters decoded again: as the stream would have been, or not at all."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date, datetime, timezone
from decimal import Decimal as Number
from typing import Any

import pyarrow as pa
import pytest

from hivesink.config.options import SinkConfig
from hivesink.core.table import Array, Column, Decimal, Map, Primitive, Struct, TableName, TableSpec
from hivesink.decode.json import explode
from hivesink.formats import measure
from hivesink.registry import Registry
from hivesink.sink.inspect.verify import verify
from hivesink.sink.task.assign import Moment
from hivesink.sink.task.messages import InputShape
from hivesink.tables.opened import replaced_letters
from tests.sink.harness import SPEC, TABLE
from tests.tables.replays import World

BIG = 2**40
"""Beyond an INT."""
AT = datetime(2026, 3, 4, 5, 6, 7, 89, tzinfo=timezone.utc)
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def table(*columns: Column, **properties: str) -> TableSpec:
    """A table whose column `id` is too narrow."""
    options = tuple((name.replace("_", "."), value) for name, value in properties.items())
    return replace(SPEC, columns=(Column("id", Primitive.INT), *columns), properties=options)


def widen(world: World) -> None:
    world.metastore.change_column(TABLE, Column("id", Primitive.BIGINT))


def columns(*more: tuple[str, pa.Array], ids: tuple[int, ...] = (BIG, 1)) -> pa.RecordBatch:
    """Decoded rows: one that doesn't fit `id`, and the same again that does."""
    own = {"id": pa.array(ids), "dt": pa.array(["a"] * len(ids))}
    return pa.RecordBatch.from_pydict({**own, **dict(more)})


TYPES: dict[str, tuple[Any, pa.Array]] = {
    "decimal": (Decimal(38, 10), pa.array([Number("1E+3"), None], pa.decimal128(38, 10)).take(pa.array([0, 0]))),
    "double": (Primitive.DOUBLE, pa.array([1e-300] * 2)),
    "float": (Primitive.FLOAT, pa.array([0.1] * 2, pa.float32())),
    "boolean": (Primitive.BOOLEAN, pa.array([True] * 2)),
    "text": (Primitive.STRING, pa.array(['5 "é" \\ \u2028'] * 2)),
    "binary": (Primitive.BINARY, pa.array([b"\xff\x00"] * 2)),
    "date": (Primitive.DATE, pa.array([date(1, 1, 1)] * 2)),
    "instant": (Primitive.TIMESTAMP, pa.array([AT] * 2, pa.timestamp("us", "Europe/Berlin"))),
    "old": (
        Primitive.TIMESTAMP,
        pa.array([datetime(1850, 1, 1, tzinfo=timezone.utc)] * 2, pa.timestamp("us", "Europe/Berlin")),
    ),
    "clock": (Primitive.TIMESTAMP, pa.array([AT.replace(tzinfo=None)] * 2, pa.timestamp("us"))),
    "list": (Array(Primitive.BINARY), pa.array([[b"\xff", None]] * 2)),
    "struct": (Struct((("a", Primitive.BIGINT), ("b", Primitive.BINARY))), pa.array([{"a": 1, "b": b"\x80"}] * 2)),
    "texts": (
        Map(Primitive.STRING, Primitive.INT),
        pa.array([[("A", 1), ("a", None)]] * 2, pa.map_("string", "int32")),
    ),
    "numbers": (Map(Primitive.INT, Primitive.DATE), pa.array([[(7, AT.date())]] * 2, pa.map_("int32", "date32"))),
    "flags": (Map(Primitive.BOOLEAN, Primitive.INT), pa.array([[(True, 1)]] * 2, pa.map_("bool", "int32"))),
    "octets": (Map(Primitive.BINARY, Primitive.INT), pa.array([[(b"\xff", 1)]] * 2, pa.map_("binary", "int32"))),
    "nothing": (Primitive.STRING, pa.array([None] * 2, pa.string())),
}


@pytest.mark.parametrize("name", TYPES)
def test_decoded_rows_come_back_as_they_were(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, values = TYPES[name]
    world = World(table(Column("x", kind)), {"sink.timestamp-zone": "Europe/Berlin"})
    world.patch(monkeypatch)
    world.ingest(columns(("x", values)), InputShape())
    widen(world)
    assert world.replay() == 1
    first, again = sorted(world.rows(TABLE), key=lambda row: int(row["id"]))
    assert (first["id"], again["id"]) == (1, BIG)
    assert again["x"] == first["x"]
    assert name == "nothing" or again["x"] is not None


def test_a_number_that_json_has_not_fails_by_its_column(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(table(Column("x", Primitive.DOUBLE)))
    world.patch(monkeypatch)
    world.ingest(columns(("x", pa.array([float("nan")] * 2))), InputShape())
    widen(world)
    assert world.replay() == 0
    (one,) = world.ids()
    world.mended = {one: b'{"id": 7, "x": 0.5, "dt": "a"}'}
    assert world.replay() == 1


def test_decoded_rows_keep_what_of_kafka_the_table_has(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"k": "kafka.key", "o": "kafka.offset", "at": "kafka.timestamp", "h": "kafka.headers.trace"}
    kinds = {"k": Primitive.STRING, "o": Primitive.BIGINT, "at": Primitive.TIMESTAMP, "h": Primitive.STRING}
    options = {f"sink.column.{name}.from": source for name, source in names.items()}
    world = World(table(*(Column(name, kind) for name, kind in kinds.items())), options)
    world.patch(monkeypatch)
    batch = columns(
        ("key", pa.array([b"k"] * 2)),
        ("offset", pa.array([7, 8])),
        ("timestamp", pa.array([AT] * 2, pa.timestamp("us", "UTC"))),
        ("headers", pa.array([[{"key": "trace", "value": b"t"}]] * 2, HEADERS)),
    )
    world.ingest(batch, InputShape())
    widen(world)
    assert world.replay() == 1
    (again,) = (row for row in world.rows(TABLE) if row["id"] == BIG)
    assert again == {"id": BIG, "k": "k", "o": 7, "at": AT.replace(tzinfo=None), "h": "t"}


def device(name: str) -> bytes:
    return json.dumps({"type": "record", "name": "K", "fields": [{"name": name, "type": "string"}]}).encode()


@pytest.mark.parametrize("key", [b'{"device": "tv"}', b"\0\0\0\0\7\4tv"], ids=["json", "avro-confluent"])
def test_a_record_has_the_columns_of_its_key_again(
    key: bytes, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """By the schema of then: a replay asks no registry."""
    asked: list[int] = []
    texts = (device("device").decode(),)

    def schema(_: Registry, number: int) -> tuple[str, ...]:
        asked.append(number)
        return texts

    monkeypatch.setattr(Registry, "schema", schema)
    form = request.node.callspec.id
    properties = {
        "sink_value_format": "csv",
        "sink_key_format": form,
        "sink_key_avro-confluent_url": "http://localhost",
    }
    world = World(table(Column("k", Primitive.STRING), **properties, sink_column_k_from="kafka.key.$.device"))
    world.patch(monkeypatch)
    keys = [key, key, None, b"odd"]
    values = [b"1,a", b"%d,a" % BIG, b"2,a", b"3,a"]
    world.ingest(pa.RecordBatch.from_pydict({"value": values, "key": keys}), InputShape(value="value"))
    assert [(row["id"], row["k"]) for row in world.rows(TABLE)] == [(1, "tv"), (2, None)]
    assert asked == ([7] if form == "avro-confluent" else [])
    texts = (device("other").decode(),)
    widen(world)
    assert world.replay() == 1
    assert sorted((row["id"], row["k"]) for row in world.rows(TABLE) if row["id"] != 2) == [(1, "tv"), (BIG, "tv")]
    assert len(asked) == (form == "avro-confluent")
    (odd,) = world.ids()
    # A key can't be mended.
    world.mended = {odd: b"4,a"}
    assert world.replay() == 0


def test_a_record_without_what_the_table_needs_now_is_not_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(table(Column("o", Primitive.BIGINT)))
    world.patch(monkeypatch)
    batch = pa.RecordBatch.from_pydict({"value": pa.array([f'{{"id": {BIG}, "dt": "a"}}'.encode()])})
    world.ingest(batch, InputShape(value="value"))
    widen(world)
    world.alter({"sink.column.o.from": "kafka.offset"})
    assert world.replay() == 0
    assert world.census.lacking == 1
    world.alter({})
    assert world.replay() == 1
    assert world.census.lacking == 0


def test_an_element_comes_back_without_its_neighbours_and_a_whole_record_whole_or_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(table(sink_json_explode="$.r"))
    world.patch(monkeypatch)
    one = '{{"id": {}, "dt": "a"}}'.format
    records = [f'{{"r": [{one(1)}, {one(BIG)}, {one(2)}]}}', '{"r": [', f'{{"r": [{one(BIG + 1)}]}}']
    for text in records:
        world.ingest(pa.RecordBatch.from_pydict({"value": [text.encode()]}), InputShape(value="value"))
    assert sorted(row["id"] for row in world.rows(TABLE)) == [1, 2]
    widen(world)
    assert world.replay() == 2
    assert sorted(row["id"] for row in world.rows(TABLE)) == [1, 2, BIG, BIG + 1]
    (broken,) = world.ids()
    world.mended = {broken: f'{{"r": [{one(3)}, {one(2**70)}]}}'.encode()}
    assert world.replay() == 0
    assert len(world.rows(TABLE)) == 4
    world.mended = {broken: f'{{"r": [{one(3)}, {one(4)}]}}'.encode()}
    assert world.replay() == 1
    assert sorted(row["id"] for row in world.rows(TABLE)) == [1, 2, 3, 4, BIG, BIG + 1]
    assert world.ids() == []
    with world.opened() as opened:
        gone = replaced_letters(opened.logs())
        verdicts = [
            verify(context, name, str(TABLE), measure, replaced=gone) for name, context in opened.writers.items()
        ]
    assert [verdict.findings for verdict in verdicts] == [(), ()]
    # An offset for each record.
    assert {verdict.writer: (verdict.totals.records, verdict.totals.read) for verdict in verdicts}["job"] == (3, 5)


def test_broken_elements_of_one_letter_come_back_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explode, "_MOST_BYTES", 1)
    world = World(table(sink_json_explode="$.r"))
    world.patch(monkeypatch)
    record = json.dumps({"n": "n" * 3000, "r": [{"id": BIG * (at != 7) + at, "dt": "a"} for at in range(30)]})
    world.ingest(pa.RecordBatch.from_pydict({"value": [record.encode()]}), InputShape(value="value"))
    second = f'{{"r": [{{"id": {2 * BIG}, "dt": "a"}}]}}'
    world.ingest(pa.RecordBatch.from_pydict({"value": [second.encode()]}), InputShape(value="value"))
    assert ([row["id"] for row in world.rows(TABLE)], len(world.ids())) == ([7], 2)
    widen(world)
    assert world.replay() == 2
    assert sorted(row["id"] for row in world.rows(TABLE)) == [7, *(BIG + at for at in range(30) if at != 7), 2 * BIG]
    assert world.ids() == []


class ByArrival:
    """A user's own assigner."""

    def __init__(self, spec: TableSpec, config: SinkConfig) -> None:
        """As every assigner is made."""

    def assign(self, rows: pa.Table, moment: Moment) -> list[pa.Array]:
        return [pa.array([f"{moment.arrival:%Y-%m-%d-%H}"] * rows.num_rows)]


@pytest.mark.parametrize(
    "options",
    [
        {"sink.bucket.assigner": "date-time", "sink.bucket.time-pattern": "yyyy-MM-dd-HH"},
        {"sink.bucket.assigner": "tests.tables.test_replay:ByArrival"},
    ],
)
def test_records_go_by_the_arrival_of_their_batches(options: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(replace(table(), properties=tuple(options.items())))
    world.patch(monkeypatch)
    hours = ["2026-03-04-05", "2026-03-04-06"]
    for at in (AT, AT.replace(hour=6)):
        world.ingest(pa.RecordBatch.from_pydict({"value": pa.array([b"{"] * 2)}), InputShape(value="value"), at)
    first, *_, last = world.ids()
    for mended in ([first, last], world.ids()):
        # After the first replay, one file has the letters of both batches.
        world.mended = dict.fromkeys(mended, b'{"id": 5}')
        assert world.replay() == len(hours)
        assert sorted(world.metastore.partitions(TABLE)) == [f"dt={hour}" for hour in hours]
    assert len(world.rows(TABLE)) == 2 * len(hours)
    assert world.ids() == []


def test_dead_letters_of_an_orc_table_are_looked_at_as_the_parquet_files_that_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(replace(SPEC, format="ORC"))
    world.patch(monkeypatch)
    records = [b'{"id": 1, "dt": "a"}', b"{", b'{"id": 2, "dt": "a"}']
    world.ingest(pa.RecordBatch.from_pydict({"value": pa.array(records, pa.binary())}), InputShape(value="value"))

    def errors(table: TableName) -> list[str]:
        with world.opened() as opened:
            findings = verify(opened.writers["job"], "job", str(table), measure).findings
        return [finding.text for finding in findings if finding.level == "error"]

    for table, rows in ((TABLE, "2"), (TABLE.rejected, "1")):
        (partition,) = world.metastore.lookup(world.metastore.table(table), None)
        assert world.metastore.parameters(table, partition)["numRows"] == rows
        assert errors(table) == []
    world.metastore.drop_table(TABLE.rejected)
    assert not any("can't be read" in text for text in errors(TABLE))
