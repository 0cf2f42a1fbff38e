"""Debezium's change events: the row of each, and the types that its schema names."""

from __future__ import annotations

# ruff: noqa: DTZ001  wall clocks without a zone are what a Hive TIMESTAMP holds
import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivesink.config.options import SinkConfig
from hivesink.core.table import Column
from hivesink.decode.avro.debezium import DebeziumAvroDecoder
from hivesink.decode.json import debezium
from hivesink.decode.json.debezium import DebeziumDecoder
from hivesink.decode.json.exact import ExactDecoder
from hivesink.decode.reader import RowsReader
from hivesink.decode.values import InvalidValue
from hivesink.ports.rows import DecodedRows
from tests.decode.settings import Given, bad, declared
from tests.decode.test_avro import written
from tests.decode.test_fast_agrees import plain, values

ADA = {
    "id": 1,
    "name": "Ada",
    "born": -56270,
    "balance": "MDk=",
    "seen": 1709618828123456,
    "zone": "2024-03-05T06:07:08Z",
}
POORER = {**ADA, "balance": "AOI="}
PEOPLE = "id int, name string, born date, balance decimal(6,2), seen timestamp, zone timestamp"
DECLARED = {
    "sink.timestamp-format": "born=epoch-days,seen=epoch-micros",
    "sink.value.debezium.decimal-handling-mode": "precise",
}
SEEN, ZONE = datetime(2024, 3, 5, 6, 7, 8, 123456), datetime(2024, 3, 5, 6, 7, 8)


def event(op: str | None, before: Any, after: Any, **more: Any) -> dict[str, Any]:
    source = {"connector": "mysql", "db": "shop", "table": "people", "file": "binlog.000003", "pos": 400, **more}
    return {"op": op, "before": before, "after": after, "source": source, "ts_ms": 1709618828100}


EVENTS = [
    event("c", None, ADA, pos=400),
    event("u", ADA, POORER, pos=401),
    event("d", POORER, None, pos=402),
    event("r", None, {**ADA, "id": 2}, pos=403),
]


def read(events: Sequence[Any], kinds: str, **options: str) -> DecodedRows:
    """Events as bytes, or as what is written in JSON; None is a tombstone."""
    config = SinkConfig.parse({"sink.value.format": "debezium-json", **options})
    reader = RowsReader(declared(kinds), "value", config)
    rows = reader.read(pa.RecordBatch.from_pydict({"value": pa.array(texts(events), pa.binary())}))
    assert rows.table.num_rows + len(rows.bad) + rows.skipped == len(events)
    return rows


def texts(events: Sequence[Any]) -> list[bytes | None]:
    return [text if text is None or isinstance(text, bytes) else json.dumps(text).encode() for text in events]


def test_each_event_is_a_row_with_the_types_that_are_declared() -> None:
    sources = {"op": "$.op", "pos": "$.source.pos", "at": "$.ts_ms"}
    options = {**DECLARED, **{f"sink.column.{name}.from": path for name, path in sources.items()}}
    rows = read([*EVENTS, None], f"{PEOPLE}, op string, pos bigint, at bigint", **options)
    told = [tuple(row.values()) for row in rows.table.to_pylist()]
    of_ada = (date(1815, 12, 10), Decimal("123.45"), SEEN, ZONE)
    poorer = (date(1815, 12, 10), Decimal("2.26"), SEEN, ZONE)
    assert told == [
        (1, "Ada", *of_ada, "c", 400, 1709618828100),
        (1, "Ada", *poorer, "u", 401, 1709618828100),
        # Of a delete, what was there.
        (1, "Ada", *poorer, "d", 402, 1709618828100),
        (2, "Ada", *of_ada, "r", 403, 1709618828100),
    ]
    assert (rows.bad, rows.skipped) == ((), 1)


