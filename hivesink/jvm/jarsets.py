"""Which jars the servers and Spark's connectors are made of, pinned."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.resources import files

LISTS = files("hivesink.jvm") / "jarlists"


@dataclass(frozen=True, slots=True)
class JarSet:
    """Jars that are used together, nothing transitive.

    `coordinates` are Maven's: `group:artifact:version`, with `:classifier` where there is one.
    """

    name: str
    coordinates: tuple[str, ...]


def listed(name: str) -> JarSet:
    """Return the set of `jarlists/<name>.txt`: a coordinate on each line, `#` for comments."""
    lines = (LISTS / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return JarSet(name, tuple(line for line in lines if line and not line.startswith("#")))


KAFKA_BROKER = listed("kafka-broker-4.3.1")
# NameNode, DataNode and `dfsadmin`.
HDFS = listed("hdfs-3.5.0")
# The metastore and HiveServer2.
HIVE = listed("hive-4.0.1")
# Spark's client of a metastore of Hive 4.
HIVE_CLIENT = listed("hive-client-4.0.1")


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
