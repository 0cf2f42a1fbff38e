"""`reset`, and what a writer's start says before and after it, over a table on the real metastore."""

from __future__ import annotations

import json
import shutil
import time
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from hivesink.core.epoch import BatchId, BatchRef, Epoch, HistoryPolicy
from hivesink.core.manifest import Rows
from hivesink.core.table import TableName
from hivesink.errors import (
    BatchSetAside,
    ForeignParts,
    InvalidOption,
    LogDamaged,
    LogGone,
    LogMissing,
    LogShared,
    LogTwice,
    StoreUnavailable,
    TableFolderGone,
    TableRemade,
)
from hivesink.logs import TableLogs
from hivesink.metastore.thrift_connection import Connection
from hivesink.sink.task.messages import InputShape
from tests.cli.site import DDL, Ingest, Said, hivesink, kafka, rename
from tests.cli.test_table import Answer

if TYPE_CHECKING:
    from pathlib import Path


def reset(capsys: pytest.CaptureFixture[str], table: str, *arguments: str) -> Said:
    return hivesink(capsys, "reset", table, *arguments)


def parts(ingest: Ingest) -> list[Path]:
    return sorted(ingest.location.rglob("part-*"))


def aside(ingest: Ingest) -> list[Path]:
    return sorted(ingest.log.parent.glob("ingest.reset-*"))


def start(ingest: Ingest, writer: str = "ingest") -> Ingest:
    return Ingest(ingest.table, ingest.metastore, writer)


