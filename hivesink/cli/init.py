"""`hivesink init`: a table and a job for a source, from a sample of its records."""

from __future__ import annotations

import os
import re
import shlex
import sys
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from hivesink.cli.codes import HIDES
from hivesink.cli.command import Debug, DryRun, Json, UsageError, given, reporting
from hivesink.cli.output import Line, Report
from hivesink.cli.preview import FROM, bad_blocks, cut, rest, taken_from
from hivesink.config.site import Site
from hivesink.core.log import require_writer_name
from hivesink.core.table import TableName, require_table_name
from hivesink.errors import HiveSinkError, InvalidOption, NoMetastore, WrongUsage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hivesink.cli.output import Grid
    from hivesink.sample.proposal import Findings, Partitioning, Proposal
    from hivesink.sample.records import Sample
    from hivesink.sample.source import Source

_T = TypeVar("_T")
_LONGEST_TABLE = 128 - len("__rejected")
_LINES = 50
"""How many lines of a kind are printed."""

NewTable = Annotated[str | None, typer.Option("--table", help="The table to propose, as database.table.")]
SampleSize = Annotated[int, typer.Option("--sample", min=1, help="How many records to look at, at most.")]
TimeOption = Annotated[
    str | None,
    typer.Option("--time-column", help="What decides the partition: a column, `timestamp` of Kafka, or `arrival`."),
]
Every = Annotated[str | None, typer.Option("--every", help="A partition for each `day` or `hour`.", metavar="day|hour")]
Zone = Annotated[str | None, typer.Option("--zone", help="The zone of the partitions. Default: UTC.")]
DdlFile = Annotated[Path | None, typer.Option("--ddl", help="The DDL file. Default: ddl/<table>.sql.")]
JobPath = Annotated[Path | None, typer.Option("--job", help="The job file. Default: jobs/<table>.py.")]
Yes = Annotated[bool, typer.Option("--yes", help="Take what is proposed, without questions.")]


@dataclass(frozen=True, slots=True)
class _Files:
    ddl: Path
    job: Path

    def require_new(self) -> None:
        """Raises WrongUsage: no file is ever overwritten."""
        there = [str(path) for path in (self.ddl, self.job) if path.exists() or path.is_symlink()]
        if there:
            exist, them = ("exists", "it") if len(there) == 1 else ("exist", "them")
            problem = f"{' and '.join(there)}: {exist} already, and init overwrites nothing"
            raise WrongUsage((f"{problem}; remove {them}, or name other files with --ddl and --job",))

    def write(self, ddl: str, job: str) -> None:
        try:
            for path, text in ((self.ddl, ddl), (self.job, job)):
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("x", encoding="utf-8") as file:
                    file.write(text)
        except OSError as error:
            way = "give this user access, or name other files with --ddl and --job"
            problem = f"{Path(error.filename).absolute()} can't be written: {error.strerror}; {way}"
            raise WrongUsage((problem,)) from error


