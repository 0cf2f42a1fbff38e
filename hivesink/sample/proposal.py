"""A table for a sample: its columns, and a partition column by the likeliest time. Decides only; nothing is written."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from hivesink.config import options
from hivesink.core.column_source import BLOCK, PATH, Metadata, json_path, stream_column
from hivesink.core.table import TIMES, Column, Primitive, TableSpec
from hivesink.errors import InvalidOption
from hivesink.hiveql.parse import parse_ddl
from hivesink.hiveql.render import render
from hivesink.sample.infer import MIXED, infer
from hivesink.sample.preview import Preview, preview, settings_of
from hivesink.sample.seen import Kind, kind_of_text, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pyarrow as pa

    from hivesink.core.table import TableName
    from hivesink.sample.infer import LeftOut
    from hivesink.sample.records import Sample

ARRIVAL = "arrival"
RECORD = "timestamp"
"""What decides the partition where no column does: the time of arrival, or of the Kafka record."""
PATTERNS = {"day": "yyyy-MM-dd", "hour": "yyyy-MM-dd--HH"}
_MILLIS = (946_684_800_000, 4_102_444_800_000)
"""Epoch milliseconds of the years 2000 to 2099."""
_SECONDS = (946_684_800, 4_102_444_800)
_TIMELY = re.compile(r"time|date|stamp|epoch|millis|created|modified|(?:^|_)(?:ts|at|ms|when)(?:_|$)|[a-z]{3}at$")
_LIKELIEST = re.compile(r"^(?:ts|time|timestamp)$|event|occurred")
_OTHER_TIMES = re.compile(r"birth|dob|expir|valid|until|due|deadline")
"""Names of times at which nothing happens that the record tells."""
_ODD = 0.05
_BUSY_HOUR = 10_000
"""Rows an hour from which a partition for each hour isn't small."""
_PARTITION_NAMES = ("dt", "event_dt", "partition_dt", "hivesink_dt")
_MOST_ODD = 3
"""Values that are named of a column of which only a part is times."""
_MOST_LEFT_OUT = 100
"""Fields that the DDL's comment names."""


@dataclass(frozen=True, slots=True)
class TimeColumn:
    """A column that `sink.bucket.time-column` can name: of how many rows, its first and last time."""

    name: str
    type: object
    rows: int
    missing: int
    first: datetime
    last: datetime

    @property
    def likelihood(self) -> tuple[bool, int, bool]:
        """Greater is likelier to be the event's own time."""
        tier = -1 if _OTHER_TIMES.search(self.name) else 1 if _LIKELIEST.search(self.name) else 0
        return self.missing <= _ODD * self.rows, tier, self.type is not Primitive.DATE


@dataclass(frozen=True, slots=True)
class Findings:
    """What a sample shows: columns, with comments on what isn't certain, fields left out, and columns of times.

    `sources` are the settings of columns that can't be called as their fields. `nearly_times` are columns of text of
    which a part is times, the greatest part first: name, and what isn't.
    """

    columns: tuple[Column, ...]
    sources: Mapping[str, str]
    left_out: tuple[LeftOut, ...]
    times: tuple[TimeColumn, ...]
    nearly_times: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Partitioning:
    """`time` is a column, RECORD or ARRIVAL; `every` a key of PATTERNS; `zone` of the IANA database."""

    time: str
    every: str
    zone: str


@dataclass(frozen=True, slots=True)
class Proposal:
    """A table, the text of its DDL file, what the sample becomes in it, and the fields that the table lacks.

    `untimed` says how many rows lack the time that decides the partition.
    """

    spec: TableSpec
    ddl: str
    checked: Preview
    left_out: tuple[LeftOut, ...]
    untimed: str | None


def _first(sample: Sample) -> str:
    """A record of the sample, for people."""
    for row, value in enumerate(sample.records()):
        if value is not None:
            return f"{sample.position(row)} is {shown(value.decode(errors='replace'), 40)}"
    return "all are tombstones"


def find(sample: Sample, table: TableName, arrival: datetime, *, source: str = "the source") -> Findings:
    """`source` names it in errors. Raises InvalidOption if the sample has nothing to make a table of."""
    inferred = infer(sample.records())
    columns = inferred.columns
    if not columns:
        if not sample.batch.num_rows:
            problem = f"{shown(source, 200)} holds no records; send some, then try again"
        elif inferred.left_out:
            problem = "no field of the sample can be a column; "
            problem += "; ".join(f"{shown(one.field)}: {one.why}" for one in inferred.left_out[:5])
        else:
            way = "`jq -c .` makes that of indented objects, `jq -c '.[]'` of an array"
            if any(b"\0" in value for value in sample.records() if value is not None):
                way = "`iconv -f utf-16 -t utf-8` makes that of UTF-16"
            problem = f"none of the sample's records is a JSON object with a field; {_first(sample)}; write one JSON "
            problem += f"object a line: {way} (for CSV and logs see 'CSV and text logs' in docs/recipes.md)"
        raise InvalidOption((problem,))
    if "value" in (names := {column.name for column in columns}) and names <= {"value", PATH, BLOCK}:
        fields = ", ".join(sorted(names))
        problem = f"the only fields are {fields}, as columns of the stream of raw records are called; "
        problem += "send records with other names"
        raise InvalidOption((problem,))
    spec = TableSpec(table, columns, properties=tuple(sorted(inferred.sources.items())))
    rows = preview(sample, spec, settings_of(spec), arrival).rows
    columns = tuple(_as_times(column, rows) for column in columns)
    times = [time for column in columns if column.type in TIMES for time in _times(column, rows)]
    # Sorting is stable: of two alike the first column is the likelier.
    ordered = tuple(sorted(times, key=lambda time: time.likelihood, reverse=True))
    nearly = sorted((one for column in columns for one in _nearly_times(column, rows)), reverse=True)
    return Findings(
        columns, inferred.sources, inferred.left_out, ordered, tuple((name, why) for _, name, why in nearly)
    )


