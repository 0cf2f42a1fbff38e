"""Every command has help with an example, the two common options, and its options in docs/cli.md."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main

from hivesink.cli.codes import ExitCode
from hivesink.cli.command import app, reporting
from hivesink.cli.output import Output
from tests.cli.site import Capsys, Ingest, hivesink
from tests.contracts.manifests import edited

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
SHARED = {"--json", "--debug", "--metastore"}


def _commands() -> dict[str, Any]:
    found = {}
    group = typer.main.get_command(app())
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        for sub, inner in getattr(command, "commands", {"": command}).items():
            found[f"{name} {sub}".strip()] = inner
    return found


COMMANDS = _commands()


def test_these_are_the_commands() -> None:
    assert ", ".join(sorted(COMMANDS)) == (
        "changed, clean, ddl apply, ddl plan, doctor, history, init, metastore start, metastore status, "
        "metastore stop, metrics, partitions, prepare, preview, query, recover, rejects list, rejects replay, reset, "
        "run, show, status, verify, wait, where"
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_help_says_what_it_does_with_an_example(name: str, capsys: Capsys) -> None:
    said = hivesink(capsys, *name.split(), "--help")
    assert said.code == 0
    for word in (f"Example: hivesink {name}", "--json", "--debug"):
        assert word in said.out


def _options(command: Any) -> list[tuple[str, str]]:
    """A command's own options: each with its value, and what it means."""
    rows = []
    for option in command.params:
        if (flag := option.opts[0]).startswith("--") and flag not in SHARED:
            value = "" if option.is_flag else f" {option.metavar or option.name.upper()}"
            default = "" if option.default in (None, False) else f" Default: {option.default}."
            rows.append((f"`{flag}{value.replace('|', chr(92) + '|')}`", f"{option.help}{default}"))
    return rows


def _tables() -> dict[str, str]:
    """The tables of options by heading: what several commands have is in a table of its own."""
    commands: dict[tuple[str, str], list[str]] = {}
    for name, command in COMMANDS.items():
        for row in _options(command):
            commands.setdefault(row, []).append(f"`{name}`")
    several = [f"| {row[0]} | {', '.join(names)} | {row[1]} |\n" for row, names in commands.items() if names[1:]]
    tables = {"## Options of several commands": "".join(["| option | of | meaning |\n|---|---|---|\n", *several])}
    for name, command in COMMANDS.items():
        rows = [
            f"| {option} | {meaning} |\n" for option, meaning in _options(command) if not commands[option, meaning][1:]
        ]
        tables[f"### `hivesink {name}"] = "".join(["| option | meaning |\n|---|---|\n", *rows]) if rows else ""
    return tables


def test_the_page_has_each_command_with_its_options() -> None:
    """`REWRITE=1 pytest` writes the tables anew; where one is to be stands `| option`."""
    text = page = PAGE.read_text(encoding="utf-8")
    for title, table in _tables().items():
        head, heading, rest = page.partition(title)
        assert heading, title
        end = re.search(r"\n##|\Z", rest)
        assert end
        section, places = re.subn(r"(?m)(^\| option.*\n(\|.*\n)*)", lambda _: table, rest[: end.start()])  # noqa: B023
        assert places == bool(table), title
        page = f"{head}{heading}{section}{rest[end.start() :]}"
    if os.environ.get("REWRITE"):
        PAGE.write_text(page, encoding="utf-8")
    else:
        assert page == text


@pytest.mark.parametrize("code", ExitCode)
def test_the_docs_have_every_exit_code(code: ExitCode) -> None:
    assert f"| {code.value} |" in PAGE.read_text(encoding="utf-8")


def test_version_and_help(capsys: Capsys) -> None:
    said = hivesink(capsys, "--version")
    assert (said.code, said.out.split()[0]) == (0, "hivesink")
    said = hivesink(capsys)
    assert (said.code, "Usage: hivesink" in said.out) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["status"], "Missing argument 'TABLE'"),
        (["nonsense"], "No such command 'nonsense'"),
        (["status", "a.b", "--nope"], "--nope"),
        (["ddl"], "Missing command"),
        (["rejects", "lst", "a.b"], "No such command 'lst'"),
        (["init", "--table", "a.b"], "Missing option '--from'; see `hivesink init --help`"),
        (["run", "/no/such/job.py"], "does not exist"),
        (["ddl", "plan", "none/"], "'none/' does not exist"),
        (["status", "a.b.c"], "'a.b.c' is not a table name"),
    ],
)
def test_wrong_usage_is_one_line_and_code_2(arguments: list[str], expected: str, capsys: Capsys) -> None:
    said = hivesink(capsys, *arguments)
    assert (said.code, said.out) == (2, "")
    assert expected in said.error


