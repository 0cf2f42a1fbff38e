"""The site's files, read as Hadoop reads them: the last test asks Hadoop itself."""

from __future__ import annotations

import os
import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hivesink.config.site import Site
from hivesink.errors import InvalidOption

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def properties(entries: Mapping[str, str], extra: str = "") -> str:
    """A `*-site.xml` of these properties."""
    body = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>\n" for name, value in entries.items()
    )
    return f'<?xml version="1.0"?>\n<configuration xmlns:xi="http://www.w3.org/2001/XInclude">{body}{extra}</configuration>\n'


def written(folder: Path, **files: str) -> Path:
    """The folder, with `core_site="…"` as its `core-site.xml`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / f"{name.replace('_', '-')}.xml").write_text(text, encoding="utf-8")
    return folder


def test_both_folders(tmp_path: Path) -> None:
    hadoop = written(
        tmp_path / "hadoop",
        core_site=properties({"fs.default.name": "hdfs://nn", "dfs.replication": "1"}),
        hdfs_site=properties({"dfs.replication": " 2 "}),
    )
    hive = written(tmp_path / "hive", hive_site=properties({"hive.metastore.uris": "thrift://a:1,thrift://b:2"}))
    site = Site.load({"HADOOP_CONF_DIR": str(hadoop), "HIVE_CONF_DIR": str(hive)})
    assert site.hadoop == {"fs.defaultFS": "hdfs://nn", "dfs.replication": "2"}
    assert site.metastore_uris == "thrift://a:1,thrift://b:2"
    assert pickle.loads(pickle.dumps(site)) == site  # noqa: S301  its own bytes
    assert Site.load({}) == Site()


@pytest.mark.parametrize("variable", ["HADOOP_CONF_DIR", "SPARK_CONF_DIR"])
def test_other_folders_stand_in_for_hives(tmp_path: Path, variable: str) -> None:
    written(tmp_path / "conf", hive_site=properties({"metastore.thrift.uris": "thrift://four"}))
    environ = {variable: str(tmp_path / "conf"), "HIVE_CONF_DIR": str(written(tmp_path / "empty"))}
    assert Site.load(environ).metastore_uris == "thrift://four"


FIXED = "<property><name>hadoop.a</name><value>3</value><final>true</final></property>"
CORE: dict[str, tuple[str, dict[str, str]]] = {
    "final": (properties({}, FIXED + FIXED.replace("3", "1")), {"hadoop.a": "3"}),
    "variables": (
        properties(
            {
                "cluster": "blue",
                "fs.defaultFS": "hdfs://${cluster}-${env.SITE}",
                "hadoop.user": "${user.name}${env.NONE-/a}${env.EMPTY:-/b}${env.EMPTY-/c}",
                "hadoop.unknown": "${no.such} ${cluster} ${also.not}",
            }
        ),
        {
            "cluster": "blue",
            "fs.defaultFS": "hdfs://blue-north",
            "hadoop.user": "ann/a/b",
            "hadoop.unknown": "${no.such} ${cluster} ${also.not}",
        },
    ),
    "included": (properties({"hadoop.a": "0"}, '<xi:include href="shared.xml"/>'), {"hadoop.a": "1"}),
    # Hadoop's own `get` raises here, for whoever asks for one of the two.
    "circular": (properties({"a": "${b}", "b": "${a}", "c": "1"}), {"a": "${b}", "b": "${a}", "c": "1"}),
}


@pytest.mark.parametrize("name", CORE)
def test_a_file_is_read_as_hadoop_reads_it(tmp_path: Path, name: str) -> None:
    text, hadoop = CORE[name]
    folder = written(tmp_path, core_site=text, shared=properties({"hadoop.a": "1"}))
    environ = {"HADOOP_CONF_DIR": str(folder), "SITE": "north", "USER": "ann", "EMPTY": ""}
    assert Site.load(environ).hadoop == hadoop


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<configuration><property>", "not well-formed"),
        ("", "not well-formed"),
        ("<html/>", "<html>"),
        (properties({}, '<xi:include href="gone.xml"/>'), "gone.xml"),
        (properties({}, '<xi:include href="http://x/y.xml"/>'), "http://x/y.xml"),
        (properties({}, '<xi:include href="core-site.xml"/>'), "recursive include"),
    ],
)
def test_what_is_wrong_names_the_file(tmp_path: Path, text: str, said: str) -> None:
    written(tmp_path, core_site=text)
    with pytest.raises(InvalidOption, match=said) as caught:
        Site.load({"HADOOP_CONF_DIR": str(tmp_path)})
    assert str(tmp_path / "core-site.xml") in str(caught.value)
    assert "\n" not in str(caught.value)


# What Hadoop 3.5's own `Configuration` answers for each, asked in the last test.
SUBTLE = properties(
    {
        "hadoop.one": "1",
        "hadoop.twice": "${hadoop.one}-${hadoop.one}",
        "hadoop.unknown": "${no.such} ${hadoop.one}",
        "hadoop.inner.1": "in",
        "hadoop.nested": "${hadoop.inner.${hadoop.one}}",
        "hadoop.empty": "",
        "hadoop.env": "${env.HIVESINK_NONE-/a}|${env.HIVESINK_NONE:-/b}|${env.PATH}|${env.HIVESINK_NONE}",
        "fs.default.name": "hdfs://an-old-name",
    },
    """
    <property name="hadoop.attribute" value="z"/>
    <property><name>hadoop.final</name><value>first</value><final>true</final></property>
    <property><name>hadoop.final</name><value>second</value></property>
    <property><value>without a name</value></property>
    <property><name>hadoop.bare</name></property>
    """,
)


@pytest.mark.spark
def test_hadoop_itself_reads_the_same(tmp_path: Path, spark: SparkSession) -> None:
    written(tmp_path, core_site=SUBTLE)
    jvm: Any = spark._jvm
    conf = jvm.org.apache.hadoop.conf.Configuration(False)
    conf.addResource(jvm.org.apache.hadoop.fs.Path((tmp_path / "core-site.xml").as_uri()))
    site = Site.load({**os.environ, "HADOOP_CONF_DIR": str(tmp_path)})
    names = re.findall(r'name(?:="|>)([a-z0-9.]+)', SUBTLE)
    assert {name: conf.get(name) for name in names if name != "fs.default.name"} == {
        name: site.hadoop.get(name) for name in names if name != "fs.default.name"
    }
    assert conf.get("fs.defaultFS") == site.default_filesystem == "hdfs://an-old-name"


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    for variable in ("HADOOP_CONF_DIR", "HIVE_CONF_DIR"):
        with pytest.raises(InvalidOption, match=f"gone: {variable} names it"):
            Site.load({variable: str(tmp_path / "gone")})


@pytest.mark.parametrize(("says", "has"), [("", False), ("simple", False), ("Kerberos", True)])
def test_who_asks_for_kerberos(says: str, has: bool) -> None:
    assert Site({"hadoop.security.authentication": says} if says else {}).has_kerberos is has
