"""The archive of Spark's classes: made whole, and taken by the JVM of a session."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from hivesink.errors import JavaFailed
from hivesink.jvm import archive
from hivesink.jvm.java import Java

if TYPE_CHECKING:
    from pathlib import Path


def inodes(cache: Path) -> dict[Path, int]:
    return {path: path.stat().st_ino for path in (cache / "hivesink").rglob("*")}


SESSION = """
from hivesink.spark.session import session_for_kafka
spark = session_for_kafka("test")
spark._jvm.java.lang.Class.forName("org.apache.kafka.clients.consumer.KafkaConsumer")
spark.stop()
"""


def test_a_java_that_writes_none_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'no room' >&2\nexit 3\n")
    java.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(archive, "find_java", lambda: Java(tmp_path, 17))
    with pytest.raises(JavaFailed, match=rf"^{java} wrote no archive of Spark's classes: .*; jobs run without it"):
        archive.make([])
    # Nothing is left that a JVM could take for one.
    assert list((tmp_path / "cache").rglob("*.jsa")) == []


@pytest.mark.long
def test_prepare_then_a_session_takes_its_classes_from_there(tmp_path: Path) -> None:
    log = tmp_path / "classes.log"
    prepared = run(tmp_path, "", "-m", "hivesink.cli", "prepare")
    assert re.fullmatch(
        r"ready: spark-kafka-\S+, hive-client-4\.0\.1\nready: \S+/archives/spark-\w+\.jsa \(\d+ MB\)\n", prepared
    )
    made = inodes(tmp_path)
    run(tmp_path, f"-Xlog:class+load:file={log}", "-c", SESSION)
    # A prepared cache may be read-only.
    assert inodes(tmp_path) == made
    loaded = log.read_text()
    assert loaded.count("shared objects file (top)") > 5_000
    assert re.search(r"kafka\.clients\.consumer\.KafkaConsumer source: shared objects file \(top\)", loaded)


def run(cache: Path, java: str, *arguments: str) -> str:
    """What a Python process prints, with a cache of its own and these options of the JVM's alone."""
    environ = {**os.environ, "XDG_CACHE_HOME": str(cache), "SPARK_SUBMIT_OPTS": java, "JDK_JAVA_OPTIONS": ""}
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout
