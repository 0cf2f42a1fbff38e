"""`hivesink rejects`: the dead letters of a table, by reason, and their way back into it."""

from __future__ import annotations

from contextlib import suppress
from datetime import date
from difflib import get_close_matches
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from hivesink.cli import letterfile
from hivesink.cli.codes import ExitCode
from hivesink.cli.command import Debug, DryRun, Json, Metastore, Table, UsageError, Yes, confirm, reporting
from hivesink.cli.output import Grid, Line, Report
from hivesink.core.progress import count
from hivesink.errors import InvalidOption, WrongUsage
from hivesink.tables.opened import open_table
from hivesink.tables.rejects import Census, DeadLetters, Wanted, dead_letters
from hivesink.tables.replay import Replay

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hivesink.core.table import TableName
    from hivesink.sink.task.replay import Replayed

_LIST = "list"
_MOST = 20
"""Fields and reasons that are named where nothing matches."""


class _Rejects(TyperGroup):
    """`hivesink rejects TABLE` lists; other words are commands."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        # A table's name has a dot.
        near = get_close_matches(args[0], self.commands, n=1) if args and "." not in args[0] else []
        if near and near != args[:1]:
            message = f"no such command {args[0]!r}; did you mean {near[0]}?"
            raise UsageError(message, ctx)
        if args and args[0] not in self.commands and args[0] != "--help":
            args = [_LIST, *args]
        return super().parse_args(ctx, args)


rejects = typer.Typer(
    cls=_Rejects,
    no_args_is_help=True,
    help="List a table's rejected records by reason: hivesink rejects TABLE. Or decode them again: replay TABLE.",
)

ReasonText = Annotated[str | None, typer.Option("--reason", help="Only records of this reason, as the list has it.")]
Field = Annotated[str | None, typer.Option("--field", help="Only records whose problem is in this column.")]
Day = Annotated[str | None, typer.Option("--day", help="Only records that arrived on this day (UTC), yyyy-MM-dd.")]
Export = Annotated[
    Path | None,
    typer.Option(
        "--export", metavar="FILE", help="Also write the records to this new file, a JSON object each, to be mended."
    ),
]
Before = Annotated[
    bool, typer.Option("--replayed", help="Those that were replayed, as they came, instead of those that weren't.")
]
Mended = Annotated[
    Path | None,
    typer.Option(
        "--mended", metavar="FILE", help="Replay the records of this file, which --export wrote, with the values in it."
    ),
]


def _none_there(table: TableName) -> str:
    return f"no record of {table} was ever rejected into {table.rejected}, or that table was dropped or renamed"


@rejects.command(_LIST)
def list_rejects(  # noqa: PLR0917  each is an option of the command line
    table: Table,
    reason: ReasonText = None,
    field: Field = None,
    day: Day = None,
    replayed: Before = False,
    export: Export = None,
    metastore: Metastore = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """List the rejected records of a table by reason. Safe to run while a job is writing.

    `list` may be left out.

    Example: hivesink rejects list demo.events --export mend.jsonl
    """
    with reporting(as_json=json, debug=debug) as out, open_table(table, metastore) as opened:
        letters, census = dead_letters(opened), Census()
        wanted = Wanted(reason, field, _day(day), replayed=replayed)
        if letters is None:
            data = {"table": opened.name, "rejects": [], "replayed": 0, "waiting": 0, "exported": 0, "instead": None}
            out.show(Report(data, [Line(_none_there(opened.live.spec.name))]))
            return
        found, waiting = letters.reasons(wanted, census), letters.waiting()
        written = letterfile.export(letters, wanted, export) if export else 0
        instead = None if found else _instead(letters, wanted)
        columns = ("records", "field", "reason", "first", "last", "one of them")
        rows = [
            (
                one.count,
                one.field or "",
                one.reason,
                f"{one.first:%Y-%m-%d %H:%M}",
                f"{one.last:%Y-%m-%d %H:%M}",
                one.example,
            )
            for one in found
        ]
        total = sum(one.count for one in found)
        blocks: list[Line | Grid] = [Grid(f"{letters.name} (times in UTC)", columns, rows, frozenset({"records"}))]
        before = "" if replayed or wanted.filters else f", {len(census.replayed)} replayed before"
        what = f"{count(total, 'record')} that {'was' if total == 1 else 'were'} replayed"
        blocks.append(Line(f"{opened.name}: {what if replayed else count(total, 'rejected record')}{before}"))
        blocks += _still(waiting)
        blocks += [*_notes(census), *_mismatch(instead, wanted)]
        if export and replayed:
            blocks.append(Line(f"written to {export}: their marks stay, so no --mended takes them again"))
        elif export:
            way = f"mend `value`, then: hivesink rejects replay {table} --mended {export}"
            blocks.append(Line(f"written to {export}: {way}"))
        data = {
            "table": opened.name,
            "rejects": [
                {
                    "reason": one.reason,
                    "field": one.field,
                    "records": one.count,
                    "first": one.first,
                    "last": one.last,
                    "example": one.example,
                }
                for one in found
            ],
            "replayed": len(census.replayed),
            "waiting": waiting,
            "exported": written,
            "instead": instead,
        }
        out.show(Report(data, blocks))


@rejects.command()
def replay(  # noqa: PLR0917  each is an option of the command line
    table: Table,
    reason: ReasonText = None,
    field: Field = None,
    day: Day = None,
    mended: Mended = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    metastore: Metastore = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Decode rejected records again, by the table of today, and put those that fit into it: each once, in one epoch.

    Needs no stop of the job. A record that fails again stays rejected, and the reason is shown. Asks first.

    Example: hivesink rejects replay demo.events --dry-run
    """
    with reporting(as_json=json, debug=debug) as out, open_table(table, metastore) as opened:
        letters = dead_letters(opened)
        lines = letterfile.mended(mended) if mended else None
        values = None if lines is None else {one: value for one, (_, value) in lines.items()}
        wanted, census = Wanted(reason, field, _day(day), values), Census()
        if letters is None:
            none = _none_there(opened.live.spec.name)
            problem = f"nothing to replay: {none}; with sink.on-bad-record = dead-letter bad records go there"
            raise InvalidOption((problem,))
        again = Replay(letters)
        again.require_possible()
        # A replay that died may have published the marks, and not yet all of the rows.
        finished = 0 if dry_run else again.recover()
        found = again.try_out(wanted, census)
        if lines and mended:
            _require_known(lines, census, mended, letters.name)
        instead = _instead(letters, wanted) if lines is None and not (census.given or census.lacking) else None
        if found.rows and not dry_run:
            if not yes:
                rows = count(found.rows, "record")
                question = f"Put {rows} into {opened.name}?"
                confirm(out, _lines(found), question, f"this would put {rows} into {opened.name}")
            found = again.run(wanted, census)
        done = _became(found.rows, dry_run=dry_run)
        summary = f"{opened.name}: {done}, {sum(found.failing.values())} fail again"
        # These have no value, and the table skips such records.
        summary += f", {found.skipped} skipped" if found.skipped else ""
        blocks = [Line(f"first finished an earlier replay: {_became(finished)}")] if finished else []
        waiting = letters.waiting()
        blocks += [*map(Line, _lines(found)), Line(summary), *_still(waiting), *_notes(census)]
        blocks += _mismatch(instead, wanted)
        if before := sum(one in census.replayed and one not in census.given for one in lines or ()):
            blocks.append(Line(f"{before} of {mended} were replayed before"))
        data = {
            "table": opened.name,
            "dry_run": dry_run,
            "finished": finished,
            "replayed": found.rows,
            "skipped": found.skipped,
            "waiting": waiting,
            "failing": [
                {"field": field, "reason": reason, "records": number, "example": found.examples[field, reason]}
                for (field, reason), number in found.failing.items()
            ],
            "instead": instead,
        }
        out.show(Report(data, blocks))
        if found.failing:
            raise typer.Exit(ExitCode.FAILED)


