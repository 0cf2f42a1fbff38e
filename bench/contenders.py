"""What is compared in Spark: several ways from a topic of JSON or Avro records into folders `dt=…` of snappy files.

Equal work: the same topic with the same fetch settings, the same columns, and the same partitions. Spark's own file
sink registers no partitions and no reader of Hive finds its rows before somebody does; `insertInto` registers them,
and is at least once. Two floors write nothing: `noop` reads the topic's values, `arrow` hands them to Python.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

from bench.ground import DATABASE, Ground
from bench.workloads import AVRO, AVRO_SCHEMA, WORKLOADS
from hivesink import HiveSink, sources
from hivesink.embedded.server import free_port
from hivesink.hiveql.apply import apply
from hivesink.hiveql.parse import parse_ddl
from hivesink.metastore import catalog
from hivesink.sink.commit.committed import Committed
from hivesink.spark import filemanager
from hivesink.spark.query import HiveQuery

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    Query = HiveQuery | StreamingQuery


@dataclass(frozen=True, slots=True)
class Drain:
    """One run of one contender: the topic of a workload into the new table `bench.<name>`.

    `rows` are its records; `per_batch` are those of a micro-batch.
    """

    contender: str
    workload: str
    name: str
    rows: int
    per_batch: int
    servers: str
    topic: str


@dataclass(frozen=True, slots=True)
class Drained:
    """`batch_ms` are Spark's own times for each micro-batch; `step_ms` are hivesink's for its parts, summed.

    `rows` are those that a floor has read. `requests` are those that the store has answered. `roll` is what hivesink
    spends after the last batch, when all that waits becomes files: milliseconds, CPU seconds, requests.
    """

    seconds: float
    batch_ms: list[int]
    step_ms: dict[str, int]
    rows: int | None = None
    requests: int = 0
    roll: tuple[float, float, int] | None = None


NOTHING: Mapping[str, str] = {}
FEW = 10_000
"""Records of a batch for which one task is enough."""


def stream(spark: SparkSession, drain: Drain) -> DataFrame:
    options = {"maxOffsetsPerTrigger": str(drain.per_batch)}
    return sources.kafka(spark, drain.servers, drain.topic, options=options)


def coalesced(spark: SparkSession, drain: Drain) -> DataFrame:
    """Small batches in one task instead of one for each of the topic's partitions, as hivesink has it by itself."""
    events = stream(spark, drain)
    return events.coalesce(1) if drain.per_batch <= FEW else events


def decoded(spark: SparkSession, drain: Drain) -> DataFrame:
    """What a job without hivesink does: Spark's own decoding, and the partition's value last."""
    from pyspark.sql import functions as f
    from pyspark.sql.avro.functions import from_avro

    workload, events = WORKLOADS[drain.workload], coalesced(spark, drain)
    if workload.name == AVRO:
        row = from_avro("value", AVRO_SCHEMA.read_text())
    else:
        row = f.from_json(f.col("value").cast("string"), workload.spark_schema)
    columns = events.select(row.alias("row")).select("row.*")
    if workload.bad:
        # Spark makes nulls of what doesn't fit, and keeps none of it.
        columns = columns.where("userId IS NOT NULL AND ts IS NOT NULL")
    partition = f.expr(workload.partition.spark).alias(workload.partition.column)
    own = [f.col(name).alias(name.lower()) for name in workload.fields if name != workload.partition.column]
    return columns.select(*own, partition)


def hivesink(
    spark: SparkSession,
    drain: Drain,
    checkpoint: str,
    *,
    ground: Ground,
    on_commit: Callable[[Committed], None],
    more: Mapping[str, str] = NOTHING,
    metrics: str | None = None,
) -> Query:
    properties = {**WORKLOADS[drain.workload].properties, **more}
    # As `hivesink ddl apply` does it: a job that only writes has no use for Spark's client of Hive.
    location = f" LOCATION '{ground.tables}/{DATABASE}.db/{drain.name}'" if drain.contender == HDFS else ""
    spec = parse_ddl(ddl(drain, properties, location), drain.name)
    apply([spec], catalog(ground.metastore, ground.site()))
    sink = HiveSink.for_table(spark, f"{DATABASE}.{drain.name}", writer="bench", on_commit=on_commit)
    events, trigger = stream(spark, drain), {"availableNow": True}
    query = sink.start(events, checkpoint=checkpoint, trigger=trigger, metrics=metrics)
    if metrics is not None:
        threading.Thread(target=scrape, args=(f"http://127.0.0.1{metrics}/metrics", query), daemon=True).start()
    return query


