"""`hivesink query` without Spark: who answers, what it says, and what goes wrong in one line."""

from __future__ import annotations

import struct
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivesink.cli.output import Grid, plain, shown
from hivesink.cli.query import Answer, Engine, _report
from hivesink.core.table import Primitive
from hivesink.core.typetext import parse_type
from tests.cli.site import hivesink

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hivesink.core.table import HiveType
    from tests.cli.site import Ingest

NOON = datetime(2024, 1, 2, 12)  # noqa: DTZ001  a Hive TIMESTAMP has no zone


def test_duckdb_answers_the_readmes_statement(ingest: Ingest, capsys: pytest.CaptureFixture[str]) -> None:
    sql = f"SELECT dt, count(*) FROM {ingest.table} GROUP BY dt"
    said = hivesink(capsys, "query", f"{sql} ORDER BY dt", "--json")
    assert said.data == {
        "columns": ["dt", "count(*)"],
        "rows": [["2026-01-01", 6], ["2026-01-02", 6]],
        "more": False,
        "engine": "duckdb",
    }
    assert said.err == "engine: duckdb\n"
    said = hivesink(capsys, "query", sql, "--engine", "duckdb")
    assert (said.code, said.err) == (0, "engine: duckdb\n")
    assert said.out.endswith("2 rows (duckdb)\n")
    said = hivesink(capsys, "query", sql, "--limit", "1")
    assert said.out.endswith("only the first 1 row (duckdb); raise --limit to see more\n")


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (["SELECT 1 FROM nowhere.at_all"], 65, "table nowhere.at_all is not in the metastore"),
        (
            ["SHOW TABLES", "--engine", "duckdb"],
            65,
            "duckdb doesn't answer this: it isn't a SELECT; use --engine spark",
        ),
        (["SELECT 1", "--engine", "hiveserver2"], 2, "--hiveserver2 HOST:PORT go together"),
        (["SELECT 1", "--engine", "spark", "--hiveserver2", "x:1"], 2, "go together: add or leave out one"),
    ],
)
def test_a_mistake_is_told_in_one_line(
    arguments: list[str], code: int, expected: str, uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert uri
    said = hivesink(capsys, "query", *arguments)
    assert said.code == code
    assert expected in said.error


def _shown(columns: list[str], cells: list[Any], kinds: Sequence[HiveType | None] | None = None) -> tuple[Any, Grid]:
    data, (grid, _) = _report(Engine.SPARK, Answer(columns, kinds or [None] * len(cells), [cells]), 1)
    assert isinstance(grid, Grid)
    return data["rows"][0], grid


def test_values_have_jsons_and_sqls_words() -> None:
    data, grid = _shown(["a", "b", "c"], [float("nan"), float("-inf"), {"deep": [float("inf"), 1.5]}])
    assert data == ["NaN", "-Infinity", {"deep": ["Infinity", 1.5]}]
    assert grid.rows == [["NaN", "-Infinity", '{"deep": ["Infinity", 1.5]}']]
    cells = [None, True, b"\x00\xff", NOON, {1.5: [False, None]}, Decimal("0E-8")]
    _, grid = _shown([*"abcdef"], cells)
    assert grid.rows == [["NULL", "true", "AP8=", "2024-01-02 12:00:00", '{"1.5": [false, null]}', "0.00000000"]]


def test_a_text_is_no_null_breaks_no_row_and_steers_no_terminal() -> None:
    cells = ["NULL", '"NULL"', "a\nb", "\x1b[2J\x9b\x7f", "\u202e", "a\\nb", "größe 🙂", "", {"deep": "\x9b"}]
    data, grid = _shown(["a\nb", *"bcdefghi"], cells)
    assert grid.columns[:2] == [r'"a\nb"', "b"]
    (row,) = grid.rows
    assert row[:5] == ['"NULL"', r'"\"NULL\""', r'"a\nb"', r'"\u001b[2J\u009b\u007f"', r'"\u202e"']
    assert row[5:] == [r"a\nb", "größe 🙂", '""', r'{"deep": "\u009b"}']
    assert [shown(text) for text in (" a", "a\u00a0", "a b")] == ['" a"', '"a\u00a0"', "a b"]
    assert data == cells


@given(st.floats(width=32, allow_nan=False))
def test_a_float_is_the_same_in_fewer_digits(value: float) -> None:
    found = plain(value, Primitive.FLOAT)
    assert repr(struct.pack("f", float(found))) == repr(struct.pack("f", value))
    assert len(str(found)) <= len(str(plain(value)))


def test_a_float_has_its_own_digits() -> None:
    cells = [0.10000000149011612, {"deep": [0.10000000149011612, None]}, 3.4028234663852886e38]
    kinds = [Primitive.FLOAT, parse_type("map<string,array<float>>"), Primitive.FLOAT]
    assert _shown(["a", "b", "c"], cells, kinds)[0] == [0.1, {"deep": [0.1, None]}, 3.4028235e38]