def time_choices(found: Findings, *, from_kafka: bool) -> tuple[str, ...]:
    """What can decide the partition. A column that is called as Kafka's own time hides it."""
    hides = any(column.name == RECORD for column in found.columns)
    return (*(time.name for time in found.times), *([RECORD] if from_kafka and not hides else []), ARRIVAL)


def column_of(found: Findings, field: str) -> str:
    """The column that takes the values of the field, if it has another name; else `field`."""
    setting = next((key for key, path in found.sources.items() if path == json_path(field)), "")
    return setting.removeprefix("sink.column.").removesuffix(".from") or field


def default_time(found: Findings, *, from_kafka: bool) -> str:
    """The likeliest time of the event."""
    likely = [time for time in found.times if 2 * time.missing <= time.rows and time.likelihood[1] >= 0]
    if likely:
        return likely[0].name
    return time_choices(found, from_kafka=from_kafka)[len(found.times)]


def no_time(found: Findings, wanted: str) -> str | None:
    """Why the column `wanted` can't decide the partition; None if that is all too plain: it isn't there, or no time."""
    nearly = dict(found.nearly_times)
    remarks = {column.name: column.comment for column in found.columns if column.comment}
    if why := nearly.get(wanted) or remarks.get(wanted):
        return why
    outer, _, inner = wanted.partition(".")
    if inner and outer in {column.name.lower() for column in found.columns}:
        last = inner.rpartition(".")[2]
        return (
            f"it is within {outer}; have init write another DDL, then add a column `{last}` TIMESTAMP to it, with "
            f"'sink.column.{last}.from' = '$.{wanted}', and name it as the sink.bucket.time-column"
        )
    if found.times:
        return None
    nearest = next((f"; the nearest is {shown(name)}: {why}" for name, why in nearly.items()), "")
    return f"no column of the sample has only times{nearest}"


def default_pattern(found: Findings, time: str, rows: int) -> str:
    """By hour where the source has so many rows an hour; `rows` are those of the whole source."""
    column = next((one for one in found.times if one.name == time), None)
    if column is None or column.type is Primitive.DATE:
        return "day"
    hours = max(timedelta(hours=1), column.last - column.first) / timedelta(hours=1)
    return "hour" if rows / hours >= _BUSY_HOUR else "day"


def propose(
    sample: Sample, table: TableName, found: Findings, by: Partitioning, *, source: str, arrival: datetime
) -> Proposal:
    """The table, checked: its text is read back as `ddl plan` does, and the sample is decoded with it.

    Bad records go to the dead-letter table if the sample has some. Raises InvalidOption for a `by` that doesn't fit.
    """
    spec = _spec(table, found, by)
    checked = preview(sample, spec, settings_of(spec), arrival)
    notes = [f"{one}." for one in found.left_out[:_MOST_LEFT_OUT]]
    if (more := len(found.left_out) - _MOST_LEFT_OUT) > 0:
        notes.append(f"{more:,} more fields are left out.")
    if checked.bad:
        spec = replace(spec, properties=tuple(sorted({**spec.options, "sink.on-bad-record": "dead-letter"}.items())))
        first = checked.bad[0]
        where = shown(sample.position(first.index), 200)
        reason = f"{shown(first.field)}: {first.reason}" if first.field else first.reason
        count = f"{len(checked.bad):,} of the sample's records"
        notes.append(f"{count} don't fit and would go to {table.rejected}; the first, {where}: {reason}.")
    if by.zone != "UTC" and (by.time, Primitive.TIMESTAMP) in ((one.name, one.type) for one in found.columns):
        way = f"if its clock is that of {by.zone}, add 'sink.timestamp-zone'='{by.zone}'"
        notes.append(f"{shown(by.time)} without an offset is read as UTC; {way}.")
    title = f"Proposed by `hivesink init` from {sample.batch.num_rows:,} records of {shown(source, 200)}."
    untimed = _untimed(sample, found, by)
    notes += [f"{untimed}."] if untimed else []
    notes.append(_also(sample))
    ddl = "".join(f"-- {line}\n" for line in (title, *notes)) + f"{render(spec)}\n"
    if parse_ddl(ddl, f"{table}.sql", options.check) != spec:
        message = f"the DDL of {table} reads back as another table"
        raise AssertionError(message)
    return Proposal(spec, ddl, checked, found.left_out, untimed)


