"""Every snippet of README and docs is run by a test, or says why not; every command exists with its options."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from hivesink.cli.command import app
from hivesink.embedded.metastore import EmbeddedMetastore
from tests.cli.site import hivesink
from tests.docs.pages import PAGES, ROOT, Block, block, blocks, commands

BLOCKS = [one for page in PAGES for one in blocks(page)]
SQL = [one for one in BLOCKS if one.language == "sql" and one.note is None]
CLI: Any = typer.main.get_command(app())


@pytest.mark.parametrize("one", [one for one in BLOCKS if one not in SQL], ids=str)
def test_a_block_says_which_test_runs_it_or_why_none_does(one: Block) -> None:
    assert one.note, f"put <!-- run by tests/… --> or <!-- not run: why --> before the block {one}"
    runner = re.fullmatch(r"(?:run|compared) by (tests/\S+\.py)", one.note)
    if runner is None:
        assert re.fullmatch(r"not run: \S.+", one.note)
        for test in re.findall(r"tests/[\w/]+(?:\.py)?", one.note):
            assert (ROOT / test).exists(), test
    elif not all(line.startswith("make ") for line in one.text.splitlines()):
        assert any(re.search(pattern, one.text) for pattern in _taken(ROOT / runner[1], one.page)), "no test takes it"


def _taken(test: Path, page: Path) -> Iterator[str]:
    """Patterns of the blocks of a page that a test file asks for; `blocks_run_by` gives all that name the file."""
    tree = ast.parse(test.read_text(encoding="utf-8"))
    names = {ast.unparse(one.targets[0]): ast.unparse(one.value) for one in tree.body if isinstance(one, ast.Assign)}
    for call in ast.walk(tree):
        match call:
            case ast.Call(func=ast.Name(id="blocks_run_by" | "block" as function), args=[_, _] as arguments):
                where, what = arguments if function == "block" else reversed(arguments)
                asked = ast.unparse(where)
                if ast.literal_eval(names.get(asked, asked)) == page.relative_to(ROOT).as_posix():
                    yield _pattern(what) if function == "block" else ""


def _pattern(text: ast.expr) -> str:
    parts = text.values if isinstance(text, ast.JoinedStr) else [text]
    return "".join(re.escape(str(one.value)) if isinstance(one, ast.Constant) else ".+" for one in parts)


@pytest.mark.parametrize("one", SQL, ids=str)
def test_each_table_of_the_docs_can_be_declared(
    one: Block, metastore: EmbeddedMetastore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = f"docs_{BLOCKS.index(one)}"
    file = tmp_path / "table.sql"
    file.write_text(one.text.replace("demo.", f"{database}."))
    said = hivesink(capsys, "ddl", "apply", file, "--metastore", metastore.uri)
    assert (said.code, said.err) == (0, "")
    assert hivesink(capsys, "ddl", "plan", file, "--metastore", metastore.uri).code == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_their_options_are_those_of_the_command_line(page: Path) -> None:
    for text in commands(page):
        words = shlex.split(text.replace("…", "").partition(" #")[0].partition(" && ")[0], posix=False)[1:]
        # The first words of a message, and of the help.
        if words[0].startswith("-") or words[0] in {"knows", "COMMAND"}:
            continue
        assert words[0] in CLI.commands, text
        command, rest = CLI.commands[words[0]], words[1:]
        known = _options(command)
        if hasattr(command, "commands") and rest and rest[0] in command.commands:
            known, rest = _options(command.commands[rest[0]]), rest[1:]
        elif hasattr(command, "commands"):
            known |= {name for one in command.commands.values() for name in _options(one)}
        if words[0] == "run":
            continue  # What it doesn't know belongs to the job.
        asked = {re.sub(r"[=.,;:\]]+.*", "", word) for word in rest if word.startswith("--")}
        assert asked <= known, text


def _options(command: Any) -> set[str]:
    return {"--help", *(name for option in command.params for name in option.opts)}


def test_the_job_of_the_readme_is_the_one_in_jobs() -> None:
    """But for its settings, which that one has from the environment."""
    shown = block("README.md", "from hivesink import HiveSink").text
    own = (ROOT / "jobs" / "userinfo.py").read_text(encoding="utf-8")
    for line in shown.splitlines():
        plain = line.partition("  #")[0].strip()
        settled = plain.replace('environ["KAFKA_SERVERS"], "userinfo"', "SERVERS, TOPIC").replace(
            '"checkpoints/userinfo"', "CHECKPOINT"
        )
        settled = settled.replace('trigger={"processingTime": "5 seconds"}', "trigger=trigger")
        assert settled in own, line
    assert 'environ.get("KAFKA_SERVERS", ' in own
    assert '"userinfo"' in own
    assert '"5 seconds"' in own
