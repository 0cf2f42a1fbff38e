"""A Spark session for a job: local or on a cluster, over the site's metastore or the embedded metastore."""

from __future__ import annotations

import atexit
import importlib.metadata
import logging
import os
import re
import shutil
import signal
import sys
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from uuid import uuid4

from hivesink.config.cache import kept, local_location, state_folder
from hivesink.config.site import Site
from hivesink.errors import JavaFailed, NoMetastore, SourceUnreachable
from hivesink.jvm import archive
from hivesink.jvm.jars import HIVE_CLIENT, fetch, fetched, kafka_connector
from hivesink.jvm.java import find_java, log4j2
from hivesink.metastore import version as metastore_version
from hivesink.spark.site import driver_jvm, is_local, runs_here

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import SparkSession

logger = logging.getLogger("hivesink")

LOCAL = "local[2]"
SPARK_4 = 4
"""The first Spark that has a client of Hive 4."""
_MASTER, _CATALOG = "spark.master", "spark.sql.catalogImplementation"
_URIS = ("spark.hadoop.hive.metastore.uris", "spark.hive.metastore.uris")
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
_CHECKPOINT_FILES = "spark.sql.streaming.checkpointFileManagerClass"
_SOCKETS = "spark.python.unix.domain.socket"
# A socket's path has 107 bytes; `/hivesink-<random>/.<uuid>.sock` is added.
_LONGEST_FOLDER = 44
# Spark 4's loggers in Python of failed statements, with the JVM's stack trace.
STATEMENTS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")

# By its own thresholds, HotSpot's second compiler takes a third of a cold driver's CPU time, most of it for code that
# runs only while Spark starts. The loops of a batch pass any threshold in a moment (docs/performance.md).
LATE_COMPILING = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 -XX:Tier4CompileThreshold=150000 "
    "-XX:Tier4BackEdgeThreshold=400000"
)

SETTINGS: Mapping[str, str] = {
    _CATALOG: "hive",
    # The default of 10,000 rows makes Arrow tasks slow.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    # Arrow's allocator would give freed memory back after 10 ms, and each chunk of records take it again.
    "spark.executorEnv.MIMALLOC_PURGE_DELAY": "-1",
    # Hive's reader fails on DECIMALs that Spark writes as integers.
    "spark.sql.parquet.writeLegacyFormat": "true",
    # Hive 4's default. A statement of `hivesink query` can't set it.
    "spark.hadoop.hive.exec.dynamic.partition.mode": "nonstrict",
    "spark.sql.shuffle.partitions": "2",
    # By its own default Spark lists more than 32 paths in a job with a task for each: 880 in 1.7 s; here 490 take 0.04.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def session(
    app: str,
    *,
    metastore: str | None = None,
    master: str | None = None,
    kafka: bool = False,
    extra: Mapping[str, str] | None = None,
    quiet: bool = False,
) -> SparkSession:
    """A Spark session whose catalog is the metastore at `metastore`.

    Without `metastore` it is `$HIVESINK_METASTORE`, then what Spark's own settings say, then `hive-site.xml`
    (`$HIVE_CONF_DIR`), then the embedded metastore of this folder (`hivesink metastore start`). Without `master` it is
    what `spark-submit` says, then `$HIVESINK_MASTER` or `$SPARK_MASTER`, then `spark-defaults.conf`, then this
    process on two threads. Settings in `extra` win over those of `spark-submit` and `spark-defaults.conf`, which win
    over those made here.

    `kafka` adds Spark's Kafka connector; under `spark-submit`, whose JVM already runs, use --packages or --jars.
    For a metastore newer than the client that Spark ships, Spark 4 is given the client of Hive 4. Spark 3.5 supports
    none: the sink works there, but Spark can't read the tables; query them through HiveServer2.

    Spark logs errors; with `quiet` nothing, which is for a single statement, whose error is raised. With
    `$HIVESINK_DEBUG` it logs warnings too.

    Where a session runs in this process already, it is returned, with these settings as far as Spark still
    takes them. Raises NoMetastore if none of these names a metastore, SiteInvalid, MetastoreUnreachable,
    SourceUnreachable, JavaFailed.
    """
    settings = choose(
        os.environ,
        {**given_settings(os.environ), **(extra or {})},
        metastore=metastore,
        master=master,
        kafka=kafka,
        hive=metastore_version,
    )
    place = settings[_MASTER]
    if place.startswith("local"):
        # pyarrow is installed for this Python, not necessarily for `python3`.
        os.environ["PYSPARK_PYTHON"] = sys.executable
    elif _is_on_loopback(place):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if "HADOOP_CONF_DIR" not in os.environ and os.environ.get("HADOOP_HOME"):
        # Spark puts this folder on its JVM's class path.
        os.environ["HADOOP_CONF_DIR"] = str(Path(os.environ["HADOOP_HOME"], "etc", "hadoop"))
    try:
        return start(app, settings, quiet=quiet)
    except Exception as error:
        # Spark's own error names neither the master nor the problem.
        if place.startswith("spark:") and "stopped SparkContext" in str(error):
            msg = f"the Spark master {place}"
            raise SourceUnreachable(msg, "it doesn't answer; is it running?") from error
        raise


