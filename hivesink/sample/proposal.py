"""A table and a job for a sample: its columns, and partitions by the likeliest time. Nothing is written."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import TYPE_CHECKING

from hivesink.core.partition import with_scheme
from hivesink.core.table import Column, Primitive, TableSpec
from hivesink.errors import InvalidOption, WrongUsage
from hivesink.hiveql.render import render
from hivesink.sample.infer import infer
from hivesink.sample.preview import Preview, objects, preview, settings_of
from hivesink.sample.source import TopicSource
from hivesink.spark.input import columns_to_drop

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from hivesink.core.table import TableName
    from hivesink.sample.source import FilesSource, Sample

ARRIVAL = "arrival"
RECORD = "timestamp"
"""What decides the partition where no column does: the time of arrival, or of the Kafka record."""
_PATTERNS = {"hour": "yyyy-MM-dd--HH", "day": "yyyy-MM-dd", "month": "yyyy-MM"}
_LIKELIEST = re.compile(r"^(?:ts|time|timestamp)$|event|occurred")


@dataclass(frozen=True, slots=True)
class Proposal:
    """A table, the text of its DDL file, and what the sample becomes in it. `notes` are for people."""

    spec: TableSpec
    ddl: str
    checked: Preview
    notes: tuple[str, ...]


def propose(
    sample: Sample, table: TableName, source: str, arrival: datetime, *, time: str | None, every: str
) -> Proposal:
    """A table that the sample has been decoded with; `time` and `every` are the user's, if any.

    Raises InvalidOption if the sample has nothing to make a table of, WrongUsage for a `time` that isn't among its.
    """
    columns, properties = infer(objects(sample))
    if not columns:
        first = "it holds no records"
        if sample.batch.num_rows:
            first = f"the first record, {sample.position(0)}, is {(sample.records()[0] or b'')[:40]!r}"
        problem = f"--from {source}: no JSON object with a field that can be a column; {first}"
        raise InvalidOption((f"{problem}. Write one JSON object a line",))
    spec = TableSpec(table, columns, properties=tuple(sorted(properties.items())))
    times = _times(sample, spec, arrival)
    chosen = (time or next(iter(times))).lower()
    if chosen not in times:
        raise WrongUsage((f"--time-column {time}: write one of {', '.join(times)}",))
    spec = _partitioned(spec, chosen, every)
    checked = preview(sample, spec, arrival)
    notes = [f"{name} is left out: its name doesn't print" for name in checked.unknown]
    if times[chosen] and every != "none":
        notes.append(f"{times[chosen]:,} of {len(checked.rows):,} records have no {chosen}: partition of nulls")
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


def _times(sample: Sample, spec: TableSpec, arrival: datetime) -> dict[str, int]:
    """What can decide the partition, the likeliest first, and how many records lack it.

    Columns that most records have, RECORD, ARRIVAL, other columns.
    """
    rows = preview(sample, spec, arrival).rows
    kinds = {column.name: column.type for column in spec.columns}
    missing = {name: rows.column(name).null_count for name in kinds}

    times = {Primitive.TIMESTAMP, Primitive.DATE}
    columns = [name for name, kind in kinds.items() if kind in times and missing[name] < len(rows)]
    # Sorting is stable: of two alike the first column is the likelier.
    day = Primitive.DATE
    columns.sort(key=lambda name: (20 * missing[name] > len(rows), not _LIKELIEST.search(name), kinds[name] is day))
    # A column that is called as Kafka's time hides it.
    others = [RECORD] if sample.shape.timestamp and RECORD not in kinds else []
    usual = [name for name in columns if 2 * missing[name] <= len(rows)]
    return {name: missing.get(name, 0) for name in (*usual, *others, ARRIVAL, *columns)}


def _partitioned(spec: TableSpec, time: str, every: str) -> TableSpec:
    if every == "none":
        return spec
    names = {column.name for column in spec.columns}
    name = next(name for name in chain(["dt", "event_dt"], map("dt_{}".format, count(2))) if name not in names)
    what = "the Kafka record's timestamp" if time == RECORD and RECORD not in names else time
    properties = {
        **spec.options,
        "sink.bucket.assigner": "date-time",
        "sink.bucket.time-pattern": _PATTERNS[every],
        "sink.bucket.time-zone": "UTC",
    }
    if time != ARRIVAL or ARRIVAL in names:
        properties["sink.bucket.time-column"] = time
    partition = Column(name, Primitive.STRING, f"{every} of {what} in UTC, {_PATTERNS[every]}")
    return replace(spec, partition_columns=(partition,), properties=tuple(sorted(properties.items())))


_JOB = '''"""Writes {what} to {table}.

    hivesink run {path}

Environment variables: {variables}; WRITER; CHECKPOINT; TRIGGER
("5 seconds", or "availableNow" to commit what has arrived and end).
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
        names = ", ".join(f'"{name}"' for name in columns_to_drop(spec, settings_of(spec)))
        servers = f'SERVERS = environ.get("KAFKA_SERVERS", {source.servers!r})'
        ways = {
            "what": "the JSON records of a Kafka topic",
            "variables": "KAFKA_SERVERS, KAFKA_TOPIC",
            "settings": f'{servers}\nTOPIC = environ.get("KAFKA_TOPIC", "{source.topic}")',
            "kafka": ", kafka=True",
            "events": "sources.kafka(spark, SERVERS, TOPIC)" + (_DROP.format(names=names) if names else ""),
        }
    else:
        deep = ', options={"recursiveFileLookup": "true"}' if source.is_deep else ""
        ways = {
            "what": "the JSON lines of a folder's files",
            "variables": "FOLDER (where the files arrive)",
            "settings": f'FOLDER = environ.get("FOLDER", {with_scheme(source.folder)!r})',
            "kafka": "",
            "events": f"sources.lines(spark, FOLDER{deep})",
        }
    return _JOB.format(table=str(spec.name), path=str(job), writer=job.stem, **ways)
