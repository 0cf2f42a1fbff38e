"""`status`, `verify`, `recover` and `clean` over a table on the real metastore and the local disk."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import pytest
from hive_metastore.ttypes import FieldSchema

from hivesink.cli import verify
from hivesink.core.epoch import Epoch
from hivesink.core.manifest import PartEntry
from hivesink.core.metrics import METRICS
from hivesink.core.table import TableName
from hivesink.errors import Unsupported
from tests.cli.site import Capsys, Ingest, changed, hivesink


def _part(ingest: Ingest, epoch: int) -> PartEntry:
    return ingest.setup.context.log.manifest(Epoch(epoch)).add[0]


def _local(path: str) -> Path:
    return Path(path.removeprefix("file://").removeprefix("file:"))


def _open_epoch(ingest: Ingest) -> int:
    """Decide an epoch that isn't published: the metastore is down."""
    ingest.lose_metastore()
    done = ingest.commit()
    assert done.waiting is not None
    return done.epoch


def test_a_table_that_nobody_has_written_to(table: str, capsys: Capsys) -> None:
    assert "no writer has written to it yet" in hivesink(capsys, "status", table).out
    assert hivesink(capsys, "show", table).out.splitlines()[1] == "it has no partitions yet"
    assert hivesink(capsys, "status", table, "--json").data["writers"] == []
    for command in ("verify", "recover", "clean"):
        assert hivesink(capsys, command, table).code == 0


def test_a_table_whose_folder_is_away_with_its_logs(table: str, ingest: Ingest, capsys: Capsys, tmp_path: Path) -> None:
    location = ingest.location
    logs = location.parent / ".hivesink"
    away = [(place, tmp_path / place.name) for place in (location, logs)]
    for place, to in away:
        place.rename(to)
    why = "it doesn't exist, and no log of it is known"
    said = f"the folder file:{location} of {table} can't be used ({why}); mount the disk"
    assert said in hivesink(capsys, "status", table).out
    checked = hivesink(capsys, "verify", table)
    assert (checked.code, said in checked.error) == (65, True)
    for place, to in away:
        to.rename(place)
    assert hivesink(capsys, "verify", table).code == 0


def test_status(ingest: Ingest, table: str, capsys: Capsys) -> None:
    text = hivesink(capsys, "status", table)
    assert text.code == 0
    for shown in ("writer ingest", "epoch │ 3 ", "last_batch │ batch 2 of query q, in epoch 3 │", str(ingest.log)):
        assert shown in re.sub(" +", " ", text.out)
    (writer,) = hivesink(capsys, "status", table, "--json").data["writers"]
    assert writer["epoch"] == 3
    assert writer["rows"] == {
        "read": 15,
        "written": 12,
        "rejected": 0,
        "dropped": 3,
        "late": 0,
        "skipped": 0,
        "extra": 0,
    }
    assert writer["last_batch"]["end"] == [{"kafka": {"t": {"0": 30}}}]
    assert writer["unsettled"] == []
    assert writer["offsets"] == [{"topic": "t", "partition": 0, "read": 30, "visible": 30, "complete": 30}]
    assert "│ t     │         0 │   30 │      30 │       30 │" in text.out


def test_metrics_by_the_log_alone(ingest: Ingest, table: str, capsys: Capsys) -> None:
    """Also while the metastore, whose table is open already, loses what the job has decided."""
    _open_epoch(ingest)
    said = hivesink(capsys, "metrics", table)
    labels = f'table="{table}",writer="ingest"'
    kafka = f'{{partition="0",{labels.replace(",writer", chr(44) + "topic=" + chr(34) + "t" + chr(34) + ",writer")}}}'
    values = dict(line.rsplit(" ", 1) for line in said.out.splitlines() if line[0] != "#")
    assert values[f"hivesink_read_offset{kafka}"] == "40.0"
    assert values[f"hivesink_visible_offset{kafka}"] == "30.0"
    assert values[f'hivesink_rows_total{{result="written",{labels}}}'] == "16.0"
    assert values[f'hivesink_epochs_total{{kind="requeue",{labels}}}'] == "0.0"
    assert values[f"hivesink_unsettled_epochs{{{labels}}}"] == "1.0"
    told = hivesink(capsys, "metrics", table, "--json").data["metrics"]
    assert {(each["writer"], each["metric"]) for each in told} == {("ingest", m.name) for m in METRICS if m.by_log}


