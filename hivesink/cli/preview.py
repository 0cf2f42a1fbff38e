"""`hivesink preview`: what records become in a table, before anything is written."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections import Counter
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from hivesink.cli.codes import ExitCode
from hivesink.cli.command import Debug, DryRun, Json, Metastore, given, reporting, table_name
from hivesink.cli.metastore import declared_in
from hivesink.cli.output import Grid, Line, Report, plain, shown, tell
from hivesink.config.options import OnBadRecord
from hivesink.config.plugins import also_in
from hivesink.config.site import Site
from hivesink.core.progress import count
from hivesink.core.table import TableName
from hivesink.errors import WrongUsage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hivesink.config.options import SinkConfig
    from hivesink.core.table import TableSpec
    from hivesink.ports.rows import BadRow
    from hivesink.sample.preview import Preview
    from hivesink.sample.proposal import Proposal
    from hivesink.sample.source import FilesSource, Sample, TopicSource

_MOST = 20
"""How many rows, partitions, bad records and fields are printed."""
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
        exists=True,
        dir_okay=False,
    ),
]
Limit = Annotated[int, typer.Option("--limit", metavar="N", min=1, help="How many records to read at most.")]


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
            sample = taken_from(source_of(source, site), limit, site)
            made = decoded(sample, spec, config, datetime.now(timezone.utc))
        out.show(_report(source, sample, spec, config, made))
        if made.bad:
            raise typer.Exit(ExitCode.NEEDS_PERSON)


def taken_from(source: FilesSource | TopicSource, most: int, site: Site) -> Sample:
    """A sample. In a terminal a line says before it that Spark starts for a topic."""
    from hivesink.sample.source import TopicSource

    if not isinstance(source, TopicSource):
        return source.sample(most, site)
    from hivesink.sample.source import sample

    if sys.stderr.isatty():
        tell("starting Spark to look at the topic")
    return sample(source.servers, source.topic, most)


def _spec(table: str | None, ddl: Path | None, metastore: str | None) -> TableSpec:
    if (table is None) == (ddl is None):
        raise WrongUsage(("name the table with either --table database.table or --ddl FILE.sql",))
    if table is not None:
        from hivesink.tables.opened import table_spec

        return table_spec(table, metastore)
    (spec,) = declared_in(Path(ddl or ""))
    return spec


def _report(source: str, sample: Sample, spec: TableSpec, config: SinkConfig, made: Preview) -> Report:
    kinds = {column.name: column.type for column in spec.columns}
    cells = [
        {name: plain(cell, kinds[name]) for name, cell in row.items()} for row in made.rows.slice(0, _MOST).to_pylist()
    ]
    first = list(zip(made.partitions, cells, strict=False))
    partitions = dict(sorted(Counter(made.partitions).items()))
    unknown = dict(Counter(made.unknown).most_common())
    records, fit = sample.batch.num_rows, made.rows.num_rows
    data = {
        "table": str(spec.name),
        "source": source,
        "records": records,
        "fit": fit,
        "bad": len(made.bad),
        "skipped": made.skipped,
        "partitions": partitions,
        "rows": [{"partition": partition, "row": row} for partition, row in first],
        "bad_records": bad_rows(sample, made.bad),
        "unknown_fields": unknown,
    }
    skipped = f", {count(made.skipped, 'tombstone')} skipped" if made.skipped else ""
    end = [Line(f"{fit:,} of {records:,} records fit{skipped}", "yellow" if made.bad else "bold green")]
    rows = [[partition, *(_cut(shown(row[name])) for name in kinds)] for partition, row in first]
    blocks = [
        Grid(f"Rows of {spec.name}", ["partition", *kinds], rows),
        Grid("Partitions", ["partition", "rows"], [*partitions.items()][:_MOST], frozenset({"rows"})),
        *rest(len(partitions) - _MOST, "partitions"),
        *bad_blocks(sample, made.bad),
        Grid("Fields that the table doesn't have", ["field", "records"], [*unknown.items()][:_MOST]),
        *rest(len(unknown) - _MOST, "fields"),
        *end,
        *([Line(_THEN[config["sink.on-bad-record"]])] if made.bad else []),
    ]
    return Report(data, blocks)


def bad_rows(sample: Sample, bad: Sequence[BadRow]) -> list[dict[str, Any]]:
    """Bad records for JSON: place, field and reason."""
    return [{**sample.places[row.index], "field": row.field, "reason": row.reason} for row in bad]


def bad_blocks(sample: Sample, bad: Sequence[BadRow]) -> list[Line | Grid]:
    """The first bad records, and how many more there are."""
    first = [(sample.position(row.index), row.field or "", row.reason) for row in bad[:_MOST]]
    return [Grid("Bad records", ["record", "field", "reason"], first), *rest(len(bad) - _MOST, "bad records")]


def rest(more: int, what: str) -> list[Line | Grid]:
    """A line for what isn't printed; none if nothing is left."""
    return [Line(f"… and {more:,} more {what}")] if more > 0 else []


