from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bench.cases import CASES
from bench.series import Run, Series, fingerprint

if TYPE_CHECKING:
    from pathlib import Path

TOLD = {"rounds": 2, "code": "a"}
CASE = replace(CASES["narrow"], contenders=("hivesink", "spark-sink"))
RUN = Run("narrow", 0, "hivesink", 10, 1.5, [700, 800], {"write": 900}, 2.0, 3.0, 100, 50, 8, 1_000)


def test_a_start_with_the_same_arguments_and_code_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "data" / "runs"
    first = Series(path, TOLD)
    assert first.missing(CASE, 2) == [(0, "hivesink"), (0, "spark-sink"), (1, "spark-sink"), (1, "hivesink")]
    first.add(RUN)
    with path.open("a") as file:
        file.write('{"case": "narrow", "rou')
    again = Series(path, TOLD)
    assert again.runs == [RUN]
    assert again.missing(CASE, 2) == [(0, "spark-sink"), (1, "spark-sink"), (1, "hivesink")]
    # The earlier runs are gone for good, not mixed in again.
    assert Series(path, {**TOLD, "code": "b"}).runs == []
    assert Series(path, TOLD).runs == []


def test_any_change_of_code_is_another_fingerprint(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    before = fingerprint([tmp_path])
    (tmp_path / "notes.txt").write_text("no code\n")
    assert fingerprint([tmp_path]) == before
    (tmp_path / "a.py").write_text("x = 2\n")
    assert fingerprint([tmp_path]) != before
