"""The commands of README.md, word for word, as a newcomer runs them in a fresh clone."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.docs.checkout import copy_to, shell
from tests.docs.pages import ROOT, block

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


@pytest.fixture
def clone(tmp_path: Path) -> Iterator[Path]:
    """What a newcomer has after `git clone` and `make venv`; the servers that he starts end with the test."""
    folder = copy_to(tmp_path / "hivesink")
    (folder / ".venv").symlink_to(ROOT / ".venv")
    yield folder
    end = "hivesink metastore stop; python -m jobs.cluster down"
    run(folder, f"export PATH=$PWD/.venv/bin:$PATH; {end}", check=False)


def run(folder: Path, script: str, *, check: bool = True) -> str:
    """Run a block as a shell does, on the modules of the copy; return what it printed."""
    return shell(folder, script, {"PYTHONPATH": str(folder)}, check=check).stdout


def test_a_job_and_your_own_data(clone: Path) -> None:
    script = block("README.md", "python -m jobs.cluster up --only kafka").text
    # Whoever has the usual port on this machine keeps it.
    up = "python -m jobs.cluster up --only kafka"
    found = run(clone, f"export PATH=$PWD/.venv/bin:$PATH; {up}")
    address = re.search(r"127\.0\.0\.1:\d+", found)
    assert address
    said = run(clone, f"export KAFKA_SERVERS={address[0]}\n{script}")
    assert "3 records written" in said
    assert re.search(r"│ 20\d\d-\d\d-\d\d--\d\d +│ 3 ", said)
    (clone / "events").mkdir()
    (clone / "events" / "a.json").write_text(
        '{"id": 1, "at": "2024-01-02T03:04:05Z"}\n{"id": 2, "at": "2024-01-02T05:00:00Z"}\n'
    )
    own = block("README.md", "hivesink init --from events/").text.replace("demo.events", "demo.events --yes", 1)
    said = run(clone, f"export PATH=$PWD/.venv/bin:$PATH\n{own}")
    assert "2 of 2 records fit" in said
    assert re.search(r"│ 2 +│ 2024-01-02 05:00:00", said)
