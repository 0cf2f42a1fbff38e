"""Topics in Avro and Protobuf through a real registry, broker and Spark: schemas, faults, kills, what init makes."""

from __future__ import annotations

import io
import json
import os
import runpy
import tarfile
from collections.abc import Iterator
from datetime import datetime, timezone
from decimal import Decimal
from hashlib import sha1
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import fastavro
import pytest

from hivesink.config.cache import made_once
from hivesink.config.options import SinkConfig
from hivesink.core.table import TableName
from hivesink.embedded.server import HOST, Launch
from hivesink.errors import HiveSinkError, SourceUnreachable
from hivesink.jvm.jars import MAVEN_CENTRAL
from hivesink.jvm.java import find_java
from hivesink.registry import Registry
from hivesink.sample.source import TopicSource, sample_topic
from hivesink.sample.tables import job_text, propose
from hivesink.tables.opened import open_table
from hivesink.tables.rejects import DeadLetters, Replay
from jobs.cluster.server import EmbeddedServer
from tests.decode.test_avro import written
from tests.decode.test_debezium import EVENTS, IN_AVRO, SEEN, ZONE, envelope, in_avro
from tests.integration.stage import Stage, Topic

pytestmark = [pytest.mark.spark, pytest.mark.kafka]
URL = "sink.value.avro-confluent.url"
FIELDS = [
    {"name": "id", "type": "long"},
    {"name": "name", "type": ["null", "string"], "default": None},
    {"name": "dt", "type": {"type": "int", "logicalType": "date"}},
]
OLD: dict[str, Any] = {"type": "record", "name": "Event", "fields": FIELDS}
AMOUNT = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
NEW = {**OLD, "fields": [{"name": "amount", "type": ["null", AMOUNT], "default": None}, *FIELDS]}
NEWEST = {**OLD, "fields": [*FIELDS, {"name": "more", "type": "double", "default": 0}]}
KEY: dict[str, Any] = {"type": "record", "name": "Key", "fields": [{"name": "device", "type": "string"}]}
FIRST_DAY = 19_724
"""2024-01-02, from 1970-01-01 on."""


VERSION = "2.6.13.Final"
_SHA1 = "28b56c85372e66e9ebcf569a31ad6b643e2bf33e"
_FLAGS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx384m")


def _unpacked(scratch: Path) -> Path:
    repository = os.environ.get("HIVESINK_MAVEN_URL") or MAVEN_CENTRAL
    name = f"apicurio-registry-app-{VERSION}-all.tar.gz"
    url = f"{repository.rstrip('/')}/io/apicurio/apicurio-registry-app/{VERSION}/{name}"
    with urlopen(url, timeout=60) as answer:  # noqa: S310 -- Maven Central
        data = answer.read()
    assert sha1(data, usedforsecurity=False).hexdigest() == _SHA1
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extractall(scratch / "apicurio")  # noqa: S202 -- of that checksum
    return scratch / "apicurio"


