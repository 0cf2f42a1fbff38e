"""The recipes of docs/recipes.md, word for word but for the database's name and folders."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from jobs.cluster.kafka import create_topic
from tests.docs.folder import Folder
from tests.docs.pages import ROOT, block

if TYPE_CHECKING:
    from hivesink.embedded.metastore import EmbeddedMetastore

PAGE = "docs/recipes.md"


def day(*ids: int) -> list[list[object]]:
    return [[one, "2024-01-03"] for one in ids]


@pytest.mark.spark
def test_a_table_from_cron_to_a_move(metastore: EmbeddedMetastore, tmp_path: Path) -> None:
    site = Folder(tmp_path, metastore, "recipes")
    site.put("events", 1, 2)
    site.put("day", 11, 12)
    site.init()
    (tmp_path / "run.sh").write_text(block(PAGE, "# run.sh").text)
    line = block(PAGE, "*/10 * * * *").text.partition("/srv/events && ")[2]
    assert site(f"flock run.lock {line}") == ""
    assert not (tmp_path / "run.log").exists()
    assert site(line) == ""
    assert site.rows() == day(1, 2)

    filled = site(block(PAGE, "WRITER=backfill").text)
    assert "is gone since it was published" in " ".join(filled.split())
    assert site.rows() == day(11, 12)

    site(block(PAGE, "hivesink reset").text)
    assert site.rows() == day(1, 2)

    site.put("events", 3)
    (tmp_path / "data").mkdir()
    folders = {"/warehouse": str(metastore.warehouse), "/data": str(tmp_path / "data")}
    moving = block(PAGE, "SET LOCATION").text
    for shown, own in folders.items():
        moving = moving.replace(shown, own)
    site(moving)
    assert site.rows() == day(1, 2, 3)
    assert len(list((tmp_path / "data" / "events" / "dt=2024-01-03").glob("part-*"))) == 2


@pytest.mark.spark
@pytest.mark.kafka
def test_a_day_from_kafka(metastore: EmbeddedMetastore, kafka: str, tmp_path: Path) -> None:
    site = Folder(tmp_path, metastore, "refill")
    site.put("events", 1)
    site.init()
    topic = f"refill-{tmp_path.name}"
    create_topic(kafka, topic)
    producer = Producer({"bootstrap.servers": kafka})
    for day_of_month, number in ((2, 1), (3, 2), (3, 3), (4, 4)):
        at = datetime(2024, 1, day_of_month, 8, tzinfo=timezone.utc)
        record = {"id": number, "at": at.isoformat()}
        producer.produce(topic, json.dumps(record).encode(), timestamp=int(at.timestamp() * 1000))
    assert producer.flush(60) == 0
    job = block(PAGE, "# jobs/refill.py").text.replace("localhost:9092", kafka).replace('"events"', f'"{topic}"')
    (tmp_path / "jobs" / "refill.py").write_text(job.replace("demo.", "refill."))
    site("DAY=2024-01-03 hivesink run jobs/refill.py")
    assert site.rows() == day(2, 3)


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
@pytest.mark.parametrize("name", ["hivesink-events.service", "hivesink-events.timer"])
def test_the_unit_is_one(tmp_path: Path, name: str) -> None:
    for unit in ("hivesink-events.service", "hivesink-events.timer"):
        text = block(PAGE, f"# {unit}").text
        (tmp_path / unit).write_text(text.replace("/opt/hivesink/.venv/bin", str(Path(sys.executable).parent)))
    command = ["systemd-analyze", "verify", str(tmp_path / name)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (found.returncode, name in found.stderr) == (0, False), found.stderr
