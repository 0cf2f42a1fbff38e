from __future__ import annotations

import io
import json
import os
import pty
import struct
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from hivesink import Progress
from hivesink.cli import job as screen
from hivesink.cli.output import Grid, Line, Output, _table, error_lines, plain, redact, shown
from hivesink.cli.query import _report
from hivesink.core.table import HiveType, Primitive
from hivesink.core.typetext import parse_type
from hivesink.errors import ServerFailed, UnknownTable
from hivesink.hive import Answer
from tests.cli.site import Capsys, Ingest, hivesink


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("thrift://user:pa55@host:9083 is down", "thrift://***@host:9083 is down"),
        ("hive.password=pa55 was refused", "hive.password=*** was refused"),
        ('sasl.jaas.config password="pa 55";', "sasl.jaas.config password=***;"),
        ("fs.s3a.secret.key: pa55, retries: 3", "fs.s3a.secret.key: ***, retries: 3"),
        ("table demo.tokens is not there", "table demo.tokens is not there"),
        ("http://host/a@b", "http://host/a@b"),
    ],
)
def test_secrets_are_not_shown(text: str, expected: str) -> None:
    assert redact(text) == expected


def test_an_error_is_one_line_with_its_notes() -> None:
    error = ServerFailed("the metastore", "died", "/logs/a  b.log", "one\n\n two")
    # add_note is newer than Python 3.10.
    vars(error)["__notes__"] = ["epoch 7"]
    (line,) = error_lines(error)
    assert "one two; epoch 7" in line
    # A path is shown as it is.
    assert "/logs/a  b.log" in line


def test_text_is_not_taken_for_markup_and_a_long_path_stays_in_one_piece(capsys: Capsys) -> None:
    path = "/a" * 200
    Output().show({}, [Line(f"[red]{path}[/red]"), Grid("t", ("c",), [["[bold]b[/bold] :smile:"]])])
    out = capsys.readouterr().out
    assert f"[red]{path}[/red]" in out
    assert "[bold]b[/bold] :smile:" in out


def test_json_takes_what_a_query_returns(capsys: Capsys) -> None:
    row = [datetime(2026, 1, 2, tzinfo=timezone.utc), Decimal("1.50"), Decimal("0E-8"), b"\x00\x01"]
    Output(is_json=True).show({"row": row}, ())
    assert json.loads(capsys.readouterr().out) == {"row": ["2026-01-02T00:00:00+00:00", "1.50", "0.00000000", "AAE="]}


@pytest.mark.parametrize(
    ("error", "fields"),
    [
        (UnknownTable("a.b", "thrift://h:1"), ("UnknownTable", "HS080", False)),
        # Another library's code is none of ours.
        (SystemExit(3), ("SystemExit", None, False)),
    ],
)
def test_json_errors_say_whether_to_retry(error: BaseException, fields: tuple[object, ...], capsys: Capsys) -> None:
    Output(is_json=True).fail(error)
    (line,) = capsys.readouterr().err.splitlines()
    said = json.loads(line)["error"]
    assert (said["type"], said["code"], said["retryable"]) == fields


def _drawn(columns: list[str], *rows: list[object]) -> list[list[str]]:
    """The cells of each line, in a terminal of 80 columns."""
    console = Console(width=80, file=io.StringIO())
    console.print(_table(Grid("", columns, rows), 80))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    return [[cell.strip() for cell in line[1:-1].split("│")] for line in lines if line[0] == "│"]


def test_a_terminal_shows_a_row_as_a_line_where_no_short_cell_is_cut(capsys: Capsys) -> None:
    at, text = "2024-01-02 12:00:00", "word " * 8
    rows: list[list[object]] = [[number, at, at, text] for number in range(2)]
    assert _drawn([*"abcd"], *rows)[0] == ["0", at, at, text[:24].strip()]
    names = [*"abcde"]
    turned = _drawn(names, *([*row, text] for row in rows))
    values = ["0", at, at, text.strip(), text.strip()]
    assert turned[:5] == [list(pair) for pair in zip(names, values, strict=True)]
    Output().show({}, [Grid("", names * 20, [[*row, text] * 20 for row in rows])])
    piped = capsys.readouterr().out.splitlines()
    assert [line.count(text.strip()) for line in piped if "word" in line] == [40, 40]


def test_objects_of_other_keys_share_a_table() -> None:
    grid = Grid.of("", [{"line": 1, "element": 2}, {"line": 3, "field": "id"}])
    assert (list(grid.columns), grid.rows) == (["line", "element", "field"], [[1, 2, None], [3, None, "id"]])