def session_for_kafka(app: str) -> SparkSession:
    """A session of this process with the Kafka connector and no metastore. Raises SourceUnreachable, JavaFailed."""
    return session(app, master=LOCAL, kafka=True, extra={_CATALOG: "in-memory", _URIS[0]: ""}, quiet=True)


def choose(
    environ: Mapping[str, str],
    given: Mapping[str, str],
    *,
    metastore: str | None = None,
    master: str | None = None,
    kafka: bool = False,
    hive: Callable[[str, Site], tuple[int, ...]],
) -> dict[str, str]:
    """The settings of `session`, with the master. `given` are the user's own; `hive` asks a metastore for its version.

    Raises what `session` does.
    """
    own = dict(given)
    submitted = own.get(_MASTER) if _is_submitted(environ) else None
    named = (master, submitted, environ.get("HIVESINK_MASTER"), environ.get("SPARK_MASTER"), own.get(_MASTER), LOCAL)
    where = next(filter(None, named))
    settings = dict(SETTINGS)
    if runs_here(where):
        # By TCP each task waits 40 ms: Nagle's algorithm holds the end of its answer back until the delayed ACK comes.
        has_short_path = len(os.fsencode(tempfile.gettempdir())) <= _LONGEST_FOLDER
        settings |= {
            "spark.python.daemon.module": "hivesink.spark.daemon",
            f"{_SOCKETS}.enabled": str(has_short_path).lower(),
        }
    if where.startswith("local") or _is_on_loopback(where):
        settings |= {"spark.driver.bindAddress": LOOPBACK, "spark.driver.host": LOOPBACK}
    if not _is_submitted(environ):
        settings |= _with_connector(own, needed=kafka, local=runs_here(where))
    # An empty address is that of no metastore.
    if own.get(_URIS[0]) != "":
        site = Site.load(environ)
        uri = metastore or environ.get("HIVESINK_METASTORE") or _first_set(own, _URIS) or site.metastore_uris
        uri, settings["spark.sql.warehouse.dir"] = (uri, _warehouse(site)) if uri else _embedded()
        spark, version = int(importlib.metadata.version("pyspark").split(".")[0]), "spark.sql.hive.metastore.version"
        if version not in own and spark >= SPARK_4 and hive(uri, site) >= (4,):
            settings |= {
                version: "4.0.1",
                "spark.sql.hive.metastore.jars": "path",
                "spark.sql.hive.metastore.jars.path": ",".join(path.as_uri() for path in fetch(HIVE_CLIENT)),
                # Without it Hive 4's client makes an id up, and prints it on standard error past all loggers.
                "spark.hadoop.hive.session.id": str(uuid4()),
            }
        own[_URIS[0]] = uri
    return {**settings, **own, _MASTER: where}


def _with_connector(own: dict[str, str], *, needed: bool, local: bool) -> dict[str, str]:
    """The setting that adds the Kafka connector to the user's jars, which are taken out of `own`.

    Local mode has it on its class path, which saves a copy, and needed or not once it is there: the archive of classes
    is for a single class path.
    """
    connector = kafka_connector(importlib.metadata.version("pyspark"))
    if local:
        name = "spark.driver.extraClassPath"
        jars = [*map(str, fetch(connector) if needed else fetched(connector)), own.pop(name, "")]
        return {name: os.pathsep.join(filter(None, jars))}
    if not needed:
        return {}
    jars = [own.pop("spark.jars", ""), *(path.as_uri() for path in fetch(connector))]
    return {"spark.jars": ",".join(filter(None, jars))}


def _is_on_loopback(master: str) -> bool:
    return (urlsplit(master).hostname or "").startswith(_LOOPBACK_HOSTS)


