"""Which jars a Kafka broker and Spark's Kafka connector are made of, pinned."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JarSet:
    """Jars that are used together; `coordinates` are Maven's `group:artifact:version`, nothing transitive."""

    name: str
    coordinates: tuple[str, ...]


# What `mvn dependency:list` prints for org.apache.kafka:kafka_2.13:4.3.1 and slf4j-simple.
KAFKA_BROKER = JarSet(
    "kafka-broker-4.3.1",
    (
        "at.yawk.lz4:lz4-java:1.10.2",
        "com.dynatrace.hash4j:hash4j:0.22.0",
        "com.fasterxml.jackson.core:jackson-annotations:2.21",
        "com.fasterxml.jackson.core:jackson-core:2.21.2",
        "com.fasterxml.jackson.core:jackson-databind:2.21.2",
        "com.fasterxml.jackson.dataformat:jackson-dataformat-csv:2.21.2",
        "com.fasterxml.jackson.dataformat:jackson-dataformat-yaml:2.21.2",
        "com.fasterxml.jackson.datatype:jackson-datatype-jdk8:2.21.2",
        "com.github.ben-manes.caffeine:caffeine:3.2.0",
        "com.github.luben:zstd-jni:1.5.6-10",
        "com.google.re2j:re2j:1.8",
        "com.typesafe.scala-logging:scala-logging_2.13:3.9.6",
        "com.yammer.metrics:metrics-core:2.2.0",
        "commons-beanutils:commons-beanutils:1.11.0",
        "commons-collections:commons-collections:3.2.2",
        "commons-digester:commons-digester:2.1",
        "commons-logging:commons-logging:1.3.5",
        "commons-validator:commons-validator:1.10.1",
        "net.sf.jopt-simple:jopt-simple:5.0.4",
        "net.sourceforge.argparse4j:argparse4j:0.7.0",
        "org.apache.kafka:kafka-clients:4.3.1",
        "org.apache.kafka:kafka-coordinator-common:4.3.1",
        "org.apache.kafka:kafka-group-coordinator-api:4.3.1",
        "org.apache.kafka:kafka-group-coordinator:4.3.1",
        "org.apache.kafka:kafka-metadata:4.3.1",
        "org.apache.kafka:kafka-raft:4.3.1",
        "org.apache.kafka:kafka-server-common:4.3.1",
        "org.apache.kafka:kafka-server:4.3.1",
        "org.apache.kafka:kafka-share-coordinator:4.3.1",
        "org.apache.kafka:kafka-storage-api:4.3.1",
        "org.apache.kafka:kafka-storage:4.3.1",
        "org.apache.kafka:kafka-tools-api:4.3.1",
        "org.apache.kafka:kafka-transaction-coordinator:4.3.1",
        "org.apache.kafka:kafka_2.13:4.3.1",
        "org.apache.logging.log4j:log4j-api:2.25.4",
        "org.apache.logging.log4j:log4j-core:2.25.4",
        "org.bitbucket.b_c:jose4j:0.9.6",
        "org.hdrhistogram:HdrHistogram:2.2.2",
        "org.jspecify:jspecify:1.0.0",
        "org.pcollections:pcollections:4.0.2",
        "org.scala-lang:scala-library:2.13.18",
        "org.scala-lang:scala-reflect:2.13.18",
        "org.slf4j:slf4j-api:1.7.36",
        "org.slf4j:slf4j-simple:1.7.36",
        "org.xerial.snappy:snappy-java:1.1.10.7",
        "org.yaml:snakeyaml:2.5",
    ),
)


def kafka_connector(spark: str) -> JarSet:
    """Return Spark's Kafka connector for this version of PySpark.

    Not every release of the connector is on Maven Central: this picks the last one of the same line that is.
    The token provider serves delegation tokens alone, and its 4.0.0 goes with every connector of 4.x.
    """
    major, minor = (int(n) for n in re.findall(r"\d+", spark)[:2])
    if major < 4:  # noqa: PLR2004 - Spark 3.5's PySpark is built for Scala 2.12
        return _connector("2.12", "3.5.7", token="3.5.7", clients="3.4.1", pool="2.11.1")  # noqa: S106
    version = {0: "4.0.1", 1: "4.1.1"}.get(minor, "4.2.0")
    return _connector("2.13", version, token="4.0.0", clients="3.9.1", pool="2.12.1")  # noqa: S106


def _connector(scala: str, version: str, *, token: str, clients: str, pool: str) -> JarSet:
    return JarSet(
        f"spark-kafka-{version}_{scala}",
        (
            f"org.apache.spark:spark-sql-kafka-0-10_{scala}:{version}",
            f"org.apache.spark:spark-token-provider-kafka-0-10_{scala}:{token}",
            f"org.apache.kafka:kafka-clients:{clients}",
            f"org.apache.commons:commons-pool2:{pool}",
        ),
    )
