"""Texts of nested values as the two servers write them, and what can't be read from them."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivesink.core.typetext import parse_type
from hivesink.errors import Unsupported
from hivesink.hive import _from_plan
from hivesink.hive.values import day, moment, nested


@given(st.lists(st.none() | st.text()), st.dictionaries(st.text(), st.integers()))
def test_hives_strings_come_back_whatever_is_in_them(texts: list[str | None], numbers: dict[str, int]) -> None:
    def shown(text: str) -> str:
        # SerDeUtils.escapeString
        named = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
        return '"' + "".join(named.get(c, f"\\u{ord(c):04x}" if c < " " else c) for c in text) + '"'

    array = "[" + ",".join("null" if text is None else shown(text) for text in texts) + "]"
    pairs = "{" + ",".join(f"{shown(key)}:{number}" for key, number in numbers.items()) + "}"
    both = f'{{"a":{array},"m":{pairs}}}'
    kind = parse_type("struct<a:array<string>,m:map<string,int>>")
    assert nested(both, kind, spark=False) == {"a": texts, "m": numbers}


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("[]", "array<int>", []),
        ("{}", "map<int,int>", {}),
        ('{"a":[],"b":null}', "struct<a:array<int>,b:map<int,int>>", {"a": [], "b": None}),
        ("[1.5,0,null]", "array<decimal(38,10)>", [Decimal("1.5000000000"), Decimal("0E-10"), None]),
        (
            "[1234567890123456789012345678.1]",
            "array<decimal(38,10)>",
            [Decimal("1234567890123456789012345678.1000000000")],
        ),
        ('{"b":a,"b}', "struct<b:binary>", {"b": b'a,"b'}),
        ('["2024-01-02 03:04:05.123456789"]', "array<timestamp>", [datetime(2024, 1, 2, 3, 4, 5, 123456)]),  # noqa: DTZ001
        ('["+10000-01-01"]', "array<date>", ["+10000-01-01"]),
        ('["+10000-01-01 23:59:5959"]', "array<timestamp>", ["+10000-01-01 23:59:5959"]),
    ],
)
def test_hives_text(text: str, kind: str, value: object) -> None:
    found = nested(text, parse_type(kind), spark=False)
    assert repr(found) == repr(value)


def test_sparks_strings_are_told_apart_as_far_as_they_can_be() -> None:
    kind = parse_type("struct<s:array<string>,d:map<date,string>>")
    text = '{"s":["a"b","c]","d"],"d":{2024-01-02:"x}"}}'
    assert nested(text, kind, spark=True) == {"s": ['a"b', "c]", "d"], "d": {date(2024, 1, 2): "x}"}}


def test_long_arrays_are_read() -> None:
    numbers = list(range(20_000))
    assert nested(str(numbers).replace(" ", ""), parse_type("array<int>"), spark=True) == numbers


@pytest.mark.parametrize(
    ("text", "kind"),
    [("[a,b]", "array<binary>"), ("[\ufffd]", "array<binary>"), ("[1,2", "array<int>"), ('{"x":1}', "struct<y:int>")],
)
def test_what_is_ambiguous_or_wrong_is_refused(text: str, kind: str) -> None:
    with pytest.raises(Unsupported, match=r"base64\(…\)"):
        nested(text, parse_type(kind), spark=False)


def test_days_and_moments_that_python_cannot_hold_stay_text() -> None:
    assert day("+12345-01-01") == "+12345-01-01"
    assert moment("0000-01-01 00:00:00") == "0000-01-01 00:00:00"
    assert moment("2024-01-02 03:04:05.5") == datetime(2024, 1, 2, 3, 4, 5, 500000)  # noqa: DTZ001


def test_types_are_found_in_a_plan() -> None:
    plan = """
          Select Operator
            expressions: a (type: int), named_struct('hivesink_1',_col1,'hivesink_7',m) (type: struct<hivesink_1:array<struct<x:decimal(10,2),y:int>>,hivesink_7:map<int,string>>)
    """  # noqa: E501  as Hive prints it
    assert _from_plan(plan) == {1: "array<struct<x:decimal(10,2),y:int>>", 7: "map<int,string>"}
    assert _from_plan("expressions: a (type: struct<x:int>)") == {}
