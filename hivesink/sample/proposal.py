"""A table and a job for a sample: its columns, and partitions by the likeliest time. Nothing is written."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain, count
from typing import TYPE_CHECKING, Any, NamedTuple

from hivesink.core.partition import with_scheme
from hivesink.core.table import Column, Primitive, TableName, TableSpec
from hivesink.errors import InvalidOption
from hivesink.hiveql.render import render
from hivesink.sample.infer import infer
from hivesink.sample.preview import Preview, objects, preview, settings_of
from hivesink.sample.source import FilesSource, Sample, TopicSource
from hivesink.spark.input import columns_to_drop

if TYPE_CHECKING:
    from pathlib import Path


ARRIVAL = "arrival"
RECORD = "timestamp"
"""What decides the partition where no column does: the time of arrival, or of the Kafka record."""
_PATTERNS = {"hour": "yyyy-MM-dd--HH", "day": "yyyy-MM-dd", "month": "yyyy-MM"}
_PERIODS = {"hour": timedelta(hours=1), "day": timedelta(days=1), "month": timedelta(days=30)}
_FULL = 256 << 20
"""Bytes of JSON that are worth a partition: tens of megabytes as Parquet."""
_LIKELIEST = re.compile(r"^(?:ts|time|timestamp)$|event|occurred")


class _Time(NamedTuple):
    """What can decide the partition: a column, RECORD or ARRIVAL; and from the first time to the last."""

    name: str
    span: timedelta = timedelta(days=1)
    missing: int = 0
    is_day: bool = False


@dataclass(frozen=True, slots=True)
class Proposal:
    """A table, the text of its DDL file, and what the sample becomes in it. `notes` are for people."""

    spec: TableSpec
    ddl: str
    checked: Preview
    notes: tuple[str, ...]


def granularity(size: int, span: timedelta) -> str:
    """`hour`, `day` or `month`, the shortest that brings 256 MB of JSON; `none` if not even a month does.

    `size` is that of the whole source, `span` from its first to its last time. All that arrives is taken for a day's.
    """
    span = max(span, _PERIODS["hour"])
    return next((name for name, period in _PERIODS.items() if size * (period / span) >= _FULL), "none")


def propose(
    sample: Sample, table: TableName, source: str, arrival: datetime, *, time: str | None, every: str | None
) -> Proposal:
    """A table that the sample has been decoded with; `time` and `every` are the user's, if any.

    Raises InvalidOption if the sample has nothing to make a table of, and for a `time` that isn't among its.
    """
    columns, properties, notes = infer(objects(sample))
    if not columns:
        first = "it holds no records"
        if sample.batch.num_rows:
            first = f"the first record, {sample.position(0)}, is {(sample.records()[0] or b'')[:40]!r}"
        problem = f"--from {source}: no JSON object with a field that can be a column; {first}"
        raise InvalidOption((f"{problem}. Write one JSON object a line",))
    spec = TableSpec(table, columns, properties=tuple(sorted(properties.items())))
    times = _times(sample, spec, arrival)
    chosen = next((each for each in times if each.name == (time or times[0].name).lower()), None)
    if chosen is None:
        names = ", ".join(each.name for each in times)
        raise InvalidOption((f"--time-column {time}: write one of {names}",))
    rate = granularity(sample.size, chosen.span)
    if chosen.is_day and rate == "hour":
        rate = "day"
    # Who names the time wants partitions.
    period = every or ("month" if time and rate == "none" else rate)
    spec = _partitioned(spec, chosen, period)
    checked = preview(sample, spec, arrival)
    notes += [f"{name} is left out: its name doesn't print" for name in checked.unknown]
    if every is None and period == "none":
        notes.append(f"Not partitioned: a month brings less than {_FULL >> 20} MB of JSON (--every says otherwise)")
    elif chosen.missing and period != "none":
        notes.append(f"{chosen.missing:,} of {len(checked.rows):,} records have no {chosen.name}: partition of nulls")
    if checked.bad:
        options = {**spec.options, "sink.on-bad-record": "dead-letter"}
        spec = replace(spec, properties=tuple(sorted(options.items())))
        bad = checked.bad[0]
        reason = f"{bad.field}: {bad.reason}" if bad.field else bad.reason
        problem = f"{len(checked.bad):,} of {sample.batch.num_rows:,} records are bad and would go to {table.rejected}"
        notes.append(f"{problem}; the first, {sample.position(bad.index)}: {reason}")
    title = f"Proposed by `hivesink init` from {sample.batch.num_rows:,} records of {source}"
    # A comment stays on its line, whatever characters are in it.
    lines = ("".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in line) for line in (title, *notes))
    return Proposal(spec, "".join(f"-- {line}\n" for line in lines) + f"{render(spec)}\n", checked, tuple(notes))


def _times(sample: Sample, spec: TableSpec, arrival: datetime) -> list[_Time]:
    """What can decide the partition, the likeliest first: columns that most records have, RECORD, ARRIVAL, others."""
    rows = preview(sample, spec, arrival).rows
    columns = []
    for column in spec.columns:
        values = rows.column(column.name)
        if column.type in {Primitive.TIMESTAMP, Primitive.DATE} and values.null_count < len(values):
            is_day = column.type is Primitive.DATE
            columns.append(_Time(column.name, _span(values.to_pylist()), values.null_count, is_day))
    # Sorting is stable: of two alike the first column is the likelier.
    columns.sort(key=lambda time: (20 * time.missing > len(rows), not _LIKELIEST.search(time.name), time.is_day))
    usual = [time for time in columns if 2 * time.missing <= len(rows)]
    # A column that is called as Kafka's time hides it.
    if sample.shape.timestamp and RECORD not in {column.name for column in spec.columns}:
        usual.append(_Time(RECORD, _span(sample.batch.column(RECORD).to_pylist())))
    return [*usual, _Time(ARRIVAL), *(time for time in columns if time not in usual)]


def _span(values: list[Any]) -> timedelta:
    """Of dates, datetimes and None. The first and last twentieth don't count: some times lie far from all others."""
    times = sorted(value for value in values if value is not None)
    cut = len(times) // 20
    span: timedelta = times[-1 - cut] - times[cut]
    return span