@pytest.mark.parametrize(
    ("image", "right"),
    [
        ("after", ["123.45", "2.26", "2.26", "123.45"]),
        ("before", ["123.45", "123.45", "2.26", "123.45"]),
        ("both", ["123.45", "2.26", "2.26", "123.45"]),
    ],
)
def test_an_event_without_the_image_has_the_other_one(image: str, right: list[str]) -> None:
    options = {**DECLARED, "sink.value.debezium.image": image}
    rows = read(EVENTS, "balance decimal(6,2), before_balance decimal(6,2)", **options)
    assert [str(value) for value in rows.table["balance"].to_pylist()] == right
    before = [value and str(value) for value in rows.table["before_balance"].to_pylist()]
    assert before == ([None, "123.45", "2.26", None] if image == "both" else [None] * 4)


def test_a_value_that_an_update_sets_to_null_is_null() -> None:
    rows = read([event("u", ADA, {**ADA, "name": None})], "id int, name string")
    assert rows.table.to_pylist() == [{"id": 1, "name": None}]


def test_the_key_of_a_delete_by_a_list_of_paths() -> None:
    rows = read(EVENTS, "key int, name string", **{"sink.column.key.from": "$.after.id, $.before.id"})
    assert rows.table["key"].to_pylist() == [1, 1, 1, 2]


@pytest.mark.parametrize(
    ("given", "field", "reason"),
    [
        (event("t", None, None), None, "no before and no after"),
        ({"id": 1, "name": "flattened"}, "op", "missing"),
        ({"schema": None, "payload": None}, "op", "missing"),
        ({"schema": None, "payload": {"id": 1}}, "op", "missing"),
        ({"payload": "text"}, None, "not JSON"),
        (b'{"op": "c", "after": {"id": 1}, "After": {"id": 2}}', "after", "duplicate field"),
        (b'{"op": "c", "after": {"id": 1}, "x": 01}', None, "not JSON"),
        (b'{"op": "c", "after": {"id": 1}', None, "not JSON"),
        (b'{"op": "c", "after": [1]}', None, "not a JSON object"),
        (event("c", None, {"id": "x"}), "id", "wrong type: text into int"),
        (event("c", None, {"id": None}), "id", "null"),
    ],
)
def test_what_is_no_change_of_a_row_is_bad(given: Any, field: str | None, reason: str) -> None:
    rows = read([EVENTS[0], given, EVENTS[3]], "id int!")
    assert bad(rows) == [(1, field, reason)]
    assert rows.table["id"].to_pylist() == [1, 2]


def test_unknown_fields_are_those_of_the_image() -> None:
    rows = read(
        [event("c", None, {"id": 1}), event("c", {"old": 1}, {"id": 1, "new": 2})],
        "id int",
        **{"sink.on-unknown-field": "bad-record"},
    )
    assert bad(rows) == [(1, "new", "unknown field")]


def field(name: str, kind: str, semantic: str | None = None, **parameters: str) -> dict[str, Any]:
    more = {"name": semantic, "version": 1} if semantic else {}
    return {"type": kind, "optional": True, **more, "field": name, **({"parameters": parameters} if parameters else {})}


def with_schema(payload: Any, fields: list[dict[str, Any]]) -> dict[str, Any]:
    images = [
        {"type": "struct", "fields": fields, "name": "shop.people.Value", "field": at} for at in ("before", "after")
    ]
    others = [field("op", "string"), field("ts_ms", "int64")]
    return {
        "schema": {"type": "struct", "fields": [*images, *others], "name": "shop.people.Envelope"},
        "payload": payload,
    }


CONNECT, TIME = "org.apache.kafka.connect.data.", "io.debezium.time."
PEOPLE_FIELDS = [
    field("id", "int32"),
    field("name", "string"),
    field("born", "int32", f"{TIME}Date"),
    field("balance", "bytes", f"{CONNECT}Decimal", scale="2"),
    field("seen", "int64", f"{TIME}MicroTimestamp"),
    field("zone", "string", f"{TIME}ZonedTimestamp"),
]


