"""What users do to tables under a writer's feet: each statement takes what is in the table, never what waits."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from hivesink import HiveSink, errors
from hivesink.core.log import PROPERTY
from hivesink.metastore import connect
from tests.cli.site import hivesink
from tests.integration.stage import ON_EPOCH, Stage, hive_reader

pytestmark = pytest.mark.spark

WAIT = {"sink.rolling-policy.on-epoch": "false", "sink.rolling-policy.inactivity-interval": "1h"}
DAY = "dt = '2024-01-02'"
"""The day of the events 1, 4, 7, …"""
HIVE_LOADER = ("spark.sql.hive.convertInsertingPartitionedTable", "spark.sql.hive.convertInsertingUnpartitionedTable")
THEIRS = 1000
PUBLISHED, ALL = range(9), range(27)


def run(stage: Stage, statement: str) -> None:
    """As a user's own session does, by Hive's loader."""
    (stage.folder / "elsewhere").mkdir(exist_ok=True)
    for name in HIVE_LOADER:
        stage.spark.conf.set(name, "false")
    try:
        with hive_reader(stage.spark):
            stage.spark.sql(statement.format(table=stage.table, day=DAY, elsewhere=stage.folder / "elsewhere"))
    finally:
        for name in HIVE_LOADER:
            stage.spark.conf.unset(name)


def of_day(numbers: range) -> set[int]:
    return {number for number in numbers if number % 3 == 1}


OVERWRITE = f"INSERT OVERWRITE TABLE {{table}} PARTITION ({{day}}) SELECT {THEIRS}L, 'theirs'"
OVERWRITE_ALL = f"INSERT OVERWRITE TABLE {{table}} SELECT {THEIRS}L, 'theirs', '2024-01-02'"
TRUNCATE = "TRUNCATE TABLE {table}"
DROP = "ALTER TABLE {table} DROP PARTITION ({day})"
SET_LOCATION = "ALTER TABLE {table} PARTITION ({day}) SET LOCATION '{elsewhere}'"
ADD_COLUMNS = "ALTER TABLE {table} ADD COLUMNS (more INT)"
RENAME = "ALTER TABLE {table} PARTITION ({day}) RENAME TO PARTITION (dt = 'renamed')"

MANAGED, EXTERNAL, PLAIN = "managed", "external", "unpartitioned"
STATEMENTS: list[tuple[str, str, set[int]]] = [
    (MANAGED, OVERWRITE, of_day(PUBLISHED)),
    (MANAGED, TRUNCATE, set(PUBLISHED)),
    (MANAGED, DROP, of_day(PUBLISHED)),
    (MANAGED, SET_LOCATION, of_day(PUBLISHED)),
    (MANAGED, ADD_COLUMNS, set()),
    (MANAGED, RENAME, set()),
    # Its files stay, and are seen again once new rows bring the partition back.
    (EXTERNAL, DROP, set()),
    (EXTERNAL, SET_LOCATION, of_day(PUBLISHED)),
    (PLAIN, OVERWRITE_ALL, set(PUBLISHED)),
    (PLAIN, TRUNCATE, set(PUBLISHED)),
]
"""The kind of table, the statement, and the published rows that it takes."""
EVERY_RUN = {(EXTERNAL, SET_LOCATION), (PLAIN, OVERWRITE_ALL)}
"""tests/crash has each statement at every call of a roll, tests/cluster/test_tables.py some of Hive's."""


def create(stage: Stage, kind: str) -> None:
    if kind == PLAIN:
        stage.create(columns="id BIGINT, name STRING, dt STRING", partitioned="")
    else:
        stage.create(location=stage.folder / "table" if kind == EXTERNAL else None)
    stage.put(PUBLISHED)
    stage.drain()


@contextmanager
def waiting(stage: Stage, sink: HiveSink | None = None) -> Iterator[Callable[[range], None]]:
    """A query whose rows wait until its end. What it yields feeds it."""
    with stage.running(sink or stage.sink(options=WAIT), every="100 milliseconds") as query:

        def feed(numbers: range) -> None:
            stage.put(numbers)
            query.processAllAvailable()

        feed(range(9, 18))
        yield feed


