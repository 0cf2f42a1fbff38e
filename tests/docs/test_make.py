"""Each `make` target that README names, in a fresh checkout with nothing warm: no .venv, no jars, no pip cache."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jobs.cluster import Cluster
from tests.docs.pages import PAGES, ROOT, block, blocks_run_by, copy_to, make_commands, shell

NOT_RUN = {
    "make test": "CI runs it, on a clean checkout",
    "make demo CLUSTER=compose": "no container engine here",
    "make demo CLUSTER=1 SECURE=1": "its parts are run by tests/secure",
    "make bench": "hours of figures, not a check",
}
"""What README and docs/cluster.md name and no test here runs, and why not."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_targets_and_variables_are_those_of_the_makefile(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    explained = set(re.findall(r"\b([A-Z]+)=", "".join(re.findall(r"## .*|echo .*", makefile))))
    for command in make_commands(page):
        _, target, *settings = command.split()
        assert target in targets, command
        for setting in settings:
            assert setting.partition("=")[0] in explained, command


def test_every_target_of_the_readme_is_run_or_says_why_not() -> None:
    named = {command for page in ("README.md", "docs/cluster.md") for command in make_commands(ROOT / page)}
    # `QUICK=1` and the like choose among figures.
    named = {re.sub(r"^(make bench) .*", r"\1", command) for command in named}
    assert named - set(NOT_RUN) <= set(TARGETS)


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Path]:
    """The copy; an empty home is beside it. Its servers end with the test, which takes all that it has downloaded."""
    (tmp_path / "home").mkdir()
    yield copy_to(tmp_path / "hivesink")
    make(tmp_path / "hivesink", "make clean")
    shutil.rmtree(tmp_path)


def make(checkout: Path, command: str) -> str:
    home = checkout.parent / "home"
    cold = {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), "PIP_CACHE_DIR": str(home / "pip")}
    begun = time.monotonic()
    said = shell(checkout, command, cold)
    print(f"{command}: {time.monotonic() - begun:.0f} s\n{said.stdout}")
    return said.stdout


def explains_each_target(_: Path, said: str) -> None:
    for command in TARGETS:
        assert re.search(rf"^{command.split()[1]} ", said, re.MULTILINE), command


def prints_what_the_readme_shows(checkout: Path, said: str) -> None:
    """But for seconds, and how many rows an epoch found, which differ from run to run."""
    assert (checkout / "demo-data" / "files").is_dir()
    patterns = []
    for line in block("README.md", "Streaming 336,776 flights").text.splitlines():
        pattern = re.sub(r"^(?:\\ )*\d+\\ s", r" *\\d+ s", re.escape(line))
        pattern = re.sub(r"\d[\d,]*", r"[\\d,]+", pattern) if "epoch" in line else pattern
        patterns.append(r"(?:.*\n)*?" if line.strip() == "…" else f"{pattern}\n")
    assert re.search("".join(patterns), said), said


def says(*patterns: str) -> Callable[[Path, str], None]:
    def look(_: Path, said: str) -> None:
        for pattern in patterns:
            assert re.search(pattern, said, re.MULTILINE), said

    return look


def names_every_server(checkout: Path, said: str) -> None:
    assert (checkout / ".hivesink-cluster" / "conf" / "hive-site.xml").exists()
    says(*(f"^{name} " for name in Cluster(checkout.parent / "named").servers.by_name()))(checkout, said)


def serves_clients(checkout: Path, said: str) -> None:
    names_every_server(checkout, said)
    (settings,) = (one for one in blocks_run_by(__file__, "docs/cluster.md") if "eval" in one.text)
    plan = shell(checkout, f"{settings.text}.venv/bin/hivesink ddl plan ddl/userinfo.sql").stdout
    assert "demo.userinfo: create" in plan


def leaves_both_files(checkout: Path, said: str) -> None:
    names = {path.name for path in (checkout / "dist").iterdir()}
    assert re.fullmatch(r"hivesink-[\d.]+\.zip hivesink-env-[\d.]+\.tar\.gz", " ".join(sorted(names, key=len)))
    assert all(f"dist/{name}" in said for name in names)


def runs(checkout: Path, said: str) -> None:
    assert "Traceback" not in said
    assert shell(checkout, ".venv/bin/hivesink --version").stdout.startswith("hivesink ")


def makes_the_site(checkout: Path, said: str) -> None:
    assert "Build finished" in said
    assert (checkout / "site" / "reference.html").exists()


def leaves_the_checkout_as_it_was(checkout: Path, _: str) -> None:
    tracked = {path.name for path in copy_to(checkout.parent / "again").iterdir()}
    assert {path.name for path in checkout.iterdir()} - tracked == set()


PASSES = says(r"^ *\d+ s  All checks passed; ")
TARGETS: dict[str, Callable[[Path, str], None]] = {
    "make help": explains_each_target,
    "make demo": prints_what_the_readme_shows,
    "make demo KAFKA=1": PASSES,
    "make cluster-up": names_every_server,
    "make cluster-status": serves_clients,
    "make demo CLUSTER=1": PASSES,
    "make cluster-down": names_every_server,
    "make dist": leaves_both_files,
    "make lint": says("All checks passed!", "Success: no issues found", r", 0 broken\."),
    "make venv": runs,
    "make docs": makes_the_site,
    "make clean": leaves_the_checkout_as_it_was,
}
"""Each target, and what to see of it."""
AFTER = {"make cluster-status": "make cluster-up", "make cluster-down": "make cluster-up", "make clean": "make demo"}
"""What a target is for the end of. Each other one is the first in its checkout."""


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("command", TARGETS)
def test_with_nothing_warm(fresh: Path, command: str) -> None:
    if command in AFTER:
        make(fresh, AFTER[command])
    TARGETS[command](fresh, make(fresh, command))