def _partitioned(spec: TableSpec, time: _Time, every: str) -> TableSpec:
    if every == "none":
        return spec
    names = {column.name for column in spec.columns}
    name = next(name for name in chain(["dt", "event_dt"], map("dt_{}".format, count(2))) if name not in names)
    what = "the Kafka record's timestamp" if time.name == RECORD and RECORD not in names else time.name
    properties = {
        **spec.options,
        "sink.bucket.assigner": "date-time",
        "sink.bucket.time-pattern": _PATTERNS[every],
        "sink.bucket.time-zone": "UTC",
    }
    if time.name != ARRIVAL or ARRIVAL in names:
        properties["sink.bucket.time-column"] = time.name
    partition = Column(name, Primitive.STRING, f"{every} of {what} in UTC, {_PATTERNS[every]}")
    return replace(spec, partition_columns=(partition,), properties=tuple(sorted(properties.items())))


_JOB = '''"""Writes {source} to {table}.

    hivesink run {path}

The environment may set what is named below in capitals; TRIGGER is "5 seconds", or "availableNow" to commit what has
arrived and end.
"""

from __future__ import annotations

from os import environ

from hivesink import HiveSink, session, sources

{settings}
WRITER = environ.get("WRITER", "{writer}")
CHECKPOINT = environ.get("CHECKPOINT", f"checkpoints/{{WRITER}}")
TRIGGER = environ.get("TRIGGER", "5 seconds")


def main() -> None:
    """Stream the records until stopped, or with availableNow until all are written."""
    spark = session(WRITER{kafka})
    events = {events}
    sink = HiveSink.for_table(spark, "{table}", writer=WRITER)
    trigger = {{"availableNow": True}} if TRIGGER == "availableNow" else {{"processingTime": TRIGGER}}
    query = sink.start(events, checkpoint=CHECKPOINT, trigger=trigger)
    query.awaitTermination()


if __name__ == "__main__":
    main()
'''
_DROP = """
    # The table has columns of these names; the sink would take Kafka's for them.
    events = events.drop({names})"""


def job_text(job: Path, source: FilesSource | TopicSource, spec: TableSpec) -> str:
    """The text for the file `job`, whose stem is the writer; as those in `jobs/`."""
    if isinstance(source, TopicSource):
        what, kafka, events = (
            "the JSON records of a Kafka topic",
            ", kafka=True",
            "sources.kafka(spark, SERVERS, TOPIC)",
        )
        settings = f'SERVERS = environ.get("KAFKA_SERVERS", {source.servers!r})\n'
        settings += f'TOPIC = environ.get("KAFKA_TOPIC", "{source.topic}")'
        if names := ", ".join(f'"{name}"' for name in columns_to_drop(spec, settings_of(spec))):
            events += _DROP.format(names=names)
    else:
        deep = ', options={"recursiveFileLookup": "true"}' if source.is_deep else ""
        what, kafka, events = "the JSON lines of a folder's files", "", f"sources.lines(spark, FOLDER{deep})"
        settings = f'FOLDER = environ.get("FOLDER", {with_scheme(source.folder)!r})'
    texts = {"source": what, "kafka": kafka, "events": events, "settings": settings}
    return _JOB.format(table=str(spec.name), path=str(job), writer=job.stem, **texts)
