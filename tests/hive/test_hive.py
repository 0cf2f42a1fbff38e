"""Every type through HiveServer2, Hive's own and Spark's: what comes back is what was asked for."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from hivesink import hive
from hivesink.errors import QueryFailed, Unsupported
from tests.metastore.live import NOSASL, hiveserver2_of

if TYPE_CHECKING:
    from collections.abc import Iterator

SCALARS: list[tuple[str, str, Any]] = [
    ("true", "boolean", True),
    ("CAST(-128 AS TINYINT)", "tinyint", -128),
    ("CAST(32767 AS SMALLINT)", "smallint", 32767),
    ("CAST(-2147483648 AS INT)", "int", -2147483648),
    ("CAST(9223372036854775807 AS BIGINT)", "bigint", 9223372036854775807),
    ("CAST(0.1 AS FLOAT)", "float", 0.1),
    ("CAST('Infinity' AS FLOAT)", "float", math.inf),
    ("CAST('-Infinity' AS DOUBLE)", "double", -math.inf),
    ("CAST(1e308 AS DOUBLE)", "double", 1e308),
    ("CAST(1.5 AS DECIMAL(38,18))", "decimal", Decimal("1.500000000000000000")),
    ("CAST(12345678901234567890.10 AS DECIMAL(38,10))", "decimal", Decimal("12345678901234567890.1000000000")),
    ("'it is \"ü😀\"'", "string", 'it is "ü😀"'),
    ("''", "string", ""),
    ("unhex('00FF2C5D')", "binary", b"\x00\xff,]"),
    ("DATE '2024-02-29'", "date", date(2024, 2, 29)),
    ("DATE '0001-01-01'", "date", date(1, 1, 1)),
    ("DATE '9999-12-31'", "date", date(9999, 12, 31)),
    ("TIMESTAMP '1582-10-15 00:00:00'", "timestamp", datetime(1582, 10, 15)),  # noqa: DTZ001  as Hive's, without zone
    ("TIMESTAMP '2024-01-02 03:04:05.1'", "timestamp", datetime(2024, 1, 2, 3, 4, 5, 100000)),  # noqa: DTZ001
    ("TIMESTAMP '9999-12-31 23:59:59.999999'", "timestamp", datetime(9999, 12, 31, 23, 59, 59, 999999)),  # noqa: DTZ001
    ("date_add(DATE '9999-12-31', 1)", "date", "+10000-01-01"),
    ("CAST(NULL AS DATE)", "date", None),
    ("CAST(NULL AS ARRAY<INT>)", "array<int>", None),
]
WHEN = datetime(2024, 1, 2, 3, 4, 5, 123456)  # noqa: DTZ001
NESTED: list[tuple[str, str, Any]] = [
    ("array(1, 2, CAST(NULL AS INT))", "array<int>", [1, 2, None]),
    ("array(true, false)", "array<boolean>", [True, False]),
    ("array(DATE '2024-01-02', CAST(NULL AS DATE))", "array<date>", [date(2024, 1, 2), None]),
    ("array(TIMESTAMP '2024-01-02 03:04:05.123456')", "array<timestamp>", [WHEN]),
    (
        "array(CAST('NaN' AS DOUBLE), CAST('-Infinity' AS DOUBLE), CAST(1e20 AS DOUBLE), CAST(1 AS DOUBLE))",
        "array<double>",
        [math.nan, -math.inf, 1e20, 1.0],
    ),
    (
        # Hive gives a constant the type of its digits, so these are none.
        "array(CAST(one + 0.50 AS DECIMAL(38,10)), CAST(one - 1 + 12345678901234567890.10 AS DECIMAL(38,10)))",
        "array<decimal(38,10)>",
        [Decimal("1.5000000000"), Decimal("12345678901234567890.1000000000")],
    ),
    ("array('a,b]', 'ü\\t\\n😀', '', 'null')", "array<string>", ["a,b]", "ü\t\n😀", "", "null"]),
    ("map(1, 'one', 2, CAST(NULL AS STRING))", "map<int,string>", {1: "one", 2: None}),
    ("map('a:b', DATE '2024-01-02')", "map<string,date>", {"a:b": date(2024, 1, 2)}),
    (
        "map(DATE '2024-01-02', CAST(one + 0.50 AS DECIMAL(10,2)))",
        "map<date,decimal(10,2)>",
        {date(2024, 1, 2): Decimal("1.50")},
    ),
    ("map(TIMESTAMP '2024-01-02 03:04:05.123456', true)", "map<timestamp,boolean>", {WHEN: True}),
    (
        "named_struct('d', DATE '2024-01-02', 's', 'x', 'deep', array(named_struct('m', map(true, 1))))",
        "struct<d:date,s:string,deep:array<struct<m:map<boolean,int>>>>",
        {"d": date(2024, 1, 2), "s": "x", "deep": [{"m": {True: 1}}]},
    ),
    ("named_struct('b', CAST('a,b' AS BINARY), 'n', 1)", "struct<b:binary,n:int>", {"b": b"a,b", "n": 1}),
]


@pytest.fixture(params=["spark", "4.0.1"])
def server(request: pytest.FixtureRequest) -> Iterator[tuple[str, hive.Hive]]:
    host, port = hiveserver2_of(request.param, request)
    with hive.connect(f"{host}:{port}", NOSASL) as session:
        yield request.param, session


def test_every_type(server: tuple[str, hive.Hive]) -> None:
    cases = SCALARS + NESTED
    sql = "SELECT " + ", ".join(f"{text} AS c{index}" for index, (text, _, _) in enumerate(cases))
    sql += " FROM (SELECT explode(array(1)) AS one) t"
    found = server[1].query(sql)
    (row,) = found.rows
    for column, value, (text, kind, wanted) in zip(found.columns, row, cases, strict=True):
        assert (column.type, type(value)) == (kind, type(wanted)), text
        assert repr(value) == repr(wanted), text  # NaN isn't equal to itself, and 1.50 equals 1.5
    assert [column.name for column in found.columns] == [f"c{index}" for index in range(len(cases))]


def test_hive_escapes_nested_strings(server: tuple[str, hive.Hive]) -> None:
    sql = r"""SELECT map('k"ey, \\ :', 'v,]"}'), array('","')"""
    ((odd, two),) = server[1].query(sql).rows
    assert odd == {'k"ey, \\ :': 'v,]"}'}
    # Spark's server doesn't, and the shortest that fits is read.
    assert two == (['","'] if server[0] == "4.0.1" else ["", ""])


def test_nested_binary_that_could_be_two_is_refused(server: tuple[str, hive.Hive]) -> None:
    with pytest.raises(Unsupported, match="base64"):
        server[1].query("SELECT array(CAST('x,y' AS BINARY))")


def test_types_of_any_query(server: tuple[str, hive.Hive]) -> None:
    name, session = server
    session.query("CREATE DATABASE IF NOT EXISTS contracts")
    session.query("DROP TABLE IF EXISTS contracts.nested_queries")
    session.query("CREATE TABLE contracts.nested_queries (many ARRAY<DATE>, n INT) STORED AS PARQUET")
    table = "contracts.nested_queries"
    for sql, kind in [
        (f"SELECT * FROM {table} t", "array<date>"),
        (f"WITH w AS (SELECT * FROM {table}) SELECT n, many FROM w LIMIT 3;", "array<date>"),
        (f"SELECT many FROM {table} UNION ALL SELECT many FROM {table}", "array<date>"),
        ("SELECT array(array(1)); -- all;", "array<array<int>>"),
        ("SELECT map(1, array(DATE '2024-01-01')) AS m, 1 AS `q.z`", "map<int,array<date>>"),
    ]:
        assert kind in {column.type for column in session.query(sql, most=1).columns}, (name, sql)


def test_a_refused_statement_has_the_servers_words(server: tuple[str, hive.Hive]) -> None:
    with pytest.raises(QueryFailed, match=r"(?is)no_such_table.*HiveServer2 at 127\.0\.0\.1:\d+") as caught:
        server[1].query("SELECT * FROM no_such_table")
    assert "\n" not in str(caught.value)
    assert server[1].query("SELECT 1 AS one").rows == ((1,),)


def test_most_rows(server: tuple[str, hive.Hive]) -> None:
    found = server[1].query("SELECT explode(array(1, 2, 3)) AS n", most=2)
    assert found.rows == ((1,), (2,))
