"""A copy of this checkout, as `git clone` makes it, and a shell in it."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

from tests.docs.pages import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_LEFT_BY_RUNS = (
    *(".git", ".venv*", ".*_cache", ".cache", ".hivesink*", ".hypothesis", "__pycache__", "*.egg-info"),
    *("build", "dist", "site", "demo-data", "checkpoints", "metastore_db", "spark-warehouse", "derby.log"),
)
# Settings of whoever runs the tests, and of the tests themselves, would hide what a newcomer lacks.
_NOT_HIS = (
    *("HIVESINK_", "HADOOP_", "HIVE_", "KAFKA", "CLUSTER", "DEMO_DATA", "TRIGGER", "CHECKPOINT", "FOLDER"),
    *("MAKE", "MFLAGS", "PYTHONPATH", "JDK_JAVA_OPTIONS", "SPARK_"),
)


def copy_to(folder: Path) -> Path:
    """Copy what the repository has into a new folder; return the folder."""
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*_LEFT_BY_RUNS), symlinks=True)
    return folder


def shell(
    folder: Path, script: str, environment: Mapping[str, str] | None = None, *, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run a script as `bash -e` does, with nothing on standard input; `stdout` and `stderr` are text."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_HIS)}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env={**own, **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not check or done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
    return done