def test_a_schema_says_what_values_are_and_nothing_need_be_declared() -> None:
    """Events with a schema, of two versions, and without: each by its own."""
    narrower = [*PEOPLE_FIELDS[:3], field("balance", "bytes", f"{CONNECT}Decimal", scale="1"), *PEOPLE_FIELDS[4:]]
    given = [
        with_schema(EVENTS[0], PEOPLE_FIELDS),
        with_schema(event("c", None, {**ADA, "balance": "DA=="}), narrower),
        with_schema(EVENTS[2], PEOPLE_FIELDS),
        event("c", None, {"id": 7, "name": "plain"}),
        None,
    ]
    rows = read(given, PEOPLE, **{"sink.timestamp-zone": "America/Los_Angeles"})
    assert bad(rows) == []
    # A MicroTimestamp is a wall clock without a zone; a ZonedTimestamp is an instant.
    clocks = (SEEN, datetime(2024, 3, 4, 22, 7, 8))
    assert [tuple(row.values()) for row in rows.table.to_pylist()] == [
        (1, "Ada", date(1815, 12, 10), Decimal("123.45"), *clocks),
        (1, "Ada", date(1815, 12, 10), Decimal("1.20"), *clocks),
        (1, "Ada", date(1815, 12, 10), Decimal("2.26"), *clocks),
        (7, "plain", None, None, None, None),
    ]


VARIABLE = "io.debezium.data.VariableScaleDecimal"
NUMBER_123, LONG = b64encode((123).to_bytes(1, "big")).decode(), b64encode(b"\x7f" * 3000).decode()


@pytest.mark.parametrize(
    ("semantic", "parameters", "value", "kind", "right"),
    [
        # https://debezium.io/documentation/reference/stable/connectors/mysql.html, temporal types without time zones
        (f"{TIME}Timestamp", {}, 1529476623000, "timestamp", datetime(2018, 6, 20, 6, 37, 3)),
        (f"{CONNECT}Timestamp", {}, 1529476623000, "timestamp", datetime(2018, 6, 20, 6, 37, 3)),
        (f"{TIME}ZonedTimestamp", {}, "2018-06-20T13:37:03Z", "timestamp", datetime(2018, 6, 20, 13, 37, 3)),
        (f"{TIME}NanoTimestamp", {}, 1529476623000000001, "timestamp", datetime(2018, 6, 20, 6, 37, 3)),
        (f"{TIME}MicroTimestamp", {}, 1, "timestamp", datetime(1970, 1, 1, 0, 0, 0, 1)),
        (f"{TIME}Timestamp", {}, -1000, "timestamp", datetime(1969, 12, 31, 23, 59, 59)),
        (f"{TIME}Date", {}, 0, "date", date(1970, 1, 1)),
        (f"{CONNECT}Date", {}, 19787, "date", date(2024, 3, 5)),
        (f"{TIME}Date", {}, 19787, "int", 19787),
        (f"{TIME}MicroTime", {}, 1000000, "bigint", 1000000),
        (f"{TIME}MicroTime", {}, 1000000, "timestamp", "wrong type: number into timestamp"),
        (f"{CONNECT}Decimal", {"scale": "0"}, "MDk=", "bigint", 12345),
        (f"{CONNECT}Decimal", {"scale": "0"}, "1234", "bigint", 0xD76DF8 - (1 << 24)),
        (f"{CONNECT}Decimal", {"scale": "3"}, "MDk=", "decimal(8,3)", Decimal("12.345")),
        (f"{CONNECT}Decimal", {"scale": "3"}, "MDk=", "decimal(6,2)", "more decimal places than decimal(6,2)"),
        (f"{CONNECT}Decimal", {"scale": "-2"}, NUMBER_123, "decimal(6,0)", Decimal(12300)),
        (f"{CONNECT}Decimal", {"scale": "2"}, "MDk=", "double", 123.45),
        (f"{CONNECT}Decimal", {"scale": "2"}, "MDk=", "string", "MDk="),
        (f"{CONNECT}Decimal", {}, "1234", "decimal(6,2)", "wrong type: text into decimal(6,2)"),
        (f"{CONNECT}Decimal", {"scale": "2"}, "12.5", "decimal(6,2)", "not base64"),
        (VARIABLE, {}, {"scale": 2, "value": "MDk="}, "decimal(6,2)", Decimal("123.45")),
        (VARIABLE, {}, {"scale": 2}, "decimal(6,2)", "wrong type: object into decimal(6,2)"),
        (VARIABLE, {}, {"scale": "2", "value": "MDk="}, "decimal(6,2)", Decimal("123.45")),
        (VARIABLE, {}, {"scale": None, "value": "MDk="}, "decimal(6,2)", "wrong type: null into int"),
        (VARIABLE, {}, {"scale": {}, "value": "MDk="}, "double", "wrong type: object into int"),
        (VARIABLE, {}, {"scale": "x", "value": "MDk="}, "decimal(6,2)", "wrong type: text into int"),
        (VARIABLE, {}, {"scale": 1 << 31, "value": "MDk="}, "decimal(6,2)", "out of range for a scale"),
        # More digits than Python takes, or writes.
        (VARIABLE, {}, {"scale": 2, "value": LONG}, "decimal(6,2)", "too many digits"),
        (f"{CONNECT}Decimal", {"scale": "2"}, LONG, "decimal(6,2)", "too many digits"),
        (f"{CONNECT}Decimal", {"scale": "9" * 5000}, "MDk=", "decimal(6,2)", "wrong type: text into decimal(6,2)"),
        (None, {}, "123.45", "decimal(6,2)", Decimal("123.45")),
        (None, {}, 123.45, "decimal(6,2)", Decimal("123.45")),
        (None, {}, "1234", "int", 1234),
    ],
)
def test_a_value_by_its_semantic_type(semantic: str, parameters: Any, value: Any, kind: str, right: Any) -> None:
    fields = [field("v", "of its type", semantic, **parameters)]
    rows = read([with_schema(event("c", None, {"v": value}), fields)] * 3, f"v {kind}")
    told = rows.table["v"].to_pylist() or [row.reason for row in rows.bad]
    assert told == [right] * 3