def _still(waiting: int) -> list[Line]:
    more = f"{waiting} more wait in the jobs' logs; they are in the table once it is rolled"
    return [Line(more)] if waiting else []


def _became(records: int, *, dry_run: bool = False) -> str:
    one, many = ("would be a row", "would be rows") if dry_run else ("is a row now", "are rows now")
    return f"{count(records, 'record')} {one if records == 1 else many}"


def _lines(found: Replayed) -> list[str]:
    return [
        f"fails again: {f'{field}: ' if field else ''}{reason} ({count(number, 'record')}, such as "
        f"{found.examples[field, reason]})"
        for (field, reason), number in found.failing.most_common()
    ]


def _instead(letters: DeadLetters, wanted: Wanted) -> dict[str, list[str]] | None:
    """What there is, if the filters match nothing; None without filters."""
    if not wanted.filters:
        return None
    there = letters.reasons(Wanted(replayed=wanted.replayed), Census())
    days = {f"{day:%Y-%m-%d}" for one in there for day in (one.first, one.last)}
    fields, reasons = {one.field for one in there if one.field}, {one.reason for one in there}
    return {
        "fields": sorted(fields),
        "reasons": sorted(reasons),
        "days": sorted({min(days), max(days)} if days else ()),
    }


def _mismatch(instead: Mapping[str, list[str]] | None, wanted: Wanted) -> list[Line]:
    if instead is None:
        return []
    filters = " ".join(f"--{name} {quote(text)}" for name, text in wanted.filters.items())
    if not instead["reasons"]:
        state = "was" if wanted.replayed else "is left that wasn't"
        return [Line(f"nothing matches {filters}: no record {state} replayed", "yellow")]
    fields = ", ".join(instead["fields"][:_MOST]) or "none"
    reasons = ", ".join(map(quote, instead["reasons"][:_MOST]))
    days = " to ".join(instead["days"])
    return [Line(f"nothing matches {filters}; there are: fields {fields}; reasons {reasons}; days {days}", "yellow")]


def _notes(census: Census) -> list[Line]:
    notes = []
    if census.unnamed:
        why = "they have no id (an older version wrote them) and lie in another program's file, or no time of arrival"
        notes.append(Line(f"{census.unnamed} can't be replayed: {why}", "yellow"))
    if census.lacking:
        why = "they came without the key, time, position, file or line that the table is filled from now"
        notes.append(Line(f"{census.lacking} can't be replayed: {why}", "yellow"))
    if census.doubled:
        notes.append(Line(f"{census.doubled} are there twice, and count once", "yellow"))
    return notes


def _day(text: str | None) -> str | None:
    """Raises WrongUsage unless it is a day as the partitions have it."""
    with suppress(ValueError):
        if text is None or date.fromisoformat(text).isoformat() == text:
            return text
    raise WrongUsage((f"--day = {text!r} is no day: write yyyy-MM-dd",))


def _require_known(lines: Mapping[str, tuple[int, bytes | None]], census: Census, file: Path, table: str) -> None:
    """Raise InvalidOption for the first line whose record isn't one that can be replayed, or was."""
    for one, (number, _) in lines.items():
        if one not in census.given and one not in census.replayed:
            why = f"is of no record of {table} that can be replayed; take lines that `hivesink rejects --export` wrote"
            raise InvalidOption((f"{file} line {number}: the id {one} {why}",))
