"""The Python of the docs, as it is printed, with the names that its page has at that place."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hivesink import HiveSink
from hivesink.embedded.metastore import EmbeddedMetastore
from hivesink.hiveql.apply import apply
from hivesink.hiveql.parse import parse_path
from hivesink.metastore import catalog
from tests.docs.pages import ROOT, Block, blocks_run_by
from tests.integration.stage import Topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(one: Block, **names: object) -> dict[str, Any]:
    """Execute a block, with demo as a database of these tests; return its names."""
    exec(compile(one.text.replace("demo.", "docs."), str(one), "exec"), names)  # noqa: S102  the docs are our own
    return names


@pytest.fixture
def declared(
    spark: SparkSession, metastore: EmbeddedMetastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> SparkSession:
    """The session, with a table like demo.userinfo in the database docs."""
    monkeypatch.setenv("HIVESINK_METASTORE", metastore.uri)
    ddl = tmp_path / "userinfo.sql"
    ddl.write_text((ROOT / "ddl" / "userinfo.sql").read_text(encoding="utf-8").replace("demo.", "docs."))
    apply(parse_path(ddl), catalog(metastore.uri))
    return spark


@pytest.mark.spark
@pytest.mark.kafka
def test_a_line_for_each_batch(
    declared: SparkSession, kafka: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = Topic.create(kafka, "users-of-the-docs", 1)
    topic.put_raw([(0, b'{"userId": 1, "userName": "a"}')])
    (one,) = blocks_run_by(__file__, "docs/python.md")
    sink = run(one, spark=declared, HiveSink=HiveSink)["sink"]
    stream, now = topic.stream(declared), {"availableNow": True}
    sink.start(stream, checkpoint=str(tmp_path / "checkpoint"), trigger=now).awaitTermination()
    assert capsys.readouterr().out.splitlines()[0].split()[1] == "1"


# An HDFS of its own; each run of the suite has a cluster, by the same class.
@pytest.mark.long
def test_servers_for_a_test(tmp_path: Path) -> None:
    (one,) = blocks_run_by(__file__, "CONTRIBUTING.md")
    cluster = run(one, folder=tmp_path)["cluster"]
    assert not cluster.servers.namenode.alive
