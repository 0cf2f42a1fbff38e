"""Bad input: each is one line that says what, where and what to do, an exit code that isn't 0, and nothing lost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hivesink.cli.command import reporting
from tests.cli.site import Ingest, hivesink
from tests.contracts.manifests import edited

COMMANDS = [["status"], ["show"], ["verify"], ["recover"], ["clean"]]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_missing_table(command: list[str], uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = hivesink(capsys, *command, "demo.nowhere")
    assert said.code == 65
    assert said.error.startswith(f"hivesink: table demo.nowhere is not in the metastore at {uri}")
    assert "hivesink ddl apply" in said.error


def test_a_table_without_its_database_is_told_so(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert uri
    said = hivesink(capsys, "status", "events")
    assert "; if it is in another database, write database.table; else create it with" in said.error


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unreachable_metastore_is_worth_a_retry(
    command: list[str], uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert uri
    said = hivesink(capsys, *command, "demo.events", "--metastore", "thrift://127.0.0.1:1")
    assert said.code == 75
    assert "thrift://127.0.0.1:1 doesn't answer" in said.error


def test_no_metastore_at_all(
    uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert uri
    for name in ("HIVESINK_METASTORE", "HIVESINK_HOME"):
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    said = hivesink(capsys, "status", "demo.events")
    assert said.code == 65
    assert f"no embedded one runs in {tmp_path}/.hivesink-local. " in said.error
    assert "hivesink metastore start" in said.error


def test_a_password_in_the_address_is_not_shown(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert uri
    for extra in ([], ["--debug"], ["--json"]):
        said = hivesink(capsys, "status", "demo.events", "--metastore", "thrift://me:hush@127.0.0.1:1", *extra)
        assert said.code != 0
        assert "hush" not in said.out + said.err


def test_a_name_that_is_no_table(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert uri
    for arguments in (["status", "a.b.c"], ["wait", "dt=2024-01-02", "a.b"], ["rejects", "a.b.c", "--json"]):
        said = hivesink(capsys, *arguments)
        assert (said.code, said.out) == (2, "")
        assert f"'{arguments[1]}' is not a table name" in said.error


def test_an_address_that_is_none_is_wrong_usage_only_where_it_was_given(
    uri: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert uri
    said = hivesink(capsys, "status", "a.b", "--metastore", "localhost:9083")
    assert (said.code, "HIVESINK_METASTORE, or hive.metastore.uris" in said.error) == (2, True)
    site = "<configuration><property><name>hive.metastore.uris</name><value>nowhere</value></property></configuration>"
    (tmp_path / "hive-site.xml").write_text(site)
    monkeypatch.setenv("HIVE_CONF_DIR", str(tmp_path))
    monkeypatch.delenv("HIVESINK_METASTORE")
    said = hivesink(capsys, "status", "a.b")
    assert (said.code, "it as thrift://host:port" in said.error) == (65, True)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_damaged_manifest_stays_as_it_is(
    command: list[str], ingest: Ingest, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _manifest(ingest, 3)
    path.write_bytes(b'{"format": 2, "wri')
    said = hivesink(capsys, *command, table)
    assert said.code == (1 if command == ["verify"] else 65)
    assert f"{path} is damaged" in said.out + said.err
    assert "restore it from a snapshot or backup" in said.out + said.err
    assert path.read_bytes() == b'{"format": 2, "wri'


@pytest.mark.parametrize("command", COMMANDS)
def test_a_newer_manifest_is_named_by_file_and_version(
    command: list[str], ingest: Ingest, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _manifest(ingest, 3)
    newer = edited(path.read_bytes(), b'"format": 1', b'"format": 2')
    path.write_bytes(newer)
    said = hivesink(capsys, *command, table)
    assert said.code == (1 if command == ["verify"] else 65)
    assert f"{path} has format version 2, this hivesink knows 1" in said.out + said.err
    assert path.read_bytes() == newer


@pytest.mark.parametrize(
    ("command", "code", "told"),
    [
        (["status", "demo.events"], 65, "{closed}/metastore/server.json can't be used (Permission denied; HIVESINK_HO"),
        (["run", "{closed}/job.py"], 2, "'{closed}/job.py' does not exist"),
    ],
    ids=["metastore", "job"],
)
def test_what_a_user_may_not_look_into_is_named(command: list[str], code: int, told: str, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    (closed / "metastore").mkdir(parents=True)
    (closed / "job.py").touch()
    closed.chmod(0)
    # The superuser may look everywhere.
    lowered = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    words = [*lowered, sys.executable, "-m", "hivesink.cli", *(word.format(closed=closed) for word in command)]
    environment = {
        key: value for key, value in os.environ.items() if key not in {"HIVESINK_METASTORE", "HIVE_CONF_DIR"}
    }
    environment |= {"HIVESINK_HOME": str(closed), "PYTHONPATH": str(Path(__file__).parents[2])}
    said = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    closed.chmod(0o700)
    assert said.returncode == code, said.stderr
    (line,) = said.stderr.splitlines()
    assert told.format(closed=closed) in line


def test_debug_shows_the_trace_and_then_the_line(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert uri
    said = hivesink(capsys, "status", "demo.nowhere", "--debug")
    assert said.err.startswith("Traceback (most recent call last)")
    assert said.err.splitlines()[-1].startswith("hivesink: table demo.nowhere is not in the metastore")


def test_debug_has_spark_log_in_this_process_and_in_a_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HIVESINK_DEBUG", raising=False)
    with reporting(as_json=False, debug=False):
        assert "HIVESINK_DEBUG" not in os.environ
    monkeypatch.setenv("HIVESINK_DEBUG", "")
    with reporting(as_json=False, debug=True):
        assert os.environ["HIVESINK_DEBUG"] == "1"


def test_json_errors_leave_standard_output_empty(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert uri
    said = hivesink(capsys, "status", "demo.nowhere", "--json")
    assert said.out == ""
    assert '"type": "UnknownTable"' in said.error


def test_a_hiveserver2_is_named_as_host_and_port(capsys: pytest.CaptureFixture[str]) -> None:
    said = hivesink(capsys, "query", "SELECT 1", "--hiveserver2", ":x")
    assert said.code == 2
    assert "host:port" in said.error


def test_a_hiveserver2_that_is_not_there_is_worth_a_retry(capsys: pytest.CaptureFixture[str]) -> None:
    said = hivesink(capsys, "query", "SELECT 1", "--hiveserver2", "127.0.0.1:1", "--auth", "NOSASL")
    assert said.code == 75
    assert "HiveServer2 at 127.0.0.1:1" in said.error
    assert "NOSASL" in said.error


def test_a_password_comes_from_a_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ldap = ["query", "SELECT 1", "--hiveserver2", "127.0.0.1:1", "--auth", "LDAP", "--user", "me"]
    said = hivesink(capsys, *ldap)
    assert said.code == 2
    assert "LDAP needs a user and a password" in said.error
    (tmp_path / "password").write_text("hush-hush\n")
    from_file = hivesink(capsys, *ldap, "--password-file", str(tmp_path / "password"))
    monkeypatch.setenv("HIVESINK_HIVESERVER2_PASSWORD", "hush-hush")
    for said in (from_file, hivesink(capsys, *ldap)):
        assert said.code == 75
        assert "hush" not in said.error


def _manifest(ingest: Ingest, epoch: int) -> Path:
    return ingest.log / "manifests" / f"{epoch:010d}.json"