@cache
def metrics_address() -> str:
    """Where this process serves its metrics."""
    return f":{free_port()}"


def scrape(address: str, query: Query) -> None:
    """As Prometheus does, but each second."""
    while query.isActive:
        with urlopen(address) as answer:  # noqa: S310  this process's own
            answer.read()
        time.sleep(1)


def file_sink(
    spark: SparkSession, drain: Drain, checkpoint: str, ground: Ground, form: str = "parquet"
) -> StreamingQuery:
    workload = WORKLOADS[drain.workload]
    # As `HiveSink.start` does it.
    filemanager.choose(spark, checkpoint)
    return (
        decoded(spark, drain)
        .writeStream.format(form)
        .partitionBy(workload.partition.column)
        .option("compression", "snappy")
        .option("path", f"{ground.tables}/{DATABASE}.db/{drain.name}")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )


def insert_into(spark: SparkSession, drain: Drain, checkpoint: str) -> Query:
    spark.sql(ddl(drain, {}))

    def insert(batch: DataFrame, _: int) -> None:
        batch.write.insertInto(f"{DATABASE}.{drain.name}")

    return (
        decoded(spark, drain)
        .writeStream.foreachBatch(insert)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )


def noop(spark: SparkSession, drain: Drain, checkpoint: str, *, python: bool = False) -> StreamingQuery:
    values = coalesced(spark, drain).select("value")

    # Within a function it is sent as it is: executors have no such module.
    def nothing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        yield from ()

    if python:
        values = values.mapInArrow(nothing, "value binary")
    return values.writeStream.format("noop").option("checkpointLocation", checkpoint).trigger(availableNow=True).start()


OWN, HDFS, ON_EPOCH, CLEAN, ARROW, NOOP = "hivesink", "hdfs", "on-epoch", "clean", "arrow", "noop"
"""`hdfs` is hivesink beside itself on S3."""
METRICS = "metrics"
"""hivesink with metrics on."""
PLAIN, PRIVACY = "plain", "privacy"
"""hivesink beside itself with Kerberos: on servers without it, and where all that is sent is encrypted, too."""
BEFORE = "before"
"""The hivesink of another checkout, in a process that has this one's benchmark."""
SPARK_SINK, SPARK_INSERT = "spark-sink", "spark-insert"
ORC, SPARK_ORC = "orc", "spark-orc"
"""hivesink and Spark's sink, into ORC."""


def started(spark: SparkSession, drain: Drain, ground: Ground, on_commit: Callable[[Committed], None]) -> Query:
    """The contender's query, which ends once the whole topic is written. `on_commit` gets hivesink's epochs."""
    checkpoint = f"{ground.checkpoints}/{drain.name}"
    own = partial(hivesink, ground=ground, on_commit=on_commit)
    queries: Mapping[str, Callable[[SparkSession, Drain, str], Any]] = {
        **dict.fromkeys((OWN, HDFS, CLEAN, BEFORE, PLAIN, PRIVACY), own),
        ON_EPOCH: partial(own, more={"sink.rolling-policy.on-epoch": "true"}),
        METRICS: partial(own, metrics=metrics_address()),
        ORC: partial(own, more={"orc.compress": "snappy"}),
        SPARK_SINK: partial(file_sink, ground=ground),
        SPARK_ORC: partial(file_sink, ground=ground, form="orc"),
        SPARK_INSERT: insert_into,
        NOOP: noop,
        ARROW: partial(noop, python=True),
    }
    query: Query = queries[drain.contender](spark, drain, checkpoint)
    return query


def ddl(drain: Drain, properties: Mapping[str, str], location: str = "") -> str:
    workload = WORKLOADS[drain.workload]
    columns = ", ".join(f"`{name}` {kind}" for name, kind in workload.columns.items())
    listed = ", ".join(f"'{key}'='{value}'" for key, value in properties.items())
    return (
        f"CREATE TABLE {DATABASE}.{drain.name} ({columns}) PARTITIONED BY (`{workload.partition.column}` STRING) "
        f"STORED AS {'ORC' if drain.contender == ORC else 'PARQUET'}{location}"
        + (f" TBLPROPERTIES ({listed})" if listed else "")
    )
