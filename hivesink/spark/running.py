"""The query whose batch runs, what its plan in the JVM holds, and Java's errors, which reach Python as texts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from hivesink.config.options import SinkConfig
from hivesink.core.offsets import KafkaOffset, SourceOffset
from hivesink.errors import InvalidOption, Unsupported
from hivesink.sink.commit.source_clock import InputTraits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_WAITING = frozenset({"Waiting for data to arrive", "Waiting for next trigger"})
"""What Spark says between two triggers, never before the first."""
_SLIP = 1.0
"""Seconds by which clocks may differ from look to look."""
_ROW_BY_ROW = frozenset({"Project", "SubqueryAlias", "EventTimeWatermark"})
"""Nodes that make a row of each row, in order."""
_KEEPING = ("Aggregate", "Distinct", "Except", "FlatMapGroups", "TransformWithState")
"""How the names of such nodes begin. Those that drop duplicates let a row through at once or not at all."""


_JAVA = re.compile(r"^\s*(?:: |Caused by: )?((?:[a-z]\w*\.)+[A-Z][\w$]*)(?:: (.*))?$", re.MULTILINE)
_PYTHON = re.compile(r"^Traceback \(most recent call last\):\n(?:\s.*\n)*(\S.*)", re.MULTILINE)
_CARRIERS = ("py4j.protocol.Py4J", "pyspark.errors.exceptions.")
"""Errors of Python that pass on what Java raised."""
_IN_TASK = re.compile(r"\(TID \d+\) \([^)]*\): ")
"""Where Spark names a task that failed, before what it failed with."""
_SENTENCE = re.compile(r"(?<=[^.]\.)\s+(?=[A-Z\[(])|\s+SQLSTATE: ")


def runs_here(master: str | None) -> bool:
    """Whether tasks run in the driver's own process, on its own disks: `local-cluster[…]` starts others."""
    return master == "local" or str(master).startswith("local[")


def driver_jvm(spark: SparkSession) -> Any:
    """The packages of the driver's JVM."""
    return spark.sparkContext._jvm  # noqa: SLF001  PySpark offers no other way


@dataclass(frozen=True, slots=True)
class Running:
    """The query whose batch the current thread runs. `execution` is the JVM's `StreamExecution`."""

    id: str
    run: str
    checkpoint: str
    execution: Any
    handle: StreamingQuery

    @classmethod
    def here(cls, spark: SparkSession) -> Running:
        """Asks the session that started the query. Raises Unsupported."""
        query = spark.sparkContext.getLocalProperty("sql.streaming.queryId")
        running = spark.streams.get(query) if query else None
        if query is None or running is None:
            msg = "a call of the sink outside a streaming query of its own session"
            raise Unsupported(msg, "a batch must have a checkpoint", "use events.writeStream.foreachBatch(sink)")
        execution = running._jsq.streamingQuery()  # noqa: SLF001  PySpark offers no other way
        # Not the job group, which holds the run's id too: a job may set its own.
        return cls(query, str(running.runId), str(execution.resolvedCheckpointRoot()), execution, running)


@dataclass(slots=True)
class Questions:
    """When Spark has asked the source for new rows: between two looks at which it waits, unless a batch has come."""

    interval: timedelta | None
    _waited: float | None = None
    _ahead: float = float("-inf")
    _until: float = float("-inf")
    """Until then Spark may wait for a clock that was set back."""

    def look(self, message: str | None, tick: float, wall: float) -> float | None:
        """A time by the monotonic clock `tick` at which, or after which, it has asked; None if nobody knows.

        It waits by the clock on the `wall` (seconds): after that was set back, for so much longer.
        """
        before, self._waited = self._waited, tick if message in _WAITING else None
        if not self.interval:
            return None if self.interval is None or self._waited is None else before
        back, self._ahead = self._ahead - (wall - tick), wall - tick
        if back > _SLIP:
            self._until = max(self._until, tick) + self.interval.total_seconds() + back
        if before is None or self._waited is None or tick < self._until:
            return None
        return min(before, tick - self.interval.total_seconds())


def newest_offsets(execution: Any, end: tuple[SourceOffset, ...]) -> tuple[SourceOffset, ...] | None:
    """The ends of the topics of a batch up to `end` when Spark last asked Kafka; None where not all sources tell."""
    sources = execution.sources()
    if sources.size() != len(end) or not all(isinstance(offset, KafkaOffset) for offset in end):
        return None
    try:
        # `SupportsAdmissionControl` in Spark's API.
        newest = [sources.apply(number).reportLatestOffset() for number in range(len(end))]
    except Py4JJavaError:
        # A source that hasn't asked yet, as in a batch that an earlier run has planned, fails (Spark 4.2).
        return None
    if any(offset is None for offset in newest):
        return None
    return tuple(KafkaOffset.of(json.loads(offset.json())) for offset in newest)


def trigger_interval(execution: Any) -> timedelta | None:
    """How often Spark asks the sources for new rows at least; None if it doesn't do so again. `execution` as above."""
    trigger = execution.trigger()
    if trigger.getClass().getSimpleName() != "ProcessingTimeTrigger":
        return None
    return timedelta(milliseconds=trigger.intervalMs())


