"""The real cluster on one machine: HDFS, Hive Metastore 4, HiveServer2, Kafka, Spark standalone."""

from jobs.cluster.cluster import Addresses, Cluster, Servers

__all__ = ["Addresses", "Cluster", "Servers"]
