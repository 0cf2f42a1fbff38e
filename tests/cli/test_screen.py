"""What a job shows of its progress, in a real terminal (a pty) and elsewhere."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark import SparkContext

from hivesink import Progress
from hivesink.cli import job as screen

JOB = """
from hivesink import Progress
from hivesink.cli import job as screen
screen.progress_of_all = lambda: {"demo.t (clicks)": Progress(rows=5, epochs=1, behind_records=7)}
print("the job's own line, " + "x" * 200)
"""
LINE = "demo.t (clicks): 5 rows · 1 epoch"


def _in_terminal(folder: Path, *options: str, job: str = JOB, **variables: str) -> str:
    file = folder / "clicks.py"
    file.write_text(job)
    master, terminal = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "TERM": "xterm", **variables}
    command = [sys.executable, "-m", "hivesink.cli", "run", str(file), *options]
    with subprocess.Popen(command, env=environment, stdout=terminal, stderr=terminal) as process:
        os.close(terminal)
        said = b""
        try:
            while more := os.read(master, 4096):
                said += more
        except OSError:  # Linux's way to say that nobody has the terminal any more.
            pass
    os.close(master)
    assert process.returncode == 0
    return said.decode()


def test_a_terminal_has_a_live_line_below_what_the_job_prints(tmp_path: Path) -> None:
    said = _in_terminal(tmp_path, NO_COLOR="")
    assert "\x1b[2K" in said
    assert LINE in said.rpartition("x" * 200)[2]
    assert "\x1b[?25h" in said.rpartition("\x1b[?25l")[2]


def test_what_is_awaited_before_the_first_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkContext, "_active_spark_context", object())
    monkeypatch.setattr(screen, "progress_of_all", dict)
    assert "Spark is up, no query has started (" in str(screen._lines(200, 0))
    assert not str(screen._lines(200, None))
    monkeypatch.setattr(screen, "progress_of_all", lambda: {"demo.t (clicks)": Progress()})
    assert str(screen._lines(200, 0)).endswith("0 rejected · waiting for the first batch")
    assert str(screen._lines(200, None)).endswith("0 rejected")
    monkeypatch.setattr(screen, "progress_of_all", lambda: {"demo.t (clicks)": Progress(epochs=1)})
    assert str(screen._lines(200, 0)).endswith("0 rejected")


def test_a_narrow_terminal_shows_how_far_behind_the_query_is(tmp_path: Path) -> None:
    assert "behind 7 records" in " ".join(_in_terminal(tmp_path, NO_COLOR="", COLUMNS="40").split())


@pytest.mark.parametrize(
    ("options", "variables"),
    [([], {"NO_COLOR": "1"}), ([], {"TERM": "dumb"}), (["--json"], {}), (["--debug"], {})],
)
def test_what_is_to_stay_plain_has_no_control_sequences(
    options: list[str], variables: dict[str, str], tmp_path: Path
) -> None:
    said = _in_terminal(tmp_path, *options, **variables)
    assert "the job's own line" in said
    assert "\x1b" not in said
    assert LINE not in said
