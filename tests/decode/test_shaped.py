"""Records of one shape: proved as a whole where they are plain, left alone where anything is odd, and never wrong."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivesink.config.options import OnUnknownField, SinkConfig
from hivesink.core.table import Array, Char, Column, Decimal, HiveType, Map, Primitive, Struct, Varchar
from hivesink.core.typetext import parse_type
from hivesink.decode.json.columns import JsonColumns
from hivesink.decode.json.exact import ExactDecoder
from hivesink.decode.json.shaped import ShapedDecoder
from tests.decode.settings import PLAIN, decoding
from tests.decode.test_fast_agrees import KINDS, ODD, assert_same, numbers, strings, times

P = Primitive
EACH: list[tuple[HiveType, list[str]]] = [
    (P.INT, ["0", "7", "-12", "null", '"7"', "2147483647", "-2147483648"]),
    (P.BIGINT, ["1795132800000", "null", "-9"]),
    (P.DOUBLE, ["1.5", "0", "-0.0", "1e4", "null", '"2.25"', "12345678901234567890"]),
    (P.FLOAT, ["0.1", "null", "3"]),
    (P.BOOLEAN, ["true", "false", "null"]),
    (P.STRING, ['"a"', '""', '"ä, {:} ]"', "null", '"null"']),
    (P.TIMESTAMP, ['"2024-01-02T03:04:05Z"', "null"]),
    (P.DATE, ['"2024-01-02"', "null"]),
    (P.BINARY, ['"aGk="', "null"]),
    (Varchar(3), ['"abc"', "null"]),
    (Char(3), ['"ab "', "null"]),
    (Decimal(9, 2), ["1.23", "-7", "null", '"1234567.89"', "1.230"]),
    (Decimal(38, 10), ["1.23", "null"]),
    (Array(P.INT), ["[1, 2]", "[]", "null"]),
    (Map(P.STRING, P.DOUBLE), ['{"k": 1.5}']),
    (Struct((("a", P.INT), ("b", P.STRING))), ['{"a": 1, "b": "x"}', '{"b": null, "a": null}']),
]


def proved(columns: list[Column], records: list[bytes], options: SinkConfig | None = None) -> list[int]:
    """The rows of `records` that it proves, at the second look."""
    shaped = ShapedDecoder(JsonColumns(ExactDecoder(columns, options or PLAIN)))
    batch = pa.array(records, pa.binary()).view(pa.string())
    shaped.decode(batch)
    return sorted(np.concatenate([np.empty(0, int), *(rows for rows, _ in shaped.decode(batch))]).tolist())


@pytest.mark.parametrize(("kind", "values"), EACH, ids=[str(kind) for kind, _ in EACH])
def test_plain_values_of_every_type_are_proved(kind: HiveType, values: list[str]) -> None:
    records = [f'{{"x": "{row}", "C": {value}, "y": {row}}}'.encode() for row, value in enumerate(values * 3)]
    columns = [Column("c", kind), Column("none", P.INT)]
    assert proved(columns, records) == list(range(len(records)))
    assert_same(columns, PLAIN, [records, records])


ONE = b'{"a": 1, "b": "x", "c": [1, {"d": "e"}], "f": null}'
AB = [Column("a", P.INT), Column("b", P.STRING)]


@pytest.mark.parametrize(
    "other",
    [
        b'{"a": 1, "b": "x", "c": [1, {"d": "e"}], "f": null,}',
        b'{"a": 1, "b": "x", "c": [1, {"d": "e"}], "f": nul}',
        b'{"a": 1, "b": "x", "c": [1, {"d": "e"}], "f": 01}',
        b'{"a": 1, "b": "x", "c": [1, {"d": "e"}, "f": null}',
        b'{"a": 1, "b": "x", "y", "c": [1, {"d": "e"}], "f": null}',
        b'{"a": 1, "b": "x" "c": [1, {"d": "e"}], "f": null}',
        b'{"a": 1 , "b": "x", "c": [1, {"d": "e"}], "f": null}',
        b'{"a": 1, "b": x, "c": [1, {"d": "e"}], "f": null}',
        b'{"a": , "b": "x", "c": [1, {"d": "e"}], "f": null}',
        b'{"a": 1, "b": "x\\q", "c": [1, {"d": "e"}], "f": null}',
        b'{"a": 1, "b": "x\n", "c": [1, {"d": "e"}], "f": null}',
        b'{"a": 1, "b": "\xff", "c": [1, {"d": "e"}], "f": null}',
        b'{"a": 1, "b": "x, "c": [1, {"d": "e"}], "f": null}',
        b'{"a": 1, "b": "x", "c": [1, {"d": "e"}], "g": null}',
        b'{"b": "x", "a": 1, "c": [1, {"d": "e"}], "f": null}',
        b' {"a": 1, "b": "x", "c": [1, {"d": "e"}], "f": null}',
        b'{"a": 1, "b": "x", "c": [1, {"d": "e"}], "f": null} ',
        b'{"a": 1, "b": "x", "c": [1, {"d": "e"}], "f": null}}',
        b'{"a": 1, "b": "x", "c": 1, "d": "e", "f": null}',
        b'{"a": 1, "b": "x", "c": [1, {"d": "e"}], "f": null]',
        b"",
        b'"',
        b"{}",
    ],
)
def test_what_differs_in_anything_but_values_is_left(other: bytes) -> None:
    records = [ONE] * 40 + [other] + [ONE] * 40
    assert proved(AB, records) == [*range(40), *range(41, 81)]
    assert_same(AB, PLAIN, [records, records])


def test_an_unknown_field_is_proved_only_where_it_is_ignored() -> None:
    records = [b'{"a":%d,"b":"x","more":{"a":[1]}}' % row for row in range(30)]
    strict = decoding(unknown=OnUnknownField.BAD_RECORD)
    assert proved(AB, records, strict) == []
    assert_same(AB, strict, [records])
    assert_same(AB, PLAIN, [records])


def test_several_shapes_of_one_stream_are_remembered() -> None:
    shapes = [b'{"a":%d,"b":"x"}', b'{"b":"x","a":%d}', b'{"A": %d}', b'{"a":%d,"c":1}']
    records = [shapes[row % 4] % row for row in range(200)]
    assert proved(AB, records) == list(range(200))
    assert_same(AB, PLAIN, [records, records])


def test_a_record_that_lacks_a_required_column_is_left() -> None:
    columns = [Column("a", P.INT), Column("b", P.STRING, nullable=False)]
    records = [b'{"a":%d}' % row for row in range(20)] + [b'{"a":1,"b":null}', b'{"a":1,"b":"x"}']
    assert proved(columns, records) in ([], [21])
    assert_same(columns, PLAIN, [records])
    # Keys that are too long to be looked for, or have a space behind them.
    for record in (b'{"%s":1,"a":2}' % (b"n" * 300), b'{"a" :1}'):
        assert proved(AB, [record] * 20) == []


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_agrees_on_each_odd_value_in_a_known_shape(kind: HiveType) -> None:
    plain = [b'{"x": 1, "a": null}'] * 40
    found = [f'{{"x": 1, "a": {value}}}'.encode("utf-8", "surrogatepass") for value in [*ODD, "", "x", "1,2", "]"]]
    ignored = [f'{{"x": {value}, "a": null}}'.encode("utf-8", "surrogatepass") for value in [*ODD, "", "x", "1,2", "]"]]
    assert_same([Column("a", kind)], PLAIN, [plain, found, ignored, [*plain, *found, *ignored]])


HOSTILE = st.one_of(numbers, strings, times.map('"{}"'.format), st.sampled_from([*ODD, "", "x", "1,2", '"a":1', "]"]))


@given(st.lists(st.sampled_from(KINDS), min_size=2, max_size=2), st.lists(st.tuples(HOSTILE, HOSTILE), min_size=3))
def test_agrees_on_hostile_values_in_one_shape(kinds: list[HiveType], rows: list[tuple[str, str]]) -> None:
    columns = [Column(name, kind) for name, kind in zip("ab", kinds, strict=True)]
    records = [f'{{"x": {left}, "a": {left}, "b": {right}}}'.encode("utf-8", "surrogatepass") for left, right in rows]
    plain = [b'{"x": 1, "a": null, "b": null}'] * 5
    assert_same(columns, PLAIN, [plain, plain + records, records])


NESTED = {
    "struct<a:int,b:string>": """{"a":1,"b":"x"}
        {"a":1,"a":2} {"b":"x","b":"y"} {"a":1,"c":"x"} {"A":1,"b":"x"} {"a":1,"A":1} {"b":"x","a":1}
        {"a":null,"b":null} {"a":1.0,"b":"x"} {"a":"1","b":"x"} {"a":1,"b":2} {"a":9999999999,"b":"x"}
        {"a":{"b":1}} {"a":1,"b":} ["a",{"a":1,"b":"x"}] null,"a":1,"b":2 {"a":1,"b":"x"},"z":{}
        {"a":1,"b":"\\n\\u00e4"} {"a":1,"b":"\\q"} {"a":1,"b":"\\ud800"} {"\\u0061":1,"b":"x"} {"a":1,"b":"\\"}""",
    "struct<userid:int,tags:array<struct<tagname:string,on:boolean>>>": """
        {"userId":1,"tags":[{"tagName":"x","on":true}]}
        {"userid":1,"tags":[{"tagName":"x","on":true}]} {"userId":1,"tags":[{"tagname":"x","on":true}]}
        {"userId":1,"userid":2} {"userId":1,"tags":[{"tagName":"x","tagname":"y"}]} {"userId":1,"tags":null}
        {"userId":1,"tags":[]} {"userId":1,"tags":[null,{"tagName":null,"on":false}]} {"USERID":1,"tags":[]}""",
    "array<struct<a:double>>": """[{"a":1},{"a":2}]
        [{"a":1,"a":2}] [{"a":1},{"b":2}] [{"a":1},null,{"a":-0}] [{"a":1},{"a":2},{}] {"a":[{"a":1}]}
        [{"a":NaN},{"a":2}] [{"a":1},{"a":-Infinity}] [{"a":1},{"a":1.7976931348623159e308}]
        [{"a":1e400},{"a":1e-400}] [{"a":1}]}{"":[] [{"a":1},{"a":2} [{"a":[{"a":1}]""",
    "map<string,array<bigint>>": """{"k":[1],"l":[]}
        {"k":[1],"k":[2]} {"k":[1],"l":null} {"k":[1.5],"l":[]} {"":[null],"l":[]} {"k":{"l":1}}""",
    "struct<m:map<string,boolean>,s:struct<a:int>>": """{"m":{"k":true},"s":{"a":1}}
        {"m":null,"s":{"a":1,"b":2}} {"s":{"a":1},"m":{"a":false}} {"m":{"k":true,"k":false},"s":null}
        {"m":{"a":true,"b":false},"s":null} {"m":{"k":1},"s":{"a":1}}""",
}
"""A plain value and odd ones of each type, with a space between them."""


@pytest.mark.parametrize("kind", NESTED)
def test_nested_values_keep_every_entry_or_are_left(kind: str) -> None:
    columns = [Column("c", parse_type(kind)), Column("n", P.INT)]
    records = [f'{{"c":{value},"n":1}}'.encode() for value in NESTED[kind].split()]
    assert proved(columns, records[:1] * 20) == list(range(20))
    for record in records:
        assert_same(columns, PLAIN, [records[:1] * 20, [*(records[:1] * 20), record]])
    assert_same(columns, decoding(unknown=OnUnknownField.BAD_RECORD), [records[:1] * 20, records])
