"""Tables that were renamed, or dropped and made anew, under a writer's feet: refused, with ways on that work."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from hivesink import errors
from tests.cli.site import hivesink
from tests.integration.stage import ON_EPOCH, Stage, table_ddl

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.main_path]

A_SECOND = 1.1
"""A metastore tells tables of one name apart by the second in which they were made."""


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


def make_anew(stage: Stage, location: Path | None = None) -> None:
    stage.query(f"DROP TABLE {stage.table}")
    time.sleep(A_SECOND)
    stage.create(location=location)


def renamed(stage: Stage) -> Stage:
    name = f"{stage.table}_renamed"
    stage.query(f"ALTER TABLE {stage.table} RENAME TO {name}")
    return Stage(stage.spark, stage.uri, stage.folder, name)


@pytest.mark.parametrize("external", [False, True], ids=["managed", "external"])
def test_a_renamed_table_is_not_written_twice(
    stage: Stage, external: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIVESINK_METASTORE", stage.uri)
    stage.create(location=stage.folder / "table" if external else None)
    rows, log = two_epochs(stage), stage.log()
    new = renamed(stage)
    new.forget_checkpoint()
    with pytest.raises(errors.ForeignParts) as refused:
        new.drain()
    assert new.ids() == rows
    # It says where the log is, and left nothing behind that a later start could take for a log.
    said = str(refused.value)
    assert "\n" not in said
    assert f"sink.log-location = {log.parent}" in said
    assert not new.log().exists()
    checked = hivesink(capsys, "verify", new.table)
    assert checked.code == 1
    assert f"{refused.value.uid}, a writer that has no log here" in checked.out

    # The way on that it names first: the history is judged again.
    found = {"sink.log-location": str(log.parent)}
    with pytest.raises(errors.ForeignHistory):
        new.drain(new.sink(options=found))
    assert not new.checkpoint.exists()
    shutil.rmtree(new.source)
    new.put(range(20, 30))
    new.drain(new.sink(options=found, append=2))
    assert new.ids() == list(range(30))
    assert hivesink(capsys, "verify", new.table).code == 0


def test_a_table_renamed_while_its_rows_wait_can_be_renamed_back(
    stage: Stage, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIVESINK_METASTORE", stage.uri)
    stage.create()
    stage.put(range(9))
    query = stage.begin(stage.sink(options={"sink.rolling-policy.on-epoch": "false"}), trigger="100 milliseconds")
    query.processAllAvailable()
    place, new = stage.location(), renamed(stage)
    with pytest.raises(errors.UnknownTable):
        query.stop()
    assert not place.exists()
    said = hivesink(capsys, "verify", new.table).out
    assert f": 9 rows wait under the table's old name, {stage.table}: rename {new.table} back" in said
    stage.query(f"ALTER TABLE {new.table} RENAME TO {stage.table}")
    assert hivesink(capsys, "recover", stage.table).code == 0
    assert stage.ids() == list(range(9))


def test_what_stands_in_a_renamed_table_can_be_accepted(
    stage: Stage, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIVESINK_METASTORE", stage.uri)
    stage.create()
    rows = two_epochs(stage)
    new = renamed(stage)
    with pytest.raises(errors.ForeignParts) as refused:
        new.drain()
    assert f"`hivesink reset {new.table} --uid {refused.value.uid}`" in str(refused.value)
    assert hivesink(capsys, "reset", new.table, "--uid", refused.value.uid, "--yes").code == 0
    # The old checkpoint stands where the rows end.
    new.put(range(20, 30))
    with pytest.raises(errors.LogMissing):
        new.drain()
    new.drain(new.sink(append=0))
    assert new.ids() == [*rows, *range(20, 30)]
    checked = hivesink(capsys, "verify", new.table)
    assert checked.code == 0
    assert refused.value.uid in checked.out


def test_dead_letters_go_along_to_a_table_of_a_wider_type(
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
    stage.query(f"ALTER TABLE {stage.table}__rejected RENAME TO {wide.table}__rejected")
    wide.put(range(200, 205))
    wide.drain(wide.sink(append=0))
    assert wide.ids() == [*range(120, 128), *range(200, 205)]
    replayed = hivesink(capsys, "rejects", "replay", wide.table, "--yes")
    assert "8 records are rows now, 0 fail again" in replayed.out
    stage.spark.catalog.refreshTable(wide.table)
    assert wide.ids() == [*range(120, 136), *range(200, 205)]
    assert hivesink(capsys, "verify", wide.table).code == 0


def test_a_table_made_anew_is_refused_until_reset_and_then_the_checkpoint_is(
    stage: Stage, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIVESINK_METASTORE", stage.uri)
    stage.create()
    two_epochs(stage)
    make_anew(stage)
    stage.put(range(20, 30))
    for _ in range(2):
        with pytest.raises(errors.TableRemade) as refused:
            stage.drain()
    assert f"`hivesink reset {stage.table} --writer stage`" in str(refused.value)
    assert stage.ids() == []
    assert hivesink(capsys, "reset", stage.table, "--yes").code == 0
    with pytest.raises(errors.LogMissing, match="append=0"):
        stage.drain()
    stage.forget_checkpoint()
    stage.drain()
    assert stage.ids() == list(range(30))
    assert hivesink(capsys, "verify", stage.table).code == 0


def test_a_table_made_anew_goes_on_where_the_checkpoint_stands_if_it_is_told_so(
    stage: Stage, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIVESINK_METASTORE", stage.uri)
    stage.create()
    two_epochs(stage)
    make_anew(stage)
    assert hivesink(capsys, "reset", stage.table, "--yes").code == 0
    stage.put(range(20, 30))
    stage.drain(stage.sink(append=0))
    stage.put(range(30, 40))
    stage.drain()
    assert stage.ids() == list(range(20, 40))


def test_an_external_table_made_anew_over_its_files_goes_on(
    stage: Stage, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIVESINK_METASTORE", stage.uri)
    place = stage.folder / "table"
    stage.create(location=place)
    two_epochs(stage)
    make_anew(stage, place)
    stage.put(range(20, 30))
    stage.drain()
    stage.query(f"MSCK REPAIR TABLE {stage.table}")
    assert stage.ids() == list(range(30))
    assert hivesink(capsys, "verify", stage.table).code == 0


def test_a_table_made_anew_in_the_middle_of_a_run_stops_it(stage: Stage) -> None:
    stage.create()
    stage.put(range(10))
    query = stage.begin(stage.sink(), trigger={"processingTime": "0 seconds"})
    query.processAllAvailable()
    make_anew(stage)
    stage.put(range(10, 20))
    with pytest.raises(errors.TableReplaced):
        query.processAllAvailable()
    with pytest.raises(errors.TableReplaced):
        query.stop()
    with pytest.raises(errors.TableRemade):
        stage.drain()
    assert stage.ids() == []


@pytest.mark.parametrize(
    "act",
    [
        "ALTER TABLE {table} SET TBLPROPERTIES ('mine'='1')",
        "ALTER TABLE {table} ADD COLUMNS (late STRING)",
        "TRUNCATE TABLE {table}",
        "MSCK REPAIR TABLE {table}",
    ],
    ids=["properties", "columns", "truncate", "msck"],
)
def test_what_users_do_to_the_same_table_is_no_new_table(stage: Stage, act: str) -> None:
    stage.create()
    rows = [] if act.startswith("TRUNCATE") else list(range(20))
    two_epochs(stage)
    time.sleep(A_SECOND)
    stage.query(act.format(table=stage.table))
    stage.put(range(20, 30))
    stage.drain()
    assert stage.ids() == [*rows, *range(20, 30)]


def test_a_log_that_was_moved_away_is_missed(
    stage: Stage, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIVESINK_METASTORE", stage.uri)
    stage.create(table_ddl(stage.table))
    rows = two_epochs(stage)
    kept = stage.folder / "kept"
    stage.log().parent.rename(kept)
    stage.forget_checkpoint()
    with pytest.raises(errors.ForeignParts):
        stage.drain()
    assert hivesink(capsys, "verify", stage.table).code == 1
    kept.rename(stage.log().parent)
    assert hivesink(capsys, "verify", stage.table).code == 0
    with pytest.raises(errors.ForeignHistory):
        stage.drain()
    assert stage.ids() == rows


def test_a_column_that_is_added_does_not_turn_rows_into_records(stage: Stage) -> None:
    settings = {"sink.bucket.assigner": "date-time", "sink.bucket.time-pattern": "yyyy"}
    stage.create(columns="value STRING", properties=settings)
    stage.put_text('{"a": 1}\n')
    stage.drain()
    stage.spark.sql(f"ALTER TABLE {stage.table} ADD COLUMNS (note STRING)")
    stage.put_text('{"a": 2}\n')
    with pytest.raises(errors.InputChanged, match=r"came as columns.* append=1\)$"):
        stage.drain()
    stage.drain(events=stage.lines().selectExpr("*", "CAST(NULL AS STRING) AS note"))
    assert [row.value for row in stage.query(f"SELECT value FROM {stage.table} ORDER BY value")] == [
        '{"a": 1}',
        '{"a": 2}',
    ]
