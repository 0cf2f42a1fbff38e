"""Where a job's session gets its master, its metastore and its settings from."""

from __future__ import annotations

import os
import re
import tempfile
from typing import TYPE_CHECKING, Any

import pytest

from hivesink.errors import InvalidOption, JavaFailed
from hivesink.spark.session import LOGGING, Choice, choose, given_settings, logging_settings, start

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from hivesink.config.site import Site

URI = "spark.hadoop.hive.metastore.uris"


def chosen(
    environ: Mapping[str, str],
    given: Mapping[str, str] | None = None,
    *,
    hive: int = 3,
    spark: int = 4,
    extra: Mapping[str, str] | None = None,
    **arguments: Any,
) -> Choice:
    """What a session is started with, before a metastore of that version."""

    def version(uri: str, site: Site) -> tuple[int, ...]:
        assert uri == arguments.get("metastore", uri)
        assert site is not None
        return (hive, 0, 1)

    return choose(environ, {**(given or {}), **(extra or {})}, **arguments, hive=version, spark=spark)


def conf(folder: Path, **properties: str) -> str:
    entries = "".join(
        f"<property><name>{name.replace('_', '.')}</name><value>{value}</value></property>"
        for name, value in properties.items()
    )
    for name in ("core-site.xml", "hive-site.xml"):
        (folder / name).write_text(f"<configuration>{entries}</configuration>")
    return str(folder)


def test_the_sites_files_say_all_that_is_needed(tmp_path: Path) -> None:
    site = conf(
        tmp_path,
        hive_metastore_uris="thrift://a:1,thrift://b:2",
        fs_defaultFS="hdfs://ns",
        metastore_warehouse_dir="/w",
    )
    found = chosen({"HADOOP_CONF_DIR": site})
    assert found.master == "local[2]"
    assert found.settings[URI] == "thrift://a:1,thrift://b:2"
    assert found.settings["spark.sql.warehouse.dir"] == "hdfs://ns/w"


def test_who_wins(tmp_path: Path) -> None:
    environ = {"HIVE_CONF_DIR": conf(tmp_path, hive_metastore_uris="thrift://files")}
    given = {URI: "thrift://defaults", "spark.master": "spark://defaults:1", "spark.cores.max": "2"}
    said = {"SPARK_MASTER": "spark://environment:1", "HIVESINK_METASTORE": "thrift://environment"}
    argument = chosen(
        {**environ, **said}, given, metastore="thrift://argument", master="local[1]", extra={"spark.cores.max": "3"}
    )
    # The JVM of spark-submit runs already, on its own master.
    submitted = chosen({**environ, **said, "PYSPARK_GATEWAY_PORT": "1"}, given)
    found = [chosen(environ), chosen(environ, given), chosen({**environ, **said}, given), submitted, argument]
    assert [(choice.master, choice.settings[URI]) for choice in found] == [
        ("local[2]", "thrift://files"),
        ("spark://defaults:1", "thrift://defaults"),
        ("spark://environment:1", "thrift://environment"),
        ("spark://defaults:1", "thrift://environment"),
        ("local[1]", "thrift://argument"),
    ]
    assert [choice.settings.get("spark.cores.max") for choice in found] == [None, "2", "2", "2", "3"]


@pytest.mark.parametrize(
    ("master", "loopback"),
    [
        ("local[3]", True),
        ("spark://127.0.0.1:7077", True),
        ("spark://localhost:7077", True),
        ("spark://[::1]:7077", True),
        ("spark://a.example:7077", False),
        ("yarn", False),
    ],
)
def test_the_driver_is_on_the_loopback_only_beside_its_executors(master: str, *, loopback: bool) -> None:
    found = chosen({}, master=master, metastore="thrift://m")
    assert ("spark.driver.host" in found.settings) is loopback


def test_no_metastore_anywhere_says_what_to_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIVESINK_HOME", str(tmp_path / "none"))
    with pytest.raises(InvalidOption, match=rf"runs in {tmp_path}/none\. .*`hivesink metastore start`.* HIVE_CONF_DIR"):
        chosen({})


def test_a_metastore_of_hive_4_gets_its_own_client() -> None:
    version, jars = "spark.sql.hive.metastore.version", "spark.sql.hive.metastore.jars.path"
    named = "spark.hadoop.hive.session.id"
    assert not {version, named} & chosen({}, metastore="thrift://m", hive=3).settings.keys()
    assert chosen({}, metastore="thrift://m", hive=4, extra={named: "mine"}).settings[named] == "mine"
    found = chosen({}, metastore="thrift://m", hive=4).settings
    assert found[version] == "4.0.1"
    assert "hive-exec-4.0.1.jar" in found[jars]
    assert jars not in chosen({}, metastore="thrift://m", hive=4, extra={version: "3.1.3"}).settings
    # Spark 3.5 has no client of Hive 4, and goes on with its own.
    assert version not in chosen({}, metastore="thrift://m", hive=4, spark=3).settings