# Plans are Spark's, in the JVM: logical and analyzed, but for that of `keeps_state`.


def keeps_state(plan: Any) -> bool:
    """Whether a physical plan has a node with state."""
    # The trait StatefulOperator has another package in each line of Spark; its method is the same in all.
    return any("getStateInfo" in dir(node) for node in _nodes(plan))


def holds_back(plan: Any) -> bool:
    """Whether a stream's plan may keep rows for later, as windows and joins of streams do."""
    for node in _nodes(plan):
        name, streams = _name(node), sum(child.isStreaming() for child in _children(node))
        if (name.startswith(_KEEPING) and streams) or (name == "Join" and streams > 1):
            return True
    return False


def comes_as_read(plan: Any) -> bool:
    """Whether a plan gives a row for each that its single leaf reads, in that order."""
    while _name(plan) in _ROW_BY_ROW:
        plan = plan.children().head()
    return int(plan.children().size()) == 0


def is_marked(plan: Any) -> bool:
    """Whether each source of a stream's plan has a watermark of Spark's."""
    name, children = _name(plan), _children(plan)
    # What a WITH clause defines is beside the plan that refers to it.
    if not plan.isStreaming() or name == "CTERelationRef":
        return True
    # Of what operators keep back, a watermark above them says nothing.
    if name == "EventTimeWatermark" and not holds_back(plan):
        return True
    return bool(children) and all(map(is_marked, children))


def streams(plan: Any) -> list[dict[str, str]]:
    """The options of each source of a stream's plan, in Spark's order, by lower-case names, but for Kafka's own."""
    streams = list[dict[str, str]]()
    for node in _nodes(plan):
        methods, options = dir(node), dict[str, str]()
        if "extraOptions" in methods:
            options.update(node.extraOptions().asCaseSensitiveMap())
        elif "dataSource" in methods:
            pairs = node.dataSource().options().iterator()
            while pairs.hasNext():
                pair = pairs.next()
                options[str(pair.productElement(0))] = str(pair.productElement(1))
        else:
            continue
        streams.append({name if name.startswith("kafka.") else name.lower(): text for name, text in options.items()})
    return streams


def source_text(options: dict[str, str]) -> str:
    """What a source with these options reads: the topics of Kafka's, the folder of files; "" of any other."""
    topics = ",".join(sorted(topic.strip() for topic in options.get("subscribe", "").split(",")))
    return topics or options.get("subscribepattern") or options.get("assign") or options.get("path") or ""


def traits_of(plan: Any, *, planned: bool, ends_early: bool) -> InputTraits:
    """What a stream's plan says of its input; the rest as `InputTraits` has it."""
    names = {name for options in streams(plan) for name in options}
    return InputTraits(planned, ends_early, "minoffsetspertrigger" in names, holds_back(plan))


def require_watermark(config: SinkConfig, *, has_watermark: bool) -> None:
    """Where the stream holds rows back, only Spark's watermark tells which are still to come. Raises InvalidOption."""
    held, column = "the stream's windows or joins keep rows for later", "sink.partition-commit.watermark-column"
    if not has_watermark:
        problem = f"{held}, and not each of its sources has a watermark; use withWatermark on each"
        raise InvalidOption((f"sink.partition-commit.trigger = 'partition-time': {problem}",))
    if config[column] is not None:
        raise InvalidOption((f"{column}: {held}, so only Spark's watermark can tell what is still to come; remove it",))


def _name(plan: Any) -> str:
    return str(plan.getClass().getSimpleName())


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    for child in _children(plan):
        yield from _nodes(child)


def _children(plan: Any) -> Sequence[Any]:
    children = plan.children()
    return [children.apply(index) for index in range(children.size())]


def short_java_error(text: str) -> str:
    """The root cause in a text with Java's stack trace, or what Python raised: its class and its first sentence."""
    python = [line for line in _PYTHON.findall(text) if not line.startswith(_CARRIERS)]
    java = [": ".join(filter(None, parts)) for parts in _JAVA.findall(text)]
    first = next((line for line in text.splitlines() if line.strip()), "(no message)")
    root = (python or java or [first])[-1]
    return _SENTENCE.split(_IN_TASK.split(root)[-1].strip(), maxsplit=1)[0]


class _Brief(Py4JJavaError):  # type: ignore[misc]  # py4j has no types
    def __init__(self, error: Py4JJavaError) -> None:
        super().__init__(error.errmsg, error.java_exception)
        self._text = f"{error.errmsg}: {short_java_error(str(error))}"

    def __str__(self) -> str:
        return self._text


# Spark knows the error by this name in the traceback.
_Brief.__module__, _Brief.__qualname__ = Py4JJavaError.__module__, Py4JJavaError.__qualname__


def briefly(error: BaseException) -> BaseException:
    """`error`; if it is Java's, with its call and its root cause alone.

    Whether a batch failed because its query was stopped, Spark asks a regular expression (`PROXY_ERROR` in its
    `StreamExecution`). That takes a frame of the JVM's stack for each character, so Java's own trace overflows it.
    """
    return _Brief(error) if isinstance(error, Py4JJavaError) else error
