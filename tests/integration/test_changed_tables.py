"""Tables that are renamed, copied, or dropped and made again, under a writer's feet."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace

import pytest

from hivesink import errors
from hivesink.core.log import PROPERTY
from tests.cli.site import hivesink
from tests.integration.stage import ON_EPOCH, Stage, hive_reader

pytestmark = [pytest.mark.spark, pytest.mark.main_path]


@pytest.fixture
def stage(stage: Stage) -> Stage:
    """Where every epoch publishes at once."""
    return replace(stage, options=ON_EPOCH)


def two_epochs(stage: Stage) -> list[int]:
    for number in range(2):
        stage.put(range(number * 10, number * 10 + 10))
    stage.drain()
    assert stage.ids() == list(range(20))
    return list(range(20))


def renamed(stage: Stage) -> Stage:
    name = f"{stage.table}_renamed"
    stage.query(f"ALTER TABLE {stage.table} RENAME TO {name}")
    return replace(stage, table=name)


# tests/crash/test_ownership.py has both, at each moment.
@pytest.mark.parametrize("external", [False, pytest.param(True, marks=pytest.mark.long)], ids=["managed", "external"])
def test_a_job_goes_on_under_its_tables_new_name(
    stage: Stage, external: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIVESINK_METASTORE", stage.uri)
    stage.create(location=stage.folder / "table" if external else None)
    two_epochs(stage)
    stage.put(range(20, 30))
    query = stage.begin(stage.sink(options={"sink.rolling-policy.on-epoch": "false"}), trigger="100 milliseconds")
    query.processAllAvailable()
    new = renamed(stage)
    with pytest.raises(errors.UnknownTable, match="start the job with that"):
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


def test_a_copy_by_the_text_of_show_create_table_is_refused(stage: Stage) -> None:
    stage.create()
    two_epochs(stage)
    ((text,),) = stage.query(f"SHOW CREATE TABLE {stage.table} AS SERDE")
    assert PROPERTY in text
    copy = Stage(stage.spark, stage.uri, stage.folder, f"{stage.table}_copy", options=ON_EPOCH)
    with hive_reader(stage.spark):
        stage.spark.sql(re.sub(r"TABLE \S+", f"TABLE {copy.table}", text, count=1))
    with pytest.raises(errors.LogOfAnotherTable, match=f"belongs to {stage.table} at "):
        copy.sink()
    stage.query(f"ALTER TABLE {copy.table} UNSET TBLPROPERTIES ('{PROPERTY}')")
    copy.drain(copy.sink(), checkpoint=f"{stage.checkpoint}-copy")
    assert (stage.ids(), copy.ids()) == (list(range(20)), list(range(20)))
    stage.put(range(20, 30))
    stage.drain()
    assert stage.ids() == list(range(30))


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


def test_a_table_made_again_is_refused_until_reset_and_then_the_checkpoint_is(
    stage: Stage, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIVESINK_METASTORE", stage.uri)
    stage.create()
    two_epochs(stage)
    stage.query(f"DROP TABLE {stage.table}")
    stage.create()
    stage.put(range(20, 30))
    for _ in range(2):
        with pytest.raises(errors.TableMadeAgain):
            stage.drain()
    assert stage.ids() == []
    assert hivesink(capsys, "reset", stage.table, "--yes").code == 0
    with pytest.raises(errors.LogMissing, match="append=0"):
        stage.drain()
    stage.drain(stage.sink(append=0))
    stage.put(range(30, 40))
    stage.drain()
    assert stage.ids() == list(range(20, 40))
    assert hivesink(capsys, "verify", stage.table).code == 0


def test_what_users_do_to_the_same_table_is_no_new_table(stage: Stage) -> None:
    stage.create()
    rows = two_epochs(stage)
    for number, act in enumerate(
        (
            "ALTER TABLE {table} SET TBLPROPERTIES ('mine'='1')",
            "ALTER TABLE {table} ADD COLUMNS (late STRING)",
            "TRUNCATE TABLE {table}",
            "MSCK REPAIR TABLE {table}",
        )
    ):
        stage.query(act.format(table=stage.table))
        rows = [*([] if act.startswith("TRUNCATE") else rows), 20 + number]
        stage.put([20 + number])
        stage.drain()
        assert stage.ids() == rows


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
    assert [row.value for row in stage.query(f"SELECT value FROM {stage.table} ORDER BY value")] == [
        '{"a": 1}',
        '{"a": 2}',
    ]