def test_a_second_writer_that_has_not_started_since_the_table_moved_is_found(
    ingest: Ingest, table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    second = Ingest(table, ingest.metastore, "second")
    second.commit()
    second.close()
    moved, name = tmp_path / "moved" / "to", TableName.parse(table)
    moved.parent.mkdir()
    ingest.location.rename(moved)
    connection = Connection(ingest.metastore)
    found = connection.read(lambda client: client.get_table(name.database, name.table))
    found.sd.location = moved.as_uri()
    found.parameters["sink.log-location"] = str(ingest.log.parent)
    connection.read(lambda client: client.alter_table(name.database, name.table, found))
    partitions = connection.read(lambda client: client.get_partitions(name.database, name.table, -1))
    for partition in partitions:
        partition.sd.location = f"{moved.as_uri()}/dt={partition.values[0]}"
    connection.read(lambda client: client.alter_partitions(name.database, name.table, partitions))
    connection.close()
    log = ingest.log.with_name("second")
    way = f"with sink.log-location = {log.parent} run `hivesink recover {table}`"
    assert f"its log is {log}: {way}" in hivesink(capsys, "verify", table).out
    dry = hivesink(capsys, "recover", table, "--dry-run")
    assert f"writer second: its log {log} would be known here again" in dry.out
    assert hivesink(capsys, "verify", table).code == 1
    chosen = hivesink(capsys, "recover", table, "--writer", "second", "--json")
    assert (chosen.code, chosen.data["known_again"]) == (0, {"second": str(log)})
    assert f"writer ingest: its log {ingest.log} is known here again" in hivesink(capsys, "recover", table).out
    assert hivesink(capsys, "verify", table).code == 0
    assert "known" not in hivesink(capsys, "recover", table).out
    again = start(ingest, "second")
    assert again.setup.last_batch() is not None
    again.close()


def test_a_copy_of_a_log_beside_its_original_is_refused(ingest: Ingest) -> None:
    copy = ingest.log.with_name("second")
    shutil.copytree(ingest.log, copy)
    with pytest.raises(LogTwice, match="begins anew") as refused:
        start(ingest, "second")
    assert f"the logs {copy} and {ingest.log} both" in str(refused.value)
    shutil.rmtree(copy)
    start(ingest, "second").close()
    start(ingest).close()


def test_a_location_that_is_spelled_through_a_link_is_the_same_table(
    ingest: Ingest, table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    link, name = tmp_path / "link", TableName.parse(table)
    link.symlink_to(ingest.location.parent)
    connection = Connection(ingest.metastore)
    found = connection.read(lambda client: client.get_table(name.database, name.table))
    found.sd.location = f"file:{link}/{ingest.location.name}"
    connection.read(lambda client: client.alter_table(name.database, name.table, found))
    connection.close()
    again = Ingest(table, ingest.metastore, batches=ingest.batches)
    assert not again.commit().replayed
    again.close()
    assert hivesink(capsys, "verify", table).code == 0
    assert reset(capsys, table, "--writer", "ingest", "--yes").code == 0


def test_a_reset_is_shown_and_asked_for(
    ingest: Ingest, table: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    dry = reset(capsys, table, "--dry-run")
    assert dry.code == 0
    assert f"its log {ingest.log}, at epoch 3 with 12 rows written, is set aside as {ingest.log}.reset-2" in dry.out
    assert f"its 6 finished files in {table} stay: rows that are read again will be there twice" in dry.out
    assert "nothing was changed" in dry.out
    asked = reset(capsys, table, "--json")
    assert asked.code == 2
    assert "with --json, confirm with --yes" in asked.error
    monkeypatch.setattr("sys.stdin", Answer("n"))
    refused = reset(capsys, table)
    assert refused.code == 1
    assert "not confirmed, so nothing was changed" in refused.err
    assert aside(ingest) == []
    assert hivesink(capsys, "status", table, "--json").data["writers"][0]["epoch"] == 3


def test_a_reset_keeps_the_log_aside_and_accepts_its_files(
    ingest: Ingest, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    uid = ingest.setup.spec.identity.uid
    done = reset(capsys, table, "--yes", "--json")
    assert done.code == 0, done.err
    (kept,) = aside(ingest)
    assert done.data["done"]
    assert [(one["writer"], one["aside"]) for one in done.data["writers"]] == [("ingest", str(kept))]
    assert (kept / "manifests" / "0000000003.json").exists()
    assert hivesink(capsys, "status", table, "--json").data["writers"] == []
    checked = hivesink(capsys, "verify", table)
    assert checked.code == 0
    assert (
        f"note: 6 finished files and 0 staged ones of uid {uid}, writer ingest, were accepted as they are"
        in checked.out
    )
    assert f"its log is kept in {kept}" in checked.out

    # The old checkpoint is refused, a new one begins anew.
    again = start(ingest)
    again.batches = 3
    with pytest.raises(LogMissing, match="append=0"):
        again.commit()
    again.batches = 0
    assert again.commit().epoch == 1
    assert again.setup.spec.identity.uid != uid
    again.close()
    checked = hivesink(capsys, "verify", table, "--json")
    assert (checked.code, checked.data["files_of_no_known_writer"]) == (0, [])
    (known,) = checked.data["unknown_writers"]
    assert (known["uid"], len(known["finished"]), known["accepted"]["writer"]) == (uid, 6, "ingest")


def test_what_is_damaged_beside_the_log_says_how_to_go_on(
    ingest: Ingest, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pointer = ingest.log.with_name("ingest.pointer")
    pointer.write_text("")
    with pytest.raises(LogDamaged, match=r"ingest.pointer is damaged .*; delete it: that writer's next start"):
        start(ingest, "other")
    pointer.unlink()
    start(ingest).close()
    assert hivesink(capsys, "verify", table).code == 0
    (ingest.log / "manifests" / "floor-0000000001").write_text("")
    said = hivesink(capsys, "verify", table)
    assert (said.code, "floor-0000000001 is damaged" in said.out) == (1, True)
    assert "`hivesink reset TABLE --writer ingest`" in said.out
    assert reset(capsys, table, "--writer", "ingest", "--yes").code == 0
    (accepted,) = (ingest.log.parent / ".accepted").iterdir()
    accepted.write_text("")
    with pytest.raises(LogDamaged, match="`hivesink reset TABLE --uid UID`"):
        start(ingest)
    accepted.unlink()
    assert reset(capsys, table, "--uid", accepted.name.partition(".")[0], "--yes").code == 0
    start(ingest).close()


def test_rows_that_are_decided_and_not_published_are_named(
    ingest: Ingest, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ingest.lose_metastore()
    ingest.commit()
    assert "4 decided rows are not known to be published" in reset(capsys, table, "--dry-run").out
    assert hivesink(capsys, "recover", table).code == 0
    assert "not published" not in reset(capsys, table, "--dry-run").out


def test_one_writer_of_two(ingest: Ingest, table: str, capsys: pytest.CaptureFixture[str]) -> None:
    second = start(ingest, "second")
    second.commit()
    second.close()
    assert reset(capsys, table, "--writer", "second", "--yes").code == 0
    assert [one["writer"] for one in hivesink(capsys, "status", table, "--json").data["writers"]] == ["ingest"]
    assert hivesink(capsys, "verify", table).code == 0
    assert reset(capsys, table, "--writer", "second").code == 65
    assert "give one of the two" in reset(capsys, table, "--writer", "ingest", "--uid", "00ab").error


@pytest.mark.parametrize("method", ["put_aside", "unpoint"])
def test_a_reset_that_is_cut_short_is_done_again(
    ingest: Ingest, table: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    def fails(*_: object) -> None:
        raise StoreUnavailable(action="reset", path="it", reason="the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr(TableLogs, method, fails)
        assert reset(capsys, table, "--yes").code == 75
    time.sleep(1.1)
    assert reset(capsys, table, "--yes").code == 0
    (kept,) = aside(ingest)
    assert str(kept) in hivesink(capsys, "verify", table).out
    assert hivesink(capsys, "status", table, "--json").data["writers"] == []
    again = start(ingest)
    assert again.commit().epoch == 1
    again.close()
    assert hivesink(capsys, "verify", table).code == 0


def test_a_reset_beside_a_job_stops_it_and_is_no_dead_end(
    ingest: Ingest, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reset(capsys, table, "--yes").code == 0
    with pytest.raises(LogGone):
        ingest.commit()
    assert reset(capsys, table, "--yes").code == 0
    again = start(ingest)
    assert again.commit().epoch == 1
    again.close()
    assert reset(capsys, table, "--yes").code == 0
    assert len(aside(ingest)) == 2


def test_a_mark_that_a_killed_job_left_beside_a_reset_is_put_aside(
    ingest: Ingest, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reset(capsys, table, "--yes").code == 0
    (ingest.log / "manifests").mkdir(parents=True)
    (ingest.log / "manifests" / "0000000002.published").touch()
    with pytest.raises(LogDamaged, match="hivesink reset TABLE --writer NAME"):
        start(ingest)
    assert reset(capsys, table, "--yes", "--writer", "ingest").code == 0
    again = start(ingest)
    assert again.commit().epoch == 1
    again.close()


def test_a_reset_that_is_given_up_accepts_nothing(
    ingest: Ingest, table: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise StoreUnavailable(action="reset", path="it", reason="the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr(TableLogs, "put_aside", fails)
        assert reset(capsys, table, "--yes").code == 75
    again = start(ingest)
    again.close()
    assert TableLogs(TableName.parse(table), str(ingest.location)).accepted() == {}
    shutil.rmtree(ingest.log)
    with pytest.raises(ForeignParts):
        start(ingest)


def test_a_log_without_its_uid_and_with_a_damaged_manifest_can_be_put_aside(
    ingest: Ingest, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    uid = ingest.setup.spec.identity.uid
    (ingest.log / "uid").unlink()
    (ingest.log / "manifests" / "0000000003.json").write_text("{")
    assert "the manifests of epoch 3 can't be read" in reset(capsys, table, "--dry-run").out
    done = reset(capsys, table, "--yes", "--json")
    assert done.code == 0, done.err
    assert done.data["writers"][0]["unreadable"] == [3]
    assert done.data["writers"][0]["uid"] == uid
    assert hivesink(capsys, "verify", table).code == 0


def test_an_emptied_uid_is_named_by_each_command_and_deleting_it_is_enough(
    ingest: Ingest, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (ingest.log / "uid").write_text("")
    why = "uid is damaged (it holds no uid); delete that file: the next start takes the uid from the log's newest"
    assert f"no job can start: {ingest.log}/{why}" in hivesink(capsys, "status", table).out
    for command in (["verify"], ["recover", "--dry-run"], ["recover", "--yes"]):
        said = hivesink(capsys, command[0], table, *command[1:])
        assert (said.code, why in said.err) == (65, True)
    (ingest.log / "uid").unlink()
    again = start(ingest)
    assert again.setup.spec.identity.uid == ingest.setup.spec.identity.uid
    again.close()


def test_a_table_made_anew_is_refused_and_verify_says_so(
    ingest: Ingest, table: str, ddl: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = TableName.parse(table)
    connection = Connection(ingest.metastore)
    connection.read(lambda client: client.drop_table(name.database, name.table, True))
    connection.close()
    assert not ingest.location.exists()
    time.sleep(1.1)
    assert hivesink(capsys, "ddl", "apply", ddl).code == 0
    with pytest.raises(TableRemade):
        start(ingest)
    checked = hivesink(capsys, "verify", table)
    assert checked.code == 1
    assert "was dropped, or renamed, and created again" in checked.out
    assert reset(capsys, table, "--yes").code == 0
    assert hivesink(capsys, "verify", table).code == 0
    again = start(ingest)
    assert again.commit().epoch == 1
    again.close()
    start(ingest).close()


def test_a_renamed_table_and_its_ways_on(ingest: Ingest, table: str, capsys: pytest.CaptureFixture[str]) -> None:
    uid = ingest.setup.spec.identity.uid
    new = Ingest.__new__(Ingest)
    new.table, new.metastore, new.writer, new.batches = rename(ingest, "renamed"), ingest.metastore, "ingest", 0
    new.options = {}
    with pytest.raises(ForeignParts) as refused:
        new.__post_init__()
    said = str(refused.value)
    assert f"use its log {ingest.log}, as writer ingest with sink.log-location = {ingest.log.parent}" in said
    assert "(and 2 more in its folder)" in said
    checked = hivesink(capsys, "verify", new.table)
    assert checked.code == 1
    assert f"error: 6 finished files and 0 staged ones of uid {uid}" in checked.out
    way = f"with sink.log-location = {ingest.log.parent} run `hivesink recover {new.table}`, or accept"
    assert f"its log is {ingest.log}: {way}" in checked.out
    # Without it a start would find the log beside nothing, and refuse the pointer to another folder.
    assert "no writer has written" in hivesink(capsys, "recover", new.table).out
    assert "nothing to verify" not in checked.out
    # `reset` alone knows no writer here.
    assert "nothing to reset" in reset(capsys, new.table, "--yes").out
    wrong = reset(capsys, new.table, "--uid", "00ab")
    assert wrong.code == 65
    assert f"such uids are: {uid}" in wrong.error
    dry = reset(capsys, new.table, "--uid", uid, "--dry-run")
    assert "6 finished files and 0 staged ones" in dry.out
    assert hivesink(capsys, "verify", new.table).code == 1
    assert reset(capsys, new.table, "--uid", uid, "--yes").code == 0
    assert "nothing to reset" in reset(capsys, new.table, "--uid", uid, "--yes").out
    checked = hivesink(capsys, "verify", new.table)
    assert checked.code == 0
    assert "a writer that has no log here, were accepted as they are" in checked.out
    new.__post_init__()
    assert new.commit().epoch == 1
    new.close()
    assert table != new.table


def declare(capsys: pytest.CaptureFixture[str], folder: Path, name: str, **properties: str) -> None:
    text = DDL.format(name=name, location=(folder / name).as_uri()).rstrip(")\n")
    text += "".join(f", '{key}'='{value}'" for key, value in properties.items()) + ")\n"
    path = folder / f"{name}.sql"
    path.write_text(text)
    applied = hivesink(capsys, "ddl", "apply", path)
    assert applied.code == 0, applied.err


def test_a_copy_beside_its_original_is_not_sent_to_the_originals_log(
    ingest: Ingest, uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(ingest.location, ingest.location.parent / "copy.c")
    declare(capsys, ingest.location.parent, "copy.c")
    with pytest.raises(ForeignParts) as refused:
        Ingest("copy.c", uri)
    uid = ingest.setup.spec.identity.uid
    for said in (str(refused.value), hivesink(capsys, "verify", "copy.c").out):
        assert str(ingest.log) not in said
        assert f"`hivesink reset copy.c --uid {uid}`" in said
    assert reset(capsys, "copy.c", "--uid", uid, "--yes").code == 0
    Ingest("copy.c", uri).close()
    # Nor does `recover` make that log the copy's.
    shutil.copytree(ingest.location, ingest.location.parent / "copy.d")
    declare(capsys, ingest.location.parent, "copy.d", **{"sink.log-location": str(ingest.log.parent)})
    assert "no writer has written to copy.d yet" in hivesink(capsys, "recover", "copy.d").out


def test_two_tables_with_one_log_location_share_no_log(
    uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = {"sink.log-location": (tmp_path / "logs").as_uri()}
    for name in ("two.a", "two.b"):
        declare(capsys, tmp_path, name, **logs)
    first = Ingest("two.a", uri)
    for _ in range(2):
        with pytest.raises(LogShared, match=r"serves two.a, so two.b can neither .* another writer name"):
            Ingest("two.b", uri)
        first.commit()
    Ingest("two.b", uri, "other").close()
    first.close()
    Ingest("two.a", uri).close()
    assert hivesink(capsys, "verify", "two.a").code == 0


def test_a_job_does_not_write_where_a_disk_is_not_mounted(
    uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    declare(capsys, disk, "un.t", **{"sink.log-location": (tmp_path / "logs").as_uri()})
    writer = Ingest("un.t", uri)
    writer.commit()
    writer.committer.finish()
    writer.close()
    # Its pointer is on the disk, too.
    disk.rename(tmp_path / "away")
    disk.mkdir()
    with pytest.raises(TableFolderGone, match="mount the disk"):
        Ingest("un.t", uri, batches=1)
    assert list(disk.iterdir()) == []
    disk.rmdir()
    (tmp_path / "away").rename(disk)
    Ingest("un.t", uri, batches=1).close()


def replay(ingest: Ingest, batches: int = 2) -> Ingest:
    """The job again, by a checkpoint that lacks its last batch: Spark was killed before it had committed that."""
    policy = HistoryPolicy(append=Epoch(0) if batches else None)
    return Ingest(ingest.table, ingest.metastore, batches=batches, history_policy=policy)


def replayed(ingest: Ingest) -> bool:
    """Whether that job passes its first batch over."""
    with closing(replay(ingest)) as again:
        return again.commit().replayed


def test_a_batch_that_was_committed_before_the_reset_is_not_written_again(
    ingest: Ingest, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = parts(ingest)
    # The second reset puts a log aside whose only epoch says that the batch is in the table.
    for _ in range(2):
        assert reset(capsys, table, "--yes").code == 0
        again = replay(ingest)
        assert again.commit().replayed
        assert parts(ingest) == before
        again.close()
    again = replay(ingest)
    assert [(done.epoch, done.replayed) for done in (again.commit(), again.commit())] == [(1, True), (2, False)]
    again.close()
    assert len(parts(ingest)) == len(before) + 2
    assert hivesink(capsys, "verify", table).code == 0


def test_a_first_batch_that_was_committed_before_the_reset_is_not_written_again(
    uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    declare(capsys, tmp_path, "again.t")
    first = Ingest("again.t", uri)
    first.commit()
    first.close()
    assert reset(capsys, "again.t", "--yes").code == 0
    second = replay(first, 0)
    assert second.commit().replayed
    assert not second.commit().replayed
    second.close()


def test_a_batch_whose_files_are_gone_since_the_reset_needs_a_person(
    ingest: Ingest, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    uid = ingest.setup.spec.identity.uid
    assert reset(capsys, table, "--yes").code == 0
    (kept,) = aside(ingest)
    gone = next(path for path in parts(ingest) if f"-{uid}-3-" in path.name)
    held = gone.read_bytes()
    gone.unlink()
    again = replay(ingest)
    with pytest.raises(BatchSetAside, match="1 of the batch's 2 files") as asked:
        again.commit()
    assert f"--uid {uid} --written none`, and it is written" in str(asked.value)
    assert f"--uid {uid} --written q/2`, and it is passed over" in str(asked.value)
    again.close()

    # Users have put its rows into a file of their own.
    said = reset(capsys, table, "--uid", uid, "--written", "q/2", "--yes")
    assert (said.code, "batch q/2 is in the table" in said.out) == (0, True)
    assert replayed(ingest)
    shutil.rmtree(ingest.log)

    # The file is back: undo the reset.
    gone.write_bytes(held)
    kept.rename(ingest.log)
    assert replayed(ingest)

    # They are not.
    assert reset(capsys, table, "--yes").code == 0
    for path in parts(ingest):
        path.unlink()
    said = reset(capsys, table, "--uid", uid, "--written", "none", "--yes")
    assert (said.code, "no batch of that log that comes again is in the table" in said.out) == (0, True)
    again = replay(ingest)
    assert (again.commit().replayed, len(parts(ingest))) == (False, 2)
    again.close()
    for wrong in (("--written", "q/2"), ("--uid", uid, "--written", "2")):
        assert reset(capsys, table, *wrong, "--yes").code == 2


def test_an_answer_is_checked_and_may_be_corrected(
    ingest: Ingest, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    uid = ingest.setup.spec.identity.uid
    assert reset(capsys, table, "--yes").code == 0
    (kept,) = aside(ingest)
    # To accept its files is no answer, and an answer about another batch is none about this one.
    assert "nothing to reset" in reset(capsys, table, "--uid", uid, "--yes").out
    assert reset(capsys, table, "--uid", uid, "--written", "p/7", "--yes").code == 0
    assert replayed(ingest)
    shutil.rmtree(ingest.log)
    assert reset(capsys, table, "--uid", uid, "--written", "none", "--yes").code == 0
    # That was a mistake.
    assert reset(capsys, table, "--uid", uid, "--written", "q/2", "--yes").code == 0
    assert replayed(ingest)

    # Undone, and before any start reset again: what was answered before counts no more.
    assert reset(capsys, table, "--uid", uid, "--written", "none", "--yes").code == 0
    shutil.rmtree(ingest.log)
    kept.rename(ingest.log)
    assert reset(capsys, table, "--yes").code == 0
    assert replayed(ingest)


def test_an_answer_is_for_the_writer_of_that_log_alone(
    ingest: Ingest, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    second = Ingest(table, ingest.metastore, "second")
    for _ in range(2):
        second.commit()
    second.close()
    assert reset(capsys, table, "--yes").code == 0
    uid = ingest.setup.spec.identity.uid
    assert reset(capsys, table, "--uid", uid, "--written", "q/2", "--yes").code == 0
    behind = Ingest(table, ingest.metastore, "second", batches=2, history_policy=HistoryPolicy(append=Epoch(0)))
    assert not behind.commit().replayed
    behind.close()


def test_a_batch_that_only_a_log_without_files_knows_is_written(
    ingest: Ingest, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    uid = ingest.setup.spec.identity.uid
    assert reset(capsys, table, "--yes").code == 0
    assert replayed(ingest)
    for path in parts(ingest):
        path.unlink()
    assert reset(capsys, table, "--yes").code == 0
    with pytest.raises(BatchSetAside, match="0 of the batch's 2 files"):
        replayed(ingest)
    assert reset(capsys, table, "--uid", uid, "--written", "none", "--yes").code == 0
    assert not replayed(ingest)


def test_a_cut_file_needs_a_person(ingest: Ingest, table: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert reset(capsys, table, "--yes").code == 0
    next(path for path in parts(ingest) if "-3-" in path.name).write_bytes(b"")
    with pytest.raises(BatchSetAside, match="1 of the batch's 2 files"):
        replayed(ingest)


def test_a_batch_whose_manifest_is_gone_needs_a_person(
    ingest: Ingest, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Epochs without a batch may have followed, and clean-up of the log."""
    fence = replace(ingest.setup.context.log.manifest(Epoch(3)), epoch=Epoch(4), kind="fence", parts=(), rows=Rows())
    ingest.setup.context.log.create(fence)
    assert reset(capsys, table, "--yes").code == 0
    (aside(ingest)[0] / "manifests" / "0000000003.json").unlink()
    with pytest.raises(BatchSetAside, match="the manifest of its epoch 3 is trimmed or can't be read"):
        replayed(ingest)


def test_a_log_that_was_put_aside_where_no_file_system_is_any_more(
    ingest: Ingest, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    uid = ingest.setup.spec.identity.uid
    assert reset(capsys, table, "--yes").code == 0
    logs = TableLogs(TableName.parse(table), str(ingest.location))
    logs.accept(replace(logs.accepted()[uid], log="hdfs://nowhere/log"))
    second = Ingest(table, ingest.metastore, "second")
    assert list(second.setup.histories("q")) == []
    second.close()
    with pytest.raises(BatchSetAside, match="nowhere"):
        replayed(ingest)


def test_what_the_logs_of_a_table_hold_of_a_query(
    ingest: Ingest, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def held() -> list[tuple[str, list[int], bool]]:
        found = second.setup.histories("q")
        return sorted((one.writer, [*map(int, sorted(one.batches()))], one.trimmed) for one in found)

    second = Ingest(table, ingest.metastore, "second", options={"sink.log.retained-epochs": "1"})
    second.commit()
    assert held() == [("ingest", [0, 1, 2], False), ("second", [0], False)]
    assert reset(capsys, table, "--writer", "ingest", "--yes").code == 0
    assert held() == [("ingest", [0, 1, 2], False), ("second", [0], False)]
    assert list(second.setup.histories("other")) == []
    # Its rows of that query are said not to be in the table.
    uid = ingest.setup.spec.identity.uid
    assert reset(capsys, table, "--uid", uid, "--written", "none", "--yes").code == 0
    assert held() == [("second", [0], False)]
    for _ in range(6):
        second.commit()
    assert [(trimmed, batches[-1]) for _, batches, trimmed in held()] == [(True, 6)]
    second.close()


def test_a_batch_of_other_offsets_or_of_a_damaged_log_needs_a_person(
    ingest: Ingest, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reset(capsys, table, "--yes").code == 0
    again = replay(ingest)
    shape, ref = InputShape(value="value", topic_name="t"), BatchRef("q", BatchId(2), (kafka(20),), (kafka(31),))
    with pytest.raises(BatchSetAside, match="other offsets"):
        again.committer.commit(ref, shape, lambda _: [])
    newest = aside(ingest)[0] / "manifests" / "0000000003.json"
    newest.write_text("{")
    with pytest.raises(BatchSetAside, match="can't be read"):
        again.commit()
    shutil.rmtree(aside(ingest)[0])
    with pytest.raises(BatchSetAside, match="it is gone"):
        again.commit()
    again.close()
    # A second writer of the query has nothing to do with it.
    second = Ingest(table, ingest.metastore, "second", batches=2, history_policy=HistoryPolicy(append=Epoch(0)))
    assert not second.commit().replayed
    second.close()
    uid = ingest.setup.spec.identity.uid
    # What it can't know, it can't check.
    for answer in ("q/7", "none"):
        assert reset(capsys, table, "--uid", uid, "--written", answer, "--yes").code == 0
    said = reset(capsys, table, "--uid", "00", "--written", "none", "--yes")
    assert (said.code, "no log of uid 00 that a reset has put aside" in said.error) == (65, True)
    # Nor has a checkpoint of another query.
    other = replay(ingest)
    done = other.committer.commit(replace(ref, query="other"), shape, partial(other._write, rows=4))
    assert not done.replayed
    other.close()


def test_a_new_table_of_a_renamed_ones_name_takes_no_log_from_it(
    ingest: Ingest, table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    renamed = rename(ingest, "archived")
    options = {"sink.log-location": str(ingest.log.parent)}
    old = Ingest(renamed, ingest.metastore, batches=3, options=options)
    # A metastore tells two tables of one name apart by the second of their creation.
    time.sleep(1.1)
    declare(capsys, tmp_path / "data", table)
    with pytest.raises(LogShared, match=f"serves {renamed}"):
        start(ingest)
    said = reset(capsys, table, "--yes")
    assert (said.code, aside(ingest)) == (65, [])
    assert f"serves {renamed}" in said.error
    checked = hivesink(capsys, "verify", table)
    assert checked.code == 1
    assert f"serves {renamed}" in checked.out
    assert old.commit().epoch == 4
    start(ingest, "other").close()
    old.close()
    Ingest(renamed, ingest.metastore, options=options).close()


def test_the_log_is_not_reset_by_its_dead_letters(
    ingest: Ingest, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {"sink.on-bad-record": "dead-letter"}
    writer = Ingest(table, ingest.metastore, batches=3, options=options)
    writer.commit()
    writer.close()
    assert hivesink(capsys, "verify", f"{table}__rejected").code == 0
    name = TableName.parse(table).rejected
    connection = Connection(ingest.metastore)
    connection.read(lambda client: client.drop_table(name.database, name.table, True))
    connection.close()
    time.sleep(1.1)
    Ingest(table, ingest.metastore, batches=4, options=options).close()
    assert "created again" not in hivesink(capsys, "verify", f"{table}__rejected").out
    said = reset(capsys, f"{table}__rejected", "--yes")
    assert (said.code, aside(ingest)) == (65, [])
    assert f"`hivesink reset {table}` resets both" in said.error
    assert reset(capsys, table, "--yes").code == 0


def test_the_log_is_missed_with_and_without_its_pointer(
    ingest: Ingest, table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = shutil.copytree(ingest.log.parent, tmp_path / "kept")
    shutil.rmtree(ingest.log)
    for gone in (ingest.log, ingest.log.parent):
        shutil.rmtree(gone, ignore_errors=True)
        with pytest.raises(ForeignParts):
            start(ingest)
        assert hivesink(capsys, "verify", table).code == 1
        assert not (ingest.log / "uid").exists()
    shutil.copytree(kept, ingest.log.parent)
    assert hivesink(capsys, "verify", table).code == 0
    start(ingest).close()


@pytest.mark.parametrize("name", ["team/a", ".h", "..", "../demo.other/w", "x.pointer"])
def test_a_writer_cannot_be_called_so(ingest: Ingest, name: str) -> None:
    before = sorted(ingest.log.parent.parent.rglob("*"))
    with pytest.raises(InvalidOption, match="the writer's name"):
        start(ingest, name)
    assert sorted(ingest.log.parent.parent.rglob("*")) == before


def test_a_log_of_an_odd_name_is_looked_after_and_goes_on_under_a_good_one(
    ingest: Ingest, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As older versions let it be called; the steps are those of docs/operations.md."""
    odd = ingest.log.with_name("my job")
    ingest.log.rename(odd)
    pointer = odd.with_name("ingest.pointer")
    odd.with_name("my job.pointer").write_text(json.dumps({"format": 1, "log": str(odd)}))
    pointer.unlink()
    assert hivesink(capsys, "verify", table, "--writer", "my job").code == 0
    assert hivesink(capsys, "recover", table, "--writer", "my job").code == 0
    said = hivesink(capsys, "verify", table, "--writer", "team/a")
    assert said.code == 65
    assert "the writer's name 'team/a' can't be used" in said.error
    with pytest.raises(InvalidOption, match="'my-job'"):
        start(ingest, "my job")
    odd.rename(odd.with_name("my-job"))
    odd.with_name("my job.pointer").unlink()
    again = start(ingest, "my-job")
    again.batches = 3
    assert again.commit().epoch == 4
    again.close()
    assert hivesink(capsys, "verify", table).code == 0