def _first_set(settings: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((settings[name] for name in names if settings.get(name)), None)


def _embedded() -> tuple[str, str]:
    """The running embedded metastore's URI and warehouse. Raises NoMetastore, MetastoreUnreachable."""
    with suppress(ModuleNotFoundError):  # The zip for clusters lacks the servers.
        from hivesink.embedded.metastore import running

        state = running()
        if state.uri is not None and state.warehouse is not None:
            return state.uri, local_location(Path(state.warehouse))
    raise NoMetastore(state_folder())


def _warehouse(site: Site) -> str:
    """Where Spark creates databases; the metastore knows the locations of existing ones."""
    folder = _first_set(site.hive, ("metastore.warehouse.dir", "hive.metastore.warehouse.dir"))
    if folder is None:
        return local_location(state_folder() / "warehouse")
    if urlsplit(folder).scheme:
        return folder
    default = site.default_filesystem
    return f"{default.rstrip('/')}{folder}" if default else local_location(Path(folder))


def _is_submitted(environ: Mapping[str, str]) -> bool:
    return "PYSPARK_GATEWAY_PORT" in environ


def given_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """The user's own Spark configuration; `spark-submit`'s options win."""
    if _is_submitted(environ):
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


def start(app: str, settings: Mapping[str, str], *, quiet: bool = False) -> SparkSession:
    """Return the Spark session of this process, made with these settings if none runs.

    Sets JAVA_HOME for this process, and SPARK_LOCAL_IP for a driver on the loopback, since Spark reads them only
    from the environment. Raises JavaFailed.
    """
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)
    if settings.get("spark.driver.bindAddress") == LOOPBACK:
        os.environ["SPARK_LOCAL_IP"] = LOOPBACK
    for name in STATEMENTS:
        logging.getLogger(name).disabled = True
    builder = SparkSession.builder.appName(app).enableHiveSupport()
    # Spark and Hive's client leave behind what they make there.
    folder = tempfile.mkdtemp(prefix="hivesink-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    own = {
        # Spark puts the user's own options after these.
        "spark.driver.defaultJavaOptions": f"{LATE_COMPILING} {archive.options()}",
        "spark.hadoop.hive.downloaded.resources.dir": f"{folder}/resources",
    }
    if settings.get(f"{_SOCKETS}.enabled") == "true":
        own[f"{_SOCKETS}.dir"] = folder
    for name, value in {**own, **settings, **logging_settings(os.environ, settings, quiet=quiet)}.items():
        builder = builder.config(name, value)
    if not quiet and SparkSession.getActiveSession() is None:
        logger.info("Spark is starting")
    try:
        with _undisturbed():
            spark = builder.getOrCreate()
    except PySparkRuntimeError as error:
        if "[JAVA_GATEWAY_EXITED]" in str(error):
            problem = f"{java.program} ended before Spark's driver was up"
            way = "its lines above say why: mostly an option that it doesn't know, or too much memory"
            raise JavaFailed(problem, way, retryable=True) from error
        raise
    # Asked of the session: submit arguments set it too.
    if is_local(spark) and spark.conf.get(_CHECKPOINT_FILES, None) is None:
        _write_checkpoints_without_chmod(spark)
    return spark


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Keep Ctrl-C until the block ends: on its way out of it, PySpark takes away what its JVM needs to end, too."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _write_checkpoints_without_chmod(spark: SparkSession) -> None:
    """Have Spark write a checkpoint by Hadoop's older interface, which it keeps for stores without the newer interface.

    On a local disk the newer interface runs `chmod` in a process for each file, which takes 100 ms an epoch.
    """
    from py4j.protocol import Py4JJavaError

    jvm = driver_jvm(spark)
    for package in ("streaming.checkpointing", "streaming"):  # Spark 4.1 moved it.
        name = f"org.apache.spark.sql.execution.{package}.FileSystemBasedCheckpointFileManager"
        with suppress(Py4JJavaError):
            jvm.java.lang.Class.forName(name)
            spark.conf.set(_CHECKPOINT_FILES, name)
            return


def logging_settings(environ: Mapping[str, str], settings: Mapping[str, str], *, quiet: bool = False) -> dict[str, str]:
    """Return the Spark settings of a driver that logs errors only, or nothing if `quiet`.

    With `$HIVESINK_DEBUG` it logs warnings too.

    A log4j 2 configuration of the user's, in `settings` or in Spark's configuration folder, wins.
    """
    name = "spark.driver.extraJavaOptions"
    options = [settings.get(name, "-Djava.net.preferIPv4Stack=true")]
    folder = _spark_conf(environ)
    if _LOG4J not in options[0] and not (folder and any(folder.glob("log4j2*"))):
        kind = "debug" if environ.get("HIVESINK_DEBUG") else "quiet" if quiet else "errors"
        options.append(f"-D{_LOG4J}={log4j_file(kind).as_uri()}")
    progress = {"spark.ui.showConsoleProgress": "true"} if environ.get("HIVESINK_DEBUG") else {}
    return {**progress, name: " ".join(options)}


def log4j_file(kind: str) -> Path:
    """Return the configuration of log4j 2 of a kind of `LOGGING`, in the cache. Raises NotWritable."""
    return kept(f"spark-{kind}-log4j2.properties", LOGGING[kind])
