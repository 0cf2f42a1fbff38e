from __future__ import annotations

# ruff: noqa: DTZ001  wall clocks without a zone are what a Hive TIMESTAMP holds
# ruff: noqa: E501  a case a line
import json
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal as Number
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivesink.core.table import Array, Char, Column, Decimal, HiveType, Map, Primitive, Struct, Varchar
from hivesink.core.time_format import EpochUnit
from hivesink.decode.arrowtypes import check_types
from hivesink.decode.json.exact import ValueParser
from hivesink.decode.reader import RowsReader
from hivesink.decode.values import InvalidValue, TimeRules
from hivesink.errors import InvalidOption
from tests.decode.settings import PLAIN, decoding

P = Primitive
INSTANT = pa.timestamp("us", "UTC")
BERLIN = ZoneInfo("Europe/Berlin")
UTC = timezone.utc


def done(
    kind: HiveType, array: pa.Array, *, zone: str = "UTC", nullable: bool = True
) -> tuple[list[Any], list[tuple[int, str | None, str]]]:
    """The column's good values and the bad rows."""
    reader = RowsReader([Column("v", kind, nullable=nullable)], None, decoding(zone=ZoneInfo(zone)))
    rows = reader.read(pa.RecordBatch.from_arrays([array], ["V"]))
    rows.table.validate(full=True)
    assert len(array) == rows.table.num_rows + len(rows.bad)
    return rows.table.column("v").to_pylist(), [(bad.index, bad.field, bad.reason) for bad in rows.bad]


def read(kind: HiveType, values: list[Any], source: pa.DataType, **how: Any) -> tuple[list[Any], list[Any]]:
    return done(kind, pa.array(values, source), **how)


@pytest.mark.parametrize(
    ("kind", "source", "values", "good", "bad"),
    [
        (P.TINYINT, pa.int64(), [1, 128, None, -129, -128], [1, None, -128], {1: "out of range for tinyint", 3: "out of range for tinyint"}),
        (P.BIGINT, pa.int8(), [1, -128], [1, -128], {}),
        (P.INT, pa.decimal128(12, 2), [Number("7.00"), Number("7.50"), Number(9999999999)], [7], {1: "not a whole number", 2: "out of range for int"}),
        (Decimal(9, 2), pa.int64(), [1, 9999999, 10000000, -(2**63)], [Number("1.00"), Number("9999999.00")], {2: "out of range for decimal(9,2)", 3: "out of range for decimal(9,2)"}),
        (Decimal(38, 38), pa.int64(), [0, 1, 2**63 - 1], [Number(0)], {1: "out of range for decimal(38,38)", 2: "out of range for decimal(38,38)"}),
        # Arrow's own cast takes it for another number: the product wraps in 128 bits.
        (Decimal(38, 30), pa.int64(), [1_152_921_504_600_993_658], [], {0: "out of range for decimal(38,30)"}),
        (Decimal(9, 2), pa.decimal128(20, 4), [Number("1.2300"), Number("1.2345"), Number(12345678)], [Number("1.23")], {1: "more decimal places than decimal(9,2)", 2: "out of range for decimal(9,2)"}),
        (P.DOUBLE, pa.float32(), [0.5, float("inf")], [0.5, float("inf")], {}),
        (P.DOUBLE, pa.int32(), [2**31 - 1], [2.0**31 - 1], {}),
        (P.FLOAT, pa.int16(), [-32768], [-32768.0], {}),
        (Varchar(3), pa.string(), ["äöü", "abcd", "ab  "], ["äöü"], {1: "longer than varchar(3)", 2: "longer than varchar(3)"}),
        (Char(3), pa.string(), ["ab   ", "abcd"], ["ab"], {1: "longer than char(3)"}),
        (P.TIMESTAMP, pa.timestamp("ns"), [1_000, 1_001], [datetime(1970, 1, 1, 0, 0, 0, 1)] * 2, {}),
        (P.TIMESTAMP, pa.timestamp("us"), [0, 2**62], [datetime(1970, 1, 1)], {1: "out of range for timestamp"}),
        (P.TIMESTAMP, pa.timestamp("s"), [0, 2**62], [datetime(1970, 1, 1)], {1: "out of range for timestamp"}),
        (P.DATE, pa.date32(), [0, 2**31 - 1, -(2**31)], [date(1970, 1, 1)], {1: "out of range for date", 2: "out of range for date"}),
        (P.BINARY, pa.large_binary(), [b"\0\xff", b""], [b"\0\xff", b""], {}),
        (P.STRING, pa.null(), [None], [None], {}),
    ],
)  # fmt: skip
def test_values(kind: HiveType, source: pa.DataType, values: list[Any], good: list[Any], bad: dict[int, str]) -> None:
    found, problems = read(kind, values, source)
    assert found == good
    assert problems == [(row, "v", reason) for row, reason in bad.items()]


