"""DDL text to TableSpec, and every problem with its line.

Fixtures: cases split by `-- case: name`, expectations by `-- becomes:` and by `-- ! words` on a problem's line.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hivesink.core.table import Column, Primitive, TableName, TableSpec
from hivesink.errors import DdlInvalid
from hivesink.hiveql.parse import parse_ddl, parse_path
from hivesink.hiveql.render import render
from tests.core.test_typetext import PRIMITIVES, TYPES

FIXTURES = Path(__file__).parent / "fixtures"


def cases(file: str) -> dict[str, str]:
    text = (FIXTURES / file).read_text(encoding="utf-8")
    names_and_bodies = re.split(r"^-- case: (.+)\n", text, flags=re.MULTILINE)[1:]
    found = dict(zip(names_and_bodies[::2], names_and_bodies[1::2], strict=True))
    assert len(found) * 2 == len(names_and_bodies), "two cases of one name"
    return found


ACCEPTED = {name: body.split("-- becomes:\n") for name, body in cases("accepted.sql").items()}
REFUSED = cases("refused.sql")


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(name: str) -> None:
    sql, rendered = ACCEPTED[name]
    assert render(parse_ddl(sql, "f.sql")) == rendered.rstrip("\n")


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_line_and_reason(name: str) -> None:
    sql = REFUSED[name]
    marked = [(number, line.split("-- ! ")[1:]) for number, line in enumerate(sql.splitlines(), 1)]
    expected = [(number, part.strip()) for number, words in marked for part in words]
    with pytest.raises(DdlInvalid) as caught:
        parse_ddl(sql, "f.sql")
    found = caught.value.problems
    assert [problem.line for problem in found] == [line for line, _ in expected], [str(p) for p in found]
    for line, words in expected:
        assert any(words in problem.reason for problem in found if problem.line == line), (words, found)
    assert all(problem.file == "f.sql" for problem in found)
    assert "\n" not in "".join(problem.reason for problem in found)


@pytest.mark.parametrize(
    ("sql", "line", "reason"),
    [
        ("CREATE TABLE t (\n a INT) COMMENT 'x", 2, "unclosed '"),
        ("", 1, "no statement"),
        (";;", 1, "no statement"),
        ("create table t (a " + "array<" * 3000 + "int" + ">" * 3000 + ") stored as parquet", 1, "nested"),
        ("/* open", 1, "not"),
    ],
)
def test_text_that_is_no_statement(sql: str, line: int, reason: str) -> None:
    with pytest.raises(DdlInvalid) as caught:
        parse_ddl(sql, "f.sql")
    (problem,) = caught.value.problems
    assert problem.line == line
    assert reason in problem.reason


def test_lines_of_a_file_with_windows_line_ends() -> None:
    with pytest.raises(DdlInvalid) as caught:
        parse_ddl("CREATE TABLE t (\r\n  a INT,\r\n  b CHAR(0)\r\n) STORED AS PARQUET", "f.sql")
    assert [problem.line for problem in caught.value.problems] == [3]


def test_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(DdlInvalid):
        parse_ddl("MSCK REPAIR TABLE t", "f.sql")
    assert caplog.records == []


def test_a_folder_shows_the_problems_of_all_its_files(tmp_path: Path) -> None:
    (tmp_path / "b.sql").write_text("CREATE TABLE b (x INT) STORED AS AVRO", encoding="utf-8")
    (tmp_path / "a.sql").write_text("SELECT 1", encoding="utf-8")
    (tmp_path / "c.sql").write_text("CREATE TABLE c (x INT) STORED AS PARQUET", encoding="utf-8")
    (tmp_path / "d.sql").write_bytes(b"\xff\xfe")
    (tmp_path / "e.sql").write_text("CREATE TABLE default.C (x INT) STORED AS PARQUET", encoding="utf-8")
    (tmp_path / "notes.txt").write_text("not SQL", encoding="utf-8")
    with pytest.raises(DdlInvalid) as caught:
        parse_path(tmp_path)
    found = [(Path(problem.file).name, problem.reason[:12]) for problem in caught.value.problems]
    assert found == [
        ("a.sql", "SELECT is no"),
        ("b.sql", "this format "),
        ("d.sql", "can't be rea"),
        ("e.sql", "table defaul"),
    ]
    assert str(caught.value).count("\n") == len(found) - 1


def test_a_path_that_holds_nothing(tmp_path: Path) -> None:
    with pytest.raises(DdlInvalid, match=rf"{tmp_path.name}: the folder holds no \*.sql file"):
        parse_path(tmp_path)
    with pytest.raises(DdlInvalid, match=r"missing\.sql: can't be read"):
        parse_path(tmp_path / "missing.sql")


DDL = Path(__file__).parents[2] / "ddl"


def test_the_projects_own_tables() -> None:
    specs = {str(spec.name): spec for spec in parse_path(DDL)}
    assert len(specs["demo.flights"].columns) == 19
    assert [[column.name for column in spec.partition_columns] for spec in specs.values()] == [["dt"]] * len(specs)
    assert parse_path(DDL / "flights.sql") == (specs["demo.flights"],)


CASES = [*(sql for sql, _ in ACCEPTED.values()), *REFUSED.values()]
WORDS = "-- /* */ -1 NULL NOT AS WITH TABLE CREATE STRUCT<> ARRAY STORED LOCATION"
PIECES = st.one_of(st.sampled_from([*"`'\"()<>,:;=.1", *WORDS.split()]), st.text(max_size=3))


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=200)
@given(st.sampled_from(CASES), st.lists(st.tuples(st.floats(0, 1), st.integers(0, 12), PIECES), max_size=3))
def test_damaged_text(sql: str, damages: list[tuple[float, int, str]]) -> None:
    for place, length, piece in damages:
        at = int(place * len(sql))
        sql = f"{sql[:at]} {piece} {sql[at + length :]}"
    try:
        spec = parse_ddl(sql, "f.sql")
    except DdlInvalid as error:
        lines = [problem.line for problem in error.problems]
        assert lines
        assert lines == sorted(lines)
        assert all(1 <= line <= sql.count("\n") + sql.count("\r") + 1 for line in lines)
        return
    assert parse_ddl(render(spec), "f.sql") == spec


RESERVED = "select table comment date int struct partition not null default primary map"
NAMES = st.one_of(st.from_regex(r"[a-z_][a-z0-9_]{0,5}", fullmatch=True), st.sampled_from(RESERVED.split()))
TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)
COLUMNS = st.builds(Column, NAMES, TYPES, st.none() | TEXTS, st.booleans())
KEYS = PRIMITIVES.filter(lambda kind: kind is not Primitive.BINARY)
PARTITION_COLUMNS = st.builds(Column, NAMES.map(lambda name: f"p_{name}"), KEYS, st.none() | TEXTS)


SPECS = st.builds(
    TableSpec,
    st.builds(TableName, NAMES, NAMES),
    st.lists(COLUMNS, min_size=1, max_size=4, unique_by=lambda column: column.name).map(tuple),
    st.lists(PARTITION_COLUMNS, max_size=2, unique_by=lambda column: column.name).map(tuple),
    st.none() | TEXTS.map(lambda text: f"/t{text}"),
    st.none() | TEXTS,
    st.booleans(),
    st.just("PARQUET"),
    st.dictionaries(TEXTS.map(lambda text: f"x.{text}"), TEXTS, max_size=3).map(
        lambda found: tuple(sorted(found.items()))
    ),
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(SPECS)
def test_round_trip(spec: TableSpec) -> None:
    assert parse_ddl(render(spec), "f.sql") == spec
