"""The commands while rows wait to be rolled, on the real metastore."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from hivesink.core.table import TableName, field_ids
from tests.cli.site import Capsys, Ingest, changed, hivesink

WAIT = {"sink.rolling-policy.on-epoch": "false"}
IDS = sorted([0, 1, 2, 3] * 3)


@pytest.fixture
def waiting(uri: str, table: str) -> Iterator[Ingest]:
    """Three epochs of four rows each, all of which wait, and no query that would roll them."""
    with_options = Ingest(table, uri, options=WAIT)
    for _ in range(3):
        with_options.commit()
    yield with_options
    with_options.close()


def ids(ingest: Ingest) -> list[int]:
    found = ds.dataset(sorted(map(str, ingest.location.rglob("part-*"))), format="parquet") if files(ingest) else None
    return sorted(found.to_table(["id"])["id"].to_pylist()) if found else []


def files(ingest: Ingest) -> list[Path]:
    return sorted(ingest.location.rglob("part-*"))


def segments(ingest: Ingest) -> list[str]:
    return [path.name for path in (ingest.log / "segments").glob("*")]


def test_every_command_says_what_waits_and_recover_publishes_it(waiting: Ingest, table: str, capsys: Capsys) -> None:
    assert "rows 12, bytes " in hivesink(capsys, "status", table).out
    (writer,) = hivesink(capsys, "status", table, "--json").data["writers"]
    assert (writer["waiting"]["rows"], writer["waiting"]["buckets"]) == (12, 2)
    assert hivesink(capsys, "verify", table).code == 0
    before = segments(waiting)
    assert hivesink(capsys, "clean", table).code == 0
    assert "--discard 12 to give them up" in hivesink(capsys, "reset", table, "--dry-run").error
    actions = hivesink(capsys, "recover", table, "--dry-run", "--json").data["writers"][0]["actions"]
    named = [{"what": "roll", "subject": f"{table} dt=2026-01-0{day} (6 rows)"} for day in (1, 2)]
    assert [one for one in actions if one["what"] == "roll"] == named
    assert (segments(waiting), files(waiting)) == (before, [])

    recovered = hivesink(capsys, "recover", table, "--json").data["writers"][0]
    assert [one for one in recovered["actions"] if one["what"] == "roll"] == named
    assert ids(waiting) == IDS
    assert segments(waiting) == []
    assert "rows 0, bytes 0, buckets 0, since -" in hivesink(capsys, "status", table).out
    assert hivesink(capsys, "verify", table).code == 0
    assert "nothing to recover" in hivesink(capsys, "recover", table).out


def test_a_writer_that_is_refused_stops_no_other(waiting: Ingest, table: str, uri: str, capsys: Capsys) -> None:
    backup = waiting.log.with_name("backup")
    shutil.copytree(waiting.log, backup)
    waiting.committer.finish()
    shutil.rmtree(waiting.log)
    backup.rename(waiting.log)
    other = Ingest(table, uri, "zz", options=WAIT)
    other.commit()
    said = hivesink(capsys, "recover", table)
    assert (said.code, "restore its newest copy" in said.error) == (65, True)
    assert "writer ingest: not done" in said.out
    assert segments(other) == []
    other.close()


@pytest.mark.parametrize(("closed", "code"), [("stderr", 75), ("stdout", 1)])
def test_wait_goes_on_though_nobody_reads_what_it_says(waiting: Ingest, table: str, closed: str, code: int) -> None:
    command = [sys.executable, "-m", "hivesink.cli", "wait", table, "dt=2026-01-01", "--timeout", "1s"]
    command += ["--metastore", waiting.metastore]
    streams: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, closed: subprocess.PIPE}
    with subprocess.Popen(command, **streams) as process:
        read = process.stdout or process.stderr
        assert read
        read.close()
        assert process.wait() == code


def test_the_users_own_rolling_class_need_not_be_importable_to_look(
    table: str, uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    code = "class Own:\n    def __init__(self, *_): ...\n    def should_roll(self, *_): return False\n"
    (tmp_path / "rollsown.py").write_text(code)
    with monkeypatch.context() as own:
        own.syspath_prepend(tmp_path)
        job = Ingest(table, uri, options={**WAIT, "sink.rolling-policy.class": "rollsown:Own"})
        job.commit()
    monkeypatch.delitem(sys.modules, "rollsown")
    told = "2 rows wait to be rolled by your sink.rolling-policy.class"
    (first, _) = hivesink(capsys, "partitions", table, "--json").data["partitions"]
    assert first["waits_for"] == told
    waited = hivesink(capsys, "wait", table, "dt=2026-01-01", "--timeout", "1s")
    assert (waited.code, told in waited.out) == (75, True)
    job.close()


def test_ids_of_fields_stay_when_columns_change(ingest: Ingest) -> None:
    def ids_in_files() -> dict[str, int]:
        schema = pq.read_schema(files(ingest)[0])
        return {field.name: int(field.metadata[b"PARQUET:field_id"]) for field in schema}

    first = field_ids(ingest.setup.spec.target.spec.columns, {})
    assert ids_in_files() == {name: first[name] for name in ("id", "note")}
    # REPLACE COLUMNS: the first one goes, another comes.
    changed(ingest.metastore, TableName.parse(ingest.table), lambda found: setattr(found.sd.cols[0], "name", "fresh"))
    with closing(Ingest(ingest.table, ingest.metastore, batches=ingest.batches)) as again:
        after = again.setup.spec.target.spec
    assert field_ids(after.columns, after.options) == {**first, "fresh": len(first) + 1}
    stored = changed(ingest.metastore, TableName.parse(ingest.table), lambda _: None).parameters
    assert stored["hivesink_field_ids"] == ",".join([*first, "fresh"])
