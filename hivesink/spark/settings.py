"""A session's settings: what the user, the site and the environment say, and what hivesink sets else."""

from __future__ import annotations

import importlib.metadata
import os
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

from hivesink.config.cache import kept, local_location, state_folder
from hivesink.config.site import NO_SITE, Site
from hivesink.embedded.metastore import running
from hivesink.jvm.jars import HIVE_CLIENT, fetch, fetched, kafka_connector, s3a
from hivesink.jvm.java import log4j2
from hivesink.spark.running import runs_here

LOCAL = "local[2]"
SPARK_4 = 4
"""The first Spark that has a client of Hive 4."""
MASTER, CATALOG, METASTORE = "spark.master", "spark.sql.catalogImplementation", "spark.hadoop.hive.metastore.uris"
PRINCIPAL, KEYTAB = "spark.kerberos.principal", "spark.kerberos.keytab"
JARS, SOCKETS = "spark.jars", "spark.python.unix.domain.socket"
# A socket's path has 107 bytes; `/hivesink-<random>/.<uuid>.sock` is added.
_LONGEST_FOLDER = 44
_LOOPBACK_HOSTS = ("127.", "localhost", "::1")
LOOPBACK = "127.0.0.1"
# Streaming is off since the handle of a failed query raises what Spark would log with a stack trace.
# Where the gateway's level isn't the root's, Spark prints how to set it.
_GATEWAY = "org.apache.spark.api.python.PythonGatewayServer"
# The others log what they raise as well, such as a task's error, or at a job's end that the blocks of a task that still
# ran are gone.
_RAISING = (
    "org.apache.spark.TaskContextImpl",
    "org.apache.spark.broadcast.TorrentBroadcast",
    "org.apache.spark.executor.Executor",
    "org.apache.spark.scheduler.TaskSetManager",
    "org.apache.spark.sql.execution.datasources.FileFormatWriter",
    "org.apache.spark.sql.execution.streaming",
)
LOGGING = {
    "errors": log4j2("error", {**dict.fromkeys(_RAISING, "off"), _GATEWAY: "error"}),
    "quiet": log4j2("off", {_GATEWAY: "off"}),
    "debug": log4j2("warn", {_GATEWAY: "warn"}),
}
_LOG4J = "log4j2.configurationFile"

SETTINGS: Mapping[str, str] = {
    CATALOG: "hive",
    # The default of 10,000 rows makes Arrow tasks slow.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    # Arrow's allocator would give freed memory back after 10 ms, and each chunk of records take it again.
    "spark.executorEnv.MIMALLOC_PURGE_DELAY": "-1",
    # Hive's reader fails on DECIMALs that Spark writes as integers.
    "spark.sql.parquet.writeLegacyFormat": "true",
    # By an ORC file's bounds Spark 4 misses times that are finer than milliseconds, and -0.0, in its own files, too.
    "spark.sql.orc.filterPushdown": "false",
    # Hive 4's default. A statement of `hivesink query` can't set it.
    "spark.hadoop.hive.exec.dynamic.partition.mode": "nonstrict",
    "spark.sql.shuffle.partitions": "2",
    # Spark hands longer plans to the tasks in files, and theirs may have tokens. It takes no more time.
    "spark.broadcast.UDFCompressionThreshold": "1g",
    # By its own default Spark lists more than 32 paths in a job with a task for each: 880 in 1.7 s; here 490 take 0.04.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def choose(
    environ: Mapping[str, str],
    given: Mapping[str, str],
    *,
    metastore: str | None = None,
    master: str | None = None,
    kafka: bool = False,
    hive: Callable[[str, Site], tuple[int, ...]],
) -> dict[str, str]:
    """The settings of `session`, with the master. `given` are the user's own; `hive` asks a metastore's version."""
    own, is_submitted = dict(given), "PYSPARK_GATEWAY_PORT" in environ
    submitted = own.get(MASTER) if is_submitted else None
    named = (master, submitted, environ.get("HIVESINK_MASTER"), environ.get("SPARK_MASTER"), own.get(MASTER), LOCAL)
    where = next(filter(None, named))
    spark = importlib.metadata.version("pyspark")
    # Spark would never renew the tokens that it takes by a ticket; without Kerberos it takes none.
    settings = {**SETTINGS, "spark.kerberos.renewal.credentials": "keytab" if PRINCIPAL in own else "ccache"}
    if runs_here(where):
        # By TCP each task waits 40 ms: Nagle's algorithm holds the end of its answer back until the delayed ACK comes.
        has_short_path = len(os.fsencode(tempfile.gettempdir())) <= _LONGEST_FOLDER
        settings |= {
            "spark.python.daemon.module": "hivesink.spark.daemon",
            f"{SOCKETS}.enabled": str(has_short_path).lower(),
        }
    if where.startswith("local") or is_on_loopback(where):
        settings |= {"spark.driver.bindAddress": LOOPBACK, "spark.driver.host": LOOPBACK}
    # An empty address is that of no metastore.
    site = NO_SITE if own.get(METASTORE) == "" else Site.load(environ)
    if not is_submitted:
        connector, path = kafka_connector(spark), "spark.driver.extraClassPath"
        has_s3a = bool(site.s3a) or any(name.startswith("spark.hadoop.fs.s3a.") for name in own)
        jars = [*(fetch(s3a()) if has_s3a else ())]
        if runs_here(where):
            # Local mode has the connector on its class path, which saves a copy, and needed or not once it is there:
            # the archive of classes is for a single class path.
            paths = [*map(str, fetch(connector) if kafka else fetched(connector)), own.pop(path, "")]
            settings[path] = os.pathsep.join(filter(None, paths))
        elif kafka:
            jars += fetch(connector)
        if jars:
            own[JARS] = ",".join(filter(None, [own.get(JARS), *(jar.as_uri() for jar in jars)]))
    if own.get(METASTORE) != "":
        version = "spark.sql.hive.metastore.version"
        uri = metastore or environ.get("HIVESINK_METASTORE") or own.get(METASTORE) or site.metastore_uris
        # Where Spark creates databases; the metastore knows the locations of existing ones.
        warehouse = site.hive.get("metastore.warehouse.dir") or site.hive.get("hive.metastore.warehouse.dir")
        if not uri:
            uri, warehouse = running()
        settings["spark.sql.warehouse.dir"] = warehouse or local_location(state_folder() / "warehouse")
        if version not in own and int(spark.split(".")[0]) >= SPARK_4 and hive(uri, site) >= (4,):
            settings |= {
                version: "4.0.1",
                "spark.sql.hive.metastore.jars": "path",
                "spark.sql.hive.metastore.jars.path": ",".join(path.as_uri() for path in fetch(HIVE_CLIENT)),
                # Without it Hive 4's client makes an id up, and prints it on standard error past all loggers.
                "spark.hadoop.hive.session.id": str(uuid4()),
            }
        own[METASTORE] = uri
    return {**settings, **own, MASTER: where}