def test_an_instant_becomes_a_wall_clock_in_the_tables_zone() -> None:
    instants = [
        datetime(2026, 3, 29, 0, 59, 59, 999999, tzinfo=UTC),
        datetime(2026, 3, 29, 1, tzinfo=UTC),
        # Beyond 2037 zones have rules only, no list of changes.
        datetime(2050, 7, 1, 12, tzinfo=UTC),
        datetime(1880, 1, 1, tzinfo=UTC),
    ]
    walls = [datetime(2026, 3, 29, 1, 59, 59, 999999), datetime(2026, 3, 29, 3), datetime(2050, 7, 1, 14)]
    walls.append(instants[3].astimezone(BERLIN).replace(tzinfo=None))
    assert read(P.TIMESTAMP, [*instants, None], INSTANT, zone="Europe/Berlin") == ([*walls, None], [])


def test_null_in_a_not_null_column_is_a_bad_row() -> None:
    assert read(P.INT, [1, None], pa.int32(), nullable=False) == ([1], [(1, "v", "null")])
    # One that doesn't fit is bad for that reason.
    assert read(P.INT, [2**40, None], pa.int64(), nullable=False) == (
        [],
        [(0, "v", "out of range for int"), (1, "v", "null")],
    )


NAMES = pa.array([b"fits", b"J\xfcrgen", None, b"far too long"], pa.binary()).view(pa.string())
EDGES = pa.array([0, 1, 2], pa.int32())
BEYOND = pa.array([2**62], pa.int64()).cast(pa.timestamp("us"))


@pytest.mark.parametrize("kind", [P.STRING, Varchar(6), Char(6)])
@pytest.mark.parametrize("source", [pa.string(), pa.large_string()])
def test_a_text_that_is_not_utf_8_is_a_bad_record(kind: HiveType, source: pa.DataType) -> None:
    good, bad = done(kind, NAMES.cast(source))
    fits = kind is P.STRING
    assert good == ["fits", None, *["far too long"] * fits]
    assert bad == [(1, "v", "not UTF-8"), *[(3, "v", f"longer than {kind}")] * (not fits)]


@pytest.mark.parametrize(
    ("kind", "array", "bad"),
    [
        (Array(P.STRING), pa.ListArray.from_arrays(EDGES, NAMES[:2]), (1, "v.0", "not UTF-8")),
        (Struct((("x", P.STRING),)), pa.StructArray.from_arrays([NAMES[:2]], ["x"]), (1, "v.x", "not UTF-8")),
        (Map(P.INT, P.STRING), pa.MapArray.from_arrays(EDGES, pa.array([7, 8]), NAMES[:2]), (1, "v.0", "not UTF-8")),
        (Map(P.STRING, P.STRING), pa.MapArray.from_arrays(EDGES, NAMES[:2], NAMES[:2]), (1, "v.0", "not UTF-8")),
        (
            Map(P.TIMESTAMP, P.INT),
            pa.MapArray.from_arrays([0, 1], BEYOND, pa.array([1])),
            (0, "v.0", "out of range for timestamp"),
        ),
    ],
)
def test_what_does_not_fit_is_found_within_other_values(kind: HiveType, array: pa.Array, bad: Any) -> None:
    assert done(kind, array)[1] == [bad]


def test_epoch_milliseconds_where_the_column_declares_them() -> None:
    columns = [Column("t", P.TIMESTAMP), Column("d", P.DATE), Column("plain", P.BIGINT)]
    options = decoding(zone=BERLIN, formats={"t": EpochUnit.MILLIS, "d": EpochUnit.MILLIS})
    millis = pa.array([1_782_950_399_123, 2**62], pa.int64())
    batch = pa.RecordBatch.from_arrays([millis, millis, millis], ["t", "d", "plain"])
    rows = RowsReader(columns, None, options).read(batch)
    assert rows.table.to_pylist() == [
        {"t": datetime(2026, 7, 2, 1, 59, 59, 123000), "d": date(2026, 7, 2), "plain": 1_782_950_399_123}
    ]
    assert [(bad.index, bad.field, bad.reason) for bad in rows.bad] == [(1, "t", "out of range for epoch-millis")]