def init(
    context: typer.Context,
    *,
    source: Annotated[str | None, FROM] = None,
    table: NewTable = None,
    sample: SampleSize = 1000,
    time_column: TimeOption = None,
    every: Every = None,
    zone: Zone = None,
    ddl: DdlFile = None,
    job: JobPath = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Look at a sample of a source, and write a DDL file and a job for it. Overwrites nothing.

    In a terminal it asks what it isn't told; --yes takes what it proposes. Look the DDL over before you apply it: a
    sample doesn't show everything.

    Example: hivesink init --from events --table demo.events --yes
    """
    from hivesink.sample.job import job_text
    from hivesink.sample.preview import settings_of
    from hivesink.sample.proposal import find, propose
    from hivesink.sample.source import source_of

    can_ask = not (yes or dry_run or json) and sys.stdin.isatty()

    def readable(text: str) -> object:
        return source_of(text, Site.load(os.environ))

    what = "JSON lines (a file or a folder), or kafka://HOST:PORT/TOPIC" if can_ask else None
    source = _needed(context, "--from", source, what, readable)
    what = "The table to propose, as database.table" if can_ask else None
    table = _needed(context, "--table", table, what, _table_name, proposed=_table_of(source))
    with reporting(as_json=json, debug=debug) as out:
        name = _table_name(table)
        if not (can_ask or yes or dry_run):
            way = "add --yes to take what it proposes, or --dry-run to see it"
            raise WrongUsage((f"init asks in a terminal; here {way}",))
        site, now = Site.load(os.environ), datetime.now(timezone.utc)
        origin = source_of(source, site)
        files = _files(name, ddl, job, asks=can_ask)
        if not dry_run:
            files.require_new()
        taken = taken_from(origin, sample, site)
        found = find(taken, name, now, source=source)
        by = _partitioning(found, origin, taken, _Asked(can_ask, time_column, every, zone))
        proposal = propose(taken, name, found, by, source=source, arrival=now)
        text = job_text(files.job, origin, proposal.spec, settings_of(proposal.spec))
        if not dry_run:
            files.write(proposal.ddl, text)
        live = _look_for(name, site)
        following = _next(source, name, files, live)
        told = [origin.beyond(), _way_in(name, files) if live is _Live.TABLE else None]
        out.show(_report(proposal, files, taken, text, following, told=told, written=not dry_run))


def _needed(
    context: typer.Context,
    option: str,
    told: str | None,
    question: str | None,
    check: Callable[[str], object],
    *,
    proposed: str | None = None,
) -> str:
    """What is told, else an answer to `question` that passes `check`.

    Raises the error of a wrong command line where nobody can be asked.
    """
    if told is not None:
        return told
    if question is None:
        message = f"Missing option '{option}'"
        raise UsageError(message, context)

    def proc(text: str) -> str:
        if not text.strip():
            message = "there is nothing to take for it"
            raise typer.BadParameter(message)
        try:
            check(text)
        except (WrongUsage, InvalidOption) as error:
            raise typer.BadParameter(str(error)) from error
        except HiveSinkError:
            pass  # No other answer would help: `init` reports it.
        return text

    answered: str = typer.prompt(
        question, default=proposed or "", show_default=bool(proposed), value_proc=proc, err=True
    )
    return answered


def _table_of(source: str) -> str | None:
    """A table named after a folder, a file or a topic; None if that has no letters."""
    last = re.sub(r"(\.(jsonl?|txt|log|gz|bz2))+$", "", source.rstrip("/").rpartition("/")[2].lower())
    name = re.sub(r"\W+", "_", last, flags=re.ASCII).strip("_")[:_LONGEST_TABLE]
    return f"demo.{name}" if name else None


def _table_name(text: str) -> TableName:
    with given():
        name = require_table_name(text)
    if not (name.database + name.table).isascii():
        raise WrongUsage((f"--table {text}: write database.table with letters a to z, digits and _",))
    if len(name.table) > _LONGEST_TABLE:
        raise WrongUsage((f"--table: a table's name has up to {_LONGEST_TABLE} characters",))
    return name


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the command line says of the partitions; None where it doesn't."""

    asks: bool
    time: str | None
    every: str | None
    zone: str | None


def _partitioning(found: Findings, source: Source, taken: Sample, asked: _Asked) -> Partitioning:
    from hivesink.config.parsers import zone as zone_of
    from hivesink.sample.proposal import (
        PATTERNS,
        Partitioning,
        column_of,
        default_pattern,
        default_time,
        no_time,
        time_choices,
    )
    from hivesink.sample.source import TopicSource

    from_kafka = isinstance(source, TopicSource)
    choices = time_choices(found, from_kafka=from_kafka)

    def one_of(*names: str) -> Callable[[str], str]:
        def parse(text: str) -> str:
            if text.strip().lower() not in names:
                problem = f"write one of {', '.join(names)}" if len(names) > 1 else f"write {names[0]}"
                raise ValueError(problem)
            return text.strip().lower()

        return parse

    def time_of(text: str) -> str:
        name = column_of(found, text.strip())
        try:
            return one_of(*choices)(name)
        except ValueError as error:
            wanted = name.lower()
            why = no_time(found, wanted)
            problem = f"{why}; {error}" if why else str(error)
            if wanted in dict(found.nearly_times):
                problem += (
                    "; or make it a TIMESTAMP and the sink.bucket.time-column in the DDL that init writes then, with "
                    "sink.on-bad-record = 'dead-letter': records with other values are bad ones"
                )
            raise ValueError(problem) from error

    what = f"What decides the partition ({', '.join(choices)})"
    default = default_time(found, from_kafka=from_kafka)
    time = _answer("--time-column", asked.time, default, what, time_of, asks=asked.asks)
    default = default_pattern(found, time, taken.total)
    every = _answer(
        "--every", asked.every, default, "A partition for each day or hour", one_of(*PATTERNS), asks=asked.asks
    )
    zone = _answer(
        "--zone", asked.zone, "UTC", "The zone of the partitions", lambda text: zone_of(text).key, asks=asked.asks
    )
    return Partitioning(time, every, zone)


def _files(name: TableName, ddl: Path | None, job: Path | None, *, asks: bool) -> _Files:
    def job_path(text: str) -> str:
        if not text.endswith(".py"):
            problem = "a job's file ends in .py"
            raise ValueError(problem)
        if (stem := Path(text).stem) in HIDES:
            problem = f"every job in that folder would import it for Python's own module {stem}; give it another name"
            raise ValueError(problem)
        require_writer_name(stem)
        return text

    def ddl_path(text: str) -> str:
        if not text.endswith(".sql"):
            problem = "a DDL file ends in .sql"
            raise ValueError(problem)
        return text

    ddl_told = str(ddl) if ddl else None
    ddl_file = _answer("--ddl", ddl_told, f"ddl/{name.table}.sql", "The DDL file", ddl_path, asks=asks)
    usual = f"jobs/{name.table}{'_job' if name.table in HIDES else ''}.py"
    file = _answer("--job", str(job) if job else None, usual, "The job file", job_path, asks=asks)
    return _Files(Path(ddl_file), Path(file))


def _answer(
    option: str, told: str | None, default: str, question: str, parse: Callable[[str], _T], *, asks: bool
) -> _T:
    """What the option says, else the answer to `question`, else `default`. Raises WrongUsage for a bad option."""

    def proc(text: str) -> _T:
        try:
            return parse(text)
        except (ValueError, InvalidOption) as error:
            raise typer.BadParameter(str(error)) from error

    if told is None and asks:
        answered: _T = typer.prompt(question, default=default, value_proc=proc, err=True)
        return answered
    try:
        with given():
            return parse(default if told is None else told)
    except ValueError as error:
        raise WrongUsage((f"{option} {told}: {error}",)) from error


class _Live(Enum):
    """What a look for the table has found; a metastore that is away is named by the commands that need it."""

    NO_METASTORE = 0
    NO_TABLE = 1
    TABLE = 2


def _look_for(name: TableName, site: Site) -> _Live:
    from hivesink.metastore import connect
    from hivesink.tables.opened import metastore_address

    try:
        with closing(connect("thrift", metastore_address(None, site), site)) as registrar:
            registrar.table(name)
    except NoMetastore:
        return _Live.NO_METASTORE
    except HiveSinkError:
        return _Live.NO_TABLE
    return _Live.TABLE


def _way_in(name: TableName, files: _Files) -> str:
    return (
        f"{name} is there already, and decides what the records become: to stream into it as it is, delete {files.ddl} "
        "(see 'A table that has data already' in docs/recipes.md); for a table of its own, give another name"
    )


def _next(source: str, name: TableName, files: _Files, live: _Live) -> list[str]:
    """Commands that take the files from here to rows in the table."""
    sql = f"SELECT * FROM {name.quoted} LIMIT 10"  # noqa: S608  a statement to show, with letters, digits and _ in it
    ddl, job = shlex.quote(str(files.ddl)), shlex.quote(str(files.job))
    return [
        *(["hivesink metastore start"] if live is _Live.NO_METASTORE else []),
        *([] if live is _Live.TABLE else [f"hivesink ddl apply {ddl}"]),
        f"hivesink preview --table {name} --from {shlex.quote(source)}",
        f"TRIGGER=availableNow hivesink run {job}",
        f"hivesink query {shlex.quote(sql)}",
    ]


def _report(
    proposal: Proposal,
    files: _Files,
    taken: Sample,
    job: str,
    following: list[str],
    *,
    told: Sequence[str | None],
    written: bool,
) -> Report:
    fit, records, skipped = proposal.checked.rows.num_rows, taken.batch.num_rows, proposal.checked.skipped
    data = {
        "table": str(proposal.spec.name),
        "written": written,
        "ddl": {"file": str(files.ddl), "text": proposal.ddl},
        "job": {"file": str(files.job), "text": job},
        "records": records,
        "fit": fit,
        "skipped": skipped,
        "left_out": [asdict(one) for one in proposal.left_out],
        "bad_records": [{**taken.places[one.index], **asdict(one)} for one in proposal.checked.bad],
        "next": following,
    }
    blocks: list[Line | Grid] = []
    for path, text in ((files.ddl, proposal.ddl), (files.job, job)):
        blocks += [Line(f"{path}: written", "green")] if written else [Line(f"{path}:", "bold"), Line(text)]
    if not written:
        blocks.append(Line("dry run, nothing was written"))
    blocks += [Line(text, "yellow") for text in told if text]
    unsure = [column for column in proposal.spec.columns if column.comment]
    blocks += _first([f"{one.name}: {cut(str(one.type))}, {one.comment}" for one in unsure], "columns with a comment")
    blocks += _first([*map(str, proposal.left_out)], "fields are left out")
    by = proposal.spec.partition_columns[0]
    blocks.append(Line(f"partitioned by {by.name}: {by.comment}"))
    blocks += [Line(proposal.untimed, "yellow")] if proposal.untimed else []
    blocks += bad_blocks(taken, proposal.checked.bad)
    tombstones = f"; tombstones, which a job skips: {skipped:,}" if skipped else ""
    text = f"{fit:,} of the sample's {records:,} records fit{tombstones}"
    blocks.append(Line(text, "bold green" if fit + skipped == records else "yellow"))
    blocks += [Line("Next:", "bold"), *(Line(f"  {command}") for command in following)]
    return Report(data, blocks)


def _first(lines: Sequence[str], what: str) -> list[Line | Grid]:
    return [*(Line(line, "yellow") for line in lines[:_LINES]), *rest(len(lines) - _LINES, what)]