def is_on_loopback(master: str) -> bool:
    """Whether a master's executors are on this machine."""
    return (urlsplit(master).hostname or "").startswith(_LOOPBACK_HOSTS)


def given_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """The user's own Spark configuration; `spark-submit`'s options win."""
    if "PYSPARK_GATEWAY_PORT" in environ:
        from pyspark import SparkConf, SparkContext

        SparkContext._ensure_initialized()  # noqa: SLF001  joins the JVM that runs
        return dict(SparkConf().getAll())
    folder = _spark_conf(environ)
    if folder is None or not (file := folder / "spark-defaults.conf").is_file():
        return {}
    lines = (line.strip() for line in file.read_text(encoding="utf-8").splitlines())
    pairs = (re.split(r"\s*[=:\s]\s*", line, maxsplit=1) for line in lines if line and line[0] not in "#!")
    return {name: value for name, value, *_ in ([*pair, ""] for pair in pairs) if name.startswith("spark.")}


def _spark_conf(environ: Mapping[str, str]) -> Path | None:
    folder = environ.get("SPARK_CONF_DIR") or (environ.get("SPARK_HOME") and f"{environ['SPARK_HOME']}/conf")
    return Path(folder) if folder else None


def logging_settings(environ: Mapping[str, str], settings: Mapping[str, str], *, quiet: bool = False) -> dict[str, str]:
    """Settings of a driver that logs errors only, nothing if `quiet`, and warnings too with `$HIVESINK_DEBUG`.

    A log4j 2 configuration of the user's, in `settings` or in Spark's configuration folder, wins.
    """
    name = "spark.driver.extraJavaOptions"
    options = [settings.get(name, "-Djava.net.preferIPv4Stack=true")]
    folder = _spark_conf(environ)
    if _LOG4J not in options[0] and not (folder and any(folder.glob("log4j2*"))):
        kind = "debug" if environ.get("HIVESINK_DEBUG") else "quiet" if quiet else "errors"
        options.append(f"-D{_LOG4J}={log4j_file(kind).as_uri()}")
    return {name: " ".join(options)}


def log4j_file(kind: str) -> Path:
    """The configuration of log4j 2 of a kind of `LOGGING`, in the cache. Raises NotWritable."""
    return kept(f"spark-{kind}-log4j2.properties", LOGGING[kind])
