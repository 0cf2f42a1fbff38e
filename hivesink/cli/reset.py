"""`hivesink reset`: start a writer without a history, and keep its old log and files."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Annotated

import typer

from hivesink.cli.command import Debug, DryRun, Json, Metastore, Table, Writer, Yes, confirm, reporting
from hivesink.cli.opened import OpenedTable, open_table
from hivesink.cli.output import Line, Report
from hivesink.core.log import reset_name
from hivesink.core.table import TableName
from hivesink.errors import InvalidOption
from hivesink.logs import TableLogs, commit_log
from hivesink.sink.inspect.clean import Stranger
from hivesink.sink.inspect.facts import read_log
from hivesink.sink.inspect.resets import Reset, plan_reset
from hivesink.storage.pointers import Accepted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


Uids = Annotated[
    list[str] | None,
    typer.Option(
        "--uid", help="Accept the files of this uid, which has no log here; reset no writer. May be repeated."
    ),
]


Written = Annotated[
    str | None,
    typer.Option(metavar="QUERY/BATCH", help="With --uid: this batch is in the table; the next start passes it over."),
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
    if written is not None and (len(uid or ()) != 1 or "/" not in written):
        problem = "--written goes with one --uid, and is QUERY/BATCH, as the error has it"
        raise typer.BadParameter(problem)
    with reporting(as_json=json, debug=debug) as out, open_table(table, metastore) as opened:
        now = datetime.now(timezone.utc)
        chosen = {} if uid else opened.resettable(writer)
        resets = [_named(opened, plan_reset(one, name, opened.name, now), now) for name, one in chosen.items()]
        accepted = opened.logs.accepted()
        strangers = _with_uids(opened, uid or [], accepted, written or "")
        if written is not None:
            _require_batch(written, opened, accepted.get(uid[0]) if uid else None)
        lines = [*map(_about_writer, resets), *map(_about_files, strangers)]
        lines += [f"batch {written} is in the table: the next start passes it over"] if written and strangers else []
        if lines and not dry_run:
            if not yes:
                confirm(lines, "Is the job stopped, and do you want this?", "; ".join(lines), as_json=json)
            for one in resets:
                _set_aside(opened, one, now)
            for stranger in strangers:
                before = accepted.get(stranger.uid)
                answered = replace(before, written=written or "") if before else Accepted(stranger.uid, _text(now))
                opened.logs.accept(answered)
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
                f"{opened.name}: done; with a new checkpoint the job reads its source from the beginning, with the old "
                "checkpoint and append=0 it continues from there",
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


def _with_uids(
    opened: OpenedTable, uids: Sequence[str], accepted: Mapping[str, Accepted], written: str
) -> list[Stranger]:
    """Those of `uids` of which `written` hasn't been said yet. Raises InvalidOption for an unknown uid."""
    if not uids:
        return []
    known = {one.uid: one for one in opened.strangers()}
    for uid in uids:
        if uid not in known and uid not in accepted:
            names = ", ".join(sorted(known)) or "none"
            problem = f"{opened.name} has no files of uid {uid} that lack a log here; such uids are: {names}"
            raise InvalidOption((problem,))
    said = {uid for uid, one in accepted.items() if one.log is None or one.written == written}
    return [known.get(uid) or Stranger(uid, (), ()) for uid in dict.fromkeys(uids) if uid not in said]


def _require_batch(written: str, opened: OpenedTable, answered: Accepted | None) -> None:
    """Raise InvalidOption unless a log that was put aside may have committed the batch `written`, QUERY/BATCH."""
    if answered is None or answered.log is None:
        raise InvalidOption(
            ("--written: no log of that uid was put aside at this table, so no start asks for its batches",)
        )
    manifests = read_log(commit_log(answered.log, answered.writer or "", opened.site)).manifests
    newest = manifests[-1].last_batch if manifests else None
    if newest and written != f"{newest.ref.query}/{newest.ref.batch}":
        problem = f"--written {written}: the newest batch of {answered.log} is {newest.ref.query}/{newest.ref.batch}"
        raise InvalidOption((problem,))


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
    text = f"writer {planned.writer}: its log {planned.log}, at epoch {planned.epoch} with {planned.rows} rows written"
    text += f", is set aside as {planned.aside}"
    if planned.finished:
        text += f"; its {planned.finished} finished files stay: rows that are read again will be in the table twice"
    if planned.unpublished:
        text += (
            f"; {planned.unpublished} decided rows are not known to be published, and never will be: run "
            "`hivesink recover` first, or they may be lost, or be there twice if they are read again"
        )
    return text


def _about_files(stranger: Stranger) -> str:
    such = f", such as {stranger.paths[0]}," if stranger.paths else ""
    return (
        f"uid {stranger.uid}: {len(stranger.finished)} finished files and {len(stranger.staged)} staged ones{such} are "
        "accepted as they are; those of their rows that are read again will be in the table twice"
    )