@pytest.mark.parametrize(
    ("mode", "value", "kind", "right"),
    [
        # A text of digits may be base64: it must be declared.
        ("double", "1234", "decimal(6,2)", "wrong type: text into decimal(6,2)"),
        ("double", "1234", "bigint", "wrong type: text into bigint"),
        ("double", 12.5, "decimal(6,2)", Decimal("12.50")),
        ("string", "1234", "decimal(6,2)", Decimal("1234.00")),
        ("precise", "MDk=", "decimal(6,2)", Decimal("123.45")),
        ("precise", "MDk=", "bigint", 12345),
        ("precise", "MDk=", "double", "wrong type: text of unknown scale into double"),
        ("precise", LONG, "decimal(6,2)", "too many digits"),
        ("precise", 7, "double", 7.0),
        ("precise", ["MDk="], "array<decimal(6,2)>", [Decimal("123.45")]),
        ("double", ["1234"], "array<decimal(6,2)>", "wrong type: text into decimal(6,2)"),
        ("double", {"7": 1}, "map<int,int>", [(7, 1)]),
        ("double", "1234", "string", "1234"),
    ],
)
def test_a_number_without_a_schema_by_the_declared_mode(mode: str, value: Any, kind: str, right: Any) -> None:
    options = {"sink.value.debezium.decimal-handling-mode": mode}
    rows = read([event("c", None, {"v": value})] * 3, f"v {kind}", **options)
    told = rows.table["v"].to_pylist() or [row.reason for row in rows.bad]
    assert told == [right] * 3


BOTH_TIMES = [field("upd", "int64", f"{TIME}MicroTimestamp"), field("cre", "int64", f"{TIME}Timestamp")]
EITHER = "$.after.upd, $.after.cre"
IN_CENTS, IN_TENTHS = (field("v", "bytes", f"{CONNECT}Decimal", scale=scale) for scale in "21")


