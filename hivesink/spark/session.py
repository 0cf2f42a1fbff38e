"""A Spark session for a job: local or on a cluster, over the site's metastore or the embedded metastore."""

from __future__ import annotations

import atexit
import json
import logging
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hivesink import kerberos
from hivesink.core.table import HiveType
from hivesink.core.typetext import known_type
from hivesink.errors import InvalidOption, SourceUnreachable
from hivesink.jvm.jars import archive_options
from hivesink.jvm.java import find_java
from hivesink.metastore import version as metastore_version
from hivesink.spark import filemanager
from hivesink.spark import settings as st

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger("hivesink")

# Spark 4's loggers in Python of failed statements, with the JVM's stack trace.
_STATEMENTS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")

# By its own thresholds, HotSpot's second compiler takes a third of a cold driver's CPU time, most of it for code that
# runs only while Spark starts. The loops of a batch pass any threshold in a moment (docs/performance.md).
LATE_COMPILING = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 -XX:Tier4CompileThreshold=150000 "
    "-XX:Tier4BackEdgeThreshold=400000"
)


def session(
    app: str,
    *,
    metastore: str | None = None,
    master: str | None = None,
    kafka: bool = False,
    extra: Mapping[str, str] | None = None,
    principal: str | None = None,
    keytab: str | None = None,
    quiet: bool = False,
) -> SparkSession:
    """A Spark session whose catalog is the metastore at `metastore`.

    Without `metastore` it is `$HIVESINK_METASTORE`, then what Spark's own settings say, then `hive-site.xml`
    (`$HIVE_CONF_DIR`), then the embedded metastore of this folder (`hivesink metastore start`). Without `master` it is
    what `spark-submit` says, then `$HIVESINK_MASTER` or `$SPARK_MASTER`, then `spark-defaults.conf`, then this
    process on two threads. `extra` wins over the settings of `spark-submit` and `spark-defaults.conf`, which win over
    those made here. `kafka` adds Spark's Kafka connector; under `spark-submit` use --packages or --jars.

    With Kerberos the driver is `principal`, by the keys of the file `keytab`: Spark's `spark.kerberos.principal` and
    `spark.kerberos.keytab`. Without them it has the tickets of `kinit`, or those for `$KRB5_CLIENT_KTNAME`.

    Spark 4 is given Hive 4's client for a metastore of Hive 4; Spark 3.5 can't read its tables, but the sink works.
    Spark logs errors; with `quiet` nothing, which is for a single statement, whose error is raised.

    Where a session runs in this process already, it is returned, with these settings as far as Spark still takes them.
    Raises InvalidOption, MetastoreUnreachable, SourceUnreachable, JavaFailed, LoginFailed.
    """
    if (principal is None) != (keytab is None):
        raise InvalidOption(("principal and keytab go together: give both, or neither",))
    own = {st.PRINCIPAL: principal, st.KEYTAB: keytab} if principal is not None and keytab is not None else {}
    given = {**st.given_settings(os.environ), **(extra or {}), **own}
    from pyspark import SparkContext

    running = SparkContext._active_spark_context  # noqa: SLF001  PySpark offers no other way
    if running is not None and given.get(st.PRINCIPAL) not in {None, running.getConf().get(st.PRINCIPAL)}:
        problem = f"this process has a Spark session of another user: run the job of {given[st.PRINCIPAL]} in its own"
        raise InvalidOption((problem,))
    if running is None and given.get(st.METASTORE) != "" and st.PRINCIPAL not in given:
        kerberos.site_of(os.environ)
    conf = {**dict(running.getConf().getAll() if running else ()), **given}
    keys = kerberos.log_in(conf.get(st.PRINCIPAL), conf.get(st.KEYTAB))
    if keys and running is None:
        # Spark's JVM knows nothing of a keytab that the environment names.
        given |= {st.PRINCIPAL: keys[0], st.KEYTAB: keys[1]}
    settings = st.choose(os.environ, given, metastore=metastore, master=master, kafka=kafka, hive=metastore_version)
    place = settings[st.MASTER]
    if place.startswith("local"):
        # pyarrow is installed for this Python, not necessarily for `python3`.
        os.environ["PYSPARK_PYTHON"] = sys.executable
    elif st.is_on_loopback(place):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        return start(app, settings, quiet=quiet)
    except Exception as error:
        # Spark's own error names neither the master nor the problem.
        if place.startswith("spark:") and "stopped SparkContext" in str(error):
            msg = f"the Spark master {place}"
            raise SourceUnreachable(msg, "it doesn't answer; is it running?") from error
        raise


