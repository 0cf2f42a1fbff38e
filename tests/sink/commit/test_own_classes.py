"""The user's own classes, as docs/python.md shows them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hivesink.errors import HiveSinkError
from tests.docs.pages import blocks_run_by
from tests.sink.timed import World, at

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
    "sink.partition-commit.policy.kind": "metastore,own:Tell",
    "partition.time-extractor.class": "own:Centuries",
}


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (code,) = blocks_run_by(__file__, "docs/python.md")
    (tmp_path / "own.py").write_text(code.text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for module in ("own", "failing_own"):
        sys.modules.pop(module, None)


RAISES = """import sys
import pyarrow as pa

class Fails:
    def __init__(self, spec, config): ...
    def should_roll(self, *_): raise KeyError("x")
    def assign(self, rows, moment): return [pa.array(["1"])]

class Exits(Fails):
    def should_roll(self, *_): sys.exit(0)
    def assign(self, rows, moment): raise ValueError("no way")

class Lacks:
    def __init__(self, spec, config): ...

class Lists(Lacks):
    def assign(self, rows, moment): return [["1"] * len(rows)]

class Nothing(Lacks):
    def assign(self, rows, moment): ...

class Never:
    def __init__(self, spec, config): sys.exit(0)
"""


@pytest.fixture
def failing(tmp_path: Path) -> None:
    (tmp_path / "failing_own.py").write_text(RAISES, encoding="utf-8")


@pytest.mark.usefixtures("failing")
@pytest.mark.parametrize(
    ("option", "name", "told"),
    [
        ("sink.rolling-policy.class", "Fails", r"'failing_own:Fails': your own should_roll raised KeyError: 'x'"),
        ("sink.rolling-policy.class", "Exits", r"'failing_own:Exits': your own should_roll raised SystemExit: 0"),
        ("sink.rolling-policy.class", "Never", "SystemExit: 0; write module:Class"),
        ("sink.rolling-policy.class", "Lacks", "'failing_own:Lacks': it has no method should_roll"),
        ("sink.rolling-policy.class", "Nobody", "has no attribute 'Nobody'; write module:Class"),
        (
            "sink.bucket.assigner",
            "Lists",
            "'failing_own:Lists': your own assign made list; return a list of 1",
        ),
        ("sink.bucket.assigner", "Nothing", "'failing_own:Nothing': your own assign made NoneType; return a list of 1"),
        ("sink.bucket.assigner", "Fails", "'failing_own:Fails': your own assign made 1 values; return a list of 1"),
        ("sink.bucket.assigner", "Exits", "'failing_own:Exits': your own assign raised ValueError: no way"),
    ],
)
def test_what_own_code_raises_is_named(option: str, name: str, told: str) -> None:
    world = World(options={"sink.rolling-policy.on-epoch": "false", option: f"failing_own:{name}"})
    with pytest.raises(HiveSinkError, match=re.escape(told)):
        world.feed(world.started(), at(3, 10, 7), at(3, 10, 71))


def test_an_own_assigner_and_an_own_rolling_policy() -> None:
    world = World(options=OPTIONS)
    job = world.started()
    world.feed(job, at(3, 10, 7), at(3, 10, 71), at(3, 10, 2))
    world.wait(job, seconds=599)
    assert world.rows_of("dt=7") == []
    world.wait(job, seconds=2)
    assert (world.rows_of("dt=7"), world.rows_of("dt=2")) == ([7, 71], [2])


def test_an_own_extractor_and_an_own_commit_policy(capsys: pytest.CaptureFixture[str]) -> None:
    world = World(options=HELD)
    job = world.started()
    world.feed(job, at(3, 10, 1), at(3, 10, 3))
    told = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in told if "dt=" in line] == ["dt=1", "dt=3"]
    assert "1 1 1" in told
