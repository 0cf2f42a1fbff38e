"""`hivesink preview`: what records become in a table, before anything is written."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hivesink.cli.cells import plain, shown
from hivesink.cli.codes import ExitCode
from hivesink.cli.command import Debug, Json, Metastore, existing, reporting, table_name
from hivesink.cli.metastore import declared_in
from hivesink.cli.output import Grid, Line, Report, tell
from hivesink.config.options import OnBadRecord
from hivesink.config.own_class import also_in
from hivesink.config.site import Site
from hivesink.core.progress import count
from hivesink.errors import WrongUsage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hivesink.config.options import SinkConfig
    from hivesink.core.table import TableSpec
    from hivesink.sample.preview import Preview
    from hivesink.sample.records import Sample
    from hivesink.sample.source import Source

_ROWS, _BAD, _FIELDS, _PARTITIONS = 20, 20, 20, 20
"""How many of each are printed."""
_WIDEST = 60
"""Characters of a cell."""
_THEN = {
    OnBadRecord.FAIL: "a job stops at the first bad record (sink.on-bad-record = fail)",
    OnBadRecord.DEAD_LETTER: "a job writes bad records to the dead-letter table (sink.on-bad-record = dead-letter)",
    OnBadRecord.DROP: "a job drops bad records (sink.on-bad-record = drop)",
}

FROM = typer.Option(
    "--from", metavar="FILE|FOLDER|kafka://HOST:PORT/TOPIC", help="JSON lines in files, or a topic of JSON records."
)
OfTable = Annotated[
    str | None, typer.Option("--table", help="A table of the metastore, as database.table.", callback=table_name)
]
OfDdl = Annotated[
    Path | None,
    typer.Option(
        "--ddl",
        help="Instead of --table: a DDL file, applied or not.",
        metavar="FILE.sql",
        dir_okay=False,
        callback=existing,
    ),
]
Limit = Annotated[int, typer.Option("--limit", min=1, help="How many records to read at most.")]


def preview(
    *,
    source: Annotated[str, FROM],
    table: OfTable = None,
    ddl: OfDdl = None,
    limit: Limit = 1000,
    metastore: Metastore = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show what records become in a table: rows, partitions, and records that don't fit. Writes nothing.

    Decodes a sample as a job does, by the table's settings. With --ddl it needs no metastore. Exits with 65 if there
    are bad records.

    Example: hivesink preview --ddl ddl/flights.sql --from events
    """
    from hivesink.sample.preview import preview as decoded
    from hivesink.sample.preview import settings_of
    from hivesink.sample.source import source_of

    with reporting(as_json=json, debug=debug) as out:
        spec = _spec(table, ddl, metastore)
        site = Site.load(os.environ)
        # The user's own classes are where `ddl plan` looks for them.
        with also_in(Path(ddl or "").parent):
            config = settings_of(spec)
            origin = source_of(source, site)
            sample = taken_from(origin, limit, site)
            found = decoded(sample, spec, config, datetime.now(timezone.utc))
        out.show(_report(source, sample, spec, config, found, warning=origin.odd_names()))
        if found.bad:
            raise typer.Exit(ExitCode.NEEDS_PERSON)


def taken_from(source: Source, most: int, site: Site) -> Sample:
    """A sample; in a terminal a word before it, where Spark must start for it. Raises what the source's does."""
    from hivesink.sample.source import TopicSource

    if isinstance(source, TopicSource) and sys.stderr.isatty():
        tell("starting Spark to look at the topic")
    return source.sample(most, site)


def _spec(table: str | None, ddl: Path | None, metastore: str | None) -> TableSpec:
    if (table is None) == (ddl is None):
        raise WrongUsage(("name the table with either --table database.table or --ddl FILE.sql",))
    if table is not None:
        from hivesink.tables.opened import table_spec

        return table_spec(table, metastore)
    (spec,) = declared_in(Path(ddl or ""))
    return spec