def session_for_kafka(app: str, extra: Mapping[str, str] | None = None) -> SparkSession:
    """A session of this process with the Kafka connector and no metastore. Raises SourceUnreachable, JavaFailed."""
    none = {st.CATALOG: "in-memory", st.METASTORE: "", **(extra or {})}
    return session(app, master=st.LOCAL, kafka=True, extra=none, quiet=True)


def start(app: str, settings: Mapping[str, str], *, quiet: bool = False) -> SparkSession:
    """Return the Spark session of this process, made with these settings if none runs.

    Sets JAVA_HOME for this process, and SPARK_LOCAL_IP for a driver on the loopback, since Spark reads them only
    from the environment. Raises JavaFailed.
    """
    from pyspark.sql import SparkSession

    os.environ["JAVA_HOME"] = str(find_java().home)
    if settings.get("spark.driver.bindAddress") == st.LOOPBACK:
        os.environ["SPARK_LOCAL_IP"] = st.LOOPBACK
    for name in _STATEMENTS:
        logging.getLogger(name).disabled = True
    # Spark and Hive's client leave behind what they make there.
    folder = tempfile.mkdtemp(prefix="hivesink-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    own = {
        # Spark puts the user's own options after these.
        "spark.driver.defaultJavaOptions": f"{LATE_COMPILING} {archive_options()}",
        "spark.hadoop.hive.downloaded.resources.dir": f"{folder}/resources",
    }
    if settings.get(f"{st.SOCKETS}.enabled") == "true":
        own[f"{st.SOCKETS}.dir"] = folder
    builder = SparkSession.builder.appName(app).enableHiveSupport()
    for name, value in {**own, **settings, **st.logging_settings(os.environ, settings, quiet=quiet)}.items():
        builder = builder.config(name, value)
    if not quiet and SparkSession.getActiveSession() is None:
        logger.info("Spark is starting")
    # Ctrl-C waits until it has started: on its way out of it, PySpark takes away what its JVM needs to end, too.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        spark = builder.getOrCreate()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    # For queries that `HiveSink.start` doesn't start.
    filemanager.choose(spark, "file:/")
    return spark


def answer(frame: DataFrame, most: int) -> tuple[Sequence[HiveType | None], list[list[Any]]]:
    """The types of the columns, None where only Spark has the type, and the first `most` rows; structs are dicts.

    Of dates, timestamps and decimals, also nested ones, they have the text that Spark's CAST to STRING gives: Python
    has only the years 1 to 9999, and some decimals lose their scale on the way.
    """
    from pyspark.sql import functions as sf
    from pyspark.sql.types import StructType

    # Both kinds of timestamps print alike.
    types = [known_type(field.dataType.simpleString().replace("timestamp_ntz", "timestamp")) for field in frame.schema]
    targets = StructType.fromJson(json.loads(frame.schema.json(), object_hook=_as_text))
    # By number, since two columns may have the same name.
    numbered = frame.toDF(*map(str, range(len(targets))))
    sent = numbered.select(*(sf.col(str(index)).cast(field.dataType) for index, field in enumerate(targets)))
    return types, [[*row.asDict(recursive=True).values()] for row in sent.limit(most).collect()]


def _as_text(part: dict[str, Any]) -> dict[str, Any]:
    """A part of a schema's JSON with STRING for the types that Python lacks: of a column, an array or a map."""
    kinds = ("date", "timestamp", "decimal")
    return {key: "string" if key != "name" and str(said).startswith(kinds) else said for key, said in part.items()}
