"""A broker with TLS that asks for a login: who gets in, and one line for who doesn't."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from hivesink import sources
from hivesink.cli.codes import code_of
from hivesink.errors import HiveSinkError
from hivesink.sample.source import sample_topic
from hivesink.spark.running import driver_jvm
from jobs.cluster import Cluster
from jobs.cluster.kafka import EmbeddedKafka, create_topic, write_properties
from jobs.cluster.kafka_logins import SCRAM, KafkaLogins
from tests.secure.site import kdc_of
from tests.secure.test_logins import without_kdc

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KRB5, TOPIC = "java.security.krb5.conf", "behind_tls"
UNTRUSTED = {"ssl.truststore.location": "", "ssl.truststore.password": ""}


@pytest.fixture
def logins(alice: Cluster, spark: SparkSession) -> Iterator[KafkaLogins]:
    """Those of the secured broker, which has the topic; this JVM knows the key server."""
    broker, system = alice.servers.broker, driver_jvm(spark).java.lang.System
    broker.start()
    if create_topic(broker.address, TOPIC, login=broker.login):
        producer = Producer({"bootstrap.servers": broker.address, **broker.login})
        producer.produce(TOPIC, b'{"id": 1}')
        assert producer.flush(60) == 0
    system.setProperty(KRB5, f"{kdc_of(alice).folder}/krb5.conf")
    assert broker.logins
    yield broker.logins
    system.clearProperty(KRB5)


def client(logins: KafkaLogins, user: str, mechanism: str) -> dict[str, str]:
    found = logins.client(user, mechanism)
    # It may have run before it knew the key server.
    return found | {
        "sasl.jaas.config": found["sasl.jaas.config"].replace("required", "required refreshKrb5Config=true")
    }


@pytest.mark.parametrize("mechanism", [SCRAM, "GSSAPI"])
def test_by_a_file_of_kafkas_own_tools(  # noqa: PLR0917  fixtures
    alice: Cluster,
    logins: KafkaLogins,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mechanism: str,
) -> None:
    """For commands, and for jobs that are the same anywhere."""
    write_properties(tmp_path / "client.properties", client(logins, "alice", mechanism))
    monkeypatch.setenv("HIVESINK_KAFKA_CONFIG", str(tmp_path / "client.properties"))
    said = rf"answers by SASL_SSL, {mechanism}, with metadata\.version [1-9]\d* and the brokers {alice.kafka}"
    assert re.fullmatch(said, sources.brokers(spark, alice.kafka))
    assert sample_topic(spark, alice.kafka, TOPIC, 10).records() == [b'{"id": 1}']
    assert "value" in sources.kafka(spark, alice.kafka, TOPIC).columns


@pytest.mark.parametrize(
    ("user", "mechanism", "changes", "code", "words"),
    [
        ("carol", SCRAM, {}, 65, "HS070 .*invalid credentials .*mend kafka.security.protocol"),
        (
            "alice",
            SCRAM,
            UNTRUSTED,
            65,
            "HS070 .*valid certification path.*kafka.ssl",
        ),
        ("alice", SCRAM, {"ssl.truststore.location": "none"}, 65, "HS002 .*NoSuchFileException: none"),
        ("bob", SCRAM, {}, 65, f"HS002 .*topic {TOPIC} .*authorization failed"),
        ("bob", "GSSAPI", {}, 65, f"HS002 .*topic {TOPIC} .*authorization failed"),
        ("carol", "GSSAPI", {}, 65, "HS070 .*LoginException: Could not login"),
        ("alice", "GSSAPI", {"sasl.kerberos.service.name": "none"}, 65, "HS070 .*Server not found"),
        ("alice", SCRAM, {"sasl.mechanism": "SCRAM-SHA-256"}, 65, "HS070 .*SCRAM-SHA-256"),
        ("alice", SCRAM, {"security.protocol": "PLAINTEXT"}, 75, "HS014 .*is kafka.security.protocol theirs"),
    ],
)
def test_who_does_not_get_in(  # noqa: PLR0917  a table's columns
    alice: Cluster,
    logins: KafkaLogins,
    spark: SparkSession,
    user: str,
    mechanism: str,
    changes: Mapping[str, str],
    code: int,
    words: str,
) -> None:
    refused(spark, alice.kafka, client(logins, user, mechanism) | dict(changes), code, words)


def test_a_key_server_that_is_down(alice: Cluster, logins: KafkaLogins, spark: SparkSession, tmp_path: Path) -> None:
    driver_jvm(spark).java.lang.System.setProperty(KRB5, without_kdc(alice, tmp_path))
    # Alice's consumers are still logged in.
    refused(spark, alice.kafka, client(logins, "bob", "GSSAPI"), 75, "HS070 .*is the KDC running")


@pytest.mark.long
def test_a_broker_that_is_plain(logins: KafkaLogins, spark: SparkSession, tmp_path: Path) -> None:
    with EmbeddedKafka(tmp_path / "plain") as broker:
        refused(spark, broker.address, client(logins, "alice", SCRAM), 75, "HS014 .*is kafka.security.protocol theirs")


def refused(spark: SparkSession, servers: str, settings: Mapping[str, str], code: int, words: str) -> None:
    seconds = {"default.api.timeout.ms": "2500", "request.timeout.ms": "2000"}
    options = {f"kafka.{name}": text for name, text in {**settings, **seconds}.items() if text}
    with pytest.raises(HiveSinkError) as raised:
        sources.kafka(spark, servers, TOPIC, options=options)
    text = f"{raised.value.code} {raised.value}"
    assert (code_of(raised.value), "\n" in text) == (code, False), text
    assert re.search(words, text), text
