from __future__ import annotations

from typing import Any

import pytest

from hivesink.config.columns import require_columns
from hivesink.config.options import SinkConfig
from hivesink.core.table import Array, Column, Primitive, SortKey, TableName, TableSpec
from hivesink.errors import InvalidOption

SPEC = TableSpec(
    TableName("db", "t"),
    (Column("id", Primitive.INT), Column("flag", Primitive.BOOLEAN), Column("tags", Array(Primitive.STRING))),
    (Column("dt", Primitive.STRING),),
)


@pytest.mark.parametrize("name", ["a.b.c", "", None])
def test_what_is_no_name_of_a_table(name: Any) -> None:
    with pytest.raises(InvalidOption, match=r"database\.table"):
        TableName.parse(name)


def test_sort_keys() -> None:
    keys = (SortKey("a"), SortKey("b c", descending=True), SortKey("desc"), SortKey("d"))
    assert SinkConfig.parse({"sink.sort-by": "A, b c DESC ,desc,d asc"})["sink.sort-by"] == keys


@pytest.mark.parametrize("text", ["", "a,", "a,a desc", "desc desc,desc"])
def test_sort_keys_that_are_refused(text: str) -> None:
    with pytest.raises(InvalidOption, match=r"sink\.sort-by = '.*': write columns, separated by commas, each once"):
        SinkConfig.parse({"sink.sort-by": text})


def test_columns_of_all_settings_are_checked_at_once() -> None:
    config = SinkConfig.parse(
        {
            "sink.sort-by": "flag, nope, tags desc, dt",
            "sink.timestamp-format": "gone=epoch-millis,dt=text",
        }
    )
    with pytest.raises(InvalidOption) as refused:
        require_columns(SPEC, config)
    problems = (
        "sink.sort-by names 'nope', which is no column of db.t",
        "sink.sort-by names 'tags', which is array<string>: write columns that are not nested",
        "sink.sort-by names 'dt', a partition column: it has the same value for all rows of a file",
        "sink.timestamp-format names 'gone', which is no column of db.t",
    )
    assert str(refused.value) == str(InvalidOption(problems))
