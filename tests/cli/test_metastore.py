from __future__ import annotations

import importlib
import re
import sys
from typing import TYPE_CHECKING

from hivesink.embedded import metastore
from tests.cli.site import DDL, hivesink

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_start_status_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HIVESINK_HOME", str(tmp_path))
    monkeypatch.delenv("HIVESINK_METASTORE", raising=False)
    before = hivesink(capsys, "metastore", "status")
    assert ("is stopped" in before.out, before.code) == (True, 1)
    try:
        started = hivesink(capsys, "metastore", "start", "--json")
        assert started.code == 0, started.err
        assert started.data["running"] is True
        assert f"is running at {started.data['uri']}" in hivesink(capsys, "metastore", "start").out
        assert hivesink(capsys, "metastore", "status").code == 0
        # Commands find it by themselves.
        assert f"is not in the metastore at {started.data['uri']}" in hivesink(capsys, "status", "a.b").error
    finally:
        metastore.stop(tmp_path)
    assert hivesink(capsys, "metastore", "status", "--json").data["running"] is False
    stopped = hivesink(capsys, "status", "a.b")
    assert (stopped.code, "`hivesink metastore start`" in stopped.error) == (75, True)
    assert "is stopped" in hivesink(capsys, "metastore", "stop").out


def test_plan_then_apply_then_nothing(uri: str, ddl: Path, capsys: pytest.CaptureFixture[str]) -> None:
    planned = hivesink(capsys, "ddl", "plan", ddl, "--metastore", uri)
    assert planned.code == 0
    assert planned.out.strip().endswith(".events: create")
    assert hivesink(capsys, "ddl", "apply", ddl).out.strip().endswith(".events: created")
    assert hivesink(capsys, "ddl", "plan", ddl, "--json").data["tables"][0]["action"] == "nothing"
    assert hivesink(capsys, "ddl", "apply", ddl).out.strip().endswith(".events: nothing to do")


def test_a_difference_that_cannot_be_applied_needs_a_person(
    table: str, ddl: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ddl.write_text(ddl.read_text().replace("id BIGINT", "id INT"))
    for command in ("plan", "apply"):
        said = hivesink(capsys, "ddl", command, ddl)
        assert said.code == 65
        assert said.error.startswith(f"hivesink: {table}: column id is bigint, the DDL says int")


def test_settings_that_every_start_would_refuse_are_refused(
    uri: str, ddl: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = "'sink.partition-commit.policy.kind'='metastore,nowhere:Tell'"
    more = f"'sink.partition-commit.trigger'='partition-time', {policy},"
    ddl.write_text(ddl.read_text().replace("TBLPROPERTIES (", f"TBLPROPERTIES ({more}"))
    for command in ("plan", "apply"):
        said = hivesink(capsys, "ddl", command, ddl, "--metastore", uri)
        assert said.code == 65
        first, second = said.err.splitlines()
        assert f"{ddl}: sink.partition-commit.delay is missing" in first
        assert "sink.partition-commit.policy.kind = 'nowhere:Tell': No module named 'nowhere'" in second


def test_a_class_of_ones_own_is_looked_for_where_jobs_are(
    uri: str, ddl: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert uri
    monkeypatch.chdir(ddl.parent)
    own = "'sink.bucket.assigner'='my_plan_assigner:Mine',"
    ddl.write_text(ddl.read_text().replace("TBLPROPERTIES (", f"TBLPROPERTIES ({own}"))
    for command in ("plan", "apply"):
        said = hivesink(capsys, "ddl", command, ddl)
        assert said.code == 65
        assert f"{ddl}:5: sink.bucket.assigner = 'my_plan_assigner:Mine': No module named" in said.error
        assert f"{ddl.parent / 'jobs'}, {ddl.parent}; write module:Class" in said.error
    code = "class Mine:\n    def __init__(self, spec, config): ...\n    def assign(self, rows, moment): ...\n"
    code += "class Lacks(Mine):\n    assign = None\n"
    (ddl.parent / "jobs").mkdir()
    (ddl.parent / "jobs" / "my_plan_assigner.py").write_text(code, encoding="utf-8")
    importlib.invalidate_caches()  # this process has looked there before
    try:
        assert hivesink(capsys, "ddl", "plan", ddl).out.strip().endswith(".events: create")
        ddl.write_text(ddl.read_text().replace(":Mine", ":Lacks"))
        said = hivesink(capsys, "ddl", "plan", ddl)
        assert f"{ddl}:5: sink.bucket.assigner = 'my_plan_assigner:Lacks': it has no method assign" in said.error
    finally:
        sys.modules.pop("my_plan_assigner", None)


def test_a_store_that_is_not_supported_is_refused_before_the_metastore_is_asked(
    uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert uri
    ddl = tmp_path / "t.sql"
    ddl.write_text(DDL.format(name="x.s", location="s3a://b/t"))
    said = hivesink(capsys, "ddl", "plan", ddl)
    assert said.code == 65
    (line,) = said.err.splitlines()
    assert "s3a://b/t: hivesink supports only HDFS (hdfs://…) and local file systems (file:/…)" in line


def test_all_problems_of_a_folder_are_shown_with_file_and_line(
    uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert uri
    folder = tmp_path / "ddl"
    folder.mkdir()
    good = DDL.format(name="x.y", location="/data/x")
    (folder / "a.sql").write_text(good.replace("sink.on-bad-record", "sink.on-bad-records"))
    (folder / "b.sql").write_text(good.replace("id BIGINT", "id BIGINT, ID STRING"))
    (folder / "c.sql").write_text("DROP TABLE x.y\n")
    by_text = "'sink.bucket.assigner'='date-time', 'sink.bucket.time-column'='note',"
    (folder / "d.sql").write_text(good.replace("x.y", "x.f").replace("TBLPROPERTIES (", f"TBLPROPERTIES ({by_text}"))
    said = hivesink(capsys, "ddl", "apply", folder)
    assert said.code == 65
    lines = said.err.splitlines()
    assert len(lines) == 4
    assert f"{folder}/a.sql:5: " in lines[0]
    assert f"{folder}/b.sql:1: " in lines[1]
    assert f"{folder}/c.sql:1: " in lines[2]
    assert re.search(rf"{folder}/d.sql:5: .*'note' is of type string, not TIMESTAMP, DATE or BIGINT", lines[3])


def test_a_path_that_is_not_there(uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert uri
    for path in ("none.sql", "none/"):
        said = hivesink(capsys, "ddl", "plan", tmp_path / path)
        assert said.code == 2
        assert "/none" in said.error
        assert "does not exist" in said.error
