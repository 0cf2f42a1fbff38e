"""`hivesink verify`: check a table's logs; `clean`: remove what was never decided; `reset`: start without a history."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime, timezone
from itertools import chain

import typer

from hivesink.cli.codes import ExitCode
from hivesink.cli.command import command, confirm
from hivesink.cli.output import MOST, Line, Output
from hivesink.core.progress import count
from hivesink.core.table import main_table
from hivesink.errors import InvalidOption, few
from hivesink.formats import measure
from hivesink.sink.inspect import verify as checks
from hivesink.tables.opened import OpenedTable, replaced_letters


@command
def verify(out: Output, opened: OpenedTable, *, writer: str | None = None, quick: bool = False) -> None:
    """Check every epoch: offsets are gapless, rows add up, files are there, readable, registered and not doubled.

    Begins at the floor, which holds the totals of older epochs. Read-only: safe to run while a job is writing.
    Exits with 1 if it finds an error; notes are for information.

    Example: hivesink verify demo.flights

    --quick: Read neither footers nor segments: only see that they are there, with their lengths.
    """
    if gone := opened.folder_gone:
        raise gone
    replaced = replaced_letters(opened.logs())
    verdicts = [
        checks.verify(context, name, opened.name, None if quick else measure, opened.require_same, replaced=replaced)
        for name, context in opened.chosen(writer).items()
    ]
    unknown = opened.owner.unknown_parts(opened.live)
    errors = sum(verdict.errors for verdict in verdicts)
    blocks = [block for verdict in verdicts for block in _blocks(verdict)]
    for uid, parts in unknown.items():
        finished = sum(part.stage is None for part in parts)
        files = f"{count(len(parts), 'file')}, {finished} finished, of uid {uid}, of which there is no log"
        way = f"restore it, or keep them as they are with `hivesink reset {main_table(opened.name)}`"
        level, style = ("error", "red") if finished else ("note", "yellow")
        blocks.append(Line(f"{level}: {files}, such as {parts[0].path}: {way}", style))
        errors += bool(finished)
    if errors:
        blocks.append(Line(f"{opened.name}: {count(errors, 'error')}", "bold red"))
    elif verdicts:
        blocks.append(Line(f"{opened.name}: no errors", "bold green"))
    else:
        blocks.append(Line(f"no writer has written to {opened.name} yet: nothing to verify"))
    data = {
        "table": opened.name,
        "errors": errors,
        "writers": [{**asdict(verdict), "errors": verdict.errors} for verdict in verdicts],
        "files_of_no_known_writer": [part.path for parts in unknown.values() for part in parts],
    }
    out.show(data, blocks)
    if errors:
        raise typer.Exit(ExitCode.FAILED)


def _blocks(verdict: checks.Verdict) -> Iterator[Line]:
    totals = ", ".join(f"{name} {number}" for name, number in asdict(verdict.totals).items())
    checked = f"epochs {verdict.floor + 1} to {verdict.head}" if verdict.floor < verdict.head else "no epoch"
    yield Line(f"writer {verdict.writer}: checked {checked}; all epochs: {totals}")
    errors, notes = ([finding for finding in verdict.findings if finding.level == level] for level in ("error", "note"))
    # TRUNCATE makes a note for each file.
    for finding in (*errors, *notes[:MOST]):
        epoch = f"epoch {finding.epoch}: " if finding.epoch else ""
        style = "red" if finding.level == "error" else "yellow"
        yield Line(f"{finding.level}: {epoch}{finding.text}", style)
    if len(notes) > MOST:
        yield Line(f"and {count(len(notes) - MOST, 'more note')}; --json has them all", "yellow")


@command
def clean(out: Output, opened: OpenedTable, *, dry_run: bool = False) -> None:
    """Remove hidden files that nothing can commit any more.

    Searches everything below the table's location. Never touches finished files, files that an open epoch needs, or
    files of a writer that has no log. Safe to run while a job is writing.

    Example: hivesink clean demo.flights --dry-run
    """
    opened.require_same()
    leftovers = [(context, checks.find_leftovers(context, opened.name)) for context in opened.writers.values()]
    parts = chain.from_iterable(opened.owner.unknown_parts(opened.live).values())
    unknown = sorted(part.path for part in parts if part.stage)
    files = [path for _, staged in leftovers for path in staged]
    if not dry_run:
        for context, staged in leftovers:
            # A head that has moved on makes more files leftovers, never fewer: no need to be the newest.
            context.store.discard(staged)
    removed = "would remove" if dry_run else "removed"
    blocks = [Line(f"{removed} {path}") for path in files]
    blocks += [Line(f"kept {path}: its writer has no log here", "yellow") for path in unknown]
    blocks.append(Line(f"{opened.name}: {removed} {count(len(files), 'file')}"))
    data = {"table": opened.name, "removed": not dry_run, "files": files}
    out.show({**data, "files_of_no_known_writer": unknown}, blocks)


@command
def reset(
    out: Output,
    opened: OpenedTable,
    *,
    writer: str | None = None,
    discard: int = 0,
    dry_run: bool = False,
    yes: bool = False,
) -> None:
    """Put the logs of a table's writers aside, so that their next start has no history. Finished files stay.

    Stop the jobs first. Asks first. Refuses while rows wait or parts are unpublished, unless --discard says how many,
    and while another table names the log. Finished files whose log is gone are the table's own from then on.

    Example: hivesink reset demo.flights --writer flights

    --discard N: Give up so many rows that wait or aren't published: as many as there are.
    """
    owner, live = opened.owner, opened.live
    logs = owner.root.logs()
    if writer is not None and writer not in logs:
        opened.chosen(writer)
    if writer is not None and checks.is_made_again(owner, live):
        why = "leave --writer out, since no writer's log is this table's"
        raise InvalidOption((f"{opened.name} was made again: {why}",))
    resets = [checks.plan_reset(name, log) for name, log in logs.items() if writer in {None, name}]
    uids = checks.unknown_uids(owner, live) if writer is None else ()
    checks.require_free(owner, live, resets, discard)
    lines = [*map(_about, resets), *(f"the files of uid {uid} are kept as they are" for uid in uids)]
    lines += [f"{owner.root.location} becomes the log of {opened.name}"] if checks.is_made_again(owner, live) else []
    end = Line(f"{opened.name}: nothing to reset")
    if lines and dry_run:
        end = Line(f"{opened.name}: dry run, nothing was changed")
    elif lines:
        if not yes:
            confirm(out, lines, "Are the jobs stopped, and do you want this?", "; ".join(lines))
        ended = {planned.writer: logs[planned.writer] for planned in resets}
        checks.reset(owner, live, ended, uids, datetime.now(timezone.utc), discard=discard)
        text = "done; with a new checkpoint a job reads its source from the beginning; with the old one and append=0"
        end = Line(f"{opened.name}: {text} it reads on where that stands", "bold green")
    writers = [asdict(planned) for planned in resets]
    data = {"done": bool(lines) and not dry_run, "writers": writers, "accepted": list(uids)}
    out.show({"table": opened.name, **data}, [*map(Line, lines), end])


def _about(planned: checks.Reset) -> str:
    text = f"writer {planned.writer}: its log {planned.log}, at epoch {planned.epoch} with "
    text += f"{count(planned.rows, 'row')} written, is put aside; its finished files stay"
    if planned.unreadable:
        gaps = few([str(epoch) for epoch in planned.unreadable], 3)
        text += f"; the manifests of epoch {gaps} can't be read, and their rows are counted nowhere here"
    if planned.unpublished:
        text += f"; {count(planned.unpublished, 'row')} that can't be read yet are given up"
    return text