class Apicurio(EmbeddedServer):
    """A real schema registry with Confluent's API, on the loopback. It forgets all when it ends."""

    name = "the schema registry"
    keeps_port = True

    @property
    def url(self) -> str:
        return f"http://{self.address}/apis/ccompat/v7"

    def _launch(self, port: int) -> Launch:
        folder = made_once(f"apicurio-{VERSION}", _unpacked)
        (jar,) = folder.rglob("apicurio-registry-app-*-runner.jar")
        listen = (f"-Dquarkus.http.host={HOST}", f"-Dquarkus.http.port={port}")
        command = (find_java().program, *_FLAGS, *listen, "-jar", str(jar))
        return Launch(command, self.folder / "apicurio.log", ready="Listening on: http")

    def register(self, subject: str, schema: Any, **more: Any) -> int:
        """The number of the schema, which may be a text."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        body = json.dumps({"schema": text, **more}).encode()
        headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
        url = f"{self.url}/subjects/{subject}/versions"
        with urlopen(Request(url, body, headers), timeout=30) as answer:  # noqa: S310 -- the loopback
            return int(json.load(answer)["id"])


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apicurio]:
    with Apicurio(tmp_path_factory.mktemp("registry")) as registry:
        yield registry


def framed(number: int, schema: dict[str, Any], n: int) -> bytes:
    stream = io.BytesIO()
    value: dict[str, Any] = {
        "id": n,
        "name": f"n{n}" if n % 3 else None,
        "dt": FIRST_DAY + n % 2,
        "amount": None,
        "more": 0.5,
        "device": f"d{n % 4}",
    }
    if n % 5:
        value["amount"] = Decimal(n) / 100
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return b"\0" + number.to_bytes(4, "big") + stream.getvalue()


def row(n: int, *, is_new: bool) -> tuple[Any, ...]:
    amount = f"{n / 100:.2f}" if is_new and n % 5 else None
    return n, f"n{n}" if n % 3 else None, amount, f"d{n % 4}", f"2024-01-0{2 + n % 2}"


def rows(stage: Stage) -> list[tuple[Any, ...]]:
    columns = "id, name, CAST(amount AS STRING), device, CAST(dt AS STRING)"
    return sorted(map(tuple, stage.query(f"SELECT {columns} FROM {stage.table}")))


def test_a_rollout_of_schemas_is_read_once_whatever_becomes_of_the_registry(
    stage: Stage, topic: Topic, registry: Apicurio
) -> None:
    settings = {
        "sink.value.format": "avro-confluent",
        URL: registry.url,
        "sink.key.format": "avro-confluent",
        URL.replace("value", "key"): registry.url,
        "sink.column.device.from": "kafka.key.$.device",
        "sink.on-bad-record": "dead-letter",
        "sink.rolling-policy.on-epoch": "true",
    }
    columns, by_day = "id BIGINT, name STRING, amount DECIMAL(9,2), device STRING", "PARTITIONED BY (dt DATE)"
    stage.create(columns=columns, partitioned=by_day, properties=settings)
    old, new = registry.register("events-value", OLD), registry.register("events-value", NEW)
    assert registry.register("events-value", OLD) == old != new
    key = registry.register("events-key", KEY)
    schemas = {0: (old, OLD), 1: (new, NEW)}
    topic.put_raw([(n % 2, framed(*schemas[n // 2 % 2], n), framed(key, KEY, n)) for n in range(40)])
    expected = [row(n, is_new=bool(n // 2 % 2)) for n in range(40)]

    registry.stop()
    with pytest.raises(SourceUnreachable, match="the schema registry"):
        Registry(SinkConfig.parse(settings)).schema(old)
    with pytest.raises(HiveSinkError, match="the schema registry") as away:
        stage.drain(events=topic.stream(stage.spark))
    assert away.value.retryable
    assert rows(stage) == []

    registry.start()
    assert [registry.register("events-value", schema) for schema in (OLD, NEW, KEY)] == [old, new, key]
    stage.killed(topic.stream(stage.spark))
    registry.stop()
    stage.drain(events=topic.stream(stage.spark))
    assert rows(stage) == expected

    # The next one's number, which nobody has registered yet.
    registry.start()
    assert [registry.register("events-value", schema) for schema in (OLD, NEW, KEY)] == [old, new, key]
    unknown = key + 1
    later = [(0, framed(unknown, NEWEST, 40), framed(key, KEY, 40)), (1, framed(old, OLD, 41), framed(key, KEY, 41))]
    topic.put_raw([*later, (1, b"{}"), (0, None)])
    with pytest.raises(HiveSinkError, match=f"hasn't known schema {unknown} since") as waiting:
        stage.drain(events=topic.stream(stage.spark))
    assert waiting.value.retryable
    assert rows(stage) == expected
    impatient = stage.sink(options={"sink.value.avro-confluent.unknown-id-timeout": "0s"})
    stage.drain(impatient, topic.stream(stage.spark))
    assert rows(stage) == [*expected, row(41, is_new=False)]
    letters = stage.query(f"SELECT reason FROM {stage.table}__rejected ORDER BY reason")
    assert [letter.reason for letter in letters] == [
        "its schema is not in the registry",
        "no schema number: not of Confluent's format",
    ]

    assert registry.register("events-value", NEWEST) == unknown
    with open_table(stage.table, stage.uri) as opened:
        again = Replay(DeadLetters(opened))
        replayed = again.run(again.try_out()[0].parts)
    # The other letter is in another task's file.
    assert replayed.rows == 1
    stage.spark.catalog.refreshTable(stage.table)
    assert rows(stage) == [*expected, row(40, is_new=False), row(41, is_new=False)]
    stage.verify()


def test_a_table_and_a_job_that_init_makes_of_a_topic_of_changes(
    stage: Stage, topic: Topic, registry: Apicurio, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema, form = envelope(IN_AVRO), "debezium-avro-confluent"
    frame = b"\0" + registry.register("rows-value", schema).to_bytes(4, "big")
    topic.put_raw([*((0, frame + written(schema, in_avro(event))) for event in EVENTS), (1, None)])
    settings = {"sink.value.format": form, f"sink.value.{form}.url": registry.url}
    sample, name = sample_topic(stage.spark, topic.servers, topic.name, 100), TableName.parse(stage.table)
    made = propose(sample, name, "topic", datetime.now(timezone.utc), time=None, every="day", settings=settings)
    assert (len(made.checked.rows), made.checked.bad, made.checked.skipped) == (len(EVENTS), (), 1)
    stage.create(made.ddl)
    job = stage.folder / "job.py"
    job.write_text(job_text(job, TopicSource(topic.servers, topic.name), made.spec), encoding="utf-8")
    for variable, value in {"TRIGGER": "availableNow", "HIVESINK_METASTORE": stage.uri}.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv("CHECKPOINT", str(stage.checkpoint))
    runpy.run_path(str(job), run_name="__main__")
    columns = "op, id, CAST(balance AS STRING), CAST(born AS STRING), seen, zone, record_offset, dt"
    rest = "1815-12-10", SEEN, ZONE
    assert sorted(map(tuple, stage.query(f"SELECT {columns} FROM {stage.table}"))) == [
        ("c", 1, "123.45", *rest, 0, "2024-03-05"),
        ("d", 1, "2.26", *rest, 2, "2024-03-05"),
        ("r", 2, "123.45", *rest, 3, "2024-03-05"),
        ("u", 1, "2.26", *rest, 1, "2024-03-05"),
    ]
    stage.verify()


KINDS = """syntax = "proto3"; package k;
enum Kind { A = 0; B = 1; }
"""
BEFORE = """syntax = "proto3"; import "k/kinds.proto";
message Other { string id = 1; }
message Event { int64 id = 1; k.Kind kind = 2; optional string name = 3; }
"""
AFTER = """syntax = "proto3"; import "google/protobuf/timestamp.proto"; import "k/kinds.proto";
message Event { google.protobuf.Timestamp at = 4; k.Kind kind = 5; int64 id = 6; }
"""


def test_messages_of_two_schemas_are_read_once_and_without_the_registry(
    stage: Stage, topic: Topic, registry: Apicurio
) -> None:
    kept = {"sink.value.format": "protobuf-confluent", "sink.value.protobuf-confluent.url": registry.url}
    kept |= {"sink.on-bad-record": "dead-letter", "sink.rolling-policy.on-epoch": "true"}
    columns, by_kind = "id BIGINT, name STRING, at TIMESTAMP", "PARTITIONED BY (kind STRING)"
    stage.create(columns=columns, partitioned=by_kind, properties=kept)
    of_protobuf = {"schemaType": "PROTOBUF"}
    registry.register("kinds", KINDS, **of_protobuf)
    refers = [{"name": "k/kinds.proto", "subject": "kinds", "version": 1}]
    before, after = (registry.register("messages", text, references=refers, **of_protobuf) for text in (BEFORE, AFTER))
    heads = [b"\0" + number.to_bytes(4, "big") for number in (before, after)]
    # The second message of the first schema; `at` has 2 seconds and 3000 nanoseconds.
    old = [heads[0] + b"\2\2" + bytes([8, n, 16, n % 2]) + b"\x1a\1x" * (n % 3 > 0) for n in range(20)]
    new = [heads[1] + b"\0" + bytes([0x22, 5, 8, 2, 16, 0xB8, 0x17, 40, n % 2, 48, n]) for n in range(20, 40)]
    topic.put_raw(
        [(n % 2, record) for n, record in enumerate([*old, *new, heads[0] + b"\2\2\x08", heads[1] + b"\0(\7"])]
    )
    stage.killed(topic.stream(stage.spark))
    registry.stop()
    stage.drain(events=topic.stream(stage.spark))

    read = stage.query(f"SELECT id, name, CAST(at AS STRING) AS at, kind FROM {stage.table}")
    at = "1970-01-01 00:00:02.000003"
    expected = [(n, "x" if n < 20 and n % 3 else None, at if n >= 20 else None, "AB"[n % 2]) for n in range(40)]
    assert sorted(map(tuple, read)) == expected
    letters = stage.query(f"SELECT reason FROM {stage.table}__rejected ORDER BY reason")
    assert [letter.reason for letter in letters] == ["not of its schema", "unknown enum number"]
    stage.verify()
