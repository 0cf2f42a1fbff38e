"""`hivesink reset`, and whose log a table has, on the real metastore."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from hivesink.core.log import LogAddress
from hivesink.core.table import TableName
from hivesink.errors import TableMadeAgain
from hivesink.metastore import connect
from hivesink.metastore.thrift_connection import Connection
from tests.cli.site import Capsys, Ingest, committed, hivesink
from tests.cli.test_table import Answer

WAIT = {"sink.rolling-policy.on-epoch": "false"}


def drop_table(ingest: Ingest) -> None:
    """The table and its files."""
    name = TableName.parse(ingest.table)
    with closing(Connection(ingest.metastore)) as connection:
        connection.read(lambda client: client.drop_table(name.database, name.table, False))
    for path in ingest.location.rglob("part-*"):
        path.unlink()


def stated(table: str, uri: str) -> LogAddress | None:
    with closing(connect("thrift", uri)) as registrar:
        return LogAddress.parse(registrar.table(TableName.parse(table)).log)


def test_a_writer_is_reset_after_a_question_and_its_log_kept(
    ingest: Ingest, table: str, uri: str, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed(table, uri, 4, writer="other")
    dry = hivesink(capsys, "reset", table, "--writer", "ingest", "--dry-run")
    assert (dry.code, "at epoch 3 with 12 rows written, is put aside" in dry.out) == (0, True)
    monkeypatch.setattr("sys.stdin", Answer("n"))
    assert hivesink(capsys, "reset", table, "--writer", "ingest").code == 1
    assert hivesink(capsys, "reset", table, "--writer", "ingest", "--json").code == 65
    assert ingest.log.is_dir()
    done = hivesink(capsys, "reset", table, "--writer", "ingest", "--yes", "--json").data
    assert (done["done"], [one["writer"] for one in done["writers"]]) == (True, ["ingest"])
    assert (ingest.log / "manifests" / "over").exists()
    with closing(Ingest(table, uri)) as again:
        assert again.commit().epoch == 1
        assert (ingest.log.name, again.log) == ("1", ingest.log.parent / "2")
    # The old files are neither strange nor lost.
    assert hivesink(capsys, "verify", table).code == 0
    unknown = hivesink(capsys, "reset", table, "--writer", "nobody", "--yes")
    assert (unknown.code, "no writer 'nobody'" in unknown.error) == (65, True)


def test_rows_that_can_not_be_read_yet_are_given_up_by_their_number(table: str, uri: str, capsys: Capsys) -> None:
    with closing(Ingest(table, uri, options=WAIT)) as ingest:
        ingest.commit()
    for count in ((), ("--discard", "3"), ("--discard", "5")):
        refused = hivesink(capsys, "reset", table, *count, "--yes")
        assert (refused.code, f"4 rows of {table} are in its log alone" in refused.error) == (65, True)
    told = hivesink(capsys, "reset", table, "--discard", "4", "--dry-run").out
    assert "4 rows that can't be read yet are given up" in told
    assert hivesink(capsys, "reset", table, "--discard", "4", "--yes").code == 0
    assert "nothing to reset" in hivesink(capsys, "reset", table, "--yes").out


def test_a_damaged_log_can_be_reset(ingest: Ingest, table: str, uri: str, capsys: Capsys) -> None:
    (ingest.log / "manifests" / "0000000002.json").write_text("{")
    said = hivesink(capsys, "reset", table, "--yes")
    assert (said.code, "the manifests of epoch 2 can't be read" in said.out) == (0, True)
    with closing(Ingest(table, uri)) as again:
        assert again.commit().epoch == 1


def test_a_table_made_again_is_refused_until_its_log_is_reset(
    ingest: Ingest, table: str, uri: str, ddl: Path, capsys: Capsys
) -> None:
    before = stated(table, uri)
    drop_table(ingest)
    assert hivesink(capsys, "ddl", "apply", ddl).code == 0
    with pytest.raises(TableMadeAgain):
        Ingest(table, uri)
    for command in ("recover", "clean"):
        refused = hivesink(capsys, command, table)
        assert (refused.code, f"`hivesink reset {table}`" in refused.error) == (65, True)
    assert "no job can start: " in hivesink(capsys, "status", table).out
    assert hivesink(capsys, "verify", table).code == 1
    alone = hivesink(capsys, "reset", table, "--writer", "ingest", "--yes")
    assert (alone.code, "leave --writer out" in alone.error) == (65, True)
    said = hivesink(capsys, "reset", table, "--yes")
    assert (said.code, f"becomes the log of {table}" in said.out) == (0, True)
    after = stated(table, uri)
    assert after
    assert before
    assert (after.root, after.table_id != before.table_id) == (before.root, True)


def test_a_log_is_moved_with_its_setting(ingest: Ingest, table: str, uri: str, tmp_path: Path, capsys: Capsys) -> None:
    moved = tmp_path / "moved"
    setting = {"sink.log-location": f"file:{moved}"}
    refused = f"but the log of {table} is in {ingest.log.parent.parent}"
    with pytest.raises(Exception, match=refused):
        Ingest(table, uri, options=setting)
    ingest.log.parent.parent.rename(moved)
    with closing(Ingest(table, uri, options=setting, batches=ingest.batches)) as again:
        assert again.commit().epoch == 4
    assert stated(table, uri) == LogAddress(str(moved), (stated(table, uri) or LogAddress("", "")).table_id)
    assert hivesink(capsys, "verify", table).code == 0
