from __future__ import annotations

import importlib
import os
import re
import signal
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from hivesink.core.table import TableName
from hivesink.embedded import metastore
from hivesink.embedded.server import identity_of, wait_until
from hivesink.metastore.thrift import ThriftMetastore
from hivesink.metastore.thrift_connection import Connection
from tests.cli.site import DDL, Capsys, hivesink
from tests.metastore.live import declared


def create_table(uri: str, folder: Path) -> None:
    with closing(ThriftMetastore(Connection(uri))) as catalog:
        catalog.create_database_if_absent("kept")
        catalog.create(replace(declared(folder), name=TableName("kept", "t")))


@pytest.mark.main_path
def test_it_starts_once_survives_a_kill_and_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    home = tmp_path / "a home ä"
    monkeypatch.setenv("HIVESINK_HOME", str(home))
    monkeypatch.delenv("HIVESINK_METASTORE", raising=False)
    before = hivesink(capsys, "metastore", "status")
    assert ("is stopped" in before.out, before.code) == (True, 1)
    assert not home.exists(), "asking leaves no traces"
    try:
        started = hivesink(capsys, "metastore", "start", "--json")
        assert started.code == 0, started.err
        first = started.data
        assert (first["running"], first["warehouse"]) == (True, str(home / "warehouse"))
        assert f"is running at {first['uri']}" in hivesink(capsys, "metastore", "start").out
        status = hivesink(capsys, "metastore", "status", "--json")
        assert (status.code, status.data) == (0, first)
        # Commands find it by themselves.
        assert f"is not in the metastore at {first['uri']}" in hivesink(capsys, "status", "a.b").error
        with closing(Connection(first["uri"])) as connection:
            default = connection.read(lambda client: client.get_database("default"))
        assert default.locationUri == f"file:{home}/warehouse"
        create_table(first["uri"], home)

        os.kill(first["pid"], signal.SIGKILL)
        assert wait_until(lambda: not metastore.detached(home).alive, 60)
        second = hivesink(capsys, "metastore", "start", "--json").data
        assert {**second, "pid": None} == {**first, "pid": None}
        assert second["pid"] != first["pid"]
        with closing(Connection(first["uri"])) as connection:
            assert connection.read(lambda client: client.get_all_tables("kept")) == ["t"]
    finally:
        assert not metastore.stop(home).alive
    assert identity_of(second["pid"]) is None
    assert hivesink(capsys, "metastore", "status", "--json").data["running"] is False
    stopped = hivesink(capsys, "status", "a.b")
    assert (stopped.code, "`hivesink metastore start`" in stopped.error) == (75, True)
    assert "is stopped" in hivesink(capsys, "metastore", "stop").out


def test_plan_then_apply_then_nothing_then_a_difference(uri: str, ddl: Path, capsys: Capsys) -> None:
    planned = hivesink(capsys, "ddl", "plan", ddl, "--metastore", uri)
    assert (planned.code, planned.out.strip().endswith(".events: create")) == (0, True)
    assert hivesink(capsys, "ddl", "apply", ddl).out.strip().endswith(".events: created")
    assert hivesink(capsys, "ddl", "plan", ddl, "--json").data["tables"][0]["action"] == "nothing"
    assert hivesink(capsys, "ddl", "apply", ddl).out.strip().endswith(".events: nothing to do")
    ddl.write_text(ddl.read_text().replace("id BIGINT", "id INT"))
    for command in ("plan", "apply"):
        said = hivesink(capsys, "ddl", command, ddl)
        assert (said.code, ".events: column id is bigint, the DDL says int" in said.error) == (65, True)


def test_a_class_of_ones_own_is_looked_for_where_jobs_are(
    uri: str, ddl: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert uri
    monkeypatch.chdir(ddl.parent)
    own = "'sink.bucket.assigner'='my_plan_assigner:Mine',"
    ddl.write_text(ddl.read_text().replace("TBLPROPERTIES (", f"TBLPROPERTIES ({own}"))
    said = hivesink(capsys, "ddl", "plan", ddl)
    assert (said.code, f"{ddl.parent / 'jobs'}, {ddl.parent}; write module:Class" in said.error) == (65, True)
    assert f"{ddl}:5: sink.bucket.assigner = 'my_plan_assigner:Mine': No module named" in said.error
    (ddl.parent / "jobs").mkdir()
    code = "class Mine:\n    def __init__(self, spec, config): ...\n    def assign(self, rows, moment): ...\n"
    (ddl.parent / "jobs" / "my_plan_assigner.py").write_text(code, encoding="utf-8")
    importlib.invalidate_caches()  # this process has looked there before
    try:
        assert hivesink(capsys, "ddl", "plan", ddl).out.strip().endswith(".events: create")
    finally:
        sys.modules.pop("my_plan_assigner", None)


def test_all_problems_of_a_folder_are_shown_with_file_and_line_before_the_metastore_is_asked(
    tmp_path: Path, capsys: Capsys
) -> None:
    folder = tmp_path / "ddl"
    folder.mkdir()
    good, properties = DDL.format(name="x.y", location="/data/x"), "TBLPROPERTIES ("
    by_text = "'sink.bucket.assigner'='date-time', 'sink.bucket.time-column'='note',"
    commits = "'sink.partition-commit.trigger'='partition-time',"
    texts = {
        "a": good.replace("sink.on-bad-record", "sink.on-bad-records"),
        "b": good.replace("id BIGINT", "id BIGINT, ID STRING"),
        "c": "DROP TABLE x.y\n",
        "d": good.replace("x.y", "x.f").replace(properties, properties + by_text),
        "e": DDL.format(name="x.s", location="gs://b/t"),
        "f": good.replace("x.y", "x.g").replace(properties, properties + commits),
    }
    formats = {"g": "avro','sink.value.avro.schema-file'='/no.avsc", "h": "debezium-json','sink.json.explode'='$.a"}
    for name, form in formats.items():
        texts[name] = good.replace("x.y", f"x.{name}2").replace(
            properties, f"{properties}'sink.value.format'='{form}',"
        )
    for name, text in texts.items():
        (folder / f"{name}.sql").write_text(text)
    said = hivesink(capsys, "ddl", "apply", folder, "--metastore", "thrift://127.0.0.1:1")
    told = (
        "a.sql:5: ",
        "b.sql:1: ",
        "c.sql:1: ",
        "d.sql:5: .*'note' is of type string, not TIMESTAMP, DATE or BIGINT",
        r"e.sql.*gs://b/t: hivesink supports only HDFS \(hdfs://…\), local file systems \(file:/…\), S3 \(s3a://…\)",
        "f.sql.*sink.partition-commit.delay is missing",
        "g.sql:5: sink.value.avro.schema-file = '/no.avsc': there is no such file",
        "h.sql:5: sink.json.explode is of JSON records",
    )
    assert (said.code, len(said.err.splitlines())) == (65, len(told)), said.err
    for line, problem in zip(said.err.splitlines(), told, strict=True):
        assert re.search(f"{folder}/{problem}", line), line
