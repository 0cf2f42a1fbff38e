"""The sink as Spark sees it: a callable for `foreachBatch`, and a handle for the query. It only translates."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from hivesink import wiring
from hivesink.config.site import Site
from hivesink.core.epoch import Epoch
from hivesink.core.manifest import REPLAYS
from hivesink.core.table import TableName
from hivesink.errors import InvalidOption, Unsupported
from hivesink.logs import require_outside
from hivesink.metastore import connect
from hivesink.sink.commit.committed import Committed
from hivesink.sink.inspect.facts import read_log
from hivesink.sink.inspect.verify import figures
from hivesink.spark import filemanager, tokens
from hivesink.spark.batchjobs import ship
from hivesink.spark.listeners import lineage
from hivesink.spark.query import HiveQuery, export_metrics, newest, queries
from hivesink.spark.queryrun import QueryRun
from hivesink.spark.running import Running, driver_jvm, trigger_interval

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger("hivesink")

_BY_SQL = "hiveserver2://"
_TRIGGERS = {"processingTime", "availableNow", "once"}


class HiveSink:
    """Writes a stream into a Hive table, each event exactly once.

        query = HiveSink.for_table(spark, "demo.userinfo", writer="userinfo").start(events, checkpoint="…")

    `events.writeStream.foreachBatch(sink)` works as well: recovery then begins at the first batch, a failed
    registration raises at once, and nothing is retried while no data comes.
    """

    def __init__(self, spark: SparkSession, setup: wiring.OpenedWriter) -> None:
        ship(spark, setup.spec.config)
        self._spark = spark
        self.setup = setup
        self._run = QueryRun(spark, setup)

    @classmethod
    def for_table(
        cls,
        spark: SparkSession,
        table: str,
        *,
        writer: str | None = None,
        metastore: str | None = None,
        append: int | None = None,
        options: Mapping[str, object] | None = None,
        on_commit: Callable[[Committed], None] | None = None,
    ) -> HiveSink:
        """The sink for `table` (`database.name`), with the settings in its TBLPROPERTIES; `options` win over those.

        `writer` names this ingest and its log (`hivesink run`: by default the job file's stem). `metastore` is a Thrift
        URI or several, or `hiveserver2://host:port`; by default `$HIVESINK_METASTORE`, then the session's own
        `hive.metastore.uris`, then `hive-site.xml`'s. Errors about a history say when to set `append`, to an epoch's
        number. `on_commit` gets a `Committed` after every batch; what it raises ends the query, not the batch.

        Raises UnknownTable, Unsupported, InvalidOption, MetastoreUnreachable, NotWritable;
        LogOfAnotherTable, TableMadeAgain, FilesUnknown if the log and the table don't belong together.
        """
        name = writer or os.environ.get("HIVESINK_WRITER")
        if not name:
            raise InvalidOption(("writer is missing: name this ingest, as in for_table(…, writer='clicks')",))
        if name == REPLAYS:
            raise InvalidOption((f"writer = {name!r} is `hivesink rejects replay`'s: name this ingest otherwise",))
        if append is not None and (type(append) is not int or append < 0):
            raise InvalidOption((f"append = {append!r} is no epoch: give the epoch that the error names",))
        site = site_of(spark)
        uri = metastore or os.environ.get("HIVESINK_METASTORE") or site.metastore_uris
        if not uri:
            raise InvalidOption(("no metastore: set HIVE_CONF_DIR, or hive.metastore.uris, or pass metastore=",))
        kind = "hiveserver2" if uri.startswith(_BY_SQL) else "thrift"
        setup = wiring.OpenedWriter.open(
            table=TableName.parse(table),
            writer=name,
            metastore=connect(kind, uri.removeprefix(_BY_SQL), site),
            append=None if append is None else Epoch(append),
            options=options or {},
            site=site,
            check=lambda location, log: check_encryption(spark, location, log),
            on_commit=on_commit,
        )
        return cls(spark, setup)

    def start(
        self,
        events: DataFrame,
        *,
        checkpoint: str | os.PathLike[str],
        trigger: Mapping[str, Any] | str | None = None,
        name: str | None = None,
        metrics: str | os.PathLike[str] | None = None,
    ) -> HiveQuery:
        """Recover, then start the query, and return its handle.

        `events` holds raw records or the table's columns. `checkpoint` is the folder of Spark's checkpoint. `trigger`
        is as for `DataStreamWriter.trigger`; a text is its processingTime, and without it each batch begins when the
        last has ended. `name` is the query's in Spark. `metrics` is an address such as `:9464` that serves them, or a
        folder for a file of them.

        Raises, before a query or a new checkpoint exists, what recovery raises: another run at work (EpochTaken), a
        damaged log (LogDamaged), lost parts (PartLost); what log and checkpoint reveal together (ForeignHistory,
        CheckpointDiffers, LogMissing and others below); InvalidOption, also if the stream can't fill the table;
        Unsupported for other triggers.
        """
        trigger = trigger or "0 seconds"
        chosen = {"processingTime": trigger} if isinstance(trigger, str) else trigger
        if not set(chosen) <= _TRIGGERS:
            msg = f"trigger {chosen}"
            raise Unsupported(msg, "batches must have offsets", f"use {sorted(_TRIGGERS)}")
        fs, path = _file_system(self._spark, os.fspath(checkpoint))
        # As Spark resolves it: a path without a scheme is `fs.defaultFS`'s.
        location = str(fs.makeQualified(path).toString())
        filemanager.choose(events.sparkSession, location)
        filemanager.refuse_renaming(events.sparkSession, location)
        require_outside(self.setup.spec.target.location, location, f"checkpoint {location}")
        for other in queries():
            if other.isActive and other.run.checkpoint and other.run.checkpoint.location == location:
                self._require_same(other.run.setup, location)
                table = self.setup.spec.target.name
                logger.warning("the query into %s that runs in this process ends: its sink is started again", table)
                # Spark would end it later, after this run has read the log that its last batch still writes.
                other.handle.stop()
        run = QueryRun(events.sparkSession, self.setup)
        writer = events.writeStream.foreachBatch(run).option("checkpointLocation", location).trigger(**chosen)
        plan = events._jdf.queryExecution().analyzed()  # noqa: SLF001  the only way to it
        self._count(run, metrics)
        run.begin(location, events.schema, plan, ends_early="processingTime" not in chosen)
        self._run = run
        told = lineage(self.setup, plan)
        query = (writer if name is None else writer.queryName(name)).start()
        interval = trigger_interval(query._jsq.streamingQuery())  # noqa: SLF001  as above
        return HiveQuery(query, run, interval=interval, lineage=told)

    def _count(self, run: QueryRun, place: str | os.PathLike[str] | None = None) -> None:
        """Have figures for metrics where anybody wants them. Raises NotWritable."""
        if export_metrics(place):
            log, rule = self.setup.context.log, self.setup.spec.commit_rule
            run.committer.figures.count(lambda: figures(read_log(log), rule))

    def _require_same(self, other: wiring.OpenedWriter, checkpoint: str) -> None:
        """Raises InvalidOption where the checkpoint is another sink's: Spark would end that in silence."""
        if other.context.log.location != self.setup.context.log.location:
            name, writer = other.spec.target.name, other.spec.identity.writer
            problem = f"checkpoint {checkpoint} is that of the query into {name} (writer {writer}), which runs, or ran "
            raise InvalidOption((f"{problem}until this query began: name another folder for each query",))

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Commit a batch of a query that `start` didn't make, and return once its epoch is decided.

        `batch` holds all rows of Spark's batch `batch_id`. Raises CalledTwice for a second call with a batch; what
        `start` raises, here with the first batch; BadRecord for a record that doesn't fit, by `sink.on-bad-record`.
        After an error the call may be repeated with the same rows.
        """
        query = Running.here(self._spark)
        if self._run.query is None or self._run.query.run != query.run:
            filemanager.refuse_renaming(batch.sparkSession, query.checkpoint)
            for other in queries():
                if other.own and str(other.id) == query.id:
                    self._require_same(other.run.setup, query.checkpoint)
            before = newest.get(self.setup.context.log.location)
            call = before.run.call if before else None
            self._run = QueryRun(self._spark, self.setup, query, call)
            self._count(self._run)
            HiveQuery(query.handle, self._run, own=False, interval=trigger_interval(query.execution))
        self._run(batch, batch_id)


def site_of(spark: SparkSession) -> Site:
    """The site's files under the session's own Hadoop configuration, which wins. Raises InvalidOption."""
    # Of a session that `session` hasn't made.
    tokens.log_in(spark)
    written = driver_jvm(spark).java.io.StringWriter()
    spark.sparkContext._jsc.hadoopConfiguration().writeXml(written)  # noqa: SLF001  PySpark offers no other way
    return Site.load(os.environ).overlaid(str(written.toString()))


def check_encryption(spark: SparkSession, location: str, log: str) -> None:
    """Raises Unsupported for an unencrypted log beside a table in an encryption zone, and Hadoop's own errors."""
    # It holds offsets and partition values.
    if _is_encrypted(spark, location) and not _is_encrypted(spark, log):
        msg = f"a log outside of an encryption zone, {log},"
        why = f"{location} is in such a zone, and the log holds partition values and offsets"
        raise Unsupported(msg, why, "set sink.log-location to a folder in a zone")


def _is_encrypted(spark: SparkSession, location: str) -> bool:
    fs, place = _file_system(spark, location)
    # Only HDFS has zones. The NameNode answers only for what exists; what is made there later is in the same zone.
    has_zones = "getEZForPath" in dir(fs)
    while has_zones and not fs.exists(place):
        place = place.getParent()
    return has_zones and fs.getEZForPath(place) is not None


def _file_system(spark: SparkSession, location: str) -> tuple[Any, Any]:
    """Hadoop's FileSystem and Path of a location."""
    path = driver_jvm(spark).org.apache.hadoop.fs.Path(location)
    return path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()), path  # noqa: SLF001  as above