@pytest.mark.parametrize(
    ("images", "given", "kind", "path", "right"),
    [
        (([], BOTH_TIMES), event("c", None, {"upd": None, "cre": 1709164800123}), "timestamp", EITHER,
            datetime(2024, 2, 29, 0, 0, 0, 123000)),
        (([], BOTH_TIMES), event("c", None, {"upd": 1709164800123456, "cre": 1}), "timestamp", EITHER,
            datetime(2024, 2, 29, 0, 0, 0, 123456)),
        # What the schema doesn't know is read as is declared.
        (([], BOTH_TIMES), event("c", None, {"old": 1}), "timestamp", "$.after.upd, $.after.old",
            "wrong type: number into timestamp"),
        (([IN_CENTS], [IN_TENTHS]), event("d", {"v": "MDk="}, None), "decimal(6,2)", "$.after.v, $.before.v",
            Decimal("123.45")),
        (([IN_CENTS], [IN_TENTHS]), event("d", {"v": "MDk="}, None), "decimal(6,2)", None, Decimal("123.45")),
        (([IN_CENTS], [IN_TENTHS]), event("u", {"v": "AA=="}, {"v": "MDk="}), "decimal(6,2)", None, Decimal("1234.50")),
        (([IN_CENTS], []), event("d", {"v": "MDk="}, None), "decimal(6,2)", None, Decimal("123.45")),
        (([], [IN_CENTS]), event("d", {"v": "MDk="}, None), "decimal(6,2)", None, "wrong type: text into decimal(6,2)"),
    ],
)  # fmt: skip
def test_each_value_by_the_type_at_its_own_path(
    images: Any, given: Any, kind: str, path: str | None, right: Any
) -> None:
    fields = [{"field": name, "fields": image} for name, image in zip(("before", "after"), images, strict=True)]
    wrapped = {"schema": {"type": "struct", "fields": fields}, "payload": given}
    rows = read([wrapped] * 3, f"v {kind}", **({"sink.column.v.from": path} if path else {}))
    assert (rows.table["v"].to_pylist() or [row.reason for row in rows.bad]) == [right] * 3


@given(st.lists(st.tuples(st.integers(-(10**20), 10**20), st.integers(-3, 8)), min_size=1, max_size=5))
def test_decimals_of_any_size_and_scale(numbers: list[tuple[int, int]]) -> None:
    """Each by a schema of its own, all in one batch."""
    given = []
    for number, scale in numbers:
        octets = number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)
        fields = [field("v", "bytes", f"{CONNECT}Decimal", scale=str(scale))]
        given.append(with_schema(event("c", None, {"v": b64encode(octets).decode()}), fields))
    rows = read(given, "v decimal(38,8)")
    assert rows.table["v"].to_pylist() == [Decimal(number).scaleb(-scale) for number, scale in numbers]


def test_a_schema_that_is_none_is_as_if_there_were_none() -> None:
    schemas: list[Any] = ["text", 5, {"fields": 7}, {"fields": [{"field": "after", "fields": [1]}]}, []]
    for schema in schemas:
        rows = read([{"schema": schema, "payload": EVENTS[0]}], "id int, balance decimal(6,2)")
        assert bad(rows) == [(0, "balance", "wrong type: text into decimal(6,2)")]


def test_a_schema_that_is_too_deep_makes_a_bad_record() -> None:
    depth = 100_000
    fields = f'[{{"field": "after", "fields": [{{"field": "v", "fields": {"[" * depth}{"]" * depth}}}]}}]'
    deep = f'{{"schema": {{"fields": {fields}}}, "payload": {{"op": "c", "after": {{"v": [1]}}}}}}'.encode()
    rows = read([deep, event("c", None, {"v": [2]})], "v array<int>")
    assert (rows.table["v"].to_pylist(), bad(rows)) == ([[2]], [(0, "schema", "nested too deep")])


def test_the_text_of_a_document_is_read_as_its_image() -> None:
    """As the connector for MongoDB writes it."""
    rows = read([event("c", None, json.dumps({"id": 7}))], "id int")
    assert rows.table["id"].to_pylist() == [7]


