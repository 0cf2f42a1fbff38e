"""`hivesink init`: a table and a job for a source, from a sample of its records."""

from __future__ import annotations

import os
import re
import shlex
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hivesink.cli.command import Debug, DryRun, Json, given, reporting
from hivesink.cli.output import Line, Report
from hivesink.cli.preview import FROM, bad_blocks, bad_rows, taken_from
from hivesink.config.site import Site
from hivesink.core.table import TableName
from hivesink.errors import WrongUsage

if TYPE_CHECKING:
    from hivesink.cli.output import Grid
    from hivesink.sample.proposal import Proposal
    from hivesink.sample.source import Sample

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
    from hivesink.sample.job import job_text
    from hivesink.sample.preview import settings_of
    from hivesink.sample.proposal import propose
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
