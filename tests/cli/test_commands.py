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
from hivesink.cli.command import app
from tests.cli.site import hivesink

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


def _options(command: Any) -> str:
    """The table of a command's own options."""
    rows = []
    for option in command.params:
        if (flag := option.opts[0]).startswith("--") and flag not in SHARED:
            value = "" if option.is_flag else f" {option.metavar or option.name.upper()}"
            default = "" if option.default in (None, False) else f" Default: {option.default}."
            rows.append(f"| `{flag}{value.replace('|', chr(92) + '|')}` | {option.help}{default} |\n")
    return "".join(["| option | meaning |\n|---|---|\n", *rows]) if rows else ""


def test_the_page_has_each_command_with_its_options() -> None:
    """`REWRITE=1 pytest` writes the tables anew; where one is to be stands `| option`."""
    text = page = PAGE.read_text(encoding="utf-8")
    for name, command in COMMANDS.items():
        head, heading, rest = page.partition(f"### `hivesink {name}")
        assert heading, name
        end = re.search(r"\n##|\Z", rest)
        assert end
        section, table = rest[: end.start()], _options(command)
        section, places = re.subn(r"(?m)(^\| option.*\n(\|.*\n)*)", lambda _: table, section)  # noqa: B023
        assert places == bool(table), name
        page = f"{head}{heading}{section}{rest[end.start() :]}"
    if os.environ.get("REWRITE"):
        PAGE.write_text(page, encoding="utf-8")
    else:
        assert page == text


@pytest.mark.parametrize("code", ExitCode)
def test_the_docs_have_every_exit_code(code: ExitCode) -> None:
    assert f"| {code.value} |" in PAGE.read_text(encoding="utf-8")


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
        (["rejects", "lst", "a.b"], "No such command 'lst'"),
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


@pytest.mark.parametrize("loaded", ["hivesink.cli.command", "hivesink.cli.status", "pyarrow"])
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
