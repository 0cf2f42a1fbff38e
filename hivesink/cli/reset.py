"""`hivesink reset`: begin anew beside what is there."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from hivesink.cli.opened import OpenedTable, opened
from hivesink.cli.options import Debug, DryRun, Json, Metastore, Table, Writer, Yes
from hivesink.cli.output import Line, Report
from hivesink.cli.reporting import reporting
from hivesink.core.table import TableName
from hivesink.errors import InvalidOption
from hivesink.logs import Accepted, TableLogs
from hivesink.sink.inspect.status import Reset, plan_reset

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hivesink.sink.inspect.clean import Stranger

Uids = Annotated[
    Optional[list[str]],  # noqa: UP045  typer reads this at run time, on Python 3.10 too
    typer.Option("--uid", help="Accept the files of this uid, whose log isn't here, and leave the writers alone."),
]


def reset(
    table: Table,
    *,
    writer: Writer = None,
    uid: Uids = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    metastore: Metastore = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Put a writer's log aside, so that its next start begins anew; its files stay, as the users' own.

    Stop the job first. It shows what it would do, and asks. With --uid it accepts files whose log isn't here,
    as after a rename. Nothing is deleted: the log is kept under another name beside its place.

    Example: hivesink reset demo.flights --writer flights
    """
    if writer is not None and uid:
        problem = "--writer puts a writer's log aside, --uid is for files without a log: give one of the two"
        raise typer.BadParameter(problem)
    with reporting(as_json=json, debug=debug) as out, opened(table, metastore) as found:
        now = datetime.now(timezone.utc)
        chosen = () if uid else found.chosen(writer)
        resets = [_kept(found, plan_reset(one.context, one.name, found.name, now)) for one in chosen]
        strangers = _named(found, uid or [])
        lines = [*map(_about_writer, resets), *(_about_files(one) for one in strangers)]
        if lines and not dry_run:
            if not yes:
                _ask(lines, as_json=json)
            for one in resets:
                _put_aside(found, one, now)
            for stranger in strangers:
                found.logs.accept(Accepted(stranger.uid, _text(now)))
        data = {
            "table": found.name,
            "done": bool(lines) and not dry_run,
            "writers": [asdict(one) for one in resets],
            "accepted": [asdict(stranger) for stranger in strangers],
        }
        out.show(Report(data, [Line(line) for line in lines] + [_end(found, resets, strangers, dry_run=dry_run)]))


def _kept(found: OpenedTable, planned: Reset) -> Reset:
    """With the name that a reset which was cut short has given the log already."""
    before = found.logs.accepted().get(planned.uid or "")
    return replace(planned, aside=before.log) if before and before.log else planned


def _named(found: OpenedTable, uids: Sequence[str]) -> list[Stranger]:
    if not uids:
        return []
    known = {one.uid: one for one in found.strangers()}
    for uid in uids:
        if uid not in known:
            there = ", ".join(sorted(known)) or "none"
            problem = f"{found.name} holds no files of a uid {uid} without a log here; such uids are: {there}"
            raise InvalidOption((problem,))
    accepted = found.logs.accepted()
    return [known[uid] for uid in dict.fromkeys(uids) if uid not in accepted]


def _put_aside(found: OpenedTable, planned: Reset, now: datetime) -> None:
    """In an order in which it can be cut short anywhere, and done again."""
    everywhere = [TableLogs(TableName.parse(name), place, found.site) for name, place in planned.tables.items()]
    for logs in everywhere:
        if planned.uid is not None and planned.uid not in logs.accepted():
            logs.accept(Accepted(planned.uid, _text(now), planned.writer, planned.aside))
    found.logs.put_aside(planned.log, planned.aside)
    for logs in everywhere:
        logs.unpoint(planned.writer)


def _text(now: datetime) -> str:
    return now.isoformat(timespec="seconds")


def _ask(lines: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        raise InvalidOption(("; ".join(lines) + ": --json needs --yes to do so",))
    for line in lines:
        typer.echo(line, err=True)
    typer.confirm("Is the job stopped, and is this what you want?", abort=True, err=True)


def _about_writer(planned: Reset) -> str:
    text = (
        f"writer {planned.writer}: its log {planned.log}, at epoch {planned.epoch} with {planned.rows} rows written, "
    )
    text += f"is put aside as {planned.aside}"
    if planned.finished:
        text += f"; its {planned.finished} finished files stay: what is read again will be there twice"
    if planned.unpublished:
        text += (
            f"; {planned.unpublished} rows that it has decided are not published yet and never will be: to keep them, "
            "run `hivesink recover` first"
        )
    return text


def _about_files(stranger: Stranger) -> str:
    return (
        f"uid {stranger.uid}: {len(stranger.finished)} finished files and {len(stranger.staged)} staged ones, such as "
        f"{stranger.paths[0]}, are accepted as they are; rows among them that are read again will be there twice"
    )


def _end(found: OpenedTable, resets: Sequence[Reset], strangers: Sequence[Stranger], *, dry_run: bool) -> Line:
    if not resets and not strangers:
        return Line(f"{found.name}: there is nothing to reset")
    if dry_run:
        return Line(f"{found.name}: nothing was done")
    return Line(
        f"{found.name}: done; a start with a new checkpoint reads its source from the beginning, one with the old "
        "checkpoint and append=0 goes on where that stands",
        "bold green",
    )