KINDS = "a int, b decimal(9,2), c timestamp, before_b decimal(9,2), op string"
images = st.one_of(plain, values, st.sampled_from(["null", '{"b": "MDk=", "c": 1709618828123}', '{"b": "1234"}']))
schemas = st.sampled_from(
    [
        None,
        json.dumps(with_schema(None, [field("b", "bytes", f"{CONNECT}Decimal", scale="1")])["schema"]),
        json.dumps(
            {
                "fields": [
                    {"field": "before", "fields": [IN_CENTS | {"field": "b"}]},
                    {"field": "after", "fields": [IN_TENTHS | {"field": "b"}]},
                ]
            }
        ),
        json.dumps(with_schema(None, [field("b", "string"), field("c", "int64", f"{TIME}Timestamp")])["schema"]),
        '"none"',
    ]
)


def as_event(op: str, before: str, after: str, schema: str | None) -> bytes:
    payload = f'{{"op": {op}, "before": {before}, "after": {after}}}'
    return (payload if schema is None else f'{{"schema": {schema}, "payload": {payload}}}').encode()


events = st.builds(as_event, st.sampled_from(['"c"', '"d"', "null", "7"]), images, images, schemas)


def exactly(record: bytes, columns: Sequence[Column], config: SinkConfig) -> list[Any]:
    """The row by the exact decoder alone. Raises InvalidValue."""
    envelope = ExactDecoder(debezium._ENVELOPE, SinkConfig.parse({}))
    op, before, after, schema, payload = envelope.row(record)
    text, given = record, None
    if op is None and payload is not None:
        text, given = payload.encode(), schema
        op, before, after, *_ = envelope.row(text)
    if op is None:
        raise InvalidValue(reason="missing").within(step="op")
    is_before = config["sink.value.debezium.image"].value == "before"
    image = next((one for one in ((before, after) if is_before else (after, before)) if one is not None), None)
    if image is None:
        raise InvalidValue(reason="no before and no after")
    inputs = {"image": image.encode(), "before": (before or "{}").encode(), "beside": text}
    found: dict[str, Any] = {}
    at = "before" if (is_before and before is not None) or after is None else "after"
    decoders = DebeziumDecoder(columns, config)._decoders(given, at)
    for part, decoder in (decoders or {}).items():
        exact = decoder.exact
        found |= dict(zip(exact.names, exact.row(inputs[part]), strict=True))
    return [found[column.name] for column in columns]


@given(
    st.lists(st.lists(events, min_size=1, max_size=6), min_size=1, max_size=2),
    st.sampled_from(["after", "before", "both"]),
    st.sampled_from(["double", "precise", "string"]),
)
def test_agrees_with_the_exact_decoder(batches: list[list[bytes]], image: str, mode: str) -> None:
    texts = {"sink.value.debezium.image": image, "sink.value.debezium.decimal-handling-mode": mode}
    config = SinkConfig.parse({"sink.column.op.from": "$.op", **texts})
    columns = declared(KINDS)
    decoder = DebeziumDecoder(columns, config)
    for batch in batches:
        rows, refused = [], []
        for index, record in enumerate(batch):
            try:
                rows.append(exactly(record, columns, config))
            except InvalidValue as error:  # noqa: PERF203 -- the reference is meant to be plain
                refused.append(error.bad_row(index))
        decoded = decoder.decode(pa.array(batch, pa.binary()))
        assert [list(row.values()) for row in decoded.table.to_pylist()] == rows
        assert decoded.bad == tuple(refused)


def called(name: str, kind: str, **more: Any) -> Any:
    """A type of Avro as Connect's converter writes it."""
    return ["null", {"type": kind, "connect.version": 1, "connect.name": name, **more}]


CENTS = {"logicalType": "decimal", "precision": 6, "scale": 2, "connect.parameters": {"scale": "2"}}
SCALED: dict[str, Any] = {"type": "record", "name": "VariableScaleDecimal", "connect.name": VARIABLE}
SCALED["fields"] = [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}]
IN_AVRO: dict[str, Any] = {
    "id": "int",
    "name": ["null", "string"],
    "born": called(f"{TIME}Date", "int"),
    "balance": called(f"{CONNECT}Decimal", "bytes", **CENTS),
    "seen": called(f"{TIME}MicroTimestamp", "long"),
    "zone": called(f"{TIME}ZonedTimestamp", "string"),
}


