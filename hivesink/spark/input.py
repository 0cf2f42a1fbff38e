"""What a batch's input is: what its columns mean to the sink, and whether its files are those of the checkpoint."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hivesink.config.options import CommitTrigger, OnBadRecord, SinkConfig
from hivesink.core.column_source import BLOCK, PATH, JsonPath, stream_column
from hivesink.core.epoch import BatchRef
from hivesink.core.offsets import FilesOffset, KafkaOffset, SourceOffset
from hivesink.core.table import TableSpec
from hivesink.errors import InvalidOption, Unsupported, few
from hivesink.sink.task.assign import classes_columns, row_columns
from hivesink.sink.task.messages import InputShape, TaskPlan
from hivesink.spark.running import driver_jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

_RECORD = {"key", "value", "headers", "topic", "partition", "offset", "timestamp", "timestamptype", PATH, BLOCK}
"""The columns of raw records of Kafka and of files, in lower case."""
_STATUS = re.compile(r"path=(.*?); isDirectory=false; length=(\d+);.*?; modification_time=(\d+);", re.DOTALL)
_NAMED = 3
"""How many files an error names."""


def input_shape(
    schema: StructType,
    spec: TableSpec,
    config: SinkConfig,
    ends: Sequence[SourceOffset],
    *,
    as_read: bool = False,
    has_watermark: bool = False,
) -> InputShape:
    """Which of the stream's columns mean what.

    Raw records are in `value`, and Kafka's other columns are their position and time. `ends` are the batch's offsets,
    an offset for each source; `as_read`: the query gives the rows as its only source reads them; `has_watermark`: the
    stream has Spark's. Raises InvalidOption where partition commits wait for a watermark, and there is none.
    """
    kinds = {field.name: field.dataType.simpleString() for field in schema.fields}
    # Lines are counted if all of a file's block come in order.
    can_count = as_read and kinds.get(BLOCK) == "bigint" and kinds.get(PATH) == "string"
    event_time = _event_time(config, has_watermark=has_watermark)
    shape = InputShape(block=BLOCK if can_count else None, event_time=event_time)
    if not _is_raw(kinds, spec, config):
        absent = classes_columns(spec, config) - config.sources.keys() - {name.lower() for name in kinds}
        shape = replace(shape, path=PATH if PATH in kinds else None, absent=absent)
        # Decoded rows may have kept the columns that say where they come from; the table may have them, too.
        if event_time and kinds.get("topic") == "string" and kinds.get("partition") == "int":
            shape = replace(shape, topic="topic", partition="partition")
        return shape

    def column(name: str, kind: str) -> str | None:
        return name if kinds.get(name) == kind else None

    topics = {topic for offset in ends if isinstance(offset, KafkaOffset) for (topic, _), _ in offset.next}
    is_single = len(ends) == 1 and len(topics) == 1
    return replace(
        shape,
        value="value",
        timestamp=column("timestamp", "timestamp"),
        topic=None if is_single else column("topic", "string"),
        partition=column("partition", "int"),
        offset=column("offset", "bigint"),
        path=column(PATH, "string"),
        topic_name=next(iter(topics)) if is_single else None,
    )


def _event_time(config: SinkConfig, *, has_watermark: bool) -> str | None:
    """The column of the sink's own watermark, if commits wait: declared, else Spark's (None), else the bucket's."""
    if config["sink.partition-commit.trigger"] is not CommitTrigger.PARTITION_TIME:
        return None
    own: str | None = config["sink.partition-commit.watermark-column"]
    name = own or (None if has_watermark else config["sink.bucket.time-column"])
    if name is None and not has_watermark:
        problem = (
            "sink.partition-commit.trigger = 'partition-time': there is no watermark; set "
            "sink.partition-commit.watermark-column, or use withWatermark on the stream"
        )
        raise InvalidOption((problem,))
    return name


def columns_to_drop(spec: TableSpec, config: SinkConfig) -> tuple[str, ...]:
    """Columns of Spark's Kafka source without which its records are raw for this table; none if they are anyway."""
    kinds = {"key": "binary", "value": "binary", "topic": "string", "partition": "int", "offset": "bigint"}
    kinds |= {"timestamp": "timestamp", "timestampType": "int"}
    if _is_raw(kinds, spec, config):
        return ()
    names = {column.name for column in row_columns(spec, config)}
    return tuple(name for name in kinds if name.lower() in names and name != "value")


def _is_raw(kinds: Mapping[str, str], spec: TableSpec, config: SinkConfig) -> bool:
    """Whether `value` holds raw records: the stream lacks a column of the table's, and has none but of Kafka's names.

    A column with a source of its own is looked for by no name, and a JSON path is in no column of a stream's.
    If the table has a column `value` itself, the stream may have no other, but for those of files.
    """
    sources = config.sources
    names = {column.name for column in (*spec.columns, *spec.partition_columns)} - sources.keys()
    present = names & {name.lower() for name in kinds}
    needed = {column.name for column in row_columns(spec, config)} - sources.keys()
    only_in_raw = any(isinstance(source, JsonPath) for source in sources.values())
    if kinds.get("value") not in {"binary", "string"} or (needed <= present and not only_in_raw):
        return False
    return present <= ({"value", PATH, BLOCK} if "value" in names else _RECORD)