def check(stage: Stage, expected: set[int]) -> None:
    assert stage.ids() == sorted(expected)
    assert list((stage.log() / "segments").glob("*.arrow")) == []
    # Spark leaves a checksum of a file that it has overwritten.
    assert [name for name in stage.staged() if not name.endswith(".crc")] == []
    stage.verify()


@pytest.mark.parametrize(
    ("kind", "statement", "taken"),
    [pytest.param(*row, marks=() if row[:2] in EVERY_RUN else pytest.mark.long) for row in STATEMENTS],
    ids=[
        f"{kind}-{'-'.join(word for word in statement.split() if word.isupper())}" for kind, statement, _ in STATEMENTS
    ],
)
def test_a_statement_takes_nothing_that_waits(stage: Stage, kind: str, statement: str, taken: set[int]) -> None:
    create(stage, kind)
    with waiting(stage) as feed:
        run(stage, statement)
        assert len(stage.ids()) in {9 - len(taken) + ("OVERWRITE" in statement), 6}
        feed(range(18, 27))
    check(stage, {*ALL} - taken | ({THEIRS} if "OVERWRITE" in statement else set()))
    if statement == SET_LOCATION:
        assert len(list((stage.folder / "elsewhere").glob("part-*.parquet"))) == 1
    if statement == RENAME:
        assert set(stage.ids("dt = 'renamed'")) == of_day(PUBLISHED)


STATIC = f"INSERT INTO {{table}} PARTITION ({{day}}) SELECT {THEIRS}L, 'theirs'"
DYNAMIC = f"INSERT INTO {{table}} PARTITION (dt) SELECT {THEIRS}L, 'theirs', '2024-01-02'"


@pytest.mark.parametrize(
    "statement", [pytest.param(STATIC, marks=pytest.mark.long), DYNAMIC], ids=["static", "dynamic"]
)
def test_rows_that_wait_for_their_partition_survive_an_insert_into_it(stage: Stage, statement: str) -> None:
    """By Hive's own loader, which takes hidden files along (HIVE-29744)."""
    stage.create()
    # That the loader does delete what is in an unlisted partition's folder is what makes the test one.
    folder = stage.location() / "dt=2024-01-02"
    folder.mkdir(parents=True)
    (folder / ".hidden").write_bytes(b"")
    stage.put(range(9))
    # Epochs are decided while the sink's metastore is away; the run ends, since nothing can be registered.
    sink = stage.sink()
    away = connect("thrift", "thrift://127.0.0.1:1")
    sink.setup = replace(sink.setup, context=replace(sink.setup.context, registrar=away))
    with pytest.raises(errors.MetastoreUnreachable):
        stage.drain(sink)
    assert stage.staged()
    run(stage, statement)
    assert not (folder / ".hidden").exists()
    assert stage.ids() == [THEIRS]
    stage.drain()
    assert stage.ids() == [*range(9), THEIRS]
    stage.verify()
    run(stage, statement)
    assert stage.ids() == [*range(9), THEIRS, THEIRS]


@pytest.fixture
def ready(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """Where every epoch publishes at once; two have."""
    monkeypatch.setenv("HIVESINK_METASTORE", stage.uri)
    stage = replace(stage, options=ON_EPOCH).create()
    for first in (0, 10):
        stage.put(range(first, first + 10))
    stage.drain()
    assert stage.ids() == list(range(20))
    return stage


@pytest.mark.main_path
def test_a_job_goes_on_under_its_tables_new_name(ready: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    """A managed table; tests/crash/test_ownership.py has external ones too, at each moment."""
    stage = ready
    stage.put(range(20, 30))
    query = stage.begin(stage.sink(options={"sink.rolling-policy.on-epoch": "false"}), trigger="100 milliseconds")
    query.processAllAvailable()
    new = replace(stage, table=f"{stage.table}_renamed")
    stage.query(f"ALTER TABLE {stage.table} RENAME TO {new.table}")
    with pytest.raises(errors.UnknownTable, match="give its new name"):
        query.stop()
    with pytest.raises(errors.UnknownTable):
        stage.sink()
    new.put(range(30, 40))
    new.drain()
    assert new.ids() == list(range(40))
    assert hivesink(capsys, "verify", new.table).code == 0
    # The other way round it is the same.
    stage.query(f"ALTER TABLE {new.table} RENAME TO {stage.table}")
    stage.put(range(40, 50))
    stage.drain()
    assert stage.ids() == list(range(50))
    # And what users do to the same table makes no new one of it.
    for number, act in enumerate(
        ("SET TBLPROPERTIES ('mine'='1')", "ADD COLUMNS (late STRING)", "TRUNCATE", "MSCK REPAIR"), start=50
    ):
        stage.query(f"{act} TABLE {stage.table}" if act.isupper() else f"ALTER TABLE {stage.table} {act}")
        stage.put([number])
        stage.drain()
    assert stage.ids() == [52, 53]


@pytest.mark.main_path
def test_a_copy_by_the_text_of_show_create_table_is_refused(ready: Stage) -> None:
    stage = ready
    ((text,),) = stage.query(f"SHOW CREATE TABLE {stage.table} AS SERDE")
    assert PROPERTY in text
    copy = replace(stage, table=f"{stage.table}_copy")
    stage.query(re.sub(r"TABLE \S+", f"TABLE {copy.table}", text, count=1))
    with pytest.raises(errors.LogOfAnotherTable, match=f"belongs to {stage.table} at "):
        copy.sink()
    stage.query(f"ALTER TABLE {copy.table} UNSET TBLPROPERTIES ('{PROPERTY}')")
    copy.drain(copy.sink(), checkpoint=f"{stage.checkpoint}-copy")
    assert (stage.ids(), copy.ids()) == (list(range(20)), list(range(20)))
    stage.put(range(20, 30))
    stage.drain()
    assert stage.ids() == list(range(30))


@pytest.mark.main_path
def test_rows_go_along_to_a_table_of_a_wider_type(
    stage: Stage, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `Type changes and old files` in docs/ddl.md has it."""
    monkeypatch.setenv("HIVESINK_METASTORE", stage.uri)
    settings = {"sink.on-bad-record": "dead-letter"}
    stage.create(columns="id TINYINT, name STRING", properties=settings)
    stage.put(range(120, 136))
    stage.drain()
    wide = Stage(stage.spark, stage.uri, stage.folder, f"{stage.table}_wide").create(properties=settings)
    # One that was killed leaves folders with files that no partition has. Run again, the statement replaces them.
    shutil.copytree(stage.location(), wide.location(), dirs_exist_ok=True)
    stage.spark.sql(f"INSERT OVERWRITE {wide.table} PARTITION (dt) SELECT * FROM {stage.table}")
    wide.put(range(200, 205))
    wide.drain(wide.sink(append=0))
    assert wide.ids() == [*range(120, 128), *range(200, 205)]
    assert hivesink(capsys, "verify", wide.table).code == 0


@pytest.mark.main_path
def test_a_column_that_is_added_does_not_turn_rows_into_records(stage: Stage) -> None:
    settings = {"sink.bucket.assigner": "date-time", "sink.bucket.time-pattern": "yyyy"}
    stage.create(columns="value STRING", properties=settings)
    stage.put_text('{"a": 1}\n')
    stage.drain()
    stage.spark.sql(f"ALTER TABLE {stage.table} ADD COLUMNS (note STRING)")
    stage.put_text('{"a": 2}\n')
    with pytest.raises(errors.SourceChanged, match=r"would take its rows as .* append=1\)"):
        stage.drain()
    stage.drain(events=stage.lines().selectExpr("*", "CAST(NULL AS STRING) AS note"))
    rows = stage.query(f"SELECT value FROM {stage.table} ORDER BY value")
    assert [row.value for row in rows] == ['{"a": 1}', '{"a": 2}']