def envelope(kinds: Mapping[str, Any]) -> dict[str, Any]:
    def struct(name: str, kinds: Mapping[str, Any]) -> dict[str, Any]:
        fields = [{"name": field, "type": kind} for field, kind in kinds.items()]
        return {"type": "record", "name": name, "namespace": "shop.people", "fields": fields}

    source = struct("Source", {"connector": "string", "table": "string", "pos": "long"})
    images = {"before": ["null", struct("Value", kinds)], "after": ["null", "Value"]}
    return struct("Envelope", {**images, "source": source, "op": ["null", "string"], "ts_ms": ["null", "long"]})


def read_avro(events: Sequence[Any], kinds: str, values: Mapping[str, Any] = IN_AVRO, **options: str) -> DecodedRows:
    schema = envelope(values)
    given = [None if some is None else b"\0\0\0\0\0" + written(schema, some) for some in events]
    decoder = DebeziumAvroDecoder(declared(kinds), SinkConfig.parse(options), Given(schema))
    return decoder.decode(pa.array(given, pa.binary()))


def in_avro(some: Any) -> Any:
    """An event as fastavro takes it."""

    def balanced(image: Any) -> Any:
        cents = image["balance"] and int.from_bytes(b64decode(image["balance"]), "big", signed=True)
        return {**image, "balance": None if cents is None else Decimal(cents).scaleb(-2)}

    return {**some, **{at: some[at] and balanced(some[at]) for at in ("before", "after")}}


SOURCES = {"sink.column.op.from": "$.op", "sink.column.pos.from": "$.source.pos"}


CENTS_IN_JSON = st.integers(-999999, 999999).map(lambda n: b64encode(n.to_bytes(3, "big", signed=True)).decode())
IMAGE = st.none() | st.fixed_dictionaries(
    {
        "id": st.sampled_from([1, 2**31 - 1]),
        "name": st.sampled_from([None, "ü"]),
        "born": st.sampled_from([None, 0, -56270, 3_000_000]),
        "balance": st.none() | CENTS_IN_JSON,
        "seen": st.sampled_from([None, 0, -1, 1709618828123456]),
        "zone": st.sampled_from([None, "2024-03-05T06:07:08.123456789+02:00", "soon"]),
    }
)


@given(
    st.lists(st.none() | st.builds(event, st.sampled_from(["c", "d", None]), IMAGE, IMAGE, pos=st.just(7))),
    st.sampled_from(["after", "before", "both"]),
    st.sampled_from([f"{PEOPLE}, before_name string", "balance decimal(38,2), born int, seen bigint, zone string"]),
)
def test_an_event_in_avro_is_the_row_that_it_is_in_json(events: list[Any], image: str, wanted: str) -> None:
    wanted += ", op string, pos bigint, key int"
    options: dict[str, Any] = {**SOURCES, "sink.column.key.from": "$.after.id, $.before.id"}
    options |= {"sink.value.debezium.image": image, "sink.timestamp-zone": "America/Los_Angeles"}
    in_json = read([some and with_schema(some, PEOPLE_FIELDS) for some in events], wanted, **options)
    rows = read_avro([some and in_avro(some) for some in events], wanted, **options)
    assert rows.table.to_pylist() == in_json.table.to_pylist()
    assert (rows.bad, rows.skipped, rows.table.schema) == (in_json.bad, in_json.skipped, in_json.table.schema)


