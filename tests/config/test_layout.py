from __future__ import annotations

import pytest

from hivesink.config.layout import Layout, require_columns
from hivesink.config.options import Compression, SinkConfig
from hivesink.core.table import Array, Column, Primitive, SortKey, TableName, TableSpec
from hivesink.errors import InvalidOption

SPEC = TableSpec(
    TableName("db", "t"),
    (Column("id", Primitive.INT), Column("flag", Primitive.BOOLEAN), Column("tags", Array(Primitive.STRING))),
    (Column("dt", Primitive.STRING),),
)
HIVE = {"parquet.compression": "gzip", "parquet.block.size": "1MB"}


def layout(**options: str) -> Layout:
    return Layout.of(SinkConfig.parse({**HIVE, **{f"sink.{name}": text for name, text in options.items()}}))


def test_the_sinks_own_option_wins_over_hives_property_and_that_over_the_default() -> None:
    assert Layout.of(SinkConfig.parse({})) == Layout()
    assert layout() == Layout(Compression.GZIP, 1 << 20)
    own = {"parquet.compression": "zstd", "parquet.row-group-size": "2MB"}
    assert layout(**own) == Layout(Compression.ZSTD, 2 << 20)


@pytest.mark.parametrize(("text", "parsed"), [("off", False), (" ON ", True), ("auto", None), ("A, b", ("a", "b"))])
def test_dictionaries_are_of_no_column_of_all_or_of_some(text: str, parsed: object) -> None:
    assert layout(**{"parquet.dictionary": text}).dictionary == parsed


def test_sort_keys() -> None:
    keys = (SortKey("a"), SortKey("b c", descending=True), SortKey("desc"), SortKey("d"))
    assert layout(**{"sort-by": "A, b c DESC ,desc,d asc"}).order == keys


@pytest.mark.parametrize("text", ["", "a,", "a,a desc", "desc desc,desc"])
def test_sort_keys_that_are_refused(text: str) -> None:
    with pytest.raises(InvalidOption, match=r"sink\.sort-by = '.*': write columns, separated by commas, each once"):
        layout(**{"sort-by": text})


def test_another_table_has_only_what_names_no_column() -> None:
    whole = layout(**{"sort-by": "id", "parquet.dictionary": "id", "parquet.bloom-filter-columns": "id"})
    assert whole.plain == layout()


def test_columns_of_all_settings_are_checked_at_once() -> None:
    config = SinkConfig.parse(
        {
            "sink.sort-by": "flag, nope, tags desc, dt",
            "sink.parquet.dictionary": "id, flag",
            "sink.parquet.bloom-filter-columns": "tags, id",
            "sink.timestamp-format": "gone=epoch-millis,dt=text",
        }
    )
    with pytest.raises(InvalidOption) as refused:
        require_columns(SPEC, config)
    bloom = "sink.parquet.bloom-filter-columns names 'tags', which is array<string>"
    problems = (
        "sink.parquet.dictionary names 'flag', which is boolean: write columns that are not nested, and not BOOLEAN",
        f"{bloom}: write columns that are not nested, and not BOOLEAN",
        "sink.sort-by names 'nope', which is no column of db.t",
        "sink.sort-by names 'tags', which is array<string>: write columns that are not nested",
        "sink.sort-by names 'dt', a partition column: it has one value for all rows of a file",
        "sink.timestamp-format names 'gone', which is no column of db.t",
    )
    assert str(refused.value) == str(InvalidOption(problems))
