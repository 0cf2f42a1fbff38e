"""A copy of this checkout, as `git clone` makes it, and a shell in it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from tests.docs.pages import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping

_ANYWHERE = shutil.ignore_patterns(".*_cache", ".hypothesis", "__pycache__", "metastore_db", "derby.log")
_AT_THE_TOP = shutil.ignore_patterns(
    *(".git", ".venv*", ".cache", ".hivesink*", "*.egg-info"),
    *("build", "dist", "site", "demo-data", "checkpoints", "spark-warehouse"),
)
# Settings of whoever runs the tests, and of the tests themselves, would hide what a newcomer lacks.
_NOT_HIS = (
    *("HIVESINK_", "HADOOP_", "HIVE_", "KAFKA", "CLUSTER", "DEMO_DATA", "TRIGGER", "CHECKPOINT", "FOLDER", "WRITER"),
    *("MAKE", "MFLAGS", "PYTHONPATH", "JDK_JAVA_OPTIONS", "SPARK_"),
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