def _numbers_apart(partition: str) -> list[str | int]:
    """A key by which `hour=2` comes before `hour=10`."""
    return [int(part) if place % 2 else part for place, part in enumerate(re.split(r"([0-9]+)", partition))]


def _report(
    source: str, sample: Sample, spec: TableSpec, config: SinkConfig, found: Preview, *, warning: str | None
) -> Report:
    first = list(zip(found.partitions[:_ROWS], plain_rows(found, spec, _ROWS), strict=True))
    rows = [{"partition": partition, "row": row} for partition, row in first]
    partitions = dict(sorted(Counter(found.partitions).items(), key=lambda one: _numbers_apart(one[0])))
    bad = [{**sample.places[one.index], "field": one.field, "reason": one.reason} for one in found.bad]
    unknown = dict(Counter(found.unknown).most_common())
    counts = {
        "records": sample.batch.num_rows,
        "fit": found.rows.num_rows,
        "bad": len(found.bad),
        "skipped": found.skipped,
    }
    data = {"table": str(spec.name), "source": source, **counts}
    data |= {"partitions": partitions, "rows": rows, "bad_records": bad, "unknown_fields": unknown}
    names = [column.name for column in spec.columns]
    cells = [[partition, *(cut(shown(row[name])) for name in names)] for partition, row in first]
    blocks = [
        Grid(f"Rows of {spec.name}", ["partition", *names], cells),
        Grid("Partitions", ["partition", "rows"], [*partitions.items()][:_PARTITIONS], frozenset({"rows"})),
        *rest(len(partitions) - _PARTITIONS, "partitions"),
        *bad_blocks(sample, found.bad),
        Grid("Fields that the table doesn't have", ["field", "records"], [*unknown.items()][:_FIELDS]),
        *rest(len(unknown) - _FIELDS, "fields"),
        *_kafkas_own(sample, spec, config),
        *([Line(warning, "yellow")] if warning else []),
        *_end(counts, config),
    ]
    return Report(data, blocks)


def _kafkas_own(sample: Sample, spec: TableSpec, config: SinkConfig) -> list[Line | Grid]:
    """A word on a topic's columns that the sink would take for the table's."""
    from hivesink.spark.input import columns_to_drop

    names = columns_to_drop(spec, config) if sample.shape.topic else ()
    if not names:
        return []
    dropped = ", ".join(f'"{name}"' for name in names)
    needs = f"a job needs events.drop({dropped}), as those of init have"
    return [Line(f"the table has columns named as Kafka's: {needs}", "yellow")]


def bad_blocks(sample: Sample, bad: Sequence[Any]) -> list[Line | Grid]:
    """The first bad records, and how many more there are."""
    first = [(sample.position(one.index), one.field or "", one.reason) for one in bad[:_BAD]]
    return [Grid("Bad records", ["record", "field", "reason"], first), *rest(len(bad) - _BAD, "bad records")]


def rest(more: int, what: str) -> list[Line | Grid]:
    """A line for what isn't printed; none if nothing is left."""
    return [Line(f"… and {more:,} more {what}")] if more > 0 else []


def _end(counts: Mapping[str, int], config: SinkConfig) -> list[Line | Grid]:
    if not counts["records"]:
        return [Line("there are no records", "yellow")]
    text = f"{counts['fit']:,} of {counts['records']:,} records fit"
    if counts["skipped"]:
        text += f", {count(counts['skipped'], 'tombstone')} skipped"
    if not counts["bad"]:
        return [Line(text, "bold green")]
    return [Line(f"{text}; {counts['bad']:,} don't", "bold red"), Line(_THEN[config["sink.on-bad-record"]])]


def plain_rows(found: Preview, spec: TableSpec, most: int) -> list[dict[str, Any]]:
    """The first rows in Python's values; maps are objects with text keys."""
    kinds = {column.name: column.type for column in spec.columns}
    rows = found.rows.slice(0, most).to_pylist()
    return [{name: plain(cell, kinds[name]) for name, cell in row.items()} for row in rows]


def cut(text: str) -> str:
    """As wide as a cell may be."""
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"