def test_columns_are_found_by_name_without_regard_to_case_in_ddl_order() -> None:
    columns = [Column("b", P.INT), Column("a", Struct((("x", P.INT), ("y", P.STRING))))]
    inner = pa.struct([("Y", pa.string()), ("extra", pa.bool_()), ("X", pa.int64())])
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([{"Y": "é", "extra": True, "X": 1}, None, {"Y": None, "extra": None, "X": 2**40}], inner),
            pa.array([0, 0, 0]),
            pa.array([1, 2, 3]),
        ],
        ["A", "other", "B"],
    )
    rows = RowsReader(columns, None, PLAIN).read(batch)
    assert rows.table.to_pylist() == [{"b": 1, "a": {"x": 1, "y": "é"}}, {"b": 2, "a": None}]
    assert [(bad.index, bad.field, bad.reason) for bad in rows.bad] == [(2, "a.x", "out of range for int")]
    assert rows.good is not None
    assert rows.good.to_pylist() == [0, 1]


@pytest.mark.parametrize(
    ("kind", "source", "said"),
    [
        (P.INT, pa.string(), "v: string can't be int; cast it in the query"),
        (P.STRING, pa.binary(), "v: binary can't be string; cast it in the query"),
        (P.STRING, pa.int32(), "v: int32 can't be string; cast it in the query"),
        (P.FLOAT, pa.float64(), "v: double can't be float; cast it in the query"),
        (P.DOUBLE, pa.int64(), "v: int64 can't be double; cast it in the query"),
        (P.DATE, INSTANT, "v: timestamp[us, tz=UTC] can't be date; cast it in the query"),
        (P.TIMESTAMP, pa.int64(), "v: int64 can't be timestamp; cast it in the query"),
        (Array(P.INT), pa.list_(pa.string()), "v.element: string can't be int; cast it in the query"),
        (Array(P.INT), pa.int32(), "v: int32 can't be array<int>; cast it in the query"),
        (Map(P.STRING, P.INT), pa.map_(pa.string(), pa.bool_()), "v.value: bool can't be int; cast it in the query"),
        (Struct((("x", P.INT),)), pa.struct([("y", pa.int32())]), "v.x: missing"),
        (Struct((("x", P.INT),)), pa.struct([("X", pa.int32()), ("x", pa.int32())]), "v.x: two fields differ only in case"),
    ],
)  # fmt: skip
def test_types_that_can_not_fit_are_refused_up_front(kind: HiveType, source: pa.DataType, said: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        check_types(pa.schema([("v", source)]), [Column("v", kind)], PLAIN)
    assert str(caught.value) == f"the stream doesn't fit the table: {said}"


def test_all_problems_of_a_stream_are_told_together() -> None:
    stream = pa.schema([("a", pa.string()), ("B", pa.int32()), ("b", pa.int32())])
    with pytest.raises(InvalidOption, match=r"a: string can't be int.*; b: two fields differ only in case; c: missing"):
        check_types(stream, [Column(name, P.INT) for name in "abc"], PLAIN)


# The reference: the same values as JSON, read by the exact decoder.

NUMBERS = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.integers(-200, 200))
MICROS = st.one_of(
    st.none(), st.integers(-(2**62), 2**62), st.integers(-62135596800000000 - 10**11, 253402300800000000 + 10**11)
)
TEXTS = st.one_of(st.none(), st.text(st.characters(codec="utf-8"), max_size=6))


def decimals(precision: int, scale: int) -> st.SearchStrategy[Number | None]:
    limit = 10**precision - 1
    wide, near = st.integers(-limit, limit), st.integers(-min(limit, 10**6), min(limit, 10**6))
    return st.none() | (wide | near).map(
        lambda value: Number((int(value < 0), tuple(map(int, str(abs(value)))), -scale))
    )