def _cut(text: str) -> str:
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"


_RECORDS = 1000
"""How many are looked at, at most."""


def init(
    *,
    source: Annotated[str, FROM],
    table: Annotated[
        str | None,
        typer.Option("--table", help="The table, as database.table. Default: `demo.` and the name of the source."),
    ] = None,
    time_column: Annotated[
        str | None,
        typer.Option("--time-column", help="What decides the partition: a column, `timestamp` of Kafka, or `arrival`."),
    ] = None,
    every: Annotated[
        Literal["none", "month", "day", "hour"] | None,
        typer.Option(
            "--every", metavar="none|month|day|hour", help="How long a partition is. Default: by the sample's rate."
        ),
    ] = None,
    dry_run: DryRun = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Look at a sample of a source, and write ddl/<table>.sql and jobs/<table>.py for it. Overwrites nothing.

    Look the DDL over before you apply it: a sample doesn't show everything.

    Example: hivesink init --from events --table demo.events
    """
    from hivesink.sample.preview import settings_of
    from hivesink.sample.proposal import job_text, propose
    from hivesink.sample.source import FilesSource, source_of

    with reporting(as_json=json, debug=debug) as out:
        site = Site.load(os.environ)
        origin = source_of(source, site)
        with given():
            name = TableName.parse(table or _table_of(source))
        # A job named as one of Python's own modules would be imported in its place.
        job = Path("jobs", f"{name.table}{'_job' if name.table in sys.stdlib_module_names else ''}.py")
        ddl = Path("ddl", f"{name.table}.sql")
        if taken := [str(path) for path in (ddl, job) if path.exists()]:
            raise WrongUsage((f"{' and '.join(taken)}: init overwrites nothing; move it away, or name another table",))
        sample = taken_from(origin, _RECORDS, site)
        proposal = propose(sample, name, source, datetime.now(timezone.utc), time=time_column, every=every)
        text = job_text(job, origin, proposal.spec, settings_of(proposal.spec))
        files = [(ddl, proposal.ddl), (job, text)]
        blocks: list[Line | Grid] = []
        for path, content in files:
            if dry_run:
                blocks += [Line(f"{path}:", "bold"), Line(content)]
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content, encoding="utf-8")
                blocks.append(Line(f"{path}: written", "green"))
        if isinstance(origin, FilesSource):
            blocks.append(Line(f"the job reads every file in {origin.folder}"))
        blocks += _blocks(proposal, sample)
        sql = f"SELECT * FROM {name.quoted} LIMIT 10"  # noqa: S608  a statement to show
        following = [
            f"hivesink ddl apply {ddl}",
            f"hivesink preview --table {name} --from {shlex.quote(source)}",
            f"TRIGGER=availableNow hivesink run {job}",
            f"hivesink query {shlex.quote(sql)}",
        ]
        blocks += [Line("Next:", "bold"), *(Line(f"  {command}") for command in following)]
        checked = proposal.checked
        data = {
            "table": str(name),
            "files": {str(path): content for path, content in files},
            "written": not dry_run,
            "records": sample.batch.num_rows,
            "fit": checked.rows.num_rows,
            "skipped": checked.skipped,
            "bad_records": bad_rows(sample, checked.bad),
            "notes": proposal.notes,
            "next": following,
        }
        out.show(Report(data, blocks))


def _table_of(source: str) -> str:
    """A table named after a folder, a file or a topic."""
    last = re.sub(r"(\.(jsonl?|ndjson|txt|log|gz|bz2))+$", "", source.rstrip("/").rpartition("/")[2].lower())
    return f"demo.{re.sub(r'[^a-z0-9]+', '_', last).strip('_') or 'events'}"


def _blocks(proposal: Proposal, sample: Sample) -> list[Line | Grid]:
    checked, records = proposal.checked, sample.batch.num_rows
    columns = (*proposal.spec.columns, *proposal.spec.partition_columns)
    unsure = [f"{column.name} {column.type}: {column.comment}" for column in columns if column.comment]
    fits = f"{checked.rows.num_rows:,} of the sample's {records:,} records fit"
    if checked.skipped:
        fits += f"; tombstones, which a job skips: {checked.skipped:,}"
    return [
        *(Line(line, "yellow") for line in (*unsure, *proposal.notes)),
        *bad_blocks(sample, checked.bad),
        Line(fits, "yellow" if checked.bad else "bold green"),
    ]
