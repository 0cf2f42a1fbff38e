"""The consumer group of a real job under SIGKILL: never ahead of what can be queried, and never going back."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from tests.integration.stage import Stage, Topic, wait_until
from tests.integration.test_metastore_down import group_offsets

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.long, pytest.mark.timeout(1200)]
JOB = """
from hivesink import HiveSink, session, sources
spark = session("group", kafka=True, metastore="{uri}")
events = sources.kafka(spark, "{servers}", "{topic}", options={{"maxOffsetsPerTrigger": "40"}})
options = {{
    "sink.kafka.commit-group": "lag.${{table}}",
    "sink.rolling-policy.rollover-interval": "2s",
    "sink.rolling-policy.check-interval": "200ms",
}}
sink = HiveSink.for_table(spark, "{table}", metastore="{uri}", options=options)
sink.start(events, checkpoint="{checkpoint}", trigger="300 milliseconds").awaitTermination()
"""
KILLS = 4


def test_kills(stage: Stage, topic: Topic, tmp_path: Path) -> None:
    stage.create()
    job = tmp_path / "group.py"
    places = {"uri": stage.uri, "servers": topic.servers, "topic": topic.name, "checkpoint": stage.checkpoint}
    job.write_text(JOB.format(table=stage.table, **places))
    seen, written, chance = [{0: 0, 1: 0}], 0, random.Random(47)  # noqa: S311  a test's own

    def look() -> dict[int, int]:
        offsets = group_offsets(stage.spark, topic.servers, f"lag.{stage.table}")
        now = {number: max(0, offsets.get((topic.name, number), 0)) for number in (0, 1)}
        assert all(now[number] >= seen[-1][number] for number in now), (seen, now)
        if now != seen[-1]:
            seen.append(now)
            readable = set(stage.ids())
            assert set(range(0, 2 * now[0], 2)) | set(range(1, 2 * now[1], 2)) <= readable
        return now

    def has_come(before: int, is_last: bool) -> bool:
        now = look()
        return now == dict.fromkeys((0, 1), written // 2) if is_last else len(seen) > before

    for number in range(KILLS + 1):
        command = [sys.executable, str(job)]
        environment = {**os.environ, "HIVESINK_WRITER": "group"}
        process = subprocess.Popen(command, env=environment, start_new_session=True, cwd=tmp_path)
        try:
            before = len(seen)
            for _ in range(4):
                topic.put(range(written, written + 100))
                written += 100
                time.sleep(0.5)
            wait_until(partial(has_come, before, number == KILLS), 180)
            time.sleep(chance.random() * 2)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        look()
    assert stage.ids() == [*range(written)]
