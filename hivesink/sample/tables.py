"""What a sample becomes in a table, and a table and a job that fit it. Nothing is written."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hivesink import wiring
from hivesink.config.options import SinkConfig
from hivesink.core.column_source import ELEMENT, JsonPath, stream_column
from hivesink.core.column_source import RECORD as ROWS_RECORD
from hivesink.core.epoch import Epoch
from hivesink.core.partition import with_scheme
from hivesink.core.table import Column, Primitive, TableName, TableSpec
from hivesink.errors import InvalidOption
from hivesink.hiveql.render import render
from hivesink.sample.formats import PROPOSALS, Given, lowered, values_of
from hivesink.sample.source import FilesSource, Sample, TopicSource
from hivesink.sink.commit.writer import problems_of
from hivesink.sink.task.assign import assigner_for, row_columns
from hivesink.sink.task.messages import TablePlan, TaskPlan
from hivesink.sink.task.route import assign
from hivesink.spark.input import columns_to_drop

ARRIVAL = "arrival"
RECORD = "timestamp"
"""What decides the partition where no column does: the time of arrival, or of the Kafka record."""
_PATTERNS = {"hour": "yyyy-MM-dd--HH", "day": "yyyy-MM-dd", "month": "yyyy-MM"}
_PERIODS = {"hour": timedelta(hours=1), "day": timedelta(days=1), "month": timedelta(days=30)}
_FULL = 256 << 20
"""Bytes of JSON that are worth a partition: tens of megabytes as Parquet."""
_LIKELIEST = re.compile(r"^(?:ts|time|timestamp)$|event|occurred")


@dataclass(frozen=True, slots=True)
class Preview:
    """`rows` are those that the table would get, in the sample's order, and `partitions` the partition of each.

    `bad` are sorted by record: where each came from, its field and the reason. `unknown` counts the fields that the
    table lacks, by their names in lower case, the most first. `skipped` are the tombstones.
    """

    rows: pa.Table
    partitions: tuple[str, ...]
    bad: tuple[Mapping[str, Any], ...]
    skipped: int
    unknown: Mapping[str, int]


def preview(sample: Sample, spec: TableSpec, arrival: datetime) -> Preview:
    """Decode and assign the sample as one batch of a job that arrives at `arrival` (UTC).

    Raises InvalidOption for settings that a job's start would refuse, or that don't fit such a stream.
    """
    config = SinkConfig.parse(spec.options)
    problems = list(problems_of(spec, config))
    for name, source in config.sources.items():
        column, _ = stream_column(source) or (None, None)
        if column is not None and column not in sample.batch.schema.names:
            option = f"sink.column.{name}.from"
            problems.append(f"{option} = {config.text(option)!r}: records of this sample have no such thing")
    if problems:
        raise InvalidOption(tuple(problems))
    plan = _plan(sample, spec, config, arrival)
    _, decoded, assigned, bad = next(assign(sample.batch, plan, wiring.row_reader(plan), assigner_for(spec, config)))
    fit = np.flatnonzero(assigned.codes >= 0)
    paths = (source for source in config.sources.values() if isinstance(source, JsonPath))
    columns = {column.name for column in row_columns(spec, config)} - config.sources.keys()
    taken = columns | {str(steps[0]) for path in paths for steps in path.every}
    # The fields of a change event, or of a record that holds many, are no columns.
    is_plain = config["sink.value.format"] == "json" and decoded.parts is None
    records = sample.records() if is_plain else []
    of_row, elements = np.arange(len(sample.batch)), [None] * len(sample.batch)
    if decoded.parts is not None:
        # Rows are elements of records, or records without any.
        of_row, elements = (decoded.parts.column(name).to_pylist() for name in (ROWS_RECORD, ELEMENT))
    # A lone surrogate can't be printed: it is shown as the record has it.
    fields = (
        name.encode("utf-8", "backslashreplace").decode() for item in map(lowered, values_of(records)) for name in item
    )
    return Preview(
        rows=decoded.table.select([column.name for column in spec.columns]).take(pa.array(fit)),
        partitions=tuple(assigned.paths[code] for code in assigned.codes[fit].tolist()),
        bad=tuple(
            {**sample.place(int(of_row[row.index]), elements[row.index]), "field": row.field, "reason": row.reason}
            for row in bad
        ),
        skipped=decoded.skipped,
        unknown=dict(Counter(name for name in fields if name not in taken).most_common()),
    )


def _plan(sample: Sample, spec: TableSpec, config: SinkConfig, arrival: datetime) -> TaskPlan:
    target = TablePlan(spec, spec.location or "")
    return TaskPlan(target, None, config, sample.shape, uid="", epoch=Epoch(0), attempt="", arrival=arrival)


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
    sample: Sample,
    table: TableName,
    source: str,
    arrival: datetime,
    *,
    time: str | None,
    every: str | None,
    settings: Mapping[str, str] | None = None,
) -> Proposal:
    """A table that the sample has been decoded with; `time`, `every` and `settings` are the user's, if any.

    Raises InvalidOption if the sample has nothing to make a table of, and for a `time` that can't decide the partition;
    and what `Schemas` raises.
    """
    settings = dict(settings or {})
    config = SinkConfig.parse({}, settings)
    form = config["sink.value.format"]
    if form not in PROPOSALS:
        raise InvalidOption((f"sink.value.format = {form!r}: init makes tables of {', '.join(PROPOSALS)}",))
    plan = _plan(sample, TableSpec(table, ()), config, arrival)
    given = Given(sample.records(), config, wiring.schemas(plan, None), sample.heads())
    columns, properties, sure, left = PROPOSALS[form](given)
    if not columns:
        first = repr((sample.records()[0] or b"")[:40]) if len(sample.batch) else "none"
        problem = f"--from {source}: no object with a field that can be a column; the first record is {first}"
        raise InvalidOption((f"{problem}. Write one JSON object a line, or --set sink.value.format=…",))
    spec = TableSpec(table, columns, properties=tuple({**settings, **properties}.items()))
    rows = preview(sample, spec, arrival).rows
    name = time.lower() if time else sure or _likeliest(sample, spec, rows)
    period = granularity(sample.size, _span(sample, rows, name))
    if period == "hour" and any(column.name == name and column.type is Primitive.DATE for column in columns):
        period = "day"
    # Who names the time wants partitions.
    period = every or ("month" if time and period == "none" else period)
    if period != "none":
        spec = _partitioned(spec, name, period)
    checked = preview(sample, spec, arrival)
    notes = [*left]
    if every is None and period == "none":
        notes.append(f"Not partitioned: a month brings less than {_FULL >> 20} MB (--every says otherwise)")
    if checked.bad:
        spec = replace(spec, properties=(*spec.properties, ("sink.on-bad-record", "dead-letter")))
        *place, (_, field), (_, reason) = checked.bad[0].items()
        reason = f"{field}: {reason}" if field else reason
        problem = f"{len(checked.bad):,} of {len(sample.batch):,} records are bad and would go to {table.rejected}"
        notes.append(f"{problem}; the first, {' '.join(f'{key} {value}' for key, value in place)}: {reason}")
    spec = replace(spec, properties=tuple(sorted(spec.properties)))
    title = f"Proposed by `hivesink init` from {len(sample.batch):,} records of {source}"
    comments = "".join(f"-- {' '.join(line.splitlines())}\n" for line in (title, *notes))
    return Proposal(spec, f"{comments}{render(spec)}\n", checked, tuple(notes))


def _likeliest(sample: Sample, spec: TableSpec, rows: pa.Table) -> str:
    """What decides the partition: the likeliest time that most records have, or else RECORD or ARRIVAL."""
    missing = {name: rows.column(name).null_count for name in rows.column_names}
    times = (column for column in spec.columns if column.type in {Primitive.TIMESTAMP, Primitive.DATE})

    def unlikely(column: Column) -> tuple[bool, ...]:
        is_seldom, is_day = 20 * missing[column.name] > len(rows), column.type is Primitive.DATE
        return is_seldom, not _LIKELIEST.search(column.name), is_day

    # Of two alike the first column is the likelier.
    usual = sorted((column for column in times if 2 * missing[column.name] < len(rows)), key=unlikely)
    # A column that is called as Kafka's time hides it.
    by_record = sample.shape.timestamp and RECORD not in missing
    return usual[0].name if usual else RECORD if by_record else ARRIVAL


def _span(sample: Sample, rows: pa.Table, name: str) -> timedelta:
    """From the first time to the last: a day where all arrives at once.

    The first and last twentieth don't count: some times lie far from all others.
    """
    held = rows if name in rows.column_names else sample.batch
    values = held.column(name).to_pylist() if name in held.schema.names else []
    times = sorted(value for value in values if isinstance(value, date))
    cut = len(times) // 20
    return times[-1 - cut] - times[cut] if times else timedelta(days=1)


def _partitioned(spec: TableSpec, time: str, every: str) -> TableSpec:
    names = {column.name for column in spec.columns}
    name = "dt"
    while name in names:
        name = f"event_{name}"
    what = "the Kafka record's timestamp" if time == RECORD and RECORD not in names else time
    properties = {"assigner": "date-time", "time-pattern": _PATTERNS[every], "time-zone": "UTC"}
    if time != ARRIVAL or ARRIVAL in names:
        properties["time-column"] = time
    partition = Column(name, Primitive.STRING, f"{every} of {what} in UTC, {_PATTERNS[every]}")
    settings = ((f"sink.bucket.{key}", value) for key, value in properties.items())
    return replace(spec, partition_columns=(partition,), properties=(*spec.properties, *settings))


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

spark = session(WRITER{kafka})
events = {events}
sink = HiveSink.for_table(spark, "{table}", writer=WRITER)
trigger = {{"availableNow": True}} if TRIGGER == "availableNow" else {{"processingTime": TRIGGER}}
sink.start(events, checkpoint=CHECKPOINT, trigger=trigger).awaitTermination()
'''
_DROP = """
# The table has columns of these names; the sink would take Kafka's for them.
events = events.drop({names})"""


def job_text(job: Path, source: FilesSource | TopicSource, spec: TableSpec) -> str:
    """The text for the file `job`, whose stem is the writer; as those in `jobs/`."""
    if isinstance(source, TopicSource):
        what, kafka, events = (
            "the records of a Kafka topic",
            ", kafka=True",
            "sources.kafka(spark, SERVERS, TOPIC)",
        )
        settings = f'SERVERS = environ.get("KAFKA_SERVERS", {source.servers!r})\n'
        settings += f'TOPIC = environ.get("KAFKA_TOPIC", "{source.topic}")'
        if names := ", ".join(f'"{name}"' for name in columns_to_drop(spec, SinkConfig.parse(spec.options))):
            events += _DROP.format(names=names)
    else:
        deep = ', options={"recursiveFileLookup": "true"}' if source.is_deep else ""
        what, kafka, events = "the lines of a folder's files", "", f"sources.lines(spark, FOLDER{deep})"
        settings = f'FOLDER = environ.get("FOLDER", {with_scheme(source.folder)!r})'
    texts = {"source": what, "kafka": kafka, "events": events, "settings": settings}
    return _JOB.format(table=str(spec.name), path=str(job), writer=job.stem, **texts)
