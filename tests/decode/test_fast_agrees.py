"""The decoder against the exact one: the same rows, bit by bit, and the same bad records, on any input."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hivesink.config.options import OnUnknownField, SinkConfig
from hivesink.core.column_source import JsonPath
from hivesink.core.table import Array, Column, HiveType, Map, Primitive, Struct
from hivesink.core.time_format import EpochUnit, TextPattern
from hivesink.core.typetext import parse_type
from hivesink.decode.arrowtypes import arrow_schema
from hivesink.decode.json.decoder import JsonDecoder, exact_batch
from hivesink.decode.values import InvalidValue
from tests.decode.settings import PLAIN, decoding

P = Primitive
TYPES = "decimal(9,2) decimal(38,10) varchar(3) char(3) array<int> map<string,double> map<int,array<string>>"
NESTED = "array<timestamp> array<struct<a:decimal(9,2),b:array<date>>> struct<a:timestamp,b:array<float>,c:char(3)>"
INNER = parse_type("struct<a:int,b:struct<a:string>>")
KINDS: tuple[HiveType, ...] = (*P, *map(parse_type, f"{TYPES} {NESTED}".split()), INNER)
FORMS = (*EpochUnit, TextPattern.parse("yyyy-MM-dd HH:mmXXX"), TextPattern.parse("yyyy-MM-dd"))
ZONES = ("UTC", "Europe/Berlin", "America/Los_Angeles", "Asia/Kolkata")
OPTIONS = st.builds(
    decoding,
    zone=st.sampled_from([ZoneInfo(zone) for zone in ZONES]),
    formats=st.sampled_from([{}, *({"": form} for form in FORMS)]),
    unknown=st.sampled_from([*OnUnknownField, OnUnknownField.IGNORE]),
    nulls=st.sampled_from(["none", "none", "empty", "a=empty,zero-date", "empty,zero-date"]),
)
NAMES = ["a", "A", "b", "B", "\\u0061", "c", "C", "x", "X", 'y\\"', "z\\u0022", "\\ud800", "ä", "Ä"]

HOSTILE_NUMBERS = (
    "-0 -0.0 -0e0 1e400 -1e400 1e-400 01 1. .5 - +1 NaN Infinity -Infinity 0x10 1_0 1E+2 3.4028236e38 "
    "9007199254740993 9007199254740993.0 18446744073709551616"
)
HALFWAY = (
    "1.00000017881393432617187499 1.00000017881393432617187501 -1.0000000596046447753906251 "
    "340282356779733661637539395458142568447 3.40282356779733661637539395458142568448e38 7.0064923216240853e-46 "
    "3.4028235677973362e38 16777217.000000000000001"
)
"""At or close to the middle between two FLOATs: rounded to DOUBLE first, some become the other one, or infinite."""

digits = st.text("0123456789", min_size=1, max_size=22)
numbers = st.one_of(
    st.integers().map(str),
    st.integers(-200, 200).map(str),
    st.sampled_from([2**k + d for k in (7, 8, 15, 31, 53, 63, 64) for d in (-1, 0, 1)]).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.builds("{}{}.{}".format, st.sampled_from(["", "-"]), digits.map(lambda d: d.lstrip("0") or "0"), digits),
    st.builds("{}e{}".format, st.integers(-99, 99), st.integers(-330, 330)),
    st.sampled_from([*HOSTILE_NUMBERS.split(), *HALFWAY.split()]),
    st.sampled_from([1795132800000, -62135596800000, 253402300799999, 253402300800000, 1711846800000]).map(str),
)
SECONDS = ":00 :59 :60 :01.5 :01.123456 :01.123456000 :01.1234567 :01.0000000000 :01."
times = st.one_of(
    st.builds(
        "{:04d}-{:02d}-{:02d}{}{:02d}:{:02d}{}{}".format,
        st.one_of(st.sampled_from([0, 1, 1582, 1890, 1970, 2024, 2040, 9999]), st.integers(0, 9999)),
        st.integers(1, 12),
        st.integers(1, 31),
        st.sampled_from(["T", " ", "T", " ", "t"]),
        st.integers(0, 24),
        st.integers(0, 59),
        st.sampled_from(["", *SECONDS.split()]),
        st.sampled_from(["", "", "", "Z", "z", "+02:00", "-0800", "+14", "+23:59", "+24:00", " Z", "-00:00"]),
    ),
    st.dates().map(str),
    st.sampled_from(["", "0000-00-00", "0000-00-00 00:00:00", "0000-00-00T00:00:00Z", "0000\\u002d00-00"]),
    st.sampled_from(["2024-01-02T03Z", "2024-01-02T03", "0000-01-01", "2024-3-1", "2024-03-31T02:30:00"]),
)
ESCAPES = r"a ä 😀 \n \" \\ \u0000 \u0022 \ud83d\ude00 \ud800 \q { } , :"
PIECES = [" ", "\n", "\x00", "\x7f", *ESCAPES.split(" ")]
strings = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=5).map("".join),
    numbers,
    times,
    st.binary(max_size=4).map(lambda b: __import__("base64").b64encode(b).decode()),
    st.text(max_size=6).map(lambda t: json.dumps(t)[1:-1]),
).map('"{}"'.format)
space = st.sampled_from(["", "", "", " ", "\n", "\t \r\n"])


def _object(members: list[tuple[str, str]], gap: str) -> str:
    return "{" + f",{gap}".join(f'"{key}"{gap}:{value}' for key, value in members) + gap + "}"


def _inside(children: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    items = st.lists(children, max_size=3)
    arrays = st.builds(lambda items, gap: f"[{gap}" + f",{gap}".join(items) + "]", items, space)
    return arrays | st.builds(_object, st.lists(st.tuples(st.sampled_from(NAMES), children), max_size=3), space)


scalars = st.one_of(numbers, strings, st.sampled_from(["null", "true", "false", "null", "tru"]))
values = st.recursive(scalars, _inside, max_leaves=6)
plain = st.fixed_dictionaries({"a": values, "b": values, "c": values}).map(lambda row: _object(list(row.items()), ""))
objects = st.builds(_object, st.lists(st.tuples(st.sampled_from(NAMES), values), max_size=5), space)
# Records that are JSON only together, or more than one.
PARTS = '{"a":1 ,"b":2} } { {}{} {},{} [ ] " {"a":" "} {"a":{"b":1}'
FRAGMENTS = ["", "\n", "\ufeff{}", *PARTS.split()]
records = st.one_of(
    plain.map(str.encode),
    plain.map(str.encode),
    objects.map(str.encode),
    st.builds(lambda left, text, right: (left + text + right).encode(), space, objects, space),
    st.lists(st.sampled_from(FRAGMENTS), max_size=3).map(lambda parts: "".join(parts).encode()),
    st.builds(
        lambda record, at, byte: record[: at % (len(record) + 1)] + bytes([byte]) + record[at % (len(record) + 1) :],
        objects.map(str.encode),
        st.integers(0, 200),
        st.integers(0, 255),
    ),
    st.binary(max_size=8),
)


def bits(table: pa.Table) -> list[Any]:
    """Values by which -0.0 and 0.0 differ, as `equals` has them alike."""
    return [[repr(value) for value in column.to_pylist()] for column in table.columns]


def assert_same(
    columns: list[Column],
    options: SinkConfig,
    batches: list[list[bytes]],
    made: Callable[[Sequence[Column], SinkConfig], JsonDecoder] = JsonDecoder,
) -> None:
    schema = arrow_schema(columns)
    decoder = made(columns, options)  # one for all, so that what it has learnt counts
    exact = decoder.exact
    for batch in batches:
        rows, good, bad = [], [], []
        for index, record in enumerate(batch):
            try:
                rows.append(exact.row(record))
                good.append(index)
            except InvalidValue as error:  # noqa: PERF203 -- the reference is meant to be plain
                bad.append(error.bad_row(index))
        decoded = decoder.decode(pa.array(batch, pa.binary()))
        assert decoded.bad == tuple(bad)
        assert (list(range(len(batch))) if decoded.good is None else decoded.good.to_pylist()) == good
        assert decoded.table.schema == schema
        assert bits(decoded.table) == bits(exact_batch(rows, schema) if rows else schema.empty_table())


Kinds = list[tuple[HiveType, bool]]
HOSTILE = (
    st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from([True, True, True, False])), min_size=1, max_size=3),
    OPTIONS,
    st.lists(st.lists(records, min_size=1, max_size=8), min_size=1, max_size=3),
)
PATHS = [("a",), ("a", "b"), ("a", "b", 1), ("a", 0), ("a", 1, "a"), ("c",), ("c", "x"), ('y"',), ("ä", "b")]


LISTS = st.lists(st.sampled_from(PATHS), min_size=1, max_size=3).map(lambda steps: JsonPath(steps[0], tuple(steps[1:])))


@given(*HOSTILE, st.none() | st.lists(LISTS, min_size=3, max_size=3))
def test_agrees_on_hostile_records(
    kinds: Kinds, options: SinkConfig, batches: list[list[bytes]], paths: list[JsonPath] | None
) -> None:
    columns = [Column(name, kind, nullable=free) for name, (kind, free) in zip("abc", kinds, strict=False)]
    sources = {f"sink.column.{name}.from": path for name, path in zip("abc", paths or (), strict=False)}
    assert_same(columns, SinkConfig({**options.values, **sources}), batches)


DEEP = ('{"a":{"b":%s}}', '{"a":[%s]}', '{"A":{"b":[0,%s]},"c":{"x":%s}}', '{"a":{"b":%s},"c":1}')


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_agrees_on_each_odd_value_below_a_field(kind: HiveType) -> None:
    found = [record.replace("%s", value).encode() for value in ODD for record in DEEP]
    columns = [Column("p", kind), Column("q", kind), Column("r", kind, nullable=False)]
    paths: dict[str, tuple[str | int, ...]] = {"p": ("a", "b"), "q": ("a", 0), "r": ("a", "b")}
    for r in (("a", "b"), ("c", "x")):
        sources = {name: JsonPath(steps) for name, steps in (paths | {"r": r}).items()}
        assert_same(columns, decoding(sources=sources), [found[:3], found])


EITHER = (
    '{"a":{"b":%s},"c":{"x":1}}',
    '{"a":{"b":null},"c":{"x":%s}}',
    '{"a":null,"c":{"x":%s}}',
    '{"c":{"x":%s},"a":1}',
)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("nulls", ["none", "empty"])
def test_agrees_on_the_first_that_is_not_null(kind: HiveType, nulls: str) -> None:
    batch = [record.replace("%s", value).encode() for value in ODD for record in EITHER]
    columns = [Column("p", kind), Column("q", kind, nullable=False), Column("a", P.STRING)]
    sources = {"p": JsonPath(("a", "b"), (("c", "x"),)), "q": JsonPath(("c", "x"), (("a", "b"), ("d",)))}
    assert_same(columns, decoding(sources=sources, nulls=nulls), [batch[:3], batch])


@pytest.mark.parametrize("form", ["%s", '"%s"', "[%s]", '["%s"]', '{"k":%s}'])
def test_agrees_on_floats_that_are_rounded_twice(form: str) -> None:
    kinds: dict[str, HiveType] = {"[": Array(P.FLOAT), "{": Map(P.STRING, P.FLOAT)}
    found = [f'{{"a":{form.replace("%s", value)}}}'.encode() for value in HALFWAY.split()]
    # At the second look they are records of a known shape.
    assert_same([Column("a", kinds.get(form[0], P.FLOAT))], PLAIN, [*([one] for one in found), found, found])


@settings(max_examples=3 * settings().max_examples)
@given(
    st.sampled_from([kind for kind in KINDS if not isinstance(kind, Array | Map | Struct)]),
    OPTIONS,
    st.lists(st.one_of(numbers, times.map('"{}"'.format), strings, st.just("null")), min_size=1, max_size=12),
)
def test_agrees_on_every_value_of_one_type(kind: HiveType, options: SinkConfig, found: list[str]) -> None:
    batches = [[f'{{"a":{value}}}'.encode()] for value in found]
    assert_same([Column("a", kind)], options, [*batches, [one for batch in batches for one in batch]])


@given(OPTIONS, st.lists(times, min_size=1, max_size=30), st.sampled_from([P.TIMESTAMP, P.DATE]))
@example(decoding(zone=ZoneInfo("Europe/Berlin")), ["2024-03-31T01:00:00Z"], P.TIMESTAMP)
def test_agrees_on_times(options: SinkConfig, texts: list[str], kind: HiveType) -> None:
    """Batches of one shape, which whole columns are parsed for."""
    offset = [text for text in texts if text.endswith("Z")]
    naive = [text for text in texts if len(text) == len("2024-01-02T03:04:05")]
    batches = [[f'{{"a":"{text}"}}'.encode() for text in group] for group in (offset, naive, texts) if group]
    assert_same([Column("a", kind)], options, batches)


# Around changes of the clocks: Berlin, Los Angeles, Lord Howe, and Monrovia's of 1972, within a quarter of an hour.
TRANSITIONS = st.builds(
    lambda at, gap: (at + gap) * 1000,
    st.sampled_from([1711846800, 1710064800, 1712415600, 63593070]),
    st.integers(-1000, 1000),
)


@given(st.sampled_from(["Europe/Berlin", "America/Los_Angeles", "Australia/Lord_Howe", "Africa/Monrovia"]), st.data())
def test_agrees_on_instants(zone: str, data: st.DataObject) -> None:
    millis = data.draw(
        st.lists(st.integers(-62135596800000, 253402300799999) | st.integers(0, 2 * 10**12) | TRANSITIONS, min_size=1)
    )
    options = decoding(zone=ZoneInfo(zone), formats={"": EpochUnit.MILLIS})
    batch = [f'{{"a":{value},"b":{value}}}'.encode() for value in millis]
    assert_same([Column("a", P.TIMESTAMP), Column("b", P.DATE)], options, [batch])


ODD = [
    *HOSTILE_NUMBERS.split(),
    *(str(edge + step) for power in (7, 15, 31, 63) for edge in (-(2**power), 2**power) for step in (-1, 0, 1)),
    *(str(edge + step) for edge in (-62135596800000, 253402300799999) for step in (-1, 0, 1)),
    *("null", "true", "false", "{}", "[]", "1.5", "1.239", "1.230", "1e2", "3.4028235677973366e38", "1e38"),
    *['"7"', '"-0"', '"1.0"', '"1_0"', '"x"', '""', '"NaN"', '"true"', '"aGk="', '"aGl="', '"aGk"', '"abcd"'],
    *('" 7"', '"abc "'),
    *('"0000-00-00"', '"0000-00-00 00:00:00"', '"0000-00-00T00:00:00.00Z"', '"0000-00-00 00:00:01"'),
    *('"2024-01-02"', '"0000-01-01"', '"2024-02-30"', '"9999-12-31"', '"2024-01-02T03:04"', '"2024-01-02T03"'),
    *('"2024-01-02T03Z"', '"2024-01-02T03+02:00"', '"0000-12-31T23:59:59"', '"9999-12-31T23:59:59Z"'),
    *('"0000-12-31T23:59:59-02:00"', '"9999-12-31T23:59:59-02:00"', '"2024-01-02 03:04:05.1234567"'),
    *('"2024-01-02 03:04:05.000000000"', '"2024-01-02 03:04:05.0000000000"'),
    *('"2024-03-31T01:00:00Z"', '"2024-03-31T00:59:59.999999Z"', '"1893-03-31T23:06:32Z"', '"1800-01-01T00:00:00Z"'),
    *(r'"\ud800"', r'"\ud83d\ude00"', r'"\u0022"', r'"\u0000"', r'"\""', '"\x7f"', '"\u2028"'),
]


TIMES = [decoding(zone=ZoneInfo(zone), formats=form) for zone in ZONES for form in ({}, {"a": EpochUnit.MILLIS})]
TIMES += [decoding(nulls="zero-date,empty"), decoding(nulls="a=zero-date")]
TIMES += [decoding(zone=ZoneInfo("Europe/Berlin"), formats={"a": form}, exact=True) for form in FORMS]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_agrees_on_each_odd_value(kind: HiveType) -> None:
    """Each alone, with a decoder that knows nothing but the name; then all together, again and again."""
    found = [f'{{"a":{value}}}'.encode() for value in ODD]
    columns = [Column("a", kind)]
    for record in found:
        assert_same(columns, PLAIN, [[record, b"{}"] + [b'{"a":null}'] * 64])
    ways = TIMES if kind in {P.TIMESTAMP, P.DATE} else [PLAIN, decoding(nulls="empty,zero-date")]
    step = min(4, len(ways))
    for place, options in enumerate(ways):
        for record in found[place % step :: step]:
            assert_same(columns, options, [[record]])
        assert_same(columns, options, [found, found])


TOGETHER = [
    [b'{"a":1}{"a":2}', b'{"a":', b"3}"],
    [b'{"a":1},{"a":2}', b'{"a":3', b',"b":4}'],
    [b'{"b":"x}', b'{","a":1}', b"{}{}"],
    [b'{"b":{"a":1}', b'{"a":1}}', b"{}{}"],
    [b'{"a":1}', b"", b'{"a":2}{"a":3}'],
    [b'{"a":1}\n{"a":2}', b" "],
    # All of them begin with a brace, or end with one.
    [b'{"a":1}{"a":2}', b'{"b":', b'{"a":1}}'],
    [b'{"a":1}{"a":2}', b'{"b":{"a":1}', b',"a":5}'],
    [b'{"a":1}{"a":2}', b'{"b":{"a":1}', b"}"],
    # An overwritten field hides behind a quote that was written as an escape.
    [b'{"a":1,"a":2}', rb'{"b":"\u0022\u0022"}'],
    [b'{"a":1,"a":2}', rb'{"b":"\u0022"}', rb'{"x":"\u0022","b":"\u0022"}'],
    [rb'{"a":1,"a":2,"b":"\u0022\u0022"}'],
    [b'{"x":1,"x":2,"a":3}', b'{"a":1,"a":1}'],
    [b'{"a":1,"A":null}', b'{"A":1}', b'{"a":1}'],
]


@pytest.mark.parametrize("batch", TOGETHER)
@pytest.mark.parametrize("kind", [P.STRING, Map(P.STRING, P.INT)], ids=str)
def test_neighbours_never_help_each_other(batch: list[bytes], kind: HiveType) -> None:
    assert_same([Column("a", P.INT), Column("b", kind)], PLAIN, [[b'{"a":1,"b":"x"}'], batch, batch])


def test_more_than_one_chunk_with_every_kind_of_doubt() -> None:
    odd = rb'{"a":"5"} {"a":1.0} x {"a":1,"a":1} {"a":99999999999} {"A":1,"z":"\""} {"b":7} {}'.split()
    batch = [b'{"a":%d,"b":"%d"}' % (row, row) if row % 997 else odd[row // 997 % len(odd)] for row in range(20_000)]
    assert_same([Column("a", P.INT), Column("b", P.STRING)], PLAIN, [batch])
