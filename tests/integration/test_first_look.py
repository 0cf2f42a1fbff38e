"""`hivesink init` and `preview` of a real topic, and the job that init writes."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hivesink.errors import TopicMissing
from hivesink.sample import kafka as sampling
from tests.cli.site import hivesink

if TYPE_CHECKING:
    from tests.integration.stage import Stage, Topic

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder; no metastore runs in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HIVESINK_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("HIVESINK_METASTORE", raising=False)
    return tmp_path


def test_from_a_topic_to_rows(
    stage: Stage, topic: Topic, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The fields have names of Kafka's own columns, which the job must not take for them."""
    records = [json.dumps({"value": number / 2, "timestamp": "2024-01-02T23:30:00Z"}).encode() for number in range(6)]
    topic.put_raw(((number % 2, record) for number, record in enumerate(records)))
    topic.put_raw([(0, b"nonsense"), (1, None)])
    source = f"kafka://{topic.servers}/{topic.name}"

    command = [sys.executable, "-m", "hivesink.cli", "init", "--from", source, "--table", stage.table, "--yes"]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    made = subprocess.run(
        [*command, "--job", "jobs/own.py"], env=environment, capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr
    assert "6 of the sample's 8 records fit; tombstones, which a job skips: 1" in made.stdout
    assert f"topic {topic.name} partition 0 offset 3" in made.stdout
    assert "hivesink metastore start" in made.stdout

    monkeypatch.setenv("HIVESINK_METASTORE", stage.uri)
    monkeypatch.setenv("TRIGGER", "availableNow")
    monkeypatch.setenv("CHECKPOINT", str(home / "checkpoint"))
    assert hivesink(capsys, "ddl", "apply", "ddl").code == 0
    monkeypatch.setattr(sampling, "sample", partial(sampling.sample_with, stage.spark))
    seen = hivesink(capsys, "preview", "--table", stage.table, "--from", source, "--json")
    assert seen.code == 65
    assert seen.data["partitions"] == {"dt=2024-01-02": 6}
    assert seen.data["skipped"] == 1
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    text = hivesink(capsys, "preview", "--table", stage.table, "--from", source)
    assert "starting Spark to look at the topic" in text.err
    assert 'a job needs events.drop("timestamp")' in text.out
    (bad,) = seen.data["bad_records"]
    assert bad == {"topic": topic.name, "partition": 0, "offset": 3, "field": None, "reason": "not JSON"}

    runpy.run_path(str(home / "jobs" / "own.py"), run_name="__main__")

    rows = stage.spark.sql(f"SELECT value, dt FROM {stage.table} ORDER BY value").collect()
    assert [tuple(row) for row in rows] == [(number / 2, "2024-01-02") for number in range(6)]
    rejected = stage.spark.sql(f"SELECT reason, record_offset FROM {stage.table}__rejected").collect()
    assert [tuple(row) for row in rejected] == [("not JSON", 3)]


def test_a_sample_has_the_first_and_the_newest_records_of_each_partition(stage: Stage, topic: Topic) -> None:
    at = datetime(2024, 1, 2, 3, 4, 5, 678000, tzinfo=timezone.utc)
    topic.put_raw([(0, b"%d" % number) for number in range(100)] + [(1, b"one")], at)
    sample = sampling.sample_with(stage.spark, topic.servers, topic.name, 11)
    assert sample.records() == [b"0", b"1", b"2", b"3", b"4", b"95", b"96", b"97", b"98", b"99", b"one"]
    assert sample.total == 101
    assert sample.position(10) == f"topic {topic.name} partition 1 offset 0"
    assert set(sample.batch.column("timestamp").to_pylist()) == {at}


def test_an_empty_topic_and_no_topic(stage: Stage, topic: Topic) -> None:
    sample = sampling.sample_with(stage.spark, topic.servers, topic.name, 11)
    assert (sample.records(), sample.total) == ([], 0)
    with pytest.raises(TopicMissing, match="no such topic"):
        sampling.sample_with(stage.spark, topic.servers, "never-made", 11)
