"""`hivesink reset`: start a writer without a history, and keep its old log and files."""

from __future__ import annotations

import re
from dataclasses import asdict, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Annotated

import typer

from hivesink.cli.command import Debug, DryRun, Json, Metastore, Table, Writer, Yes, confirm, reporting
from hivesink.cli.output import Line, Report
from hivesink.core.log import reset_name
from hivesink.core.progress import count
from hivesink.core.table import TableName
from hivesink.errors import InvalidOption, few
from hivesink.logs import TableLogs
from hivesink.sink.inspect.clean import Stranger
from hivesink.sink.inspect.resets import Reset, plan_reset
from hivesink.storage.pointers import Accepted
from hivesink.tables.opened import OpenedTable, open_table

if TYPE_CHECKING:
    from collections.abc import Sequence

_NAMED = 3
NONE = "none"
"""The answer that no batch that comes again is in the table."""

Uids = Annotated[
    list[str] | None,
    typer.Option(
        "--uid", help="Accept the files of this uid, which has no log here; reset no writer. May be repeated."
    ),
]

Written = Annotated[
    str | None,
    typer.Option(
        metavar="QUERY/BATCH|none",
        help="With --uid: this batch is in the table, and the next start passes it over; or none of that log is.",
    ),
]


def reset(
    table: Table,
    *,
    writer: Writer = None,
    uid: Uids = None,
    written: Written = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    metastore: Metastore = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Set a writer's log aside, so that its next start has no history. Its files stay, as the users' own.

    Stop the job first. Shows what it would do, and asks. With --uid it accepts files whose log isn't here, such as
    after a rename. Deletes nothing: the log is kept beside its old place under another name.

    Example: hivesink reset demo.flights --writer flights
    """
    if writer is not None and uid:
        problem = "--writer resets a writer that has a log, --uid is for files without a log: give one of the two"
        raise typer.BadParameter(problem)
    if written is not None and (len(uid or ()) != 1 or not re.fullmatch(rf"\S+/\d+|{NONE}", written)):
        problem = f"--written goes with one --uid, and is QUERY/BATCH, as the error has it, or {NONE}"
        raise typer.BadParameter(problem)
    with reporting(as_json=json, debug=debug) as out, open_table(table, metastore) as opened:
        now = datetime.now(timezone.utc)
        chosen = {} if uid else opened.resettable(writer)
        resets = [_named(opened, plan_reset(one, name, opened.name, now), now) for name, one in chosen.items()]
        strangers = _with_uids(opened, uid or [], written)
        lines = [*map(_about_writer, resets), *map(_about_files, strangers)]
        lines += [_about_batch(written)] if written and strangers else []
        if lines and not dry_run:
            if not yes:
                confirm(lines, "Is the job stopped, and do you want this?", "; ".join(lines), as_json=json)
            for one in resets:
                _set_aside(opened, one, now)
            for stranger in strangers:
                before = opened.logs.accepted().get(stranger.uid) or Accepted(stranger.uid, _text(now))
                opened.logs.accept(replace(before, written="" if written == NONE else written))
        data = {
            "table": opened.name,
            "done": bool(lines) and not dry_run,
            "writers": [asdict(one) for one in resets],
            "accepted": [asdict(stranger) for stranger in strangers],
        }
        if not lines:
            end = Line(f"{opened.name}: nothing to reset")
        elif dry_run:
            end = Line(f"{opened.name}: dry run, nothing was changed")
        else:
            end = Line(
                f"{opened.name}: done; with a new checkpoint the job reads its source from the beginning; with the old "
                "one and append=0 it reads on where that stands, without rows that only waited in the log",
                "bold green",
            )
        out.show(Report(data, [*map(Line, lines), end]))


def _named(opened: OpenedTable, planned: Reset, at: datetime) -> Reset:
    """With a free name for the old log: the one that an earlier, interrupted reset chose, else by the time."""
    before = opened.logs.accepted().get(planned.uid or "")
    if before is not None and before.log is not None and not opened.logs.has_folder(before.log):
        return replace(planned, aside=before.log)
    folder = planned.aside.rpartition("/")[0]
    while opened.logs.has_folder(planned.aside):
        at += timedelta(seconds=1)
        planned = replace(planned, aside=f"{folder}/{reset_name(planned.writer, at)}")
    return planned


def _with_uids(opened: OpenedTable, uids: Sequence[str], written: str | None) -> list[Stranger]:
    """Those of `uids` that aren't accepted yet; with `written`, those of logs put aside. Raises InvalidOption."""
    if not uids:
        return []
    known, accepted = {one.uid: one for one in opened.strangers()}, opened.logs.accepted()
    for uid in uids:
        if written is not None and (uid not in accepted or accepted[uid].log is None):
            raise InvalidOption((f"--written: {opened.name} has no log of uid {uid} that a reset has put aside",))
        if uid not in known and uid not in accepted:
            names = ", ".join(sorted(known)) or "none"
            problem = f"{opened.name} has no files of uid {uid} that lack a log here; such uids are: {names}"
            raise InvalidOption((problem,))
    chosen = (uid for uid in dict.fromkeys(uids) if uid not in accepted or written is not None)
    return [known.get(uid) or Stranger(uid, (), ()) for uid in chosen]


def _set_aside(opened: OpenedTable, planned: Reset, now: datetime) -> None:
    """The order allows an interruption anywhere: another run completes it."""
    everywhere = [TableLogs(TableName.parse(name), folder, opened.site) for name, folder in planned.tables.items()]
    for logs in everywhere:
        before = logs.accepted().get(planned.uid or "")
        # What was answered about it before that reset was undone counts no more.
        if planned.uid is not None and (before is None or (before.log, before.written) != (planned.aside, None)):
            logs.accept(Accepted(planned.uid, _text(now), planned.writer, planned.aside))
    opened.logs.put_aside(planned.log, planned.aside)
    for logs in everywhere:
        logs.unpoint(planned.writer)


def _text(now: datetime) -> str:
    return now.isoformat(timespec="seconds")


def _about_writer(planned: Reset) -> str:
    text = f"writer {planned.writer}: its log {planned.log}, at epoch {planned.epoch} with "
    text += f"{count(planned.rows, 'row')} written, is set aside as {planned.aside}"
    if planned.finished:
        text += f"; its {planned.finished} finished files in {' and '.join(planned.tables)} stay: rows that are read "
        text += "again will be there twice"
    if planned.unreadable:
        gaps = few([str(epoch) for epoch in planned.unreadable], _NAMED)
        text += f"; the manifests of epoch {gaps} can't be read, and their rows are counted nowhere here"
    if planned.unpublished:
        first = "restore its manifests and run" if planned.unreadable else "run"
        text += (
            f"; {planned.unpublished} decided rows are not known to be published, and never will be: {first} "
            "`hivesink recover` first, or they may be lost, or be there twice if they are read again"
        )
    return text


def _about_batch(written: str) -> str:
    if written == NONE:
        return "no batch of that log that comes again is in the table: it is written"
    return f"batch {written} is in the table: the next start passes it over"


def _about_files(stranger: Stranger) -> str:
    such = f", such as {stranger.paths[0]}," if stranger.paths else ""
    files = f"{count(len(stranger.finished), 'finished file')} and {count(len(stranger.staged), 'staged one')}{such}"
    return (
        f"uid {stranger.uid}: {files} are "
        "accepted as they are; those of their rows that are read again will be in the table twice"
    )
