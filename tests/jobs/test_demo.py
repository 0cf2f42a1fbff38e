"""`make demo` as a user meets it; in the longer run, killed in the middle, and run with nothing left to do."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from jobs.demo.flights import MONTHS, Flights

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(900)
@pytest.mark.spark
@pytest.mark.parametrize(
    ("variable", "kills"),
    [
        ("", 0),
        pytest.param("", 1, marks=pytest.mark.long),
        pytest.param("KAFKA", 1, marks=[pytest.mark.kafka, pytest.mark.long]),
        pytest.param("S3", 1, marks=pytest.mark.long),
    ],
    ids=["files", "files, killed", "kafka, killed", "s3, killed"],
)
def test_a_run_its_kill_and_once_more(tmp_path: Path, variable: str, kills: int) -> None:
    for _ in range(kills):
        with demo(tmp_path, variable) as killed:
            assert killed.stdout is not None
            for line in killed.stdout:
                if "epoch 3:" in line:
                    killed.kill()

    again = finish(tmp_path, variable)
    assert ("epoch 3:" in again) == (kills == 0)
    assert "rows 336,776 of 336,776" in again
    assert again.count("✓") == 4
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", again)
    assert max(map(len, again.splitlines())) <= 80

    assert processes_of(tmp_path) == []
    if variable:
        once_more = finish(tmp_path, variable)
        assert "all flights were committed by earlier runs" in once_more
        assert "epoch " not in once_more
        assert once_more.count("✓") == 5
        assert processes_of(tmp_path) == []


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_the_secured_cluster_is_started_where_none_runs_and_used_where_one_does(tmp_path: Path) -> None:
    """tests/docs/test_make.py has the plain one."""
    folder = tmp_path / "cluster"
    environment = {**os.environ, "CLUSTER": "1", "DEMO_DATA": str(tmp_path / "demo"), "HIVESINK_CLUSTER": str(folder)}
    environment["SECURE"] = "1"
    command = [sys.executable, "-m"]
    try:
        printed = [
            subprocess.run(
                [*command, "jobs.demo"], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True
            ).stdout
            for _ in range(2)
        ]
    finally:
        subprocess.run([*command, "jobs.cluster", "down"], cwd=ROOT, env=environment, check=True)
    assert "make cluster-down" in printed[0]
    assert "336,776 of them were new" in printed[0]
    assert "Starting the cluster" not in printed[1]
    assert "nothing added, nothing duplicated" in printed[1]
    assert processes_of(folder) == []


def test_events_are_the_csv() -> None:
    flights = Flights.load()
    assert flights.total == sum(len(flights.events(month)) for month in MONTHS) == 336_776
    cancelled = next(event for event in flights.events(1) if '"dep_time":null' in event)
    assert '"dep_delay":null' in cancelled
    assert '"sched_dep_time":1630' in cancelled
    assert flights.days == 365
    assert sum(flights.by_carrier.values()) == 336_776


def demo(folder: Path, variable: str) -> subprocess.Popen[str]:
    # What Spark's JVM says at its start is not the demonstration's.
    with (folder / "stderr").open("ab") as errors:
        return subprocess.Popen(
            [sys.executable, "-m", "jobs.demo"],
            cwd=ROOT,
            env={
                **os.environ,
                "DEMO_DATA": str(folder),
                **({variable: "1"} if variable else {}),
                "PYTHONUNBUFFERED": "1",
            },
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )


def finish(folder: Path, variable: str) -> str:
    with demo(folder, variable) as running:
        printed, _ = running.communicate()
    assert running.returncode == 0, printed + (folder / "stderr").read_text()
    return printed


def processes_of(folder: Path) -> list[list[str]]:
    import psutil

    found = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
    return [command for command in found if any(str(folder) in word for word in command)]