def _untimed(sample: Sample, found: Findings, by: Partitioning) -> str | None:
    own = next((time for time in found.times if time.name == by.time), None)
    if own is None or not own.missing:
        return None
    gaps = {time.name for time in found.times if time.missing}
    choices = time_choices(found, from_kafka=RECORD in sample.batch.schema.names)
    other = next(choice for choice in choices if choice not in gaps)
    return (
        f"{own.missing:,} of {own.rows:,} records have no {shown(own.name)} and go to the partition of nulls; "
        f"--time-column {shown(other)} has none of these"
    )


def _also(sample: Sample) -> str:
    """What else columns can hold."""
    columns = ((one.value, stream_column(one)) for one in Metadata)
    first, *more = [name for name, column in columns if column is None or column[0] in sample.batch.schema.names]
    setting = f"'sink.column.<name>.from'='{first}'"
    told = f"A column can also hold what comes with a record: add it, and {setting}, or {', '.join(more)}."
    with_headers = "headers" in sample.batch.schema.names
    return told + " Headers need sources.kafka(…, options={'includeHeaders': 'true'}) in the job." * with_headers


def _spec(table: TableName, found: Findings, by: Partitioning) -> TableSpec:
    names = {column.name for column in found.columns}
    partition = next((name for name in _PARTITION_NAMES if name not in names), None)
    if partition is None:
        raise InvalidOption((f"the fields {', '.join(_PARTITION_NAMES)} leave no name for the partition column",))
    kafkas_own = by.time == RECORD and RECORD not in names
    what = "the Kafka record's timestamp" if kafkas_own else shown(by.time)
    comment = f"{by.every} of {what} in {by.zone}, {PATTERNS[by.every]}"
    properties = {
        **found.sources,
        "sink.bucket.assigner": "date-time",
        "sink.bucket.time-pattern": PATTERNS[by.every],
        "sink.bucket.time-zone": by.zone,
    }
    if by.time != ARRIVAL or ARRIVAL in {time.name for time in found.times}:
        properties["sink.bucket.time-column"] = by.time
    return TableSpec(
        table,
        found.columns,
        (Column(partition, Primitive.STRING, comment),),
        properties=tuple(sorted(properties.items())),
    )


def _as_times(column: Column, rows: pa.Table) -> Column:
    """A BIGINT that is named as times are, and looks like them, says so."""
    if column.type is not Primitive.BIGINT or not _TIMELY.search(column.name):
        return column
    if _all_within(rows, column.name, _MILLIS):
        note = "epoch milliseconds, by its name and values; as a TIMESTAMP: sink.timestamp-format"
    elif _all_within(rows, column.name, _SECONDS):
        note = "epoch seconds, by its name and values; for partitions make a time in the job (docs/recipes.md)"
    else:
        return column
    return replace(column, comment=f"{note}; {column.comment}" if column.comment else note)


def _all_within(rows: pa.Table, name: str, limits: tuple[int, int]) -> bool:
    edges = pc.min_max(rows.column(name)).as_py()
    return edges["min"] is not None and limits[0] <= edges["min"] and edges["max"] < limits[1]


def _times(column: Column, rows: pa.Table) -> Iterable[TimeColumn]:
    values = rows.column(column.name)
    edges = pc.min_max(values).as_py()
    if column.type is Primitive.BIGINT and not (
        _TIMELY.search(column.name) and _all_within(rows, column.name, _MILLIS)
    ):
        return
    if edges["min"] is not None:
        first, last = _instant(edges["min"]), _instant(edges["max"])
        yield TimeColumn(column.name, column.type, len(values), values.null_count, first, last)


def _nearly_times(column: Column, rows: pa.Table) -> Iterable[tuple[float, str, str]]:
    """The part of a mixed column that is times, its name, and what isn't."""
    if column.type is not Primitive.STRING or not (column.comment or "").startswith(MIXED):
        return
    values = [value for value in rows.column(column.name).to_pylist() if value is not None]
    kinds = [kind_of_text(value) for value in values]
    usual = max((Kind.TIMESTAMP, Kind.DATE), key=kinds.count)
    number = kinds.count(usual)
    odd = dict.fromkeys(value for value, kind in zip(values, kinds, strict=True) if kind is not usual)
    if number:
        few = ", ".join(shown(value) for value in [*odd][:_MOST_ODD])
        of = f"{len(values) - number:,} of its {len(values):,} values are no {usual.value}"
        yield number / len(values), column.name, f"{of}, such as {few}"


def _instant(value: datetime | date | int) -> datetime:
    if isinstance(value, int):
        return datetime.fromtimestamp(value / 1000, timezone.utc)
    whole = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)  # noqa: DTZ001  a date
    return whole.replace(tzinfo=timezone.utc)