@pytest.mark.parametrize(
    ("kind", "value", "wanted", "right"),
    [
        (called(f"{TIME}Timestamp", "long"), 1529476623000, "timestamp", datetime(2018, 6, 20, 6, 37, 3)),
        (called(f"{CONNECT}Timestamp", "long", logicalType="timestamp-millis"), 1529476623000, "timestamp",
            datetime(2018, 6, 20, 6, 37, 3)),
        (called(f"{TIME}NanoTimestamp", "long"), 1529476623000000001, "timestamp", datetime(2018, 6, 20, 6, 37, 3)),
        (called(f"{TIME}MicroTimestamp", "long"), 1, "timestamp", datetime(1970, 1, 1, 0, 0, 0, 1)),
        (called(f"{TIME}Date", "int"), 19787, "int", 19787),
        (called(f"{CONNECT}Date", "int", logicalType="date"), 19787, "date", date(2024, 3, 5)),
        (called(f"{TIME}MicroTime", "long"), 1000000, "bigint", 1000000),
        (called(f"{TIME}ZonedTimestamp", "string"), "2018-06-20T13:37:03+02:00", "timestamp",
            datetime(2018, 6, 20, 4, 37, 3)),
        (called(f"{TIME}ZonedTimestamp", "string"), "soon", "timestamp", ("v", "not a timestamp")),
        (called(f"{CONNECT}Decimal", "bytes", **CENTS), Decimal("123.45"), "double", 123.45),
        (called(f"{CONNECT}Decimal", "bytes", **CENTS), Decimal("12.34"), "decimal(6,1)",
            ("v", "more decimal places than decimal(6,1)")),
        (SCALED, {"scale": 2, "value": b"09"}, "decimal(6,2)", Decimal("123.45")),
        (["null", SCALED], {"scale": 2, "value": b"09"}, "decimal(6,2)", Decimal("123.45")),
        (SCALED, {"scale": -1, "value": b"\x07"}, "bigint", 70),
        ({**SCALED, "fields": [{"name": "scale", "type": "long"}, SCALED["fields"][1]]},
            {"scale": 1 << 32, "value": b"1"}, "int", ("v.scale", "out of range for int")),
        (SCALED, {"scale": 2, "value": b""}, "decimal(6,2)", ("v", "not a number: no bytes")),
        (SCALED, {"scale": 2, "value": b"09"}, "struct<scale:int>", {"scale": 2}),
        (["null", "string"], "123.45", "decimal(6,2)", Decimal("123.45")),
        (["null", "string"], "x", "int", ("v", "wrong type: text into int")),
    ],
)  # fmt: skip
def test_a_value_by_its_name_in_avro(kind: Any, value: Any, wanted: str, right: Any) -> None:
    zone = {"sink.timestamp-zone": "America/Los_Angeles"}
    both = [event("d", {"v": value}, None, pos=1), event("c", None, {"v": value}, pos=2)]
    rows = read_avro(both, f"v {wanted}", {"v": kind}, **zone)
    reasons = [(row.field, row.reason) for row in rows.bad]
    assert [*rows.table["v"].to_pylist(), *reasons] == [right] * 2


def test_what_is_no_change_of_a_row_is_bad_in_avro() -> None:
    id_alone = {"id": ["null", "int"]}
    good, odd = event("c", None, {"id": 1}), event(None, None, {"id": 2})
    given = [good, event("t", None, None), odd, event("c", None, {"id": None})]
    rows = read_avro(given, "id int!", id_alone)
    assert bad(rows) == [(1, None, "no before and no after"), (2, "op", "missing"), (3, "id", "null")]
    odd_images = {
        **envelope(id_alone),
        "fields": [{"name": "after", "type": "string"}, {"name": "op", "type": "string"}],
    }
    decoder = DebeziumAvroDecoder(declared("id int"), SinkConfig.parse({}), Given(odd_images))
    rows = decoder.decode(pa.array([b"\0\0\0\0\0\2x\2c"]))
    assert bad(rows) == [(0, "after", "wrong type: string, not a record")]
    strict: dict[str, Any] = {"sink.on-unknown-field": "bad-record"}
    op: dict[str, Any] = {"sink.column.op.from": "$.op"}
    assert read_avro(given[:1], "id int, op string", id_alone, **op, **strict).bad == ()
    more = {**id_alone, "new": ["null", "int"]}
    assert bad(read_avro(given[:1], "id int", more, **strict)) == [(0, "new", "unknown field")]
