"""The Python of the docs, as it is printed, with the names that its page has at that place."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from hivesink import HiveSink, sources
from hivesink.config.options import check
from hivesink.hiveql.apply import apply
from hivesink.hiveql.parse import parse_path
from hivesink.metastore import catalog
from jobs.cluster.kafka import create_topic
from tests.docs.pages import ROOT, Block, blocks_run_by

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from hivesink.embedded.metastore import EmbeddedMetastore


def run(one: Block, **names: object) -> dict[str, Any]:
    """Execute a block, with localhost:9092 as `broker`, and demo as a database of these tests; return its names."""
    text = one.text.replace("localhost:9092", str(names.get("broker"))).replace("demo.", "docs.")
    exec(compile(text, str(one), "exec"), names)  # noqa: S102  the docs are our own
    return names


@pytest.mark.spark
@pytest.mark.kafka
def test_a_topic_with_headers(spark: SparkSession, kafka: str) -> None:
    (one,) = blocks_run_by(__file__, "docs/types.md")
    create_topic(kafka, "orders")
    events = run(one, spark=spark, sources=sources, broker=kafka)["events"]
    assert events.isStreaming
    assert "headers" in events.columns

    producing, _ = blocks_run_by(__file__, "docs/cluster.md")
    run(producing, broker=kafka)
    options = {"kafka.bootstrap.servers": kafka, "subscribe": "orders", "includeHeaders": "true"}
    (record,) = spark.read.format("kafka").options(**options).load().collect()
    assert (bytes(record.key), record.timestamp.timestamp()) == (b"phone", 1_704_240_000)
    assert [(one.key, bytes(one.value)) for one in record.headers] == [("trace-id", b"a1")]


@pytest.fixture
def declared(
    spark: SparkSession, metastore: EmbeddedMetastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> SparkSession:
    """The session, with docs.userinfo just declared. Whoever else tests with this metastore has demo.userinfo."""
    monkeypatch.setenv("HIVESINK_METASTORE", metastore.uri)
    ddl = tmp_path / "userinfo.sql"
    ddl.write_text((ROOT / "ddl" / "userinfo.sql").read_text(encoding="utf-8").replace("demo.", "docs."))
    apply(parse_path(ddl, check), catalog(metastore.uri))
    return spark


@pytest.mark.spark
@pytest.mark.kafka
def test_a_line_for_each_batch(
    declared: SparkSession, kafka: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    create_topic(kafka, "users-of-the-docs")
    producer = Producer({"bootstrap.servers": kafka})
    producer.produce("users-of-the-docs", b'{"userId": 1, "userName": "a"}')
    assert producer.flush(60) == 0
    (one,) = blocks_run_by(__file__, "docs/python.md")
    sink = run(one, spark=declared, HiveSink=HiveSink)["sink"]
    query = sink.start(
        sources.kafka(declared, kafka, "users-of-the-docs"),
        checkpoint=str(tmp_path / "checkpoint"),
        trigger={"availableNow": True},
    )
    query.awaitTermination()
    assert capsys.readouterr().out.splitlines()[0].split()[1] == "1"


@pytest.mark.spark
@pytest.mark.kafka
def test_two_tables_from_one_stream(
    spark: SparkSession, metastore: EmbeddedMetastore, kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIVESINK_METASTORE", metastore.uri)
    ddl = (ROOT / "ddl" / "userinfo.sql").read_text(encoding="utf-8")
    for table in ("orders", "clicks"):
        (tmp_path / f"{table}.sql").write_text(ddl.replace("demo.userinfo", f"docs.{table}"))
        apply(parse_path(tmp_path / f"{table}.sql", check), catalog(metastore.uri))
    create_topic(kafka, "events")
    producer = Producer({"bootstrap.servers": kafka})
    for number, kind in enumerate(("order", "click", "order", "view")):
        producer.produce("events", f'{{"userId": {number}, "kind": "{kind}"}}'.encode())
    assert producer.flush(60) == 0
    (one,) = blocks_run_by(__file__, "docs/recipes.md")
    here = replace(one, text=one.text.replace("checkpoints/", f"{tmp_path.as_uri()}/"))
    run(here, spark=spark, broker=kafka, sources=sources, HiveSink=HiveSink)
    for table, ids in (("orders", [0, 2]), ("clicks", [1])):
        rows = spark.sql(f"SELECT userid FROM docs.{table} ORDER BY userid")
        assert [row.userid for row in rows.collect()] == ids


def test_servers_for_a_test(tmp_path: Path) -> None:
    _, one = blocks_run_by(__file__, "docs/cluster.md")
    cluster = run(one, folder=tmp_path)["cluster"]
    assert not cluster.servers.namenode.alive
