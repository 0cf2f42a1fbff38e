"""One real Kafka broker, a KRaft node that is its own controller, on the loopback; and topics of any broker."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from hivesink.config.cache import write_atomically
from hivesink.embedded.server import HOST, POLL_SECONDS, Launch, free_port
from hivesink.errors import SourceUnreachable
from hivesink.jvm.jars import fetch
from hivesink.jvm.java import find_java
from jobs.cluster.kafka_logins import PROTOCOL, KafkaLogins
from jobs.cluster.server import EmbeddedServer
from jobs.cluster.settings import KAFKA_JARS
from jobs.cluster.tool import run_once

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

# Any ID will do: a cluster of one meets no other.
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
BROKER: Mapping[str, str] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    # A cluster of one can't replicate its internal topics.
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    # Events with old timestamps are accepted, and kept.
    "log.retention.ms": "-1",
    "log.message.timestamp.before.max.ms": str(2**63 - 1),
}
"""The settings of such a broker that hold wherever it runs."""
WAIT = 30.0
"""Seconds that brokers may take to answer."""


class EmbeddedKafka(EmbeddedServer):
    """A broker for the length of a `with` block; its topics stay in `folder` for the next one.

    It doesn't create topics by itself. With a `kdc` it asks for TLS, and for a login by Kerberos or SCRAM; others may
    be its clients by `client.properties`, a file for Kafka's own. Raises ServerFailed, SourceUnreachable, JavaFailed.
    """

    name = "the embedded Kafka broker"

    @property
    def logins(self) -> KafkaLogins | None:
        """Who may be its client by what; None: everybody."""
        return KafkaLogins(self.folder, self.kdc.keytab) if self.kdc else None

    @property
    def login(self) -> Mapping[str, str]:
        """What librdkafka's clients need besides the address."""
        return self.logins.librdkafka() if self.logins else {}

    @property
    def client_properties(self) -> Path:
        """What Kafka's own clients need besides the address; there is no such file where that is nothing."""
        return self.folder / "client.properties"

    @property
    def bootstrap(self) -> str:
        """The `host:port` for `bootstrap.servers`."""
        return self.address

    def _launch(self, port: int) -> Launch:
        self.folder.mkdir(parents=True, exist_ok=True)
        java = (find_java().program, "-cp", os.pathsep.join(map(str, fetch(KAFKA_JARS))))
        settings, logins = self.folder / "server.properties", self.logins
        properties = _properties(self.folder / "topics", port, free_port(), PROTOCOL if logins else "PLAINTEXT")
        if logins:
            logins.make()
            properties |= {"advertised.listeners": f"{PROTOCOL}://{self.host}:{port}", **logins.broker()}
            write_properties(self.client_properties, logins.client())
        write_properties(settings, properties)
        if not (self.folder / "topics" / "meta.properties").exists():
            words = ("format", "-t", CLUSTER_ID, "-c", str(settings), *(logins.scram() if logins else ()))
            # As a file: command lines are for all to see.
            write_atomically(self.folder / "format", "\n".join(words), mode=0o600)
            tool = (*java, "kafka.tools.StorageTool", f"@{self.folder / 'format'}")
            run_once("Kafka's storage tool", tool, self.folder / "format.log")
        return Launch(
            command=(
                *java,
                *("-Xmx768m", "-Xms128m", "-XX:+UseSerialGC", "-Djava.net.preferIPv4Stack=true"),
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
                # This logger's line says when the broker is ready.
                "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
                *(self.kdc.java if self.kdc else ()),
                *("kafka.Kafka", str(settings)),
            ),
            log=self.folder / "broker.log",
            ready="Kafka Server started",
        )


def write_properties(file: Path, properties: Mapping[str, str]) -> None:
    """A file of Java's, for its owner alone."""
    write_atomically(file, "".join(f"{name}={value}\n" for name, value in properties.items()), mode=0o600)


def _properties(topics: Path, port: int, controller: int, protocol: str) -> dict[str, str]:
    return {
        "controller.quorum.voters": f"1@{HOST}:{controller}",
        "listeners": f"{protocol}://{HOST}:{port},CONTROLLER://{HOST}:{controller}",
        "advertised.listeners": f"{protocol}://{HOST}:{port}",
        "log.dirs": str(topics),
        # Twice a second, by default, its controller writes down that nothing has happened.
        "metadata.max.idle.interval.ms": "0",
        **BROKER,
    }


def admin_client(servers: str, **login: str) -> AdminClient:
    """Kafka's admin client for a `with` statement, which ends it; `login` as `EmbeddedKafka.login`.

    Where Python drops the last reference to a client in the client's own thread, where answers arrive, librdkafka
    aborts the process (confluent-kafka-python #2131).
    """
    from confluent_kafka.admin import AdminClient

    # Errors are raised; the client need not log them as well.
    return AdminClient({"bootstrap.servers": servers, "log_level": 0, **login})


def create_topic(servers: str, topic: str, partitions: int = 1, *, login: Mapping[str, str] | None = None) -> bool:
    """Create `topic` unless it exists, and wait until it can be used. Return whether it was created.

    `login` as `EmbeddedKafka.login`. Raises SourceUnreachable.
    """
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import NewTopic

    created = True
    try:
        with admin_client(servers, **(login or {})) as admin:
            admin.create_topics([NewTopic(topic, partitions, 1)], request_timeout=WAIT)[topic].result()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise SourceUnreachable(_name(servers, topic), error.args[0].str()) from error
        created = False
    end_offsets(servers, topic, partitions, login=login)
    return created


def end_offsets(
    servers: str, topic: str, partitions: int, *, within: float = WAIT, login: Mapping[str, str] | None = None
) -> dict[int, int]:
    """Return each partition's end offset. Raises SourceUnreachable if a leader doesn't answer in time.

    A new partition has no leader for a moment, and then one that doesn't know it yet.
    """
    from confluent_kafka import KafkaException, TopicPartition
    from confluent_kafka.admin import OffsetSpec

    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # it has no types
    wanted = {TopicPartition(topic, number): latest for number in range(partitions)}
    deadline = time.monotonic() + within
    with admin_client(servers, **(login or {})) as admin:
        while True:
            offsets: dict[int, int] = {}
            missing: dict[int, str] = {}
            for partition, answer in admin.list_offsets(wanted, request_timeout=within).items():
                try:
                    offsets[partition.partition] = answer.result().offset
                except KafkaException as error:  # noqa: PERF203  each partition has a leader of its own
                    missing[partition.partition] = error.args[0].str()
            if not missing:
                return offsets
            if time.monotonic() >= deadline:
                number, reason = min(missing.items())
                problem = f"the leader of partition {number} didn't answer within {within:g} s: {reason}"
                raise SourceUnreachable(_name(servers, topic), f"{problem}; see the broker's log")
            time.sleep(POLL_SECONDS)


def _name(servers: str, topic: str) -> str:
    return f"topic {topic} of Kafka at {servers}"
