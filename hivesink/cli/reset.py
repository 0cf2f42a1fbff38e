"""`hivesink reset`: start writers without a history, and keep their old logs and files."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Annotated

import typer

from hivesink.cli.command import DryRun, Writer, Yes, command, confirm
from hivesink.cli.output import Line, Output, Report
from hivesink.core.progress import count
from hivesink.errors import WrongUsage, few
from hivesink.sink.inspect.clean import Reset, is_made_again, plan_reset, require_free, unknown_uids
from hivesink.sink.inspect.clean import reset as reset_writers
from hivesink.tables.opened import OpenedTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hivesink.ports import CommitLog

_NAMED = 3

Discard = Annotated[
    int,
    typer.Option(
        "--discard",
        metavar="N",
        min=0,
        help="Give up so many rows that wait or aren't published: as many as there are.",
    ),
]


@command
def reset(
    out: Output,
    opened: OpenedTable,
    *,
    writer: Writer = None,
    discard: Discard = 0,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Put the logs of a table's writers aside, so that their next start has no history. Finished files stay.

    Stop the jobs first. Shows what it would do, and asks. Refuses while rows wait or parts are unpublished, unless
    --discard says how many, and while another table names the log. Finished files whose log is gone are the table's
    own from then on. Deletes nothing: each log is kept beside its old place under another name.

    Example: hivesink reset demo.flights --writer flights
    """
    owner, live = opened.owner, opened.live
    resets = [plan_reset(name, log) for name, log in _chosen(opened, writer).items()]
    uids = unknown_uids(owner, live) if writer is None else ()
    require_free(owner, live, resets, discard)
    lines = [*map(_about, resets), *(f"the files of uid {uid} are kept as they are" for uid in uids)]
    lines += [f"{owner.root.location} becomes the log of {opened.name}"] if is_made_again(owner, live) else []
    if lines and not dry_run:
        if not yes:
            confirm(out, lines, "Are the jobs stopped, and do you want this?", "; ".join(lines))
        names = [planned.writer for planned in resets]
        lines += [
            f"put aside as {folder}" for folder in reset_writers(owner, live, names, uids, datetime.now(timezone.utc))
        ]
    data = {
        "table": opened.name,
        "done": bool(lines) and not dry_run,
        "writers": [asdict(planned) for planned in resets],
        "accepted": list(uids),
    }
    end = Line(f"{opened.name}: nothing to reset")
    if lines and dry_run:
        end = Line(f"{opened.name}: dry run, nothing was changed")
    elif lines:
        text = "done; with a new checkpoint a job reads its source from the beginning; with the old one and append=0"
        end = Line(f"{opened.name}: {text} it reads on where that stands", "bold green")
    out.show(Report(data, [*map(Line, lines), end]))


def _chosen(opened: OpenedTable, writer: str | None) -> Mapping[str, CommitLog]:
    logs = opened.owner.root.logs()
    if writer is None:
        return logs
    if writer not in logs:
        opened.chosen(writer)
    if is_made_again(opened.owner, opened.live):
        raise WrongUsage((f"{opened.name} was made again: leave --writer out, since no writer's log is this table's",))
    return {writer: logs[writer]}


def _about(planned: Reset) -> str:
    text = f"writer {planned.writer}: its log {planned.log}, at epoch {planned.epoch} with "
    text += f"{count(planned.rows, 'row')} written, is put aside; its finished files stay"
    if planned.unreadable:
        gaps = few([str(epoch) for epoch in planned.unreadable], _NAMED)
        text += f"; the manifests of epoch {gaps} can't be read, and their rows are counted nowhere here"
    if planned.unpublished:
        text += f"; {count(planned.unpublished, 'row')} that can't be read yet are given up"
    return text
