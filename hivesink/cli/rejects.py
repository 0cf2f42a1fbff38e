"""`hivesink rejects`: the dead letters of a table, by reason, and their way back into it."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from contextlib import suppress
from datetime import date
from difflib import get_close_matches
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from hivesink.cli.codes import ExitCode
from hivesink.cli.command import Debug, DryRun, Json, Metastore, Table, UsageError, Yes, confirm, reporting
from hivesink.cli.output import Grid, Line, Report
from hivesink.core.progress import count
from hivesink.errors import InvalidOption, WrongUsage
from hivesink.tables.opened import open_table
from hivesink.tables.rejects import DeadLetters, Wanted, dead_letters, place
from hivesink.tables.replay import Census, Replay

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hivesink.core.table import TableName
    from hivesink.sink.task.attempt import Replayed

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
        letters, wanted = dead_letters(opened), Wanted(reason, field, _day(day))
        if letters is None:
            data = {"table": opened.name, "rejects": [], "waiting": 0, "exported": 0, "instead": None}
            out.show(Report(data, [Line(_none_there(opened.live.spec.name))]))
            return
        (reasons, unsettled), waiting = letters.reasons(wanted), letters.waiting()
        written = write_letters(letters, wanted, export) if export else 0
        instead = None if reasons else _instead(letters, wanted)
        columns = ("records", "field", "reason", "first", "last", "one of them")
        rows = [
            (
                entry.count,
                entry.field or "",
                entry.reason,
                f"{entry.first:%Y-%m-%d %H:%M}",
                f"{entry.last:%Y-%m-%d %H:%M}",
                entry.example,
            )
            for entry in reasons
        ]
        total = sum(entry.count for entry in reasons)
        blocks: list[Line | Grid] = [Grid(f"{letters.name} (times in UTC)", columns, rows, frozenset({"records"}))]
        blocks.append(Line(f"{opened.name}: {count(total, 'rejected record')}"))
        blocks += [*_still(waiting), *_notes(unsettled), *_mismatch(instead, wanted)]
        if export:
            way = f"mend `value`, then: hivesink rejects replay {table} --mended {export}"
            blocks.append(Line(f"written to {export}: {way}"))
        data = {
            "table": opened.name,
            "rejects": [
                {
                    "reason": entry.reason,
                    "field": entry.field,
                    "records": entry.count,
                    "first": entry.first,
                    "last": entry.last,
                    "example": entry.example,
                }
                for entry in reasons
            ],
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
        values = read_letters(mended) if mended else None
        wanted = Wanted(reason, field, _day(day), values)
        if letters is None:
            none = _none_there(opened.live.spec.name)
            problem = f"nothing to replay: {none}; with sink.on-bad-record = dead-letter bad records go there"
            raise InvalidOption((problem,))
        again = Replay(letters)
        finished = 0 if dry_run else again.recover()
        replayed, census = again.try_out(wanted)
        instead = _instead(letters, wanted) if values is None and census.is_empty else None
        if replayed.rows and not dry_run:
            if not yes:
                rows = count(replayed.rows, "record")
                question = f"Put {rows} into {opened.name}?"
                confirm(out, _lines(replayed), question, f"this would put {rows} into {opened.name}")
            replayed = again.run(wanted, replayed.parts)
        done = _became(replayed.rows, dry_run=dry_run)
        summary = f"{opened.name}: {done}, {sum(replayed.failing.values())} fail again"
        # These have no value, and the table skips such records.
        summary += f", {replayed.skipped} skipped" if replayed.skipped else ""
        blocks = [Line(f"first finished an earlier replay: {_became(finished)}")] if finished else []
        waiting = letters.waiting()
        blocks += [*map(Line, _lines(replayed)), Line(summary), *_still(waiting)]
        blocks += [*_notes(census.unsettled, census), *_mismatch(instead, wanted)]
        unknown = len(values.keys() - census.decoded) - census.unsettled - census.lacking if values else 0
        if unknown:
            blocks.append(
                Line(f"{unknown} of {mended} are in no file of {letters.name}: replayed before, or another's")
            )
        data = {
            "table": opened.name,
            "dry_run": dry_run,
            "finished": finished,
            "replayed": replayed.rows,
            "skipped": replayed.skipped,
            "waiting": waiting,
            "unknown": unknown,
            "failing": [
                {"field": field, "reason": reason, "records": number, "example": replayed.examples[field, reason]}
                for (field, reason), number in replayed.failing.items()
            ],
            "instead": instead,
        }
        out.show(Report(data, blocks))
        if replayed.failing:
            raise typer.Exit(ExitCode.FAILED)


def _still(waiting: int) -> list[Line]:
    more = f"{waiting} more wait in the jobs' logs; they are in the table once it is rolled"
    return [Line(more)] if waiting else []


def _became(records: int, *, dry_run: bool = False) -> str:
    single, many = ("would be a row", "would be rows") if dry_run else ("is a row now", "are rows now")
    return f"{count(records, 'record')} {single if records == 1 else many}"


def _lines(replayed: Replayed) -> list[str]:
    return [
        f"fails again: {f'{field}: ' if field else ''}{reason} ({count(number, 'record')}, such as "
        f"{replayed.examples[field, reason]})"
        for (field, reason), number in replayed.failing.most_common()
    ]


def _instead(letters: DeadLetters, wanted: Wanted) -> dict[str, list[str]] | None:
    """What there is, if the filters match nothing; None without filters."""
    if not wanted.filters:
        return None
    reasons, _ = letters.reasons(Wanted())
    days = {f"{day:%Y-%m-%d}" for entry in reasons for day in (entry.first, entry.last)}
    return {
        "fields": sorted({entry.field for entry in reasons if entry.field}),
        "reasons": sorted({entry.reason for entry in reasons}),
        "days": sorted({min(days), max(days)} if days else ()),
    }


def _mismatch(instead: Mapping[str, list[str]] | None, wanted: Wanted) -> list[Line]:
    if instead is None:
        return []
    filters = " ".join(f"--{name} {quote(text)}" for name, text in wanted.filters.items())
    if not instead["reasons"]:
        return [Line(f"nothing matches {filters}: no rejected record is left", "yellow")]
    fields = ", ".join(instead["fields"][:_MOST]) or "none"
    reasons = ", ".join(map(quote, instead["reasons"][:_MOST]))
    days = " to ".join(instead["days"])
    return [Line(f"nothing matches {filters}; there are: fields {fields}; reasons {reasons}; days {days}", "yellow")]


def _notes(unsettled: int, census: Census | None = None) -> list[Line]:
    notes = []
    if unsettled:
        why = "their files are not (or not yet) what a job of this table has written"
        notes.append(Line(f"{unsettled} can't be replayed: {why}", "yellow"))
    if census and census.lacking:
        why = "they came without the time, position, file or line that the table is filled from now"
        notes.append(Line(f"{census.lacking} can't be replayed: {why}", "yellow"))
    return notes


def _day(text: str | None) -> str | None:
    """Raises WrongUsage unless it is a day as the partitions have it."""
    with suppress(ValueError):
        if text is None or date.fromisoformat(text).isoformat() == text:
            return text
    raise WrongUsage((f"--day = {text!r} is no day: write yyyy-MM-dd",))


def write_letters(letters: DeadLetters, wanted: Wanted, file: Path) -> int:
    """Write the records, and return how many. Raises WrongUsage if there is such a file, or none can be made."""
    written = 0
    try:
        with file.open("x", encoding="utf-8") as lines:
            for _, rows in letters.wanted(wanted):
                for row in rows.to_pylist():
                    letter = {"id": row["id"], "field": row["field"], "reason": row["reason"], "from": place(row)}
                    lines.write(json.dumps({**letter, **_value(row["value"])}, ensure_ascii=False) + "\n")
                    written += 1
    except FileExistsError:
        raise WrongUsage((f"--export: there is a file {file}; name another",)) from None
    except OSError as error:
        way = "give this user access, or name another file"
        raise WrongUsage((f"--export {file}: {error.strerror or error}; {way}",)) from error
    return written


def read_letters(file: Path) -> dict[str, bytes | None]:
    """The mended values by id. Raises InvalidOption with the line that is wrong; WrongUsage."""
    values: dict[str, bytes | None] = {}
    try:
        # Some editors put a mark of the byte order in front.
        lines: Sequence[str] = file.read_text(encoding="utf-8-sig").split("\n")
    except OSError as error:
        raise WrongUsage((f"--mended {file}: {error.strerror or error}",)) from error
    except UnicodeDecodeError as error:
        number = error.object[: error.start].count(b"\n") + 1
        raise InvalidOption((f"--mended {file} line {number} isn't UTF-8; save the file as that",)) from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            letter = json.loads(line)
            name, value = str(letter["id"]), _mended(letter)
        except (ValueError, TypeError, KeyError, AttributeError):
            what = "isn't an object with an id and a value (text), as --export writes them"
            raise InvalidOption((f"{file} line {number} {what}",)) from None
        if "value" in letter and "base64" in letter:
            raise InvalidOption((f"{file} line {number} has both `value` and `base64`; leave one",))
        if name in values:
            raise InvalidOption((f"{file} line {number}: the id {name} is there twice; leave one",))
        values[name] = value
    return values


def _value(value: bytes | None) -> dict[str, str | None]:
    with suppress(UnicodeDecodeError):
        return {"value": value.decode() if value is not None else None}
    return {"base64": b64encode(value or b"").decode()}


def _mended(letter: Any) -> bytes | None:
    if "value" in letter:
        return None if letter["value"] is None else bytes(letter["value"].encode())
    return b64decode(letter["base64"], validate=True)
