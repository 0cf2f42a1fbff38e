"""`hivesink init` and `preview` of a real topic, and the job that init writes."""

from __future__ import annotations

import json
import re
import runpy
import sys
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pytest

from hivesink.errors import TopicMissing
from hivesink.sample.source import TopicSource, sample_topic
from tests.cli.site import hivesink

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.stage import Stage, Topic

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def test_from_a_topic_to_rows(
    stage: Stage, topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The fields have names of Kafka's own columns, which the job must not take for them."""
    records = [json.dumps({"value": number / 2, "timestamp": 1704238200 + number}).encode() for number in range(6)]
    topic.put_raw(((number % 2, record) for number, record in enumerate(records)))
    topic.put_raw([(0, b"nonsense"), (1, None)])
    source = f"kafka://{topic.servers}/{topic.name}"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HIVESINK_METASTORE", stage.uri)
    monkeypatch.setenv("TRIGGER", "availableNow")
    monkeypatch.setenv("CHECKPOINT", str(tmp_path / "checkpoint"))
    monkeypatch.setattr(
        TopicSource, "sample", lambda it, most, _: sample_topic(stage.spark, it.servers, it.topic, most)
    )

    made = hivesink(capsys, "init", "--from", source, "--table", stage.table, "--every", "day")
    assert made.code == 0, made.err
    assert "6 of 8 records fit, 1 tombstone skipped" in made.out
    assert re.search(rf"{topic.name} +│ 0 +│ 3 ", made.out)
    assert hivesink(capsys, "ddl", "apply", "ddl").code == 0
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert (
        "starting Spark to look at the topic"
        in hivesink(capsys, "preview", "--table", stage.table, "--from", source).err
    )
    seen = hivesink(capsys, "preview", "--table", stage.table, "--from", source, "--json")
    assert (seen.code, seen.data["partitions"], seen.data["skipped"]) == (65, {"dt=2024-01-02": 6}, 1)
    (bad,) = seen.data["bad_records"]
    assert bad == {"topic": topic.name, "partition": 0, "offset": 3, "field": None, "reason": "not JSON"}

    (job,) = (tmp_path / "jobs").iterdir()
    runpy.run_path(str(job), run_name="__main__")

    rows = stage.spark.sql(f"SELECT value, CAST(timestamp AS STRING), dt FROM {stage.table} ORDER BY value").collect()
    assert [tuple(row) for row in rows] == [
        (number / 2, f"2024-01-02 23:30:0{number}", "2024-01-02") for number in range(6)
    ]
    rejected = stage.spark.sql(f"SELECT reason, record_offset FROM {stage.table}__rejected").collect()
    assert [tuple(row) for row in rejected] == [("not JSON", 3)]


def test_a_sample_has_the_first_and_the_newest_records_of_each_partition(stage: Stage, topic: Topic) -> None:
    assert sample_topic(stage.spark, topic.servers, topic.name, 11).records() == []
    with pytest.raises(TopicMissing, match="no such topic"):
        sample_topic(stage.spark, topic.servers, "never-made", 11)
    at = datetime(2024, 1, 2, 3, 4, 5, 678000, tzinfo=timezone.utc)
    topic.put_raw([(0, b"%d" % number) for number in range(100)] + [(1, b"one")], at)
    sample = sample_topic(stage.spark, topic.servers, topic.name, 11)
    assert sample.records() == [b"0", b"1", b"98", b"99", b"one"]
    assert sample.position(4) == f"topic {topic.name} partition 1 offset 0"
    assert set(sample.batch.column("timestamp").to_pylist()) == {at}
