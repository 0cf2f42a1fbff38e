"""Where a job's session gets its master, its metastore and its settings from."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hivesink.errors import InvalidOption
from hivesink.jvm.java import write_sites
from hivesink.spark import settings
from hivesink.spark.settings import choose, given_settings, logging_settings

URI, MASTER = "spark.hadoop.hive.metastore.uris", "spark.master"


def chosen(
    environ: Mapping[str, str], given: Mapping[str, str] | None = None, *, hive: int = 3, **arguments: Any
) -> dict[str, str]:
    """What a session is started with, before a metastore of that version."""
    return choose(environ, given or {}, **arguments, hive=lambda *_: (hive, 0, 1))


there = partial(chosen, {}, metastore="thrift://m")


def conf(folder: Path, **properties: str) -> str:
    named = {name.replace("_", "."): value for name, value in properties.items()}
    write_sites(folder, {"core-site": named, "hive-site": named})
    return str(folder)


def test_the_sites_files_say_all_that_is_needed(tmp_path: Path) -> None:
    uris = "thrift://a:1,thrift://b:2"
    site = conf(tmp_path, hive_metastore_uris=uris, fs_defaultFS="hdfs://ns", metastore_warehouse_dir="/w")
    settings = chosen({"HADOOP_CONF_DIR": site})
    names = (MASTER, URI, "spark.sql.warehouse.dir")
    assert [settings[name] for name in names] == ["local[2]", uris, "/w"]


def test_who_wins(tmp_path: Path) -> None:
    environ = {"HIVE_CONF_DIR": conf(tmp_path, hive_metastore_uris="thrift://files")}
    given = {URI: "thrift://defaults", MASTER: "spark://defaults:1", "spark.ui.enabled": "true"}
    said = {**environ, "SPARK_MASTER": "spark://environment:1", "HIVESINK_METASTORE": "thrift://environment"}
    wanted = {
        ("local[2]", "thrift://files", "false"): chosen(environ),
        ("spark://defaults:1", "thrift://defaults", "true"): chosen(environ, given),
        ("spark://environment:1", "thrift://environment", "true"): chosen(said, given),
        # The JVM of spark-submit runs already, on its own master.
        ("spark://defaults:1", "thrift://environment", "true"): chosen({**said, "PYSPARK_GATEWAY_PORT": "1"}, given),
        ("local[1]", "thrift://argument", "true"): chosen(
            said, given, metastore="thrift://argument", master="local[1]"
        ),
    }
    assert list(wanted) == [(made[MASTER], made[URI], made["spark.ui.enabled"]) for made in wanted.values()]


@pytest.mark.parametrize(
    ("master", "loopback"),
    [
        *(
            (master, True)
            for master in ("local[3]", "spark://127.0.0.1:7077", "spark://localhost:7077", "spark://[::1]:1")
        ),
        *((master, False) for master in ("spark://a.example:7077", "yarn")),
    ],
)
def test_the_driver_is_on_the_loopback_only_beside_its_executors(master: str, *, loopback: bool) -> None:
    assert ("spark.driver.host" in there(master=master)) is loopback


def test_no_metastore_anywhere_says_what_to_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIVESINK_HOME", str(tmp_path / "none"))
    with pytest.raises(InvalidOption, match=f"{tmp_path}/none"):
        chosen({})
    assert chosen({}, {URI: ""})[URI] == ""


def test_a_metastore_of_hive_4_gets_its_own_client(monkeypatch: pytest.MonkeyPatch) -> None:
    version, jars = "spark.sql.hive.metastore.version", "spark.sql.hive.metastore.jars.path"
    named = "spark.hadoop.hive.session.id"
    assert not {version, named} & there().keys()
    assert there({named: "mine"}, hive=4)[named] == "mine"
    assert there(hive=4)[version] == "4.0.1"
    assert "hive-exec-4.0.1.jar" in there(hive=4)[jars]
    assert jars not in there({version: "3.1.3"}, hive=4)
    # Spark 3.5 has no client of Hive 4, and goes on with its own.
    monkeypatch.setattr(settings, "SPARK_4", 99)
    assert version not in there(hive=4)


def test_the_kafka_connector_is_beside_the_users_own_jars(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    jars, path = "spark.jars", "spark.driver.extraClassPath"
    own = {jars: "mine.jar", path: "mine/*"}
    cluster, local = there(own, kafka=True, master="spark://a.example:7077"), there(own, kafka=True)
    assert cluster[jars].startswith("mine.jar,")
    assert "spark-sql-kafka" in cluster[jars]
    assert cluster[path] == "mine/*"
    # Local mode has the connector on its class path, which is the same for all local sessions.
    assert local[path].endswith(":mine/*")
    assert "spark-sql-kafka" in local[path]
    assert local[jars] == "mine.jar"
    assert there(kafka=True)[path] == there()[path]
    # Who never asked for Kafka fetches nothing.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert (there()[path], jars in there(master="yarn")) == ("", False)


def test_who_names_s3a_gets_its_jars_beside_all_others(tmp_path: Path) -> None:
    jars, site = "spark.jars", {"HADOOP_CONF_DIR": conf(tmp_path, fs_s3a_endpoint="http://a.example")}
    by_site = partial(chosen, site, metastore="thrift://m")
    in_session = there({"spark.hadoop.fs.s3a.endpoint.region": "eu-west-1", jars: "mine.jar"})
    for made in (by_site(), by_site(kafka=True, master="spark://a.example:7077"), in_session):
        assert {"hadoop-aws-3.5.0.jar", "spark-hadoop-cloud_2.13-4.1.2.jar"} <= {
            path.rpartition("/")[2] for path in made[jars].split(",")
        }
    assert in_session[jars].startswith("mine.jar,")
    assert "spark-sql-kafka" in by_site(kafka=True, master="yarn")[jars]
    # The archive of classes is for a class path without them.
    assert by_site()["spark.driver.extraClassPath"] == there()["spark.driver.extraClassPath"]
    assert jars not in there()
    # The JVM of spark-submit runs already.
    assert jars not in chosen({**site, "PYSPARK_GATEWAY_PORT": "1"}, metastore="thrift://m")


def test_workers_of_this_machine_are_forked_ready_and_spoken_to_by_unix_sockets_where_their_path_is_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    daemon, socket = "spark.python.daemon.module", "spark.python.unix.domain.socket.enabled"
    monkeypatch.setattr(tempfile, "tempdir", "/short")
    assert (there()[daemon], there()[socket]) == ("hivesink.spark.daemon", "true")
    # Executors' daemons start before they have the package, and may have no such folder.
    assert not {daemon, socket} & there(master="spark://127.0.0.1:7077").keys()
    monkeypatch.setattr(tempfile, "tempdir", f"/{'long' * 20}")
    assert there()[socket] == "false"


def test_spark_defaults_are_the_users_own_settings(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "# a comment\n\nspark.cores.max 2\n  spark.a=b=c\nspark.empty\nspark.colon: x y \nother.name 1\n"
    )
    found = given_settings({"SPARK_CONF_DIR": str(tmp_path)})
    assert found == {"spark.cores.max": "2", "spark.a": "b=c", "spark.empty": "", "spark.colon": "x y"}
    (tmp_path / "conf").mkdir()
    assert given_settings({"SPARK_HOME": str(tmp_path)}) == given_settings({}) == {}


def test_spark_logs_errors_only_unless_the_user_says_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    name, debug = "spark.driver.extraJavaOptions", {"HIVESINK_DEBUG": "1"}
    assert logging_settings({}, {})[name].endswith("/spark-errors-log4j2.properties")
    # Other options of the user's are kept beside it.
    assert logging_settings({}, {name: "-Xss4m"})[name].startswith("-Xss4m -Dlog4j2.configurationFile=")
    assert logging_settings({}, {}, quiet=True)[name].endswith("/spark-quiet-log4j2.properties")
    assert logging_settings(debug, {}, quiet=True)[name].endswith("/spark-debug-log4j2.properties")

    own = "-Dlog4j2.configurationFile=file:///mine"
    assert logging_settings({}, {name: own}) == {name: own}
    (tmp_path / "log4j2.properties").touch()
    assert "log4j2" not in logging_settings({"SPARK_CONF_DIR": str(tmp_path)}, {})[name]
