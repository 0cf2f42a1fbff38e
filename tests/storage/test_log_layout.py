from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hivesink.core.table import TableName
from hivesink.storage.log_layout import admitted_name, parse_admitted

WORDS = st.from_regex(r"[a-z0-9_]{1,12}", fullmatch=True)
TABLES = st.builds(TableName, WORDS, WORDS)
TIMES = st.integers(0, 2**40)


@given(TABLES, st.sets(TIMES), TABLES, st.sets(TIMES), st.lists(st.text(max_size=20)))
def test_a_table_is_let_in_by_its_own_names_only(
    table: TableName, times: set[int], other: TableName, others: set[int], junk: list[str]
) -> None:
    names = [admitted_name(table, created) for created in times]
    names += [] if other == table else [admitted_name(other, created) for created in others]
    odd = [f".{admitted_name(table, 3)}.tmp", f"{table}@", f"{table}@x", f"{table}x@3", *junk]
    assert parse_admitted([*names, *odd]).get(str(table), set()) == times


def test_nothing_is_let_in_by_nothing() -> None:
    assert parse_admitted([]) == {}
