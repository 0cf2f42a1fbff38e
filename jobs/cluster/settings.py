"""The cluster's servers and their settings, for processes and for containers.

These hold wherever a server runs. What depends on its host, ports and folders is an argument, or is added by the
module that starts the process (`hdfs.py`, `hive.py`, `spark.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from hivesink.jvm.jars import JarSet

HADOOP_VERSION = "3.5.0"
HIVE_VERSION = "4.0.1"
KAFKA_VERSION = "4.3.1"

_LISTS = Path(__file__).with_name("jarlists")
HDFS_JARS = JarSet.listed(_LISTS / f"hdfs-{HADOOP_VERSION}.txt")
HIVE_JARS = JarSet.listed(_LISTS / f"hive-{HIVE_VERSION}.txt")
HIVE_S3A_JARS = JarSet.listed(_LISTS / "hive-s3a-3.3.6.txt")
# What secured servers of Hadoop, and of Hive, need besides: each its own version of one library.
HDFS_SECURE_JARS = JarSet("hdfs-secure", ("dnsjava:dnsjava:3.6.1",))
HIVE_SECURE_JARS = JarSet("hive-secure", ("dnsjava:dnsjava:2.1.7",))
KDC_JARS = JarSet.listed(_LISTS / "minikdc-3.4.1.txt")
KAFKA_JARS = JarSet.listed(_LISTS / f"kafka-broker-{KAFKA_VERSION}.txt")

# Each server's well-known port, by the name that `cluster-status` prints.
PORTS: Mapping[str, int] = MappingProxyType(
    {
        "namenode": 8020,
        "metastore": 9083,
        "hiveserver2": 10000,
        "kafka": 9092,
        "spark-master": 7077,
        "s3": 8333,
    }
)

DATANODES = 2
WORKERS = 2
WORKER_CORES = 4
WORKER_MEMORY = "4g"

WAREHOUSE = "/user/hive/warehouse"
EXTERNAL_WAREHOUSE = "/user/hive/warehouse-ext"
# In HDFS, like the folders above and below.
TEMPORARY = "/tmp"  # noqa: S108
# Folders made at the first start: everybody may write, nobody may remove another's files.
FOLDERS: Mapping[str, int] = MappingProxyType(
    {TEMPORARY: 0o1777, "/user": 0o755, "/user/hive": 0o755, WAREHOUSE: 0o1777, EXTERNAL_WAREHOUSE: 0o1777}
)


def core_site(filesystem: str, superuser: str) -> dict[str, str]:
    """Return core-site.xml for servers and clients; `superuser` is who runs the servers, and may act for others."""
    return {
        "fs.defaultFS": filesystem,
        # Minutes: clients that use the trash keep what they delete for a day.
        "fs.trash.interval": "1440",
        f"hadoop.proxyuser.{superuser}.groups": "*",
        f"hadoop.proxyuser.{superuser}.hosts": "*",
    }


def hdfs_site() -> dict[str, str]:
    """Return hdfs-site.xml for NameNode, DataNodes and clients alike."""
    return {
        "dfs.replication": str(DATANODES),
        # With two DataNodes, none can replace a dead one: go on with the other.
        "dfs.client.block.write.replace-datanode-on-failure.best-effort": "true",
        "dfs.client.block.write.replace-datanode-on-failure.policy": "NEVER",
        # A close needn't wait for the DataNodes' reports: it takes 26 ms instead of 490.
        "dfs.namenode.file.close.num-committed-allowed": "1",
        "dfs.namenode.acls.enabled": "true",
        "dfs.permissions.enabled": "true",
        # Tests and demos write small files.
        "dfs.namenode.fs-limits.min-block-size": "0",
        # Leave safe mode at once, without waiting for blocks; `dfsadmin` can still enter it.
        "dfs.namenode.safemode.extension": "0",
        "dfs.namenode.safemode.threshold-pct": "0",
        # DataNodes of one host differ only in their ports.
        "dfs.namenode.datanode.registration.ip-hostname-check": "false",
        # A dead DataNode is avoided after 6 s and given up after 20: 2 * recheck + 10 * heartbeat.
        "dfs.heartbeat.interval": "1s",
        "dfs.namenode.heartbeat.recheck-interval": "5000",
        "dfs.namenode.stale.datanode.interval": "6000",
        "dfs.namenode.avoid.read.stale.datanode": "true",
        "dfs.namenode.avoid.write.stale.datanode": "true",
        "dfs.namenode.write.stale.datanode.ratio": "1.0",
        "dfs.webhdfs.enabled": "false",
    }


def hive_site(metastore_uri: str, filesystem: str) -> dict[str, str]:
    """Return hive-site.xml for clients of the metastore, HiveServer2 among them."""
    return {
        "hive.metastore.uris": metastore_uri,
        "hive.server2.authentication": "NOSASL",
        "hive.metastore.warehouse.dir": filesystem + WAREHOUSE,
        "hive.metastore.warehouse.external.dir": filesystem + EXTERNAL_WAREHOUSE,
    }


def metastore_site(filesystem: str) -> dict[str, str]:
    """Return hive-site.xml for the metastore, but for its address and database."""
    return {
        "metastore.warehouse.dir": filesystem + WAREHOUSE,
        "metastore.warehouse.external.dir": filesystem + EXTERNAL_WAREHOUSE,
        # The automatic schema has no tables for transactions and locks, so their housekeeping threads are off.
        "datanucleus.schema.autoCreateAll": "true",
        # It makes a table when its class is first used; the metastore's own SQL, as INSERT OVERWRITE's, finds none
        # before. In a test, as it calls that, it uses such classes at its start, and clients need not say they test.
        "hive.in.test": "true",
        "metastore.client.capability.check": "false",
        "metastore.schema.verification": "false",
        "metastore.task.threads.always": "",
        "metastore.task.threads.remote": "",
        "metastore.event.db.notification.api.auth": "false",
        "metastore.stats.fetch.bitvector": "false",
        # Two hundred by default, each with a stack of its own.
        "metastore.server.min.threads": "8",
    }


def hiveserver2_site(metastore_uri: str, filesystem: str) -> dict[str, str]:
    """Return hive-site.xml for HiveServer2, but for its address and local folders."""
    return {
        **hive_site(metastore_uri, filesystem),
        "hive.server2.enable.doAs": "false",
        # Queries run in HiveServer2's own process.
        "hive.execution.engine": "mr",
        "hive.exec.mode.local.auto": "true",
        "hive.exec.submit.local.task.via.child": "false",
        "hive.exec.scratchdir": f"{TEMPORARY}/hive",
        "hive.jar.directory": f"{filesystem}{TEMPORARY}/hive-jars",
        "hive.user.install.directory": f"{filesystem}{TEMPORARY}/hive-install",
        # Tables are not transactional: the metastore has no tables for transactions and locks.
        "hive.support.concurrency": "false",
        "hive.txn.manager": "org.apache.hadoop.hive.ql.lockmgr.DummyTxnManager",
        # No background work, and no other ports.
        "hive.notification.event.poll.interval": "0s",
        "hive.query.lifetime.hooks": "",
        "hive.scheduled.queries.executor.enabled": "false",
        "hive.server2.active.passive.ha.enable": "false",
        "hive.server2.clear.dangling.scratchdir": "false",
        "hive.server2.logging.operation.enabled": "false",
        "hive.server2.materializedviews.registry.impl": "DUMMY",
        "hive.server2.max.start.attempts": "1",
        "hive.server2.metrics.enabled": "false",
        "hive.server2.tez.initialize.default.sessions": "false",
        "hive.server2.webui.port": "-1",
    }


def mapred_site() -> dict[str, str]:
    """Return mapred-site.xml for HiveServer2: its queries run in its own process."""
    return {
        "mapreduce.framework.name": "local",
        "mapreduce.jobtracker.staging.root.dir": f"{TEMPORARY}/staging",
    }


def spark_master() -> dict[str, str]:
    """Return the Spark properties of the master, but for its address and recovery folder."""
    return {
        # A restarted master knows its workers and applications.
        "spark.deploy.recoveryMode": "FILESYSTEM",
        # Seconds after which a silent worker is given up; the default is a minute.
        "spark.worker.timeout": "20",
    }
