from __future__ import annotations

import importlib.metadata
import os
import re
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha1
from pathlib import Path
from zipfile import ZipFile

import pytest

from hivesink.errors import SourceUnreachable
from hivesink.jvm.jars import JarSet, fetch, kafka_connector, s3a
from jobs.cluster.settings import HDFS_JARS, HIVE_JARS, HIVE_S3A_JARS, KAFKA_JARS

SMALL = JarSet("small", ("org.jspecify:jspecify:1.0.0", "org.slf4j:slf4j-simple:1.7.36"))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "hivesink" / "jars"


@pytest.mark.main_path
def test_the_connector_of_this_spark_is_there() -> None:
    jars = kafka_connector(importlib.metadata.version("pyspark"))
    paths = fetch(jars)
    assert len(paths) == len(jars.coordinates)
    assert all("META-INF/MANIFEST.MF" in ZipFile(path).namelist() for path in paths)


def test_two_that_fetch_at_once_get_the_same_whole_set_and_leave_no_scraps(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ThreadPoolExecutor(2) as workers:
        first, second = workers.map(fetch, [SMALL, SMALL])
    assert first == second
    assert [path.name for path in first] == ["jspecify-1.0.0.jar", "slf4j-simple-1.7.36.jar"]
    assert list(cache.iterdir()) == [first[0].parent]
    # What is there needs no network.
    monkeypatch.setenv("HIVESINK_MAVEN_URL", "http://127.0.0.1:9/")
    assert fetch(SMALL) == first


def test_a_module_may_come_with_classifiers(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "mirror" / "org" / "x" / "own" / "1"
    place.mkdir(parents=True)
    names = ["own-1-linux.jar", "own-1.jar"]
    for name in names:
        (place / name).write_text(name)
        (place / f"{name}.sha1").write_text(sha1(name.encode(), usedforsecurity=False).hexdigest())
    monkeypatch.setenv("HIVESINK_MAVEN_URL", (tmp_path / "mirror").as_uri())
    paths = fetch(JarSet("own", ("org.x:own:1", "org.x:own:1:linux")))
    assert [path.read_text() for path in paths] == names
    assert paths[0].is_relative_to(cache)


@pytest.mark.parametrize("jars", [HDFS_JARS, HIVE_JARS, HIVE_S3A_JARS, KAFKA_JARS, s3a()], ids=lambda jars: jars.name)
def test_a_list_pins_each_jar_once_at_one_version(jars: JarSet) -> None:
    assert all(re.fullmatch(r"[\w.-]+:[\w.-]+:[\w.-]*\d[\w.-]*(:[\w.-]+)?", line) for line in jars.coordinates)
    assert sorted(set(jars.coordinates)) == sorted(jars.coordinates)
    versions = {tuple(line.split(":")[:3]) for line in jars.coordinates}
    assert len({(group, name) for group, name, _ in versions}) == len(versions)


@pytest.mark.parametrize(
    ("jars", "repository", "said"),
    [
        (JarSet("none", ("org.jspecify:jspecify-none:1.0.0",)), "", r"jspecify-none-1\.0\.0\.jar can't .*404"),
        (SMALL, "http://127.0.0.1:9/maven", r"fetched from http://127\.0\.0\.1:9/maven: "),
    ],
)
def test_a_jar_that_is_not_there_leaves_nothing(
    cache: Path, monkeypatch: pytest.MonkeyPatch, jars: JarSet, repository: str, said: str
) -> None:
    monkeypatch.setenv("HIVESINK_MAVEN_URL", repository or os.environ.get("HIVESINK_MAVEN_URL", ""))
    with pytest.raises(SourceUnreachable, match=said):
        fetch(jars)
    assert list(cache.iterdir()) == []


def test_a_jar_with_another_checksum_is_refused(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "mirror" / "org" / "x" / "own" / "1"
    place.mkdir(parents=True)
    (place / "own-1.jar").write_bytes(b"cut sho")
    (place / "own-1.jar.sha1").write_text(sha1(b"cut short", usedforsecurity=False).hexdigest())
    monkeypatch.setenv("HIVESINK_MAVEN_URL", (tmp_path / "mirror").as_uri())
    with pytest.raises(SourceUnreachable, match=r"own-1\.jar .* has another checksum"):
        fetch(JarSet("own", ("org.x:own:1",)))
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize("spark", ["3.5.0", "3.5.9", "4.0.1", "4.1.0", "4.2.1", "4.3.0", "5.0.0.dev1"])
def test_each_spark_has_a_connector_for_its_scala(spark: str) -> None:
    scala = "2.12" if spark.startswith("3") else "2.13"
    assert kafka_connector(spark).coordinates[0].split(":")[1] == f"spark-sql-kafka-0-10_{scala}"
