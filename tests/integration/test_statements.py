"""Users' statements while rows wait to be rolled: each takes what is in the table, never what waits."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from hivesink import errors
from hivesink.formats.parquet import ParquetFormat
from hivesink.sink.inspect.findings import Level
from hivesink.sink.inspect.verify import verify
from tests.integration.stage import hive_reader, once, once_after, wrap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hivesink import HiveSink
    from tests.integration.stage import Stage

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
RENAME_BACK = "ALTER TABLE {table} PARTITION (dt = 'renamed') RENAME TO PARTITION ({day})"

MANAGED, EXTERNAL, PLAIN = "managed", "external", "unpartitioned"
STATEMENTS: list[tuple[str, str, set[int]]] = [
    (MANAGED, OVERWRITE, of_day(PUBLISHED)),
    (MANAGED, TRUNCATE, set(PUBLISHED)),
    (MANAGED, DROP, of_day(PUBLISHED)),
    (MANAGED, SET_LOCATION, of_day(PUBLISHED)),
    (MANAGED, ADD_COLUMNS, set()),
    (MANAGED, RENAME, set()),
    (EXTERNAL, OVERWRITE, of_day(PUBLISHED)),
    # Its files stay, and are seen again once new rows bring the partition back.
    (EXTERNAL, DROP, set()),
    (EXTERNAL, SET_LOCATION, of_day(PUBLISHED)),
    (EXTERNAL, ADD_COLUMNS, set()),
    (PLAIN, OVERWRITE_ALL, set(PUBLISHED)),
    (PLAIN, TRUNCATE, set(PUBLISHED)),
    (PLAIN, ADD_COLUMNS, set()),
]
"""The kind of table, the statement, and the published rows that it takes."""
EVERY_RUN = {(MANAGED, DROP), (EXTERNAL, SET_LOCATION), (PLAIN, OVERWRITE_ALL)}


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
    query = stage.begin(sink or stage.sink(options=WAIT), trigger="100 milliseconds")

    def feed(numbers: range) -> None:
        stage.put(numbers)
        query.processAllAvailable()

    try:
        feed(range(9, 18))
        yield feed
    finally:
        query.stop()


def act_and_feed(stage: Stage, statement: str = "", sink: HiveSink | None = None) -> None:
    with waiting(stage, sink) as feed:
        if statement:
            run(stage, statement)
        feed(range(18, 27))


def check(stage: Stage, expected: set[int]) -> None:
    assert stage.ids() == sorted(expected)
    assert list((stage.log() / "segments").glob("*.arrow")) == []
    # Spark leaves a checksum of a file that it has overwritten.
    assert [name for name in stage.staged() if not name.endswith(".crc")] == []
    found = verify(stage.sink().setup.context, "stage", stage.table, ParquetFormat.measure).findings
    # What a user took is told as that, and is no error. Files that a SET LOCATION leaves behind are.
    told = [finding.text for finding in found if finding.level is Level.ERROR]
    assert [text for text in told if "no reader finds them" not in text] == []


@pytest.mark.parametrize(
    ("kind", "statement", "taken"),
    [pytest.param(*one, marks=() if one[:2] in EVERY_RUN else pytest.mark.long) for one in STATEMENTS],
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


def test_rows_wait_on_for_a_partition_whose_folder_has_a_new_name(stage: Stage) -> None:
    """Of an external table: nobody moves the folder, so that rows of the old name would be read under both."""
    create(stage, EXTERNAL)
    with pytest.raises(errors.FolderTaken, match="dt=renamed"):
        act_and_feed(stage, RENAME)
    assert set(stage.ids()) == {*PUBLISHED} | {number for number in ALL if number % 3 != 1}
    run(stage, RENAME_BACK)
    stage.drain(stage.sink(options=WAIT))
    check(stage, {*ALL})


def rolls(act: Callable[[], None]) -> Callable[..., Any]:
    """After the decision of a roll: act, once."""
    done: list[None] = []

    def create(real: Callable[..., Any], manifest: Any) -> Any:
        real(manifest)
        if manifest.rolled and not done:
            done.append(None)
            act()

    return create


MOMENTS: dict[str, tuple[str, str, Callable[..., Any]]] = {
    # While rows wait, the first lookup is that of a roll, whose parts are encoded by then.
    "before the lookup": ("registrar", "lookup", once),
    "before the decision": ("registrar", "lookup", once_after),
    "before the publish": ("log", "create", rolls),
}


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize(
    ("statement", "taken"),
    [
        pytest.param(TRUNCATE, {*PUBLISHED}, marks=pytest.mark.long),
        (DROP, of_day(PUBLISHED)),
        pytest.param(SET_LOCATION, of_day(PUBLISHED), marks=pytest.mark.long),
    ],
    ids=["truncate", "drop", "set location"],
)
def test_a_statement_in_the_middle_of_a_roll(stage: Stage, statement: str, taken: set[int], moment: str) -> None:
    create(stage, MANAGED)
    sink = stage.sink(options=WAIT)
    port, method, when = MOMENTS[moment]
    wrap(sink, port, **{method: when(lambda: run(stage, statement))})
    act_and_feed(stage, sink=sink)
    check(stage, {*ALL} - taken)
