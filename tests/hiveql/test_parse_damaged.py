"""Whatever a file holds, the parser answers with a table or with problems that have a line of that file."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hivesink.errors import DdlInvalid
from hivesink.hiveql.parse import parse_ddl
from hivesink.hiveql.render import render

FIXTURES = Path(__file__).parent / "fixtures"
CASES = [
    case.partition("\n")[2].split("-- becomes:")[0]
    for file in ("accepted.sql", "refused.sql")
    for case in (FIXTURES / file).read_text(encoding="utf-8").split("-- case: ")[1:]
]
WORDS = "-- /* */ -1 NULL NOT AS WITH TABLE CREATE STRUCT<> ARRAY STORED LOCATION"
PIECES = st.one_of(st.sampled_from([*"`'\"()<>,:;=.1", *WORDS.split()]), st.text(max_size=3))


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=400)
@given(st.sampled_from(CASES), st.lists(st.tuples(st.floats(0, 1), st.integers(0, 12), PIECES), max_size=3))
def test_damaged_text(sql: str, damages: list[tuple[float, int, str]]) -> None:
    for place, length, piece in damages:
        at = int(place * len(sql))
        sql = f"{sql[:at]} {piece} {sql[at + length :]}"
    try:
        spec = parse_ddl(sql, "f.sql", lambda _: ())
    except DdlInvalid as error:
        lines = [problem.line for problem in error.problems]
        assert lines
        assert lines == sorted(lines)
        assert all(1 <= line <= sql.count("\n") + sql.count("\r") + 1 for line in lines)
        return
    assert parse_ddl(render(spec), "f.sql", lambda _: ()) == spec