@pytest.mark.parametrize("loaded", ["hivesink.cli.command", pytest.param("pyarrow", marks=pytest.mark.long)])
def test_ctrl_c_while_a_command_is_loaded_prints_nothing(loaded: str) -> None:
    press = (
        "import os, signal, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {loaded!r}:\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "sys.argv = ['hivesink', 'status', 'a.b']\n"
        "from hivesink.cli import main\n"
        "main()\n"
    )
    # What runs in the background may ignore it.
    command = ["env", "--default-signal=INT", sys.executable, "-c", press]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("", "")
    # A shell says 130 of both.
    assert done.returncode in {130, -signal.SIGINT}


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("changed TABLE --ack", "--ack needs a --consumer"),
        ("changed TABLE --consumer a --since 1", "--since is for calls without a consumer"),
        ("changed TABLE --consumer a/b", "the consumer's name 'a/b' can't be used"),
        ("changed TABLE --since nobody/1:3", "'nobody/1:3' is no revision of this table"),
        ("changed TABLE --since yesterday", "--since 'yesterday' is no time"),
        ("changed TABLE --consumer a --until x", "'x' is no revision of this table"),
        ("history TABLE --until noon", "--until 'noon' is no time: write it as in 2024-01-02T03:04:05"),
        ("history TABLE --writer nobody", "no writer 'nobody' has written to "),
        ("where TABLE t:0:x", "'t:0:x': partition and offset are numbers, as in flights:0:17"),
        ("where TABLE t", "'t' is no record: write topic:partition:offset, or FILE:LINE"),
        ("where TABLE u:0:1", "has read partition 0 of topic 'u'"),
    ],
)
def test_what_is_refused_of_a_tables_history(command: str, expected: str, ingest: Ingest, capsys: Capsys) -> None:
    said = hivesink(capsys, *command.replace("TABLE", ingest.table).split())
    assert (said.code, expected in said.error) == (65, True)


LOOKS = ("status", "show", "verify", "recover", "clean")


def test_what_each_command_says_of_a_table_that_is_not_there(uri: str, capsys: Capsys) -> None:
    for command in LOOKS:
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


def test_a_manifest_that_cannot_be_read_stays_as_it_is(ingest: Ingest, table: str, capsys: Capsys) -> None:
    path = ingest.log / "manifests" / "0000000003.json"
    newer = edited(path.read_bytes(), b'"format": 1', b'"format": 2')
    for content, told in (
        (b'{"format": 2, "wri', f"{path} is damaged"),
        (newer, f"{path} is damaged (format version 2"),
    ):
        path.write_bytes(content)
        for command in LOOKS:
            said = hivesink(capsys, command, table)
            assert (said.code, told in said.out + said.err) == (1 if command == "verify" else 65, True)
            assert path.read_bytes() == content


def test_no_metastore_at_all(uri: str, tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    assert uri
    for name in ("HIVESINK_METASTORE", "HIVESINK_HOME"):
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    said = hivesink(capsys, "status", "demo.events")
    assert (said.code, f"no embedded one runs in {tmp_path}/.hivesink-local. " in said.error) == (65, True)
    assert "hivesink metastore start" in said.error


def test_a_password_in_the_address_is_not_shown(uri: str, capsys: Capsys) -> None:
    assert uri
    for extra in ([], ["--debug"], ["--json"]):
        said = hivesink(capsys, "status", "demo.events", "--metastore", "thrift://me:hush@127.0.0.1:1", *extra)
        assert said.code != 0
        assert "hush" not in said.out + said.err


def test_debug_has_spark_log_in_this_process_and_in_a_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HIVESINK_DEBUG", raising=False)
    with reporting(Output(), debug=False):
        assert "HIVESINK_DEBUG" not in os.environ
    monkeypatch.setenv("HIVESINK_DEBUG", "")
    with reporting(Output(), debug=True):
        assert os.environ["HIVESINK_DEBUG"] == "1"
