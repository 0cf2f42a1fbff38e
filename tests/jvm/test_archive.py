"""The archive of Spark's classes: made whole, and taken by the JVM of a session."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest


def inodes(cache: Path) -> dict[Path, int]:
    return {path: path.stat().st_ino for path in (cache / "hivesink").rglob("*")}


SESSION = """
from hivesink.spark.session import session_for_kafka
spark = session_for_kafka("test")
spark._jvm.java.lang.Class.forName("org.apache.kafka.clients.consumer.KafkaConsumer")
spark.stop()
"""


@pytest.mark.long
def test_prepare_then_a_session_takes_its_classes_from_there(tmp_path: Path) -> None:
    log = tmp_path / "classes.log"
    refused = run(tmp_path, "-Xshare:off", "-m", "hivesink.cli", "prepare")
    assert refused.returncode == 65
    assert "wrote no archive of Spark's classes; jobs run without it, but start more slowly" in refused.stderr
    # Nothing is left that a JVM could take for one.
    assert list(tmp_path.rglob("*.jsa")) == []
    prepared = run(tmp_path, "", "-m", "hivesink.cli", "prepare")
    assert re.fullmatch(
        r"ready: spark-kafka-\S+, hive-client-4\.0\.1\nready: \S+/archives/spark-\w+\.jsa \(\d+ MB\)\n", prepared.stdout
    )
    made = inodes(tmp_path)
    assert run(tmp_path, f"-Xlog:class+load:file={log}", "-c", SESSION).returncode == 0
    # A prepared cache may be read-only.
    assert inodes(tmp_path) == made
    loaded = log.read_text()
    assert loaded.count("shared objects file (top)") > 5_000


def run(cache: Path, java: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A Python process with a cache of its own and these options of the JVM's alone."""
    environ = {**os.environ, "XDG_CACHE_HOME": str(cache), "SPARK_SUBMIT_OPTS": java, "JDK_JAVA_OPTIONS": ""}
    return subprocess.run([sys.executable, *arguments], env=environ, capture_output=True, text=True, check=False)
