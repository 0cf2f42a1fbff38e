"""What a stream's columns and checkpoint mean to the sink."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hivesink.core.bucket import normal
from hivesink.core.offsets import KafkaOffset
from hivesink.errors import MissingColumns, StoreUnavailable
from hivesink.optionvalues import OnBadRecord
from hivesink.sink.assign import needed_columns
from hivesink.sink.plan import InputShape, TaskPlan
from hivesink.sparksite import hadoop_configuration

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from hivesink.core.checkpoint import Read
    from hivesink.core.epoch import BatchRef
    from hivesink.core.table import TableSpec

PATH = "_path"
"""A column of this name holds the file that a row came from, for dead letters and errors."""


def input_shape(schema: StructType, spec: TableSpec, ref: BatchRef) -> InputShape:
    """What the stream's columns are.

    A `value` of bytes or text that no column of the table is named after is raw, and Kafka's other columns are the
    record's position and time.
    """
    kinds = {field.name: field.dataType.simpleString() for field in schema.fields}
    names = {column.name for column in (*spec.columns, *spec.partition_columns)}
    raw = kinds.get("value") in {"binary", "string"} and "value" not in names
    if not raw:
        return InputShape(path=PATH if PATH in kinds else None)

    def column(name: str, kind: str) -> str | None:
        return name if kinds.get(name) == kind else None

    topics = {topic for offset in ref.end if isinstance(offset, KafkaOffset) for (topic, _), _ in offset.next}
    one = len(ref.end) == 1 and len(topics) == 1
    return InputShape(
        value="value",
        timestamp=column("timestamp", "timestamp"),
        topic=None if one else column("topic", "string"),
        partition=column("partition", "int"),
        offset=column("offset", "bigint"),
        path=column(PATH, "string"),
        topic_name=next(iter(topics)) if one else None,
    )


def needed_input(schema: StructType, plan: TaskPlan) -> list[str]:
    """The stream's columns that tasks need, quoted for Spark. Raises MissingColumns for decoded rows."""
    shape = plan.shape
    if shape.value is not None:
        keeps_position = plan.config["sink.on-bad-record"] is not OnBadRecord.DROP
        position = (shape.topic, shape.partition, shape.offset, shape.path) if keeps_position else ()
        names = (shape.value, shape.timestamp if _needs_time(plan) else None, *position)
        return [_quoted(name) for name in names if name is not None]
    keeps_path = shape.path is not None and plan.config["sink.on-bad-record"] is not OnBadRecord.DROP
    return [_quoted(name) for name in [*_decoded(schema, plan), *([PATH] if keeps_path else [])]]


def _needs_time(plan: TaskPlan) -> bool:
    column = plan.config["sink.bucket.time-column"]
    return column is not None and column not in {found.name for found in plan.target.spec.columns}


def _decoded(schema: StructType, plan: TaskPlan) -> list[str]:
    spec = plan.target.spec
    by_name: dict[str, list[str]] = {}
    for field in schema.fields:
        by_name.setdefault(field.name.lower(), []).append(field.name)
    wanted = [column.name for column in (*spec.columns, *needed_columns(spec, plan.config))]
    missing = [name for name in wanted if len(by_name.get(name, ())) != 1]
    if missing:
        raise MissingColumns(plan.target.name, tuple(missing), tuple(schema.fieldNames()))
    time = plan.config["sink.bucket.time-column"]
    extra = by_name.get(time, [])[:1] if time and time not in wanted else []
    return [by_name[name][0] for name in wanted] + extra


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def checkpoint_reader(spark: SparkSession, checkpoint: str) -> Read:
    """Reads a checkpoint's files: local ones directly, others through the driver's Hadoop file systems.

    `checkpoint` is a whole location, as Spark resolves it.
    """
    base = normal(checkpoint)
    if checkpoint.startswith("file:"):
        return lambda name: _read_local(Path(base, name))
    return lambda name: _read_hadoop(spark, f"{base}/{name}")


def _read_local(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _read_hadoop(spark: SparkSession, location: str) -> bytes | None:
    from py4j.protocol import Py4JJavaError

    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001  PySpark offers no other way
    path = jvm.org.apache.hadoop.fs.Path(location)
    try:
        system = path.getFileSystem(hadoop_configuration(spark))
        if not system.exists(path):
            return None
        stream = system.open(path)
        try:
            return bytes(jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()
    except Py4JJavaError as error:
        action = "read the checkpoint's"
        raise StoreUnavailable(action, location, str(error.java_exception).partition("\n")[0]) from error