def needed_input(schema: StructType, plan: TaskPlan) -> list[str]:
    """The stream's columns that tasks need. Raises InvalidOption."""
    shape, config, metadata = plan.shape, plan.config, _metadata(schema, plan)
    columns = [column.name for column in row_columns(plan.target.spec, config)]
    time = config["sink.bucket.time-column"]
    keeps_position = plan.places and config["sink.on-bad-record"] is not OnBadRecord.DROP
    place = (shape.path, shape.block) if keeps_position else ()
    if shape.value is not None:
        position = (shape.topic, shape.partition, shape.offset) if keeps_position else ()
        needs_time = {time, shape.event_time} - {None} - {*columns}
        source = () if shape.event_time is None else (shape.topic, shape.partition)
        names = [shape.value, shape.timestamp if needs_time else None, *position, *place, *source, *metadata]
        return list(dict.fromkeys(filter(None, names)))
    by_name: dict[str, list[str]] = {}
    for field in schema.fields:
        by_name.setdefault(field.name.lower(), []).append(field.name)
    wanted = [name for name in columns if name not in config.sources.keys() | shape.absent]
    missing = [name for name in wanted if len(by_name.get(name, ())) != 1]
    if missing:
        problem = f"{plan.target.name} needs exactly a column for each of {', '.join(missing)}"
        raise InvalidOption((f"{problem}, and the stream has {', '.join(schema.fieldNames())}",))
    others = (time, shape.event_time, shape.topic, shape.partition)
    extra = [name for other in others if other and other not in wanted for name in by_name.get(other, [])[:1]]
    return list(dict.fromkeys([*(by_name[name][0] for name in wanted), *extra, *filter(None, place), *metadata]))


def _metadata(schema: StructType, plan: TaskPlan) -> list[str]:
    """The columns of the stream that `sink.column.<name>.from` needs. Raises InvalidOption."""
    kinds = {field.name: field.dataType.simpleString() for field in schema.fields}
    names, problems = list[str](), list[str]()
    for column, source in plan.config.sources.items():
        option = f"sink.column.{column}.from"
        option = f"{option} = {plan.config.text(option)!r}"
        if isinstance(source, JsonPath) and not plan.shape.is_raw:
            problems.append(f"{option}: the stream has no raw records in a column value; read it in the query instead")
        name, fitting = stream_column(source) or (None, ())
        if name is None:
            continue
        if kinds.get(name) not in fitting:
            kind = " or ".join(fitting)
            problems.append(
                f"{option}: the stream has no column {name} of type {kind}; keep the source's (docs/types.md)"
            )
        else:
            names.append(name)
    if problems:
        raise InvalidOption(tuple(problems))
    return names


class SourceFiles:
    """A batch's files, as the checkpoint plans them and as Spark has listed them since; `execution` as in `Running`."""

    def __init__(self, spark: SparkSession, execution: Any, ref: BatchRef) -> None:
        self._jvm = driver_jvm(spark)
        self.planned = [path for end in ref.end if isinstance(end, FilesOffset) for _, path in end.paths]
        self._relations: list[Any] = []
        if self.planned:
            leaves = execution.lastExecution().logical().collectLeaves()
            # A table that the stream is joined with is also a relation, but no stream.
            streams = [leaf for leaf in map(leaves.apply, range(leaves.size())) if leaf.isStreaming()]
            relations = [leaf.relation() for leaf in streams if leaf.getClass().getSimpleName() == "LogicalRelation"]
            # A stream joined with itself appears twice as the same object; two of a folder are two, though equal.
            identity = self._jvm.java.lang.System.identityHashCode
            self._relations = list({identity(relation): relation for relation in relations}.values())

    def missing(self) -> list[str]:
        """The planned files that weren't there when Spark listed them: it passes over them in silence.

        Raises Unsupported if Spark's tasks would leave out rows of a file in silence, too, and if it reads other files,
        or some twice: it takes a file's name for a pattern of names.
        """
        for relation in self._relations:
            conf = relation.sparkSession().sessionState().conf()
            usual = {"ignoreCorruptFiles": conf.ignoreCorruptFiles(), "ignoreMissingFiles": conf.ignoreMissingFiles()}
            for name, setting in usual.items():
                option = relation.options().get(name)
                if str(option.get() if option.isDefined() else setting).lower() == "true":
                    way = f"remove that option, or the setting spark.sql.files.{name}"
                    raise Unsupported(name, "Spark leaves out rows in silence", way)
        present = Counter(str(file) for relation in self._relations for file in relation.location().inputFiles())
        planned = Counter(self.planned)
        if unplanned := present - planned:
            what = f"a batch with {few(list(unplanned), _NAMED)}"
            why = "Spark reads it twice, or without a plan: a file's name in the batch is a pattern to Spark"
            raise Unsupported(what, why, "rename the batch's files, without any of {}[]*?\\")
        return list((planned - present).elements())

    def changed(self) -> list[str]:
        """The files that have another length or time by now than when Spark planned its tasks.

        A task reads a file by the length that it had then: the end of a longer file that took its place is left out.
        """
        if not self._relations:
            return []
        datasources, none = self._jvm.org.apache.spark.sql.execution.datasources, self._jvm.scala.Option.empty()
        no_cache = getattr(getattr(datasources, "NoopCache$"), "MODULE$")
        changed = list[str]()
        for relation in self._relations:
            location = relation.location()
            # Another index: if a file was deleted since, the batch must not leave it out where it is run again.
            index = datasources.InMemoryFileIndex(
                relation.sparkSession(), location.rootPaths(), relation.options(), none, no_cache, none, none
            )
            # Hadoop's text for each of the files: a single call, however many there are.
            texts = (str(files.allFiles().mkString("\n")) for files in (location, index))
            planned, now = ({path: rest for path, *rest in _STATUS.findall(text)} for text in texts)
            changed += [path for path, rest in now.items() if planned.get(path, rest) != rest]
        return changed
