"""`hivesink preview`: what records become in a table; `hivesink init`: a table and a job for a source."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections import Counter
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from hivesink import kerberos
from hivesink.cli.codes import ExitCode
from hivesink.cli.command import Metastore, command, table_name
from hivesink.cli.metastore import declared_in
from hivesink.cli.output import MOST, Grid, Line, Output, first, plain, shown, tell
from hivesink.config.options import SinkConfig
from hivesink.config.plugins import also_in
from hivesink.core.table import TableName
from hivesink.errors import InvalidOption

if TYPE_CHECKING:
    from hivesink.sample.source import FilesSource, Sample, TopicSource
    from hivesink.sample.tables import Preview


@command
def preview(
    out: Output,
    *,
    from_: str,
    table: str | None = None,
    ddl: Path | None = None,
    limit: int = 1000,
    metastore: Metastore = None,
) -> None:
    """Show what records become in a table: rows, partitions, and records that don't fit. Writes nothing.

    Decodes a sample as a job does, by the table's settings. With --ddl it needs no metastore. Exits with 65 if there
    are bad records.

    Example: hivesink preview --ddl ddl/flights.sql --from events

    --from FILE|FOLDER|kafka://HOST:PORT/TOPIC: Lines in files, or a topic.
    --table TABLE: A table of the metastore, as database.table.
    --ddl FILE.sql: Instead of --table: a DDL file, applied or not.
    --limit N: About how many records to read, from all files.
    """
    from hivesink.hiveql.render import declared
    from hivesink.sample.tables import preview as decoded
    from hivesink.tables.opened import open_table

    if (table_name(table) is None) == (ddl is None):
        raise InvalidOption(("name the table with either --table database.table or --ddl FILE.sql",))
    if table is None:
        spec = declared_in(ddl or Path())[0]
    else:
        with open_table(table, metastore) as opened:
            spec = declared(opened.live.spec)
    # The user's own classes are where `ddl plan` looks for them.
    with also_in(Path(ddl or "").parent):
        _, sample = _sampled(from_, limit)
        made = decoded(sample, spec, datetime.now(timezone.utc))
    kinds = {column.name: column.type for column in spec.columns}
    rows: list[dict[str, Any]] = [
        {"partition": partition, "row": {name: plain(cell, kinds[name]) for name, cell in row.items()}}
        for partition, row in zip(made.partitions, made.rows.slice(0, MOST).to_pylist(), strict=False)
    ]
    cells = [[row["partition"], *map(shown, row["row"].values())] for row in rows]
    partitions = dict(sorted(Counter(made.partitions).items()))
    by_partition = [{"partition": name, "rows": number} for name, number in partitions.items()]
    unknown = [{"field": name, "records": number} for name, number in made.unknown.items()]
    checked, told = _checked(made)
    data = {"table": str(spec.name), "source": from_, **checked, "bad": len(made.bad), "partitions": partitions}
    blocks = [
        Grid(f"Rows of {spec.name}", ["partition", *kinds], cells),
        *first("Partitions", by_partition, "partitions", "rows"),
        *told,
        *first("Fields that the table doesn't have", unknown, "fields", "records"),
    ]
    out.show({**data, "rows": rows, "unknown_fields": made.unknown}, blocks)
    if made.bad:
        raise typer.Exit(ExitCode.NEEDS_PERSON)


@command
def init(
    out: Output,
    *,
    from_: str,
    table: str | None = None,
    time_column: str | None = None,
    every: Literal["none", "month", "day", "hour"] | None = None,
    set_: list[str] | None = None,
    dry_run: bool = False,
) -> None:
    """Look at a sample of a source, and write ddl/<table>.sql and jobs/<table>.py for it. Overwrites nothing.

    Look the DDL over before you apply it: a sample doesn't show everything.

    Example: hivesink init --from events --table demo.events

    --from FILE|FOLDER|kafka://HOST:PORT/TOPIC: Lines in files, or a topic.
    --table TABLE: The table, as database.table. Default: `demo.` and the name of the source.
    --time-column COLUMN: What decides the partition: a column, `timestamp` of Kafka, or `arrival`.
    --every none|month|day|hour: How long a partition is. Default: by the sample's rate.
    --set NAME=VALUE: A setting of the table, such as sink.value.format=avro-confluent; may be repeated.
    """
    from hivesink.sample.tables import job_text, propose

    name = TableName.parse(table or _table_of(from_))
    # A job named as one of Python's own modules would be imported in its place.
    job = Path("jobs", f"{name.table}{'_job' if name.table in sys.stdlib_module_names else ''}.py")
    ddl = Path("ddl", f"{name.table}.sql")
    if taken := [str(path) for path in (ddl, job) if path.exists()]:
        raise InvalidOption((f"{' and '.join(taken)}: init overwrites nothing; move it away, or name another table",))
    if wrong := [text for text in set_ or () if "=" not in text]:
        raise InvalidOption((f"--set {wrong[0]}: write NAME=VALUE",))
    settings = {key: value for key, _, value in (text.partition("=") for text in set_ or ())}
    # A topic is looked at by a Spark, which takes a while to start.
    SinkConfig.parse({}, settings)
    origin, sample = _sampled(from_, 1000)
    now = datetime.now(timezone.utc)
    made = propose(sample, name, from_, now, time=time_column, every=every, settings=settings)
    files = {ddl: made.ddl, job: job_text(job, origin, made.spec)}
    blocks: list[Line | Grid] = []
    for path, content in files.items():
        if dry_run:
            blocks += [Line(f"{path}:", "bold"), Line(content)]
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
            blocks.append(Line(f"{path}: written", "green"))
    columns = (*made.spec.columns, *made.spec.partition_columns)
    unsure = [f"{column.name} {column.type}: {column.comment}" for column in columns if column.comment]
    checked, told = _checked(made.checked)
    following = [
        f"hivesink ddl apply {ddl}",
        f"hivesink preview --table {name} --from {shlex.quote(from_)}",
        f"TRIGGER=availableNow hivesink run {job}",
        f"hivesink query 'SELECT * FROM {name.quoted} LIMIT 10'",  # noqa: S608  a statement to show
    ]
    blocks += [*(Line(line, "yellow") for line in (*unsure, *made.notes)), *told]
    blocks += [Line("Next:", "bold"), *(Line(f"  {line}") for line in following)]
    data: dict[str, Any] = {"table": str(name), "files": {str(path): content for path, content in files.items()}}
    out.show({**data, "written": not dry_run, **checked, "notes": made.notes, "next": following}, blocks)


def _table_of(source: str) -> str:
    last = re.sub(r"(\.(jsonl?|ndjson|txt|log|gz|bz2))+$", "", source.rstrip("/").rpartition("/")[2].lower())
    return f"demo.{re.sub(r'[^a-z0-9]+', '_', last).strip('_') or 'events'}"


def _sampled(text: str, most: int) -> tuple[FilesSource | TopicSource, Sample]:
    """What `--from` names, and up to so many of its records."""
    from hivesink.sample.source import source_of

    site = kerberos.site_of(os.environ)
    source = source_of(text, site)
    if text.startswith("kafka:"):
        tell("starting Spark to look at the topic")
    return source, source.sample(most, site)


def _checked(made: Preview) -> tuple[dict[str, Any], list[Line | Grid]]:
    bad = [*made.bad]
    fit = made.rows.num_rows
    # Where records hold many, their elements.
    records = fit + len(made.bad) + made.skipped
    skipped = f", {made.skipped:,} skipped (no value, no rows, or a header)" if made.skipped else ""
    fits = Line(f"{fit:,} of {records:,} records fit{skipped}", "yellow" if made.bad else "bold green")
    data = {"records": records, "fit": fit, "skipped": made.skipped, "bad_records": bad}
    return data, [*first("Bad records", bad, "bad records"), fits]
