"""What `ddl apply` would do."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace

import pytest

from hivesink.core.table import Array, Column, Decimal, Primitive, Struct, TableName, TableSpec
from hivesink.core.typetext import parse_type
from hivesink.hiveql.apply import Plan, is_safe, plan
from hivesink.hiveql.render import declared, stored

P = Primitive
X = Struct((("x", P.INT),))
WANTED = TableSpec(
    TableName("demo", "t"),
    (Column("a", P.INT), Column("b", P.STRING, "text"), Column("c", P.DATE)),
    (Column("dt", P.STRING),),
    comment="a table",
    properties=(("sink.on-bad-record", "drop"),),
)
# As a metastore gives it back: with its own properties and a location.
LIVE = replace(
    WANTED,
    location="hdfs://nn:8020/warehouse/demo.db/t",
    properties=(
        ("bucketing_version", "2"),
        ("discover.partitions", "false"),
        ("numFiles", "7"),
        ("sink.on-bad-record", "drop"),
        ("spark.sql.create.version", "4.2.0"),
        ("transient_lastDdlTime", "1700000000"),
    ),
)


def live(**changes: object) -> TableSpec:
    return replace(LIVE, **changes)  # type: ignore[arg-type]


def with_property(key: str, value: str, spec: TableSpec = LIVE) -> TableSpec:
    return replace(spec, properties=tuple(sorted({**spec.options, key: value}.items())))


def differences(wanted: TableSpec, there: TableSpec) -> tuple[str, ...]:
    found = plan(wanted, there)
    assert str(found).count("\n") == len(found.differences) - 1
    return found.differences


def test_a_table_that_is_not_there_is_created_without_partition_discovery() -> None:
    found = plan(WANTED, None)
    assert found.created is not None
    assert found.created.options == {"discover.partitions": "false", "sink.on-bad-record": "drop"}
    assert str(found) == "demo.t: create"


def test_what_was_created_needs_nothing_more() -> None:
    for spec in (WANTED, NOT_NULL, replace(WANTED, external=True, location="/x")):
        created = plan(spec, None).created
        assert created is not None
        assert plan(spec, created) == Plan(spec.name)
        assert plan(spec, declared(created)) == Plan(spec.name)


def test_not_null_survives_the_metastore() -> None:
    spec = replace(WANTED, columns=tuple(replace(column, nullable=column.name == "b") for column in WANTED.columns))
    kept = stored(spec)
    assert all(column.nullable for column in kept.columns)
    assert kept.options["hivesink.not-null"] == "a,c"
    assert declared(kept).columns == spec.columns


NOT_NULL = replace(WANTED, columns=(replace(WANTED.columns[0], nullable=False), *WANTED.columns[1:]))


@pytest.mark.parametrize(
    ("wanted", "there", "properties", "removed"),
    [
        (WANTED, LIVE, {}, ()),
        (
            WANTED,
            with_property("sink.a", "x", with_property("discover.partitions", "true")),
            {"discover.partitions": "false"},
            ("sink.a",),
        ),
        (WANTED, with_property("sink.on-bad-record", "fail"), {"sink.on-bad-record": "drop"}, ()),
        (NOT_NULL, LIVE, {"hivesink.not-null": "a"}, ()),
        (WANTED, with_property("hivesink.not-null", "a"), {}, ("hivesink.not-null",)),
        # Other people's stay as they are, unless the DDL names them.
        (WANTED, with_property("owner.team", "x"), {}, ()),
        (with_property("owner.team", "y", WANTED), with_property("owner.team", "x"), {"owner.team": "y"}, ()),
        # The metastore drops it where it is false.
        (with_property("transactional", "false", WANTED), LIVE, {}, ()),
        (WANTED, live(comment="old"), {"comment": "a table"}, ()),
        (replace(WANTED, comment=None), LIVE, {}, ()),
        (WANTED, live(columns=(Column("A", P.INT), *LIVE.columns[1:])), {}, ()),
        # Of a managed table Hive 4 makes an external one.
        (WANTED, with_property("TRANSLATED_TO_EXTERNAL", "TRUE", live(external=True)), {}, ()),
    ],
)
def test_properties(wanted: TableSpec, there: TableSpec, properties: dict[str, str], removed: tuple[str, ...]) -> None:
    changes = tuple(sorted(properties.items()))
    assert plan(wanted, there) == Plan(WANTED.name, None, changes, removed)


def test_an_alter_in_words() -> None:
    text = str(plan(WANTED, with_property("sink.a", "x", with_property("sink.on-bad-record", "fail"))))
    assert text == "demo.t: set sink.on-bad-record=drop, unset sink.a"


def test_an_empty_comment_is_none() -> None:
    columns = (WANTED.columns[0], Column("b", P.STRING, ""), WANTED.columns[2])
    there = live(comment=None, columns=(LIVE.columns[0], Column("b", P.STRING), LIVE.columns[2]))
    assert plan(replace(WANTED, comment="", columns=columns), there) == Plan(WANTED.name)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (LIVE.columns[:2], ["column c is not in the live table"]),
        ((*LIVE.columns, Column("d", P.INT)), ["column d int is not in the DDL"]),
        ((LIVE.columns[1], LIVE.columns[0], LIVE.columns[2]), ["the columns' order is b, a, c, the DDL says a, b, c"]),
        ((Column("a", P.STRING), *LIVE.columns[1:]), ["column a is string, the DDL says int: Hive isn't known"]),
        (
            (Column("a", P.INT), Column("b", P.STRING, "other"), LIVE.columns[2]),
            ["column b has the comment 'other', the DDL says 'text': run hivesink query "],
        ),
        (
            (Column("a", P.INT), Column("b", P.STRING), LIVE.columns[2]),
            ["column b has no comment, the DDL says 'text': run hivesink query "],
        ),
        ((Column("b", P.STRING, "text"), Column("x", P.INT)), ["columns a, c are not", "column x int"]),
    ],
)
def test_columns_that_differ(columns: tuple[Column, ...], words: list[str]) -> None:
    found = differences(WANTED, live(columns=columns))
    assert len(found) == len(words)
    for difference, start in zip(found, words, strict=True):
        assert difference.startswith(start)


def test_a_new_column_names_the_statement_that_adds_it_and_then_nothing_is_left() -> None:
    new = Column("timestamp", Struct((("at", P.INT),)), "it's new", nullable=False)
    wanted = replace(WANTED, columns=(*WANTED.columns, new))
    (said,) = differences(wanted, LIVE)
    text = "`timestamp` struct<`at`:int> COMMENT 'it\\'s new'"
    command = said.partition(": run ")[2]
    assert shlex.split(command) == ["hivesink", "query", f"ALTER TABLE `demo`.`t` ADD COLUMNS ({text})"]
    columns = (*LIVE.columns, replace(new, nullable=True))
    assert plan(wanted, with_property("hivesink.not-null", "timestamp", live(columns=columns))) == Plan(WANTED.name)


def test_a_new_column_between_others_is_told_to_come_last() -> None:
    first, *others = WANTED.columns
    (said, *_) = differences(replace(WANTED, columns=(first, Column("new", P.INT), *others)), LIVE)
    assert said == "column new is not in the live table: put what is new behind the others in the DDL"


def test_a_type_change_that_old_files_survive_is_said_to_be_one() -> None:
    wanted = replace(WANTED, columns=(Column("a", P.BIGINT), *WANTED.columns[1:]))
    (said,) = differences(wanted, LIVE)
    assert said == (
        "column a is int, the DDL says bigint: old files stay readable; run hivesink query --hiveserver2 HOST:PORT "
        "'ALTER TABLE `demo`.`t` CHANGE COLUMN `a` `a` bigint', as Spark can't. Without a HiveServer2 make a new table "
        "and copy the rows (docs/ddl.md says how)"
    )


def test_a_field_more_in_a_struct_names_the_statement_that_adds_it() -> None:
    before = (Column("s", X), Column("l", Array(X)), Column("m", Decimal(6, 2)))
    more = Struct((("x", P.INT), ("y", P.STRING)))
    after = (Column("s", more), Column("l", Array(more)), Column("m", Decimal(10, 2)))
    found = differences(replace(WANTED, columns=after), live(columns=before))
    commands = [shlex.split(said.partition("; run ")[2].partition(", as Spark")[0])[-1] for said in found]
    assert commands == [
        "ALTER TABLE `demo`.`t` CHANGE COLUMN `s` `s` struct<`x`:int,`y`:string>",
        "ALTER TABLE `demo`.`t` CHANGE COLUMN `l` `l` array<struct<`x`:int,`y`:string>>",
        "ALTER TABLE `demo`.`t` CHANGE COLUMN `m` `m` decimal(10,2)",
    ]


# The groups of docs/ddl.md, as seen with Hive 2.3's reader.
SAFE = """
int > bigint; float > double; tinyint > int; smallint > double; varchar(3) > varchar(4); varchar(3) > string
decimal(10,2) > decimal(12,2); decimal(10,2) > decimal(12,4)
struct<x:int> > struct<x:int,y:string>; struct<x:int> > struct<X:bigint>
array<struct<x:int>> > array<struct<x:int,y:array<string>>>
struct<s:struct<x:int>> > struct<s:struct<x:int,y:decimal(10,2)>>; struct<m:decimal(6,2)> > struct<m:decimal(10,2)>
"""
# 2147483647 of an INT reads as 2147483648 in a DOUBLE.
UNSAFE = """
int > double; smallint > tinyint; bigint > double; varchar(4) > varchar(3); string > varchar(3); char(3) > char(4)
decimal(10,2) > decimal(10,4); decimal(10,2) > decimal(12,1); int > string; bigint > int; string > int; string > date
int > decimal(10,0); date > timestamp; timestamp > string; char(3) > varchar(3)
struct<x:int> > struct<y:string,x:int>; struct<x:int> > struct<z:int>; struct<x:int,y:string> > struct<x:int>
array<int> > array<string>; array<struct<x:int>> > struct<x:int>
map<string,struct<x:int>> > map<string,struct<x:int,y:string>>
"""


@pytest.mark.parametrize(("changes", "safe"), [(SAFE, True), (UNSAFE, False)])
def test_safe_type_changes(changes: str, safe: bool) -> None:
    for change in re.split(r"; |\n", changes.strip()):
        old, new = map(parse_type, change.split(" > "))
        assert is_safe(old, new) is safe, change


@pytest.mark.parametrize(
    "columns",
    [(), (Column("dt", P.DATE),), (Column("day", P.STRING),), (Column("dt", P.STRING), Column("h", P.INT))],
)
def test_partition_columns_never_change(columns: tuple[Column, ...]) -> None:
    (difference,) = differences(WANTED, live(partition_columns=columns))
    assert difference.startswith("partitioned by (")
    assert "the DDL says (dt string)" in difference


@pytest.mark.parametrize(
    ("wanted", "there", "same"),
    [
        (None, "hdfs://nn/x", True),
        ("/x", "hdfs://nn:8020/x/", True),
        ("hdfs:///x", "hdfs://nn:8020/x", True),
        ("hdfs://nn:8020/x/", "hdfs://nn:8020/x", True),
        ("file:///x", "file:/x", True),
        ("/x", "file:/x", True),
        ("hdfs://other/x", "hdfs://nn/x", False),
        ("/y", "hdfs://nn/x", False),
        ("s3a:///x", "hdfs://nn/x", False),
        ("/x", None, False),
    ],
)
def test_locations(wanted: str | None, there: str | None, same: bool) -> None:
    found = plan(replace(WANTED, location=wanted), live(location=there))
    assert found.action == ("nothing" if same else "differs")


def test_what_no_alter_changes() -> None:
    assert differences(WANTED, live(external=True))[0].startswith("external, the DDL says managed")
    assert differences(replace(WANTED, external=True), LIVE)[0].startswith("managed, the DDL says external")
    assert differences(WANTED, live(format="orc"))[0].startswith("format orc, the DDL says PARQUET")
    assert "ACID" in differences(WANTED, with_property("transactional", "true"))[0]


def test_all_differences_are_listed_and_block_the_properties() -> None:
    there = with_property("sink.on-bad-record", "fail", live(format="orc", external=True, columns=()))
    assert len(differences(WANTED, there)) == 3
