"""What is compared: several ways from a stream of JSON records into folders `dt=…` of snappy Parquet files.

Equal work: the same source with the same fetch settings, the same three columns, and `dt` as the UTC hour of
`ts`. Spark's own file sink registers no partitions and no reader of Hive finds its rows before somebody does;
`insertInto` registers them, and is at least once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from hivesink import HiveSink, sources
from tests.bench.ground import remove, rename

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from hivesink.sink.commit.committed import Committed
    from hivesink.spark.query import HiveQuery

    Query = HiveQuery | StreamingQuery

SCHEMA = "userId INT, userName STRING, ts BIGINT"
PATTERN = "yyyy-MM-dd--HH"


@dataclass(frozen=True, slots=True)
class Drain:
    """One run of one contender: from `source` (`kafka` or `files`) into the new table `bench.<name>`."""

    contender: str
    source: str
    name: str
    per_batch: int
    """Kafka: records; files: files."""
    servers: str
    topic: str
    folder: str


@dataclass(frozen=True, slots=True)
class Drained:
    """`batch_ms` are Spark's own times for each micro-batch; `step_ms` are hivesink's for its parts, summed."""

    seconds: float
    batch_ms: list[int]
    step_ms: dict[str, int]


@dataclass(frozen=True, slots=True)
class Landed:
    """What readers find afterwards: visible files, their bytes, rows, the sum of a column, a hash of all columns."""

    files: int
    bytes: int
    rows: int
    users: int
    digest: int


def stream(spark: SparkSession, drain: Drain) -> DataFrame:
    if drain.source == "files":
        return sources.lines(spark, drain.folder, options={"maxFilesPerTrigger": str(drain.per_batch)})
    options = {"maxOffsetsPerTrigger": str(drain.per_batch)}
    return sources.kafka(spark, drain.servers, drain.topic, options=options)


def decoded(events: DataFrame) -> DataFrame:
    """What a job without hivesink does: Spark's own decoding, and the hour."""
    from pyspark.sql import functions as f

    row = f.from_json(f.col("value").cast("string"), SCHEMA)
    columns = events.select(row.alias("row")).select("row.*")
    return columns.withColumn("dt", f.date_format(f.timestamp_millis("ts"), PATTERN))


def hivesink(spark: SparkSession, drain: Drain, checkpoint: str, on_epoch: str = "false") -> Query:
    create_table(
        spark,
        drain.name,
        {
            "sink.bucket.assigner": "date-time",
            "sink.bucket.time-column": "ts",
            "sink.bucket.time-pattern": PATTERN,
            "sink.bucket.time-zone": "UTC",
            "sink.rolling-policy.on-epoch": on_epoch,
        },
    )
    sink = HiveSink.for_table(spark, f"bench.{drain.name}", writer="bench", on_commit=EPOCHS.append)
    return sink.start(stream(spark, drain), checkpoint=checkpoint, trigger={"availableNow": True})


def file_sink(spark: SparkSession, drain: Drain, checkpoint: str) -> StreamingQuery:
    create_table(spark, drain.name, {})
    return (
        decoded(stream(spark, drain))
        .writeStream.format("parquet")
        .partitionBy("dt")
        .option("path", table_folder(spark, drain.name))
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )


def insert_into(spark: SparkSession, drain: Drain, checkpoint: str) -> Query:
    create_table(spark, drain.name, {})

    def insert(batch: DataFrame, _: int) -> None:
        batch.write.insertInto(f"bench.{drain.name}")

    return (
        decoded(stream(spark, drain))
        .writeStream.foreachBatch(insert)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )


@dataclass(slots=True)
class Rewritten:
    """A query whose small files are rewritten at its end, as a nightly compaction does."""

    query: StreamingQuery
    spark: SparkSession
    name: str

    def awaitTermination(self) -> None:  # noqa: N802  Spark's name
        self.query.awaitTermination()
        folder = table_folder(self.spark, self.name)
        rows = self.spark.read.parquet(folder)
        rows.repartition("dt").write.partitionBy("dt").parquet(f"{folder}-rewritten")
        remove(self.spark, folder)
        rename(self.spark, f"{folder}-rewritten", folder)

    @property
    def recentProgress(self) -> list[Any]:  # noqa: N802  the same
        return list(self.query.recentProgress)


def rewritten(spark: SparkSession, drain: Drain, checkpoint: str) -> Rewritten:
    return Rewritten(file_sink(spark, drain, checkpoint), spark, drain.name)


OWN = "hivesink"
EPOCHS: list[Committed] = []
"""hivesink's own timings of the epochs of this process."""

CONTENDERS: Mapping[str, Callable[[SparkSession, Drain, str], Query | Rewritten]] = {
    OWN: hivesink,
    "on-epoch": partial(hivesink, on_epoch="true"),
    "spark-sink": file_sink,
    "spark-insert": insert_into,
    "rewritten": rewritten,
}

UNREGISTERED = {"spark-sink", "rewritten"}
"""Contenders whose partitions the metastore doesn't know."""


def create_table(spark: SparkSession, name: str, properties: Mapping[str, str]) -> None:
    listed = ", ".join(f"'{key}'='{value}'" for key, value in properties.items())
    spark.sql(
        f"CREATE TABLE bench.{name} (userid INT, username STRING, ts BIGINT) PARTITIONED BY (dt STRING) "
        f"STORED AS PARQUET" + (f" TBLPROPERTIES ({listed})" if listed else "")
    )


def table_folder(spark: SparkSession, name: str) -> str:
    """The table's location, as the metastore says it."""
    told = spark.sql(f"DESCRIBE TABLE EXTENDED bench.{name}").collect()
    return next(str(row.data_type) for row in told if row.col_name == "Location")


def sums(spark: SparkSession, drain: Drain, folder: str) -> tuple[int, int, int]:
    """Rows, the sum of `userid`, a hash of all columns: by the metastore, if the contender registers partitions."""
    if drain.contender in UNREGISTERED:
        rows = spark.read.parquet(folder)
    else:
        spark.catalog.refreshTable(f"bench.{drain.name}")
        rows = spark.table(f"bench.{drain.name}")
    found = rows.selectExpr("count(*)", "sum(userid)", "bit_xor(xxhash64(userid, username, ts, dt))").first()
    if found is None:
        raise AssertionError
    return tuple(found)
