"""One real Kafka broker, a KRaft node that is its own controller, on the loopback."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hivesink.config.cache import write_atomically
from hivesink.embedded.process import HOST, Launch, free_port, run_once
from hivesink.embedded.server import EmbeddedServer
from hivesink.jvm.jars import KAFKA_BROKER, fetch
from hivesink.jvm.java import find_java

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

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


class EmbeddedKafka(EmbeddedServer):
    """A broker for the length of a `with` block; its topics stay in `folder` for the next one.

    It doesn't create topics by itself. Raises ServerFailed, JarsUnavailable, JavaNotFound.
    """

    name = "the embedded Kafka broker"

    @property
    def bootstrap(self) -> str:
        """The `host:port` for `bootstrap.servers`."""
        return self.address

    def _launch(self, port: int) -> Launch:
        self.folder.mkdir(parents=True, exist_ok=True)
        java = (find_java().program, "-cp", os.pathsep.join(map(str, fetch(KAFKA_BROKER))))
        settings = self.folder / "server.properties"
        write_atomically(settings, _properties(self.folder / "topics", port, free_port()))
        if not (self.folder / "topics" / "meta.properties").exists():
            tool = (*java, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(settings))
            run_once("Kafka's storage tool", tool, self.folder / "format.log")
        return Launch(
            name=self.name,
            command=(
                *java,
                *("-Xmx768m", "-Xms128m", "-XX:+UseSerialGC", "-Djava.net.preferIPv4Stack=true"),
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
                # This logger's line says when the broker is ready.
                "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
                *("kafka.Kafka", str(settings)),
            ),
            log=self.folder / "broker.log",
            ready="Kafka Server started",
        )


def _properties(topics: Path, port: int, controller: int) -> str:
    properties = {
        "controller.quorum.voters": f"1@{HOST}:{controller}",
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "log.dirs": topics,
        **BROKER,
    }
    return "".join(f"{name}={value}\n" for name, value in properties.items())
