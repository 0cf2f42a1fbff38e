"""`hivesink rejects`: the dead letters of a table, by reason, and their way back into it.

The file that `--export` writes and `--mended` reads has a JSON object each.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from hivesink.cli.codes import ExitCode
from hivesink.cli.command import command, confirm
from hivesink.cli.output import Grid, Line, Output
from hivesink.core.progress import count
from hivesink.errors import InvalidOption
from hivesink.tables.opened import OpenedTable
from hivesink.tables.rejects import Census, DeadLetters, Replay, dead_letters, origin


class _Rejects(TyperGroup):
    """`hivesink rejects TABLE` lists: a table's name has a dot."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        is_table = bool(args) and args[0] not in self.commands and ("." in args[0] or args[0].startswith("-"))
        return super().parse_args(ctx, ["list", *args] if is_table and args[0] != "--help" else args)


rejects = typer.Typer(
    cls=_Rejects,
    no_args_is_help=True,
    help="List a table's rejected records by reason: hivesink rejects TABLE. Or decode them again: replay TABLE.",
)


@rejects.command("list")
@command
def list_rejects(
    out: Output,
    opened: OpenedTable,
    *,
    export: Path | None = None,
) -> None:
    """List the rejected records of a table by reason. Safe to run while a job is writing.

    `list` may be left out.

    Example: hivesink rejects list demo.events --export mend.jsonl

    --export FILE: Also write the records to this new file, a JSON object each, to be mended.
    """
    letters = dead_letters(opened)
    if letters is None:
        out.show({"table": opened.name, "rejects": [], "waiting": 0, "exported": 0}, [Line(_none_there(opened))])
        return
    (reasons, unsettled), waiting = letters.reasons(), letters.waiting()
    written = _export(letters, export) if export else 0
    blocks: list[Line | Grid] = [Grid.of(f"{letters.name} (times in UTC)", reasons, "records")]
    blocks.append(Line(f"{opened.name}: {count(sum(entry['records'] for entry in reasons), 'rejected record')}"))
    blocks += _notes(waiting, Census(unsettled=unsettled))
    if export:
        way = f"mend `value`, then: hivesink rejects replay {opened.name} --mended {export}"
        blocks.append(Line(f"written to {export}: {way}"))
    out.show({"table": opened.name, "rejects": reasons, "waiting": waiting, "exported": written}, blocks)


@rejects.command()
@command
def replay(
    out: Output,
    opened: OpenedTable,
    *,
    mended: Path | None = None,
    dry_run: bool = False,
    yes: bool = False,
) -> None:
    """Decode rejected records again, by the table of today, and put those that fit into it: each once, in one epoch.

    Needs no stop of the job. A record that fails again stays rejected, and the reason is shown. Asks first.

    Example: hivesink rejects replay demo.events --dry-run

    --mended FILE: Replay the records of this file, which --export wrote, with the values in it.
    """
    letters = dead_letters(opened)
    values = _mended(mended) if mended else None
    if letters is None:
        problem = "with sink.on-bad-record = dead-letter bad records go there"
        raise InvalidOption((f"nothing to replay: {_none_there(opened)}; {problem}",))
    again = Replay(letters, values)
    finished = 0 if dry_run else again.recover()
    replayed, census = again.try_out()
    if replayed.rows and not dry_run:
        if not yes:
            what, fail = f"{count(replayed.rows, 'record')} into {opened.name}", sum(replayed.failing.values())
            confirm(out, (), f"Put {what}? {fail} fail again.", f"this would put {what}")
        replayed = again.run(replayed.parts)
    # Those that are skipped have no value, and the table skips such records.
    skipped = f", {replayed.skipped} skipped" if replayed.skipped else ""
    done = f"{count(replayed.rows, 'record')} {'would come' if dry_run else 'came'} back"
    waiting = letters.waiting()
    failing = [
        {"field": field, "reason": reason, "records": number, "example": replayed.examples[field, reason]}
        for (field, reason), number in replayed.failing.most_common()
    ]
    earlier = f"first finished an earlier replay: {count(finished, 'record')} came back"
    blocks: list[Line | Grid] = [Line(earlier)] if finished else []
    blocks.append(Grid.of("fail again", failing, "records"))
    blocks.append(Line(f"{opened.name}: {done}, {sum(replayed.failing.values())} fail again{skipped}"))
    blocks += _notes(waiting, census)
    unknown = len(values.keys() - census.decoded) - census.unsettled - census.lacking if values else 0
    if unknown:
        blocks.append(Line(f"{unknown} of {mended} are in no file of {letters.name}: replayed before, or another's"))
    data = {
        "table": opened.name,
        "dry_run": dry_run,
        "finished": finished,
        "replayed": replayed.rows,
        "skipped": replayed.skipped,
        "waiting": waiting,
        "unknown": unknown,
        "failing": failing,
    }
    out.show(data, blocks)
    if replayed.failing:
        raise typer.Exit(ExitCode.FAILED)


def _none_there(opened: OpenedTable) -> str:
    table = opened.live.spec.name
    return f"no record of {table} was ever rejected into {table.rejected}, or that table was dropped or renamed"


def _notes(waiting: int, census: Census) -> list[Line]:
    """What else there is to say."""
    why = "their files are not (or not yet) what a job of this table has written"
    lack = "they came without the time, position, file or line that the table is filled from now"
    notes = {
        f"{waiting} more wait in the jobs' logs; they are in the table once it is rolled": waiting,
        f"{census.unsettled} can't be replayed: {why}": census.unsettled,
        f"{census.lacking} can't be replayed: {lack}": census.lacking,
    }
    return [Line(note, "yellow") for note, is_so in notes.items() if is_so]


def _export(letters: DeadLetters, file: Path) -> int:
    """Write the records, and return how many. Raises InvalidOption if there is such a file, or none can be made."""
    written = 0
    try:
        with file.open("x", encoding="utf-8") as lines:
            for _, rows in letters.every():
                for row in rows.to_pylist():
                    letter = {"id": row["id"], "field": row["field"], "reason": row["reason"], "from": origin(row)}
                    try:
                        letter["value"] = None if row["value"] is None else row["value"].decode()
                    except UnicodeDecodeError:
                        letter["base64"] = b64encode(row["value"]).decode()
                    lines.write(json.dumps(letter, ensure_ascii=False) + "\n")
                    written += 1
    except OSError as error:
        raise InvalidOption((f"--export {file}: {error.strerror or error}; name another file",)) from error
    return written


def _mended(file: Path) -> dict[str, bytes | None]:
    """The mended values by id. Raises InvalidOption with the line that is wrong."""
    values: dict[str, bytes | None] = {}
    try:
        # Some editors put a mark of the byte order in front.
        lines: Sequence[str] = file.read_text(encoding="utf-8-sig").split("\n")
    except OSError as error:
        raise InvalidOption((f"--mended {file}: {error.strerror or error}",)) from error
    except UnicodeDecodeError as error:
        number = error.object[: error.start].count(b"\n") + 1
        raise InvalidOption((f"--mended {file} line {number} isn't UTF-8; save the file as that",)) from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            letter = json.loads(line)
            name, text = str(letter["id"]), letter.get("value")
            is_sound = name not in values and ("value" in letter) != ("base64" in letter)
            mended = None if text is None else text.encode()
            values[name] = b64decode(letter["base64"], validate=True) if "base64" in letter else mended
        except (ValueError, TypeError, KeyError, AttributeError):
            is_sound = False
        if not is_sound:
            what = "isn't an object with an id, each once, and a value (text), or base64, as --export writes them"
            raise InvalidOption((f"{file} line {number} {what}",))
    return values