def test_the_users_own_jars_stay(tmp_path: Path) -> None:
    environ = {"HIVE_CONF_DIR": conf(tmp_path, hive_metastore_uris="thrift://files")}
    own = {"spark.jars": "mine.jar", "spark.driver.extraClassPath": "mine/*"}
    cluster = chosen(environ, own, kafka=True, master="spark://a.example:7077").settings
    jars = cluster["spark.jars"].split(",")
    assert jars[0] == "mine.jar"
    assert any("spark-sql-kafka" in jar for jar in jars[1:])
    assert cluster["spark.driver.extraClassPath"] == "mine/*"
    # Local mode has the connector on its class path.
    local = chosen(environ, own, kafka=True).settings
    *jars, last = local["spark.driver.extraClassPath"].split(":")
    assert any("spark-sql-kafka" in jar for jar in jars)
    assert (last, local["spark.jars"]) == ("mine/*", "mine.jar")


def test_the_class_path_is_the_same_for_all_local_sessions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    name = "spark.driver.extraClassPath"
    with_kafka = chosen({}, metastore="thrift://m", kafka=True).settings[name]
    assert chosen({}, metastore="thrift://m").settings[name] == with_kafka
    # Who never asked for Kafka fetches nothing.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert chosen({}, metastore="thrift://m").settings[name] == ""
    assert "spark.jars" not in chosen({}, metastore="thrift://m", master="yarn").settings


def test_workers_of_this_machine_are_forked_ready() -> None:
    name = "spark.python.daemon.module"
    assert chosen({}, metastore="thrift://m").settings[name] == "hivesink.spark.daemon"
    # Executors' daemons start before they have the package.
    assert name not in chosen({}, metastore="thrift://m", master="spark://127.0.0.1:7077").settings


def test_workers_of_this_machine_are_spoken_to_by_unix_sockets_where_their_path_is_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = "spark.python.unix.domain.socket.enabled"
    monkeypatch.setattr(tempfile, "tempdir", "/short")
    assert chosen({}, metastore="thrift://m").settings[name] == "true"
    # Executors may have no such folder.
    assert name not in chosen({}, metastore="thrift://m", master="yarn").settings
    monkeypatch.setattr(tempfile, "tempdir", f"/{'long' * 20}")
    assert chosen({}, metastore="thrift://m").settings[name] == "false"


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
    name = "spark.driver.extraJavaOptions"
    assert logging_settings({}, {})[name].endswith("/spark-errors-log4j2.properties")
    silent = re.findall(r"^logger\.(\w+)\.name *= *(\S+)\nlogger\.\1\.level *= *off$", LOGGING["errors"], re.MULTILINE)
    assert {logger for _, logger in silent} == {
        "org.apache.spark.TaskContextImpl",
        "org.apache.spark.broadcast.TorrentBroadcast",
        "org.apache.spark.executor.Executor",
        "org.apache.spark.scheduler.TaskSetManager",
        "org.apache.spark.sql.execution.datasources.FileFormatWriter",
        "org.apache.spark.sql.execution.streaming",
    }
    # Other options of the user's are kept beside it.
    assert logging_settings({}, {name: "-Xss4m"})[name].startswith("-Xss4m -Dlog4j2.configurationFile=")
    assert logging_settings({}, {}, quiet=True)[name].endswith("/spark-quiet-log4j2.properties")
    assert "rootLogger.level = off" in (tmp_path / "cache" / "hivesink" / "spark-quiet-log4j2.properties").read_text()
    debug = logging_settings({"HIVESINK_DEBUG": "1"}, {}, quiet=True)
    assert debug[name].endswith("/spark-debug-log4j2.properties")
    assert debug["spark.ui.showConsoleProgress"] == "true"

    own = "-Dlog4j2.configurationFile=file:///mine"
    assert logging_settings({}, {name: own}) == {name: own}
    (tmp_path / "log4j2.properties").touch()
    assert "log4j2" not in logging_settings({"SPARK_CONF_DIR": str(tmp_path)}, {})[name]


def test_a_machine_that_spark_cant_start_on_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    def ended(_: object) -> None:
        message = "[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number."
        raise PySparkRuntimeError(message)

    monkeypatch.setenv("JAVA_HOME", os.environ.get("JAVA_HOME", ""))
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", ended)
    with pytest.raises(JavaFailed, match=r"^/\S+/bin/java ended before .*: mostly an option that it"):
        start("x", "local[1]", {})
