"""Every command has help with an example, the two common options, and a line in the docs."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

from hivesink.cli.app import app
from hivesink.cli.codes import ExitCode
from tests.cli.site import hivesink

DOCS = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")


def _commands() -> dict[str, object]:
    found = {}
    group = typer.main.get_command(app())
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        for sub, inner in getattr(command, "commands", {"": command}).items():
            found[f"{name} {sub}".strip()] = inner
    return found


COMMANDS = _commands()


def test_these_are_the_commands() -> None:
    assert sorted(COMMANDS) == [
        "clean",
        "ddl apply",
        "ddl plan",
        "init",
        "metastore start",
        "metastore status",
        "metastore stop",
        "partitions",
        "prepare",
        "preview",
        "query",
        "recover",
        "rejects list",
        "rejects replay",
        "reset",
        "run",
        "show",
        "status",
        "verify",
        "wait",
    ]


@pytest.mark.parametrize("name", COMMANDS)
def test_help_says_what_it_does_with_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = hivesink(capsys, *name.split(), "--help")
    assert said.code == 0
    assert f"Example: hivesink {name}" in said.out
    assert "--json" in said.out
    assert "--debug" in said.out


@pytest.mark.parametrize("name", COMMANDS)
def test_the_docs_have_it_with_every_option(name: str) -> None:
    assert f"`hivesink {name}" in DOCS
    options = {flag for parameter in COMMANDS[name].params for flag in parameter.opts if flag.startswith("--")}  # type: ignore[attr-defined]
    assert {flag for flag in options if f"`{flag}" not in DOCS} - {"--help"} == set()


@pytest.mark.parametrize("code", ExitCode)
def test_the_docs_have_every_exit_code(code: ExitCode) -> None:
    assert f"| {code.value} |" in DOCS


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    said = hivesink(capsys, "--version")
    assert (said.code, said.out.split()[0]) == (0, "hivesink")


def test_without_a_command_it_helps(capsys: pytest.CaptureFixture[str]) -> None:
    said = hivesink(capsys)
    assert said.code == 0
    assert "Usage: hivesink" in said.out


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["status"], "Missing argument 'TABLE'"),
        (["nonsense"], "No such command 'nonsense'"),
        (["status", "a.b", "--nope"], "--nope"),
        (["ddl"], "Missing command"),
        (["rejects", "lst", "a.b"], "no such command 'lst'; did you mean list?"),
        (["init", "--table", "a.b"], "Missing option '--from'; see `hivesink init --help`"),
        (["run", "/no/such/job.py"], "does not exist"),
    ],
)
def test_wrong_usage_is_one_line_and_code_2(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = hivesink(capsys, *arguments)
    assert said.code == 2
    assert expected in said.error
    assert "--help`" in said.error


@pytest.mark.parametrize("loaded", ["hivesink.cli.app", "hivesink.cli.status", "pyarrow"])
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
