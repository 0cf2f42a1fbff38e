"""The recipes of docs/recipes.md, word for word but for the database's name and folders."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.docs.pages import ROOT, block

if TYPE_CHECKING:
    from hivesink.embedded.metastore import EmbeddedMetastore

PAGE = "docs/recipes.md"


@pytest.mark.spark
def test_cron_and_a_backfill(metastore: EmbeddedMetastore, tmp_path: Path) -> None:
    # Cron's own environment: no profile, and /bin/sh.
    environment = {
        "HOME": os.environ["HOME"],
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "HIVESINK_METASTORE": metastore.uri,
    }

    def sh(script: str) -> subprocess.CompletedProcess[str]:
        command = ["sh", "-euc", script.replace("demo.", "recipes.")]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    for folder, first in (("events", 1), ("day", 11)):
        (tmp_path / folder).mkdir()
        lines = (f'{{"id": {first + n}, "at": "2024-01-03T0{n}:00:00Z"}}\n' for n in range(2))
        (tmp_path / folder / "a.json").write_text("".join(lines))
    made = sh("hivesink init --from events --table demo.events --yes && hivesink ddl apply ddl/events.sql")
    assert made.returncode == 0, made.stderr
    (tmp_path / "run.sh").write_text(block(PAGE, "# run.sh").text)
    line = block(PAGE, "*/10 * * * *").text.partition("/srv/events && ")[2]

    held = sh(f"flock run.lock {line}")
    assert (held.returncode, held.stdout, held.stderr) == (0, "", "")
    assert not (tmp_path / "run.log").exists()
    done = sh(line)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), (tmp_path / "run.log").read_text()

    filled = sh(block(PAGE, "WRITER=backfill").text)
    assert filled.returncode == 0, filled.stdout + filled.stderr
    assert "is gone since it was published" in " ".join(filled.stdout.split())
    asked = sh("hivesink query 'SELECT id, dt FROM demo.events ORDER BY id' --json")
    assert json.loads(asked.stdout)["rows"] == [[11, "2024-01-03"], [12, "2024-01-03"]]


def test_cron_tells_of_a_failed_run(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "events.py").write_text("raise SystemExit(65)")
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    ended = subprocess.run(
        ["sh", "-c", block(PAGE, "# run.sh").text],
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 65
    assert ended.stdout.startswith("jobs/events.py ended with 65\n")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_the_unit_is_one(tmp_path: Path) -> None:
    text = block(PAGE, "# hivesink-events.service").text
    unit = tmp_path / "hivesink-events.service"
    unit.write_text(text.replace("/opt/hivesink/.venv/bin", str(Path(sys.executable).parent)))
    found = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert (found.returncode, unit.name in found.stderr) == (0, False), found.stderr
