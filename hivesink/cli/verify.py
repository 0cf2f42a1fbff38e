"""`hivesink verify`: a check of the logs of a table's writers; `hivesink clean`: remove what was never decided."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from hivesink.cli.codes import ExitCode
from hivesink.cli.command import command
from hivesink.cli.output import MOST, Grid, Line, Output
from hivesink.core.progress import count
from hivesink.core.table import main_table
from hivesink.formats import adapter
from hivesink.sink.inspect.clean import clean as clean_writer
from hivesink.sink.inspect.clean import find_leftovers, strangers
from hivesink.sink.inspect.findings import Level
from hivesink.sink.inspect.verify import Verdict
from hivesink.sink.inspect.verify import verify as verify_writer
from hivesink.tables.opened import OpenedTable, replaced_letters
from hivesink.tables.rejects import not_dead_letters

if TYPE_CHECKING:
    from collections.abc import Iterator


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
    measure = None if quick else adapter(opened.live.spec.format).measure
    replaced = replaced_letters(opened.logs())
    verdicts = [
        verify_writer(context, name, opened.name, measure, opened.require_same, replaced=replaced)
        for name, context in opened.chosen(writer).items()
    ]
    unknown, foreign = strangers(opened.owner, opened.live), not_dead_letters(opened)
    errors = sum(verdict.errors for verdict in verdicts) + sum(bool(stranger.finished) for stranger in unknown)
    blocks = [block for verdict in verdicts for block in _blocks(verdict)]
    for stranger in unknown:
        files = f"{count(len(stranger.finished), 'finished file')} and {count(len(stranger.staged), 'staged one')} of "
        files += f"uid {stranger.uid}, of which there is no log, such as {stranger.paths[0]}"
        way = f"restore its log, or keep them as they are with `hivesink reset {main_table(opened.name)}`"
        finished = Line(f"error: {files}: {way}", "red")
        blocks.append(finished if stranger.finished else Line(f"note: {files}: was the log deleted?", "yellow"))
    if foreign:
        blocks.append(Line(f"note: {foreign}", "yellow"))
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
        "files_of_no_known_writer": [path for stranger in unknown for path in stranger.paths],
        "not_dead_letters": foreign and str(foreign),
    }
    out.show(data, blocks)
    if errors:
        raise typer.Exit(ExitCode.FAILED)


def _blocks(verdict: Verdict) -> Iterator[Line | Grid]:
    totals = asdict(verdict.totals)
    rows = [
        {**{name: value for name, value in asdict(epoch).items() if name != "rows"}, **asdict(epoch.rows)}
        for epoch in verdict.epochs[-MOST:]
    ]
    title = f"writer {verdict.writer}: epochs {verdict.floor + 1} to {verdict.head} (times in UTC)"
    yield Grid.of(title, rows, "epoch", "files", "present", "errors", *totals)
    yield Line(f"writer {verdict.writer}, all epochs: {', '.join(f'{name} {n}' for name, n in totals.items())}")
    errors, notes = (
        [finding for finding in verdict.findings if finding.level is level] for level in (Level.ERROR, Level.NOTE)
    )
    # TRUNCATE makes a note for each file.
    for finding in (*errors, *notes[:MOST]):
        epoch = f"epoch {finding.epoch}: " if finding.epoch else ""
        style = "red" if finding.level is Level.ERROR else "yellow"
        yield Line(f"{finding.level.value}: {epoch}{finding.text}", style)
    if len(notes) > MOST:
        yield Line(f"and {count(len(notes) - MOST, 'more note')}; --json has them all", "yellow")


@command
def clean(out: Output, opened: OpenedTable, *, dry_run: bool = False) -> None:
    """Remove hidden files that nothing can commit any more, and the folders that become empty.

    Searches everything below the table's location. Never touches finished files, files that an open epoch needs, or
    files of a writer that has no log. Safe to run while a job is writing.

    Example: hivesink clean demo.flights --dry-run
    """
    opened.require_same()
    leftovers = [(context, find_leftovers(context, opened.name)) for context in opened.writers.values()]
    unknown = sorted(path for stranger in strangers(opened.owner, opened.live) for path in stranger.staged)
    files, folders = [path for _, staged in leftovers for path in staged], list[str]()
    if not dry_run:
        for context, staged in leftovers:
            folders += clean_writer(context, staged, opened.name)
    removed = "would remove" if dry_run else "removed"
    blocks = [Line(f"{removed} {path}") for path in (*files, *folders)]
    blocks += [Line(f"kept {path}: its writer has no log here", "yellow") for path in unknown]
    blocks.append(Line(f"{opened.name}: {removed} {count(len(files), 'file')}, {count(len(folders), 'folder')}"))
    data = {"table": opened.name, "removed": not dry_run, "files": files, "folders": folders}
    out.show({**data, "files_of_no_known_writer": unknown}, blocks)
