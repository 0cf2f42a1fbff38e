"""Rows that wait, in a table's columns of today: nothing is rounded, cut, shifted or read as something else."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal as Number
from typing import Any

import pyarrow as pa
import pytest

from hivesink.core.table import Column
from hivesink.core.typetext import parse_type
from hivesink.decode.arrowtypes import arrow_type
from hivesink.decode.convert import refit
from hivesink.errors import RowsUnfit

KEY = ("db.t", "dt=x")
AT = datetime(2024, 1, 1, 10, 30)  # noqa: DTZ001  a wall clock


def fitted(values: list[Any], before: str, now: str) -> list[Any]:
    rows = pa.record_batch([pa.array(values, arrow_type(parse_type(before)))], names=["c"])
    found = refit(rows, (Column("c", parse_type(now)),), KEY)
    assert found.schema == pa.schema([("c", arrow_type(parse_type(now)))])
    return list(found.column(0).to_pylist())


AB, NAB = "struct<a:int,b:string>", "struct<n:date,a:string>"
FITTING: list[tuple[str, str, list[Any], list[Any]]] = [
    ("int", "bigint", [1, None], [1, None]),
    ("bigint", "tinyint", [1, None], [1, None]),
    ("int", "double", [1], [1]),
    ("float", "double", [1.5], [1.5]),
    ("decimal(20,2)", "decimal(10,1)", [Number("1.10")], [Number("1.10")]),
    ("decimal(20,2)", "int", [Number("7.00")], [7]),
    ("string", "varchar(3)", ["abc"], ["abc"]),
    ("varchar(5)", "string", ["abc"], ["abc"]),
    ("timestamp", "timestamp", [AT], [AT]),
    ("array<int>", "array<bigint>", [[1, None], None, []], [[1, None], None, []]),
    # Integers become texts, and fields come and go.
    ("int", "string", [-12, None], ["-12", None]),
    ("array<bigint>", "array<string>", [[7]], [["7"]]),
    (AB, NAB, [{"a": 1, "b": "x"}, None, {"a": None}], [{"n": None, "a": "1"}, None, {"n": None, "a": None}]),
    (
        *("map<string,struct<a:int>>", "map<string,struct<b:int,a:bigint>>"),
        [[("k", {"a": 1})], None],
        [[("k", {"b": None, "a": 1})], None],
    ),
]


@pytest.mark.parametrize(("before", "now", "values", "fits"), FITTING)
def test_what_fits(before: str, now: str, values: list[Any], fits: list[Any]) -> None:
    assert fitted(values, before, now) == fits


def test_columns_come_and_go() -> None:
    rows = pa.record_batch([pa.array([1]), pa.array(["x"])], names=["gone", "kept"])
    found = refit(rows, (Column("new", parse_type("date")), Column("kept", parse_type("string"))), KEY)
    assert found.to_pylist() == [{"new": None, "kept": "x", "gone": 1}]


@pytest.mark.parametrize(
    ("values", "before", "now", "reason"),
    [
        ([1.239], "double", "decimal(10,2)", "doesn't convert"),
        ([1e300], "double", "float", "doesn't convert"),
        (["ab", "abcdef"], "string", "varchar(3)", "longer than varchar"),
        (["ab", "abcdef"], "varchar(9)", "char(3)", "longer than char"),
        ([1704105000000], "bigint", "timestamp", "doesn't convert"),
        ([5], "int", "boolean", "doesn't convert"),
        ([AT], "timestamp", "date", "doesn't convert"),
        ([date(2024, 1, 1)], "date", "timestamp", "doesn't convert"),
        ([Number("1.25")], "decimal(20,2)", "decimal(20,1)", "more decimal places"),
        ([Number("123456789012345678.91")], "decimal(20,2)", "double", "doesn't convert"),
        ([1, 300], "int", "tinyint", "out of range"),
        (["1"], "string", "int", "doesn't convert"),
        (["a,b"], "string", "array<string>", "doesn't convert"),
        ([[1, 300]], "array<int>", "array<tinyint>", "out of range"),
        ([b"x"], "binary", "string", "doesn't convert"),
        ([True], "boolean", "string", "doesn't convert"),
    ],
)
def test_what_does_not_fit(values: list[Any], before: str, now: str, reason: str) -> None:
    with pytest.raises(RowsUnfit, match=reason) as told:
        fitted(values, before, now)
    said = str(told.value)
    assert said.startswith("rows that wait for db.t, partition dt=x don't fit column c")
    assert f"is {now} today" in said


def test_the_field_is_named() -> None:
    with pytest.raises(
        RowsUnfit, match=r"don't fit column c\.a: it was struct<a: int32> .* \(out of range for tinyint"
    ):
        fitted([{"a": 300}], "struct<a:int>", "struct<a:tinyint>")


def test_a_slice_of_an_array_is_its_own_rows() -> None:
    rows = pa.record_batch([pa.array([[1], [2, 3], [4]], pa.list_(pa.int32()))], names=["c"]).slice(1)
    found = refit(rows, (Column("c", parse_type("array<string>")),), KEY)
    assert found.column(0).to_pylist() == [["2", "3"], ["4"]]
