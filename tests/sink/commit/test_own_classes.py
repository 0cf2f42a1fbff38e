"""The user's own classes, as docs/python.md shows them."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.sink.timed import World, at

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCS = Path(__file__).parents[3] / "docs" / "python.md"
OPTIONS = {
    "sink.bucket.assigner": "own:ByFirstDigit",
    "sink.rolling-policy.class": "own:AtThousand",
    "sink.rolling-policy.on-epoch": "false",
}
HELD = {
    "sink.bucket.assigner": "own:ByFirstDigit",
    "sink.partition-commit.trigger": "partition-time",
    "sink.partition-commit.watermark-column": "at",
    "sink.partition-commit.delay": "1h",
    "sink.partition-commit.policy.kind": "metastore,custom",
    "sink.partition-commit.policy.class": "own:Tell",
    "partition.time-extractor.kind": "custom",
    "partition.time-extractor.class": "own:Centuries",
}


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    code = re.search(r"## Your own classes.*?```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    assert code
    (tmp_path / "own.py").write_text(code[1], encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    monkeypatch.delitem(sys.modules, "own", raising=False)


def test_an_own_assigner_and_an_own_rolling_policy() -> None:
    world = World(OPTIONS)
    job = world.started()
    world.feed(job, at(3, 10, 7), at(3, 10, 71), at(3, 10, 2))
    world.wait(job, seconds=599)
    assert world.ids("dt=7") == []
    world.wait(job, seconds=2)
    assert (world.ids("dt=7"), world.ids("dt=2")) == ([7, 71], [2])


def test_an_own_extractor_and_an_own_commit_policy(capsys: pytest.CaptureFixture[str]) -> None:
    world = World(HELD)
    job = world.started()
    world.feed(job, at(3, 10, 1), at(3, 10, 3))
    told = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in told if "dt=" in line] == ["dt=1", "dt=3"]
    assert "1 1 1" in told