NOON = datetime(2024, 1, 2, 12)  # noqa: DTZ001  a Hive TIMESTAMP has no zone


def test_duckdb_answers_the_readmes_statement(ingest: Ingest, capsys: Capsys) -> None:
    sql = f"SELECT dt, count(*) FROM {ingest.table} GROUP BY dt"
    said = hivesink(capsys, "query", f"{sql} ORDER BY dt", "--json")
    rows = [["2026-01-01", 6], ["2026-01-02", 6]]
    assert said.data == {"columns": ["dt", "count(*)"], "rows": rows, "more": False, "engine": "duckdb"}
    said = hivesink(capsys, "query", sql, "--engine", "duckdb")
    assert (said.code, said.err, said.out[-16:]) == (0, "engine: duckdb\n", "2 rows (duckdb)\n")
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
        (["SELECT 1", "--engine", "hiveserver2"], 65, "--hiveserver2 HOST:PORT go together"),
        (["SELECT 1", "--engine", "spark", "--hiveserver2", "x:1"], 65, "go together: add or leave out one"),
    ],
)
def test_a_mistake_is_told_in_one_line(
    arguments: list[str], code: int, expected: str, uri: str, capsys: Capsys
) -> None:
    assert uri
    said = hivesink(capsys, "query", *arguments)
    assert said.code == code
    assert expected in said.error


def _shown(columns: list[str], cells: list[Any], kinds: Sequence[HiveType | None] | None = None) -> tuple[Any, Grid]:
    data, (grid, _) = _report("spark", Answer(columns, kinds or [None] * len(cells), [cells]), 1)
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


JOB = """
from hivesink import Progress
from hivesink.cli import job as screen
screen.progress_of_all = lambda: {"demo.t (clicks)": Progress(rows=5, epochs=1, behind_records=7)}
print("the job's own line, " + "x" * 200)
"""
LINE = "demo.t (clicks): 5 rows · 1 epoch"


def _in_terminal(folder: Path, *options: str, job: str = JOB, **variables: str) -> str:
    file = folder / "clicks.py"
    file.write_text(job)
    master, terminal = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "TERM": "xterm", **variables}
    command = [sys.executable, "-m", "hivesink.cli", "run", str(file), *options]
    with subprocess.Popen(command, env=environment, stdout=terminal, stderr=terminal) as process:
        os.close(terminal)
        said = b""
        try:
            while more := os.read(master, 4096):
                said += more
        except OSError:  # Linux's way to say that nobody has the terminal any more.
            pass
    os.close(master)
    assert process.returncode == 0
    return said.decode()


def test_a_terminal_has_a_live_line_below_what_the_job_prints(tmp_path: Path) -> None:
    # However narrow it is, it says how far behind the query is.
    said = _in_terminal(tmp_path, NO_COLOR="", COLUMNS="40")
    assert "\x1b[2K" in said
    assert "behind 7 records" in " ".join(said.rpartition("xx")[2].split())
    assert "\x1b[?25h" in said.rpartition("\x1b[?25l")[2]


def test_what_is_awaited_before_the_first_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen, "progress_of_all", dict)
    assert str(screen._lines(200, 0)).startswith("no query has started yet (")
    assert not str(screen._lines(200, None))
    monkeypatch.setattr(screen, "progress_of_all", lambda: {"demo.t (clicks)": Progress()})
    assert str(screen._lines(200, 0)).endswith("0 rejected · waiting for the first batch")
    assert str(screen._lines(200, None)).endswith("0 rejected")
    monkeypatch.setattr(screen, "progress_of_all", lambda: {"demo.t (clicks)": Progress(epochs=1)})
    assert str(screen._lines(200, 0)).endswith("0 rejected")


@pytest.mark.parametrize(
    ("options", "variables"),
    [
        ([], {"NO_COLOR": "1"}),
        (["--json"], {}),
        pytest.param([], {"TERM": "dumb"}, marks=pytest.mark.long),
        pytest.param(["--debug"], {}, marks=pytest.mark.long),
    ],
)
def test_what_is_to_stay_plain_has_no_control_sequences(
    options: list[str], variables: dict[str, str], tmp_path: Path
) -> None:
    said = _in_terminal(tmp_path, *options, **variables)
    assert "the job's own line" in said
    assert "\x1b" not in said
    assert LINE not in said
