"""Bad input: each is one line that says what, where and what to do, an exit code that isn't 0, and nothing lost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hivesink.cli.command import reporting
from hivesink.cli.output import Output
from tests.cli.site import Ingest, hivesink
from tests.contracts.manifests import edited

COMMANDS = ("status", "show", "verify", "recover", "clean")


def test_what_each_command_says_of_a_table_that_is_not_there(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    for command in COMMANDS:
        said = hivesink(capsys, command, "demo.nowhere")
        assert said.code == 65
        assert said.error.startswith(f"hivesink: table demo.nowhere is not in the metastore at {uri}")
        away = hivesink(capsys, command, "demo.events", "--metastore", "thrift://127.0.0.1:1")
        assert (away.code, "thrift://127.0.0.1:1 can't answer" in away.error) == (75, True)
    traced = hivesink(capsys, "status", "demo.nowhere", "--debug")
    assert traced.err.startswith("Traceback (most recent call last)")
    assert traced.err.splitlines()[-1].startswith("hivesink: table demo.nowhere is not in the metastore")
    as_json = hivesink(capsys, "status", "demo.nowhere", "--json")
    assert (as_json.out, '"type": "UnknownTable"' in as_json.error) == ("", True)


def test_a_manifest_that_cannot_be_read_stays_as_it_is(
    ingest: Ingest, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = ingest.log / "manifests" / "0000000003.json"
    newer = edited(path.read_bytes(), b'"format": 1', b'"format": 2')
    for content, told in ((b'{"format": 2, "wri', f"{path} is damaged"), (newer, f"{path} has format version 2")):
        path.write_bytes(content)
        for command in COMMANDS:
            said = hivesink(capsys, command, table)
            assert (said.code, told in said.out + said.err) == (1 if command == "verify" else 65, True)
            assert path.read_bytes() == content


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


def test_debug_has_spark_log_in_this_process_and_in_a_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HIVESINK_DEBUG", raising=False)
    with reporting(Output(), debug=False):
        assert "HIVESINK_DEBUG" not in os.environ
    monkeypatch.setenv("HIVESINK_DEBUG", "")
    with reporting(Output(), debug=True):
        assert os.environ["HIVESINK_DEBUG"] == "1"


def test_a_password_comes_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ldap = ["query", "SELECT 1", "--hiveserver2", "127.0.0.1:1", "--auth", "LDAP", "--user", "me"]
    said = hivesink(capsys, *ldap)
    assert said.code == 2
    assert "LDAP needs a user and a password" in said.error
    monkeypatch.setenv("HIVESINK_HIVESERVER2_PASSWORD", "hush-hush")
    said = hivesink(capsys, *ldap)
    assert (said.code, "hush" in said.error) == (75, False)
