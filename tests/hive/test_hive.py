"""Every type through HiveServer2 4.0.1: what comes back is what was asked for, also by `hivesink query`."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from hivesink import hive
from hivesink.core.typetext import known_type
from hivesink.errors import QueryFailed
from tests.cli.site import Capsys, Said, hive_site, hivesink
from tests.metastore.live import NOSASL, hiveserver2_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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
]


@pytest.fixture
def server(request: pytest.FixtureRequest) -> str:
    host, port = hiveserver2_of("4.0.1", request)
    return f"{host}:{port}"


@pytest.fixture
def session(server: str) -> Iterator[hive.Hive]:
    with hive.connect(server, NOSASL) as opened:
        yield opened


def test_every_type(session: hive.Hive) -> None:
    found = session.query("SELECT " + ", ".join(f"{text} AS c{index}" for index, (text, _, _) in enumerate(SCALARS)))
    (row,) = found.rows
    for type_, value, (text, kind, wanted) in zip(found.types, row, SCALARS, strict=True):
        assert (type_, type(value)) == (known_type(kind), type(wanted)), text
        assert repr(value) == repr(wanted), text  # NaN isn't equal to itself, and 1.50 equals 1.5
    assert found.columns == [f"c{index}" for index in range(len(SCALARS))]


def test_what_python_has_no_value_for_is_the_servers_text(session: hive.Hive) -> None:
    found = session.query("SELECT array(1, 2), map('a', 1), named_struct('d', 1.5), CAST(NULL AS ARRAY<INT>);")
    assert found.types == [None] * 4
    assert found.rows == [("[1,2]", '{"a":1}', '{"d":1.5}', None)]


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        # Python has no such year.
        ("SELECT CAST(date_add(DATE '9999-12-31', 1) AS TIMESTAMP)", r"10000|year"),
        ("SELECT * FROM no_such_table", r"(?is)no_such_table.*HiveServer2 at 127\.0\.0\.1:\d+"),
    ],
)
def test_what_fails_says_so_in_a_line_and_the_session_goes_on(session: hive.Hive, sql: str, told: str) -> None:
    with pytest.raises(QueryFailed, match=told) as caught:
        session.query(sql)
    assert "\n" not in str(caught.value)
    assert session.query("SELECT 1 AS one").rows == [(1,)]


def test_a_query_of_the_command_line(
    server: str, capsys: Capsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIVE_CONF_DIR", str(hive_site(tmp_path, *next(iter(NOSASL.items())))))

    def ask(sql: str, *options: str) -> Said:
        return hivesink(capsys, "query", sql, "--hiveserver2", server, *options)

    said = ask("SELECT 1 AS n, map(1, array(DATE '2024-01-02')) AS m", "--json")
    rows = [[1, '{1:["2024-01-02"]}']]
    assert said.data == {"columns": ["n", "m"], "rows": rows, "more": False, "engine": "hiveserver2"}
    assert "only the first 2 rows" in ask("SELECT explode(array(1, 2, 3)) AS n", "--limit", "2").out
    said = ask("SELEC 1")
    assert (said.code, "SELEC" in said.error) == (65, True)
