"""README and docs as text, the code in them, and a shell in a copy of this checkout, as `git clone` makes it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
_BLOCK = re.compile(
    r"(?:^<!-- (?P<note>[^\n]+) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$"
    r"|^(?:<!-- (?P<indented_note>[^\n]+) -->\n)?\n(?P<indented>(?:^    [^\n]*\n(?:\n(?=    ))?)+)",
    re.MULTILINE | re.DOTALL,
)
_USUAL = re.compile(r"^<!-- blocks: (.+) -->$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A block of code, fenced or indented. `note` is the comment right before it, which readers don't see."""

    page: Path
    language: str
    text: str
    note: str | None

    def __str__(self) -> str:
        return f"{self.page.name}: {self.text.partition(chr(10))[0]}"


def blocks(page: Path) -> list[Block]:
    """The blocks of a page. `<!-- blocks: … -->` is the note of all that have none of their own."""
    text = page.read_text(encoding="utf-8")
    usual = _USUAL.search(text)
    made = []
    for found in _BLOCK.finditer(text):
        note = found["note"] or found["indented_note"] or (usual and usual[1])
        code = found["text"] if found["indented"] is None else dedent(found["indented"])
        made.append(Block(page, found["language"] or "", code, note and note.removeprefix("blocks: ")))
    return made


def blocks_run_by(test: str, page: str) -> list[Block]:
    """The blocks of a page that name this test file as the one that runs them, in order."""
    name = Path(test).relative_to(ROOT).as_posix()
    return [one for one in blocks(ROOT / page) if one.note == f"run by {name}"]


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return _BLOCK.sub("", page.read_text(encoding="utf-8"))


def block(page: str, beginning: str) -> Block:
    """The one block of a page that has this text."""
    (found,) = (one for one in blocks(ROOT / page) if beginning in one.text)
    return found


def commands(page: Path) -> Iterator[str]:
    """The commands of hivesink on a page: in blocks, in indented lines, and in running text."""
    yield from re.findall(r"`(hivesink [^`]+)`", prose(page))
    # A backslash joins lines.
    lines = [line for one in blocks(page) for line in re.sub(r"\\\n\s*", " ", one.text).splitlines()]
    found = (re.match(r"(?:\$ )?(?:[A-Z_]+=\S+ )*(hivesink .+)$", line) for line in lines)
    yield from (one[1] for one in found if one)


def make_commands(page: Path) -> set[str]:
    """The targets of `make` on a page, with their settings: in backquotes, and at the beginning of lines of code."""
    text = page.read_text(encoding="utf-8")
    found = re.findall(r"(?:`|^ *)(make [a-z-]+(?: [A-Z]+=[^\s`]+)*)", text, re.MULTILINE)
    return {" ".join(command.split()) for command in found}


_ANYWHERE = shutil.ignore_patterns(".*_cache", ".hypothesis", "__pycache__", "metastore_db", "derby.log")
_AT_THE_TOP = shutil.ignore_patterns(
    *(".git", ".venv*", ".cache", ".hivesink*", "*.egg-info"),
    *("build", "dist", "site", "demo-data", "checkpoints", "spark-warehouse"),
)
# Settings of whoever runs the tests, and of the tests themselves, would hide what a newcomer lacks. By those of Java
# servers only start sooner.
_NOT_HIS = (
    *("HIVESINK_", "HADOOP_", "HIVE_", "KAFKA", "CLUSTER", "DEMO_DATA", "TRIGGER", "CHECKPOINT", "FOLDER", "WRITER"),
    *("MAKE", "MFLAGS", "PYTHONPATH", "SPARK_"),
)


def copy_to(folder: Path) -> Path:
    """Copy what the repository has into a new folder; return the folder."""
    shutil.copytree(ROOT, folder, ignore=_left_by_runs, symlinks=True)
    return folder


def _left_by_runs(folder: str, names: list[str]) -> set[str]:
    return _ANYWHERE(folder, names) | (_AT_THE_TOP(folder, names) if Path(folder) == ROOT else set())


def shell(
    folder: Path, script: str, environment: Mapping[str, str] | None = None, *, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run a script as `bash -e` does, with nothing on standard input; `stdout` and `stderr` are text."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env={**newcomers(), **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not check or done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
    return done


def newcomers() -> dict[str, str]:
    """The environment, but for what a newcomer lacks."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_NOT_HIS)}
