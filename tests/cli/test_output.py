from __future__ import annotations

import json
from datetime import datetime, timezone
from decimal import Decimal

import pytest

from hivesink.cli.output import Grid, Line, Output, error_lines, redact
from hivesink.errors import DdlInvalid, ServerFailed, UnknownTable
from hivesink.hiveql.ddltext import DdlProblem


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


def test_ddl_problems_are_a_line_each() -> None:
    error = DdlInvalid((DdlProblem("a.sql", 1, "one"), DdlProblem("b.sql", 2, "two")))
    assert error_lines(error) == ["a.sql:1: one", "b.sql:2: two"]


def test_text_is_not_taken_for_markup(capsys: pytest.CaptureFixture[str]) -> None:
    Output().show({}, [Line("[red]a[/red]"), Grid("t", ("c",), [["[bold]b[/bold] :smile:"]])])
    out = capsys.readouterr().out
    assert "[red]a[/red]" in out
    assert "[bold]b[/bold] :smile:" in out


def test_a_long_path_stays_in_one_piece(capsys: pytest.CaptureFixture[str]) -> None:
    path = "/a" * 200
    Output().show({}, [Line(path)])
    assert path in capsys.readouterr().out


def test_json_takes_what_a_query_returns(capsys: pytest.CaptureFixture[str]) -> None:
    row = [datetime(2026, 1, 2, tzinfo=timezone.utc), Decimal("1.50"), Decimal("0E-8"), b"\x00\x01", {1, 2}]
    Output(is_json=True).show({"row": row}, ())
    assert json.loads(capsys.readouterr().out) == {
        "row": ["2026-01-02T00:00:00+00:00", "1.50", "0.00000000", "AAE=", [1, 2]]
    }


def test_json_errors_say_whether_to_retry(capsys: pytest.CaptureFixture[str]) -> None:
    Output(is_json=True).fail(UnknownTable("a.b", "thrift://h:1"))
    (line,) = capsys.readouterr().err.splitlines()
    error = json.loads(line)["error"]
    assert (error["type"], error["code"], error["retryable"]) == ("UnknownTable", "HS080", False)


def test_another_library_s_code_is_none_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    Output(is_json=True).fail(SystemExit(3))
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["error"]["code"] is None


def test_a_row_of_too_many_columns_is_shown_a_value_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"column{number}" for number in range(60)]
    rows = [[f"a long value of {name} in row {row}" for name in names] for row in range(2)]
    Output().show({}, [Grid("", names, rows)])
    shown = [line.split("│")[1:3] for line in capsys.readouterr().out.splitlines() if "long value" in line]
    assert [[one.strip() for one in line] for line in shown] == [
        list(pair) for row in rows for pair in zip(names, row, strict=True)
    ]
