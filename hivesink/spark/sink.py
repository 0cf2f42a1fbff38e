"""The sink as Spark sees it: a callable for `foreachBatch`, and a handle for the query. It only translates."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

from hivesink import wiring
from hivesink.core.epoch import Epoch
from hivesink.core.manifest import REPLAYS
from hivesink.core.table import TableName
from hivesink.errors import InvalidOption, Unsupported
from hivesink.logs import require_outside
from hivesink.spark import shipping
from hivesink.spark.query import HiveQuery, newest, queries
from hivesink.spark.queryrun import QueryRun
from hivesink.spark.running import Running, trigger_interval
from hivesink.spark.site import check_encryption, resolved_checkpoint, site_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from hivesink.sink.commit.committed import Committed
    from hivesink.sink.commit.committer import Committer

logger = logging.getLogger("hivesink")

_BY_SQL = "hiveserver2://"
_TRIGGERS = {"processingTime", "availableNow", "once"}


class HiveSink:
    """Writes a stream into a Hive table, each event exactly once.

        sink = HiveSink.for_table(spark, "demo.userinfo", writer="userinfo")
        query = sink.start(events, checkpoint="…", trigger={"processingTime": "5 seconds"})

    `events.writeStream.foreachBatch(sink)` works as well: recovery then begins at the first batch, a failed
    registration raises at once, and nothing is retried while no data comes.
    """

    def __init__(self, spark: SparkSession, setup: wiring.OpenedWriter) -> None:
        shipping.ship(spark)
        shipping.ship_own(spark, setup.spec.config)
        self._spark = spark
        self.setup = setup
        """The sink's parts: log, store, registrar, table."""
        self._run = QueryRun(spark, setup, tolerant=False)
        self._query: HiveQuery | None = None

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

        `writer` names this ingest and its log; under `hivesink run` it defaults to the job file's stem.
        `metastore` is a Thrift URI or several, or `hiveserver2://host:port`; by default `$HIVESINK_METASTORE`, then
        the session's own `hive.metastore.uris`, then `hive-site.xml`'s. Errors about a history that doesn't follow say
        when to set `append`, to an epoch's number. `on_commit` gets a `Committed` after every batch; an error that it
        raises ends the query, whose batch is committed all the same.

        Raises UnknownTable, Unsupported, InvalidOption, SiteInvalid, MetastoreUnreachable, NotWritable;
        LogOfAnotherTable, TableMadeAgain, FilesUnknown if the log and the table don't belong together.
        """
        if type(spark).__module__.startswith("pyspark.sql.connect"):
            msg = "Spark Connect"
            raise Unsupported(msg, "the sink lives in the driver's process", "use a classic session")
        name = writer or os.environ.get("HIVESINK_WRITER")
        if not name:
            problem = "writer is missing: name this ingest, as in HiveSink.for_table(spark, table, writer='clicks')"
            raise InvalidOption((problem,))
        if name == REPLAYS:
            problem = f"writer = {name!r} is the writer of `hivesink rejects replay`: name this ingest otherwise"
            raise InvalidOption((problem,))
        if append is not None and (type(append) is not int or append < 0):
            raise InvalidOption((f"append = {append!r} is no epoch: give the epoch that the error names",))
        site = site_of(spark)
        uri = metastore or os.environ.get("HIVESINK_METASTORE") or site.metastore_uris
        if not uri:
            problem = (
                "no metastore: point HIVE_CONF_DIR to the folder of hive-site.xml, set hive.metastore.uris in Spark's "
                "Hive configuration, or pass metastore="
            )
            raise InvalidOption((problem,))
        kind = "hiveserver2" if uri.startswith(_BY_SQL) else "thrift"
        setup = wiring.OpenedWriter.open(
            table=TableName.parse(table),
            writer=name,
            metastore=wiring.MetastoreAddress.at(kind, uri.removeprefix(_BY_SQL), site),
            append=None if append is None else Epoch(append),
            options=options or {},
            site=site,
            check=lambda location, log: check_encryption(spark, location, log),
            on_commit=on_commit,
        )
        return cls(spark, setup)

    @property
    def committer(self) -> Committer:
        """The committer of the latest query."""
        return self._run.committer

    def start(
        self,
        events: DataFrame,
        *,
        checkpoint: str | os.PathLike[str],
        trigger: Mapping[str, Any] | str | None = None,
        name: str | None = None,
    ) -> HiveQuery:
        """Recover, then start the query, and return its handle.

        `events` holds raw records or the table's columns. `checkpoint` is the folder of Spark's checkpoint. `trigger`
        is as for `DataStreamWriter.trigger`; a text is its processingTime, and without it each batch begins when the
        last has ended. `name` is the query's in Spark.

        Raises what recovery raises: another run at work (EpochTaken), a damaged log (LogDamaged), lost parts
        (PartLost). Before a query or a new checkpoint exists, it raises what log and checkpoint reveal together
        (ForeignHistory, CheckpointDiffers, LogMissing and others below), and
        ColumnsDontFit if the stream can't fill the table; InvalidOption; Unsupported for other triggers, for a
        checkpoint on this machine's disk with a cluster's master, and while a query of this sink still runs.
        """
        if self._query is not None and self._query.isActive:
            msg = f"starting the sink of {self.setup.spec.target.name} twice"
            raise Unsupported(msg, "its query still runs", "stop it, or make a second sink with its own writer")
        chosen = {"processingTime": trigger} if isinstance(trigger, str) else trigger or {"processingTime": "0 seconds"}
        if not set(chosen) <= _TRIGGERS:
            msg = f"trigger {chosen}"
            raise Unsupported(msg, "batches must have offsets", f"use {sorted(_TRIGGERS)}")
        location = resolved_checkpoint(self._spark, checkpoint)
        require_outside(self.setup.spec.target.location, location, f"checkpoint {location}")
        self._require_own(location)
        run = QueryRun(events.sparkSession, self.setup, tolerant=True)
        writer = events.writeStream.foreachBatch(run).option("checkpointLocation", location).trigger(**chosen)
        plan = events._jdf.queryExecution().analyzed()  # noqa: SLF001  the only way to it
        run.begin(location, events.schema, plan, ends_early="processingTime" not in chosen)
        self._run = run
        if name is not None:
            writer = writer.queryName(name)
        query = writer.start()
        self._query = HiveQuery(query, run, interval=trigger_interval(query._jsq.streamingQuery()))  # noqa: SLF001  as above
        return self._query

    def _require_own(self, checkpoint: str) -> None:
        """End the query of this table and writer that runs with the checkpoint.

        Raises InvalidOption where it is another sink's: Spark would end that in silence.
        """
        for query in queries():
            if query.isActive and query.run.checkpoint == checkpoint:
                self._require_same(query.run.setup, checkpoint)
                name = self.setup.spec.target.name
                logger.warning("the query into %s that runs in this process ends: its sink is started again", name)
                # Spark would end it later, after this run has read the log that its last batch still writes.
                query.handle.stop()

    def _require_same(self, other: wiring.OpenedWriter, checkpoint: str) -> None:
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
            for other in queries():
                if other.own and str(other.id) == query.id:
                    self._require_same(other.run.setup, query.checkpoint)
            before = newest.get(self.setup.context.log.location)
            call = before.run.call if before else None
            self._run = QueryRun(self._spark, self.setup, tolerant=False, query=query, call=call)
            HiveQuery(query.handle, self._run, own=False, interval=trigger_interval(query.execution))
        self._run(batch, batch_id)