def as_json(value: Any, source: pa.DataType) -> str:  # noqa: PLR0911  one for each kind
    match value:
        case None | bool():
            return json.dumps(value)
        case int() if pa.types.is_timestamp(source):
            return f'"{(datetime(1970, 1, 1) + timedelta(microseconds=value)).isoformat()}{"Z" if source.tz else ""}"'
        case [tuple(), *_] | [] if pa.types.is_map(source):
            entries = (f'"{key}": {as_json(item, source.item_type)}' for key, item in value)
            return "{" + ", ".join(entries) + "}"
        case int():
            return str(value)
        case list():
            return "[" + ", ".join(as_json(item, source.value_type) for item in value) + "]"
        case dict():
            fields = (f'"{name}": {as_json(item, source.field(name).type)}' for name, item in value.items())
            return "{" + ", ".join(fields) + "}"
        case str():
            return json.dumps(value)
        case _:
            return f"{value:f}"


Made: TypeAlias = tuple[HiveType, pa.DataType, st.SearchStrategy[Any]]
LEAVES: list[Made] = [
    *((kind, pa.int64(), NUMBERS) for kind in (P.TINYINT, P.SMALLINT, P.INT, P.BIGINT)),
    (Decimal(9, 2), pa.int64(), NUMBERS),
    (Decimal(38, 30), pa.int64(), NUMBERS),
    (P.INT, pa.decimal128(14, 3), decimals(14, 3)),
    (P.BIGINT, pa.decimal128(38, 2), decimals(38, 2)),
    (Decimal(9, 2), pa.decimal128(20, 4), decimals(20, 4)),
    (Decimal(38, 18), pa.decimal128(38, 4), decimals(38, 4)),
    (Decimal(38, 38), pa.decimal128(5, 5), decimals(5, 5)),
    (Decimal(4, 0), pa.decimal128(38, 38), decimals(38, 38)),
    (Varchar(3), pa.string(), TEXTS),
    (Char(2), pa.string(), TEXTS),
    (P.STRING, pa.string(), TEXTS),
    (P.TIMESTAMP, pa.timestamp("us"), MICROS),
    (P.TIMESTAMP, INSTANT, MICROS),
    (P.BOOLEAN, pa.bool_(), st.one_of(st.none(), st.booleans())),
]


def nested(inner: st.SearchStrategy[Made]) -> st.SearchStrategy[Made]:
    def wrap(made: Made) -> Any:
        kind, source, values = made
        pairs = st.lists(st.tuples(st.integers(-40000, 40000), values), max_size=3, unique_by=lambda pair: pair[0])
        fields = pa.struct([("Q", source), ("P", pa.int64())])
        kinds = [
            (Array(kind), pa.list_(source), st.lists(values, max_size=3)),
            (Map(P.SMALLINT, kind), pa.map_(pa.int32(), source), pairs),
            (Struct((("p", P.INT), ("q", kind))), fields, st.fixed_dictionaries({"Q": values, "P": NUMBERS})),
        ]
        return st.sampled_from([(kind, source, st.none() | drawn) for kind, source, drawn in kinds])

    return inner.flatmap(wrap)


KINDS = st.recursive(st.sampled_from(LEAVES), nested, max_leaves=3)


@given(KINDS, st.data(), st.sampled_from(["UTC", "Europe/Berlin", "America/Los_Angeles"]), st.integers(0, 3))
def test_whole_columns_agree_with_the_exact_decoder(made: Made, data: st.DataObject, zone: str, skip: int) -> None:
    kind, source, values = made
    drawn = data.draw(st.lists(values, max_size=8))
    # More rows than are looked at singly, cut out of a larger batch.
    rows = (drawn * 20)[skip:]
    expected, refused = [], []
    parser = ValueParser(TimeRules(ZoneInfo(zone)), ignore_unknown=True)
    for row, value in enumerate(rows):
        try:
            expected.append(parser.parse(as_json(value, source), kind))
        except (InvalidValue, OverflowError):  # noqa: PERF203  a row at a time is what it is for
            refused.append(row)
    good, bad = done(kind, pa.array(drawn * 20, source).slice(skip), zone=zone)
    assert [row for row, _, _ in bad] == refused
    assert good == expected


def test_nan_and_infinity_are_values() -> None:
    found, problems = read(P.DOUBLE, [float("nan"), float("-inf")], pa.float64())
    assert json.dumps(found) == "[NaN, -Infinity]"
    assert not problems