def test_verify(ingest: Ingest, table: str, capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    said = hivesink(capsys, "verify", table)
    assert (said.code, f"{table}: no errors" in said.out) == (0, True)
    assert "all epochs: read 15, written 12, rejected 0, dropped 3" in said.out
    found = hivesink(capsys, "verify", table, "--json", "--quick").data
    assert (found["errors"], found["writers"][0]["head"]) == (0, 3)
    monkeypatch.setattr(verify, "MOST", 1)
    for epoch in (1, 3):
        _local(_part(ingest, epoch).target).unlink()
    said = hivesink(capsys, "verify", table)
    assert (said.code, said.out.count("note: "), said.out.count("; --json has them all")) == (0, 1, 1)
    notes = hivesink(capsys, "verify", table, "--json").data["writers"][0]["findings"]
    assert sum("is gone since it was published" in note["text"] for note in notes) == 2
    part = _local(_part(ingest, 2).target)
    part.write_bytes(b"x" * part.stat().st_size)
    said = hivesink(capsys, "verify", table)
    assert (said.code, f"{part} can't be read: " in said.out.replace("file:", "")) == (1, True)
    assert hivesink(capsys, "verify", table, "--quick").code == 0


def test_recover_finishes_what_was_decided(ingest: Ingest, table: str, capsys: Capsys) -> None:
    head = _open_epoch(ingest)
    status = hivesink(capsys, "status", table, "--json").data["writers"][0]
    assert status["unsettled"] == [head]
    target, staged = (_local(path) for path in (_part(ingest, head).target, _part(ingest, head).staged))
    # A kill in the middle of a rename leaves both names on local disks: it is one file.
    target.parent.mkdir(exist_ok=True)
    target.hardlink_to(staged)
    planned = hivesink(capsys, "recover", table, "--dry-run")
    assert planned.code == 0
    assert "publish" in planned.out
    assert "part missing" not in planned.out
    assert hivesink(capsys, "status", table, "--json").data["writers"][0]["unsettled"] == [head]
    assert f"recovered, at epoch {head}" in hivesink(capsys, "recover", table).out
    assert hivesink(capsys, "verify", table).code == 0
    assert "nothing to recover" in hivesink(capsys, "recover", table, "--dry-run").out


def test_recover_ends_an_epoch_with_the_settings_of_its_job(uri: str, table: str, capsys: Capsys) -> None:
    own = {
        "sink.file.permission": "640",
        "sink.partition-commit.policy.kind": "metastore,success-file",
        "sink.partition-commit.success-file.name": "_DONE",
        "sink.log.retained-epochs": "100000",
    }
    ingest = Ingest(table, uri, options=own)
    _open_epoch(ingest)
    said = hivesink(capsys, "recover", table)
    assert said.code == 0, said.err
    marks = sorted(ingest.location.glob("*/_*"))
    assert [(path.parent.name, path.name) for path in marks] == [("dt=2026-01-01", "_DONE"), ("dt=2026-01-02", "_DONE")]
    assert {path.stat().st_mode & 0o777 for path in marks} == {0o640}
    ingest.close()


@pytest.mark.usefixtures("ingest")
def test_a_checkpoint_is_rebuilt_for_one_query(table: str, uri: str, tmp_path: Path, capsys: Capsys) -> None:
    with closing(Ingest(table, uri, "other", query="another")) as other:
        other.commit()
    said = hivesink(capsys, "recover", table, "--checkpoint", tmp_path / "checkpoint")
    assert (said.code, "by several queries: name one of them with --writer" in said.error) == (65, True)


def test_a_column_more_in_the_table_of_dead_letters_is_null_and_one_less_is_refused(
    uri: str, table: str, capsys: Capsys
) -> None:
    options, rejected = {"sink.on-bad-record": "dead-letter"}, TableName.parse(table).rejected
    Ingest(table, uri, options=options).close()

    changed(uri, rejected, lambda found: found.sd.cols.append(FieldSchema("mine", "string", None)))
    with closing(Ingest(table, uri, options=options)) as wider:
        assert wider.commit().rows.rejected == 1
    changed(uri, rejected, lambda found: setattr(found.sd.cols[0], "name", "record"))
    why = (
        f"{rejected}, which exists and is no dead-letter table of hivesink's (it lacks value binary), is not supported"
    )
    with pytest.raises(Unsupported, match=rf"^{re.escape(why)}.*rename it.* creates it"):
        Ingest(table, uri, options=options)
    assert f"no job can start: {why}" in hivesink(capsys, "status", table).out
    said = hivesink(capsys, "rejects", table)
    assert (said.code, said.error.startswith(f"hivesink: {why}")) == (65, True)


def test_a_lost_part_needs_a_person_and_its_loss_a_yes(
    ingest: Ingest, table: str, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = _open_epoch(ingest)
    part = _part(ingest, head)
    _local(part.staged).unlink()
    command = f"`hivesink recover {table} --forget {part.partition}`"
    for options in ((), ("--dry-run",)):
        said = hivesink(capsys, "recover", table, *options)
        assert (said.code, "are both missing" in said.error, command in said.error) == (65, True, True)
    checked = hivesink(capsys, "verify", table)
    assert (checked.code, command in " ".join(checked.out.split())) == (1, True)
    forget = ("recover", table, "--forget", part.partition)
    planned = hivesink(capsys, *forget, "--dry-run", "--json").data["writers"][0]
    assert planned["forgotten"] == [{"path": part.target, "rows": part.rows, "why": "missing"}]
    assert f"{part.rows} rows in 1 file would be forgotten" in hivesink(capsys, *forget, "--dry-run").out
    asked = hivesink(capsys, *forget, "--json")
    assert (asked.code, "with --json, confirm with --yes" in asked.error) == (65, True)
    monkeypatch.setattr("sys.stdin", Answer("n"))
    assert hivesink(capsys, *forget).code == 1
    done = hivesink(capsys, *forget, "--yes", "--json").data["writers"][0]
    assert done["forgotten"] == planned["forgotten"]
    assert {action["what"] for action in done["actions"]} >= {"forget", "mark settled"}
    assert hivesink(capsys, "verify", table).code == 0
    assert hivesink(capsys, "status", table, "--json").data["writers"][0]["lost_rows"] == part.rows
    assert "nothing is lost" in hivesink(capsys, "recover", table, "--forget", "all").out


def test_clean_removes_leftovers_and_only_those(ingest: Ingest, table: str, capsys: Capsys) -> None:
    part = _local(_part(ingest, 2).target)
    leftover = ingest.location / "dt=2099-01-01" / f".{part.name}.inprogress"
    leftover.parent.mkdir()
    leftover.write_bytes(b"half")
    foreign = part.with_name(".part-00deadbeef00-1-0011223344t0-0-0.snappy.parquet.pending")
    foreign.write_bytes(b"x")
    assert f"would remove {leftover}" in hivesink(capsys, "clean", table, "--dry-run").out.replace("file:", "")
    assert leftover.exists()
    done = hivesink(capsys, "clean", table).out.replace("file:", "")
    assert "removed 1 file" in done
    assert f"kept {foreign}: its writer has no log here" in done
    assert (leftover.exists(), foreign.exists(), part.exists()) == (False, True, True)


class Answer:
    """A person at the keyboard."""

    def __init__(self, line: str) -> None:
        self._line = line

    def readline(self) -> str:
        return f"{self._line}\n"

    def isatty(self) -> bool:
        return True
