"""`hivesink verify`: a check of the logs of a table's writers."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from hivesink.cli.codes import ExitCode
from hivesink.cli.command import DryRun, Writer, command
from hivesink.cli.output import Grid, Line, Output, Report
from hivesink.core.progress import count
from hivesink.formats import adapter
from hivesink.sink.inspect.clean import clean as clean_writer
from hivesink.sink.inspect.clean import find_leftovers, strangers
from hivesink.sink.inspect.findings import Finding, Level
from hivesink.sink.inspect.verify import Verdict
from hivesink.sink.inspect.verify import verify as verify_writer
from hivesink.tables.opened import OpenedTable, replaced_letters
from hivesink.tables.rejects import not_dead_letters

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hivesink.sink.inspect.clean import Stranger

Quick = Annotated[
    bool,
    typer.Option(
        "--quick", help="Read neither footers nor segments: only see that they are there, with their lengths."
    ),
]
Last = Annotated[int, typer.Option("--epochs", metavar="N", min=0, help="How many epochs to print; all are checked.")]

_COUNTS = ("read", "written", "rejected", "dropped", "late", "skipped")
_NOTES = 5
"""Notes of one kind that `verify` prints: TRUNCATE makes one for each file."""
_SUBJECT = re.compile(r"\S*/.*/\S*|\S*\d\S*")


@command
def verify(out: Output, opened: OpenedTable, *, writer: Writer = None, quick: Quick = False, epochs: Last = 20) -> None:
    """Check every epoch: offsets are gapless, rows add up, files are there, readable, registered and not doubled.

    Begins at the floor, which holds the totals of older epochs. Read-only: safe to run while a job is writing.
    Exits with 1 if it finds an error; notes are for information.

    Example: hivesink verify demo.flights
    """
    if gone := opened.folder_gone:
        raise gone
    measure = None if quick else adapter(opened.live.spec.format).measure
    replaced = replaced_letters(opened.logs())
    verdicts = [
        verify_writer(context, name, opened.name, measure, opened.require_same, replaced=replaced)
        for name, context in opened.chosen(writer).items()
    ]
    report = _report(opened, verdicts, strangers(opened.owner, opened.live), epochs)
    out.show(report)
    if report.data["errors"]:
        raise typer.Exit(ExitCode.FAILED)


def _about(unknown: Stranger, table: str) -> Line:
    files = f"{count(len(unknown.finished), 'finished file')} and {count(len(unknown.staged), 'staged one')} of uid "
    files += f"{unknown.uid}, of which there is no log, such as {unknown.paths[0]}"
    if not unknown.finished:
        return Line(f"note: {files}: was the log deleted?", "yellow")
    owner = table.removesuffix("__rejected")
    return Line(f"error: {files}: restore its log, or keep them as they are with `hivesink reset {owner}`", "red")


def _report(opened: OpenedTable, verdicts: Sequence[Verdict], unknown: Sequence[Stranger], last: int) -> Report:
    foreign = not_dead_letters(opened)
    errors = sum(verdict.errors for verdict in verdicts) + sum(bool(stranger.finished) for stranger in unknown)
    data = {
        "table": opened.name,
        "errors": errors,
        "writers": [{**asdict(verdict), "errors": verdict.errors} for verdict in verdicts],
        "files_of_no_known_writer": [path for stranger in unknown for path in stranger.paths],
        "not_dead_letters": foreign and str(foreign),
    }
    blocks = [block for verdict in verdicts for block in _blocks(verdict, last)]
    blocks += [_about(stranger, opened.name) for stranger in unknown]
    blocks += [Line(f"note: {foreign}", "yellow")] if foreign else []
    if errors:
        blocks.append(Line(f"{opened.name}: {count(errors, 'error')}", "bold red"))
    elif verdicts:
        blocks.append(Line(f"{opened.name}: no errors", "bold green"))
    else:
        blocks.append(Line(f"no writer has written to {opened.name} yet: nothing to verify"))
    return Report(data, blocks)


def _blocks(verdict: Verdict, last: int) -> Iterator[Line | Grid]:
    rows = [
        (
            epoch.epoch,
            epoch.kind,
            f"{epoch.at:%Y-%m-%d %H:%M:%S}",
            *(getattr(epoch.rows, name) for name in _COUNTS),
            f"{epoch.present}/{epoch.files}",
            "yes" if epoch.published else "not yet",
            epoch.errors or "",
        )
        for epoch in verdict.epochs[max(0, len(verdict.epochs) - last) :]
    ]
    columns = ("epoch", "kind", "time (UTC)", *_COUNTS, "files", "published", "errors")
    title = f"writer {verdict.writer}: epochs {verdict.floor + 1} to {verdict.head}"
    yield Grid(title, columns, rows, right=frozenset({"epoch", *_COUNTS, "files", "errors"}))
    counts = ", ".join(f"{name} {getattr(verdict.totals, name)}" for name in _COUNTS)
    yield Line(f"writer {verdict.writer}, all epochs: {counts}")
    levels = (Level.ERROR, Level.NOTE)
    errors, notes = ([finding for finding in verdict.findings if finding.level is level] for level in levels)
    for finding in errors:
        yield _line(finding, "red")
    kinds: dict[str, list[Finding]] = {}
    for finding in notes:
        kinds.setdefault(_SUBJECT.sub("", finding.text), []).append(finding)
    for alike in kinds.values():
        yield from (_line(finding, "yellow") for finding in alike[:_NOTES])
        if len(alike) > _NOTES:
            yield Line(f"and {count(len(alike) - _NOTES, 'more note')} like these; --json has them all", "yellow")


def _line(finding: Finding, colour: str) -> Line:
    epoch = f"epoch {finding.epoch}: " if finding.epoch else ""
    return Line(f"{finding.level.value}: {epoch}{finding.text}", colour)


@command
def clean(out: Output, opened: OpenedTable, *, dry_run: DryRun = False) -> None:
    """Remove hidden files that nothing can commit any more, and the folders that become empty.

    Searches everything below the table's location. Never touches finished files, files that an open epoch needs, or
    files of a writer that has no log. Safe to run while a job is writing.

    Example: hivesink clean demo.flights --dry-run
    """
    opened.require_same()
    contexts = opened.writers.values()
    leftovers = [find_leftovers(context, opened.name) for context in contexts]
    unknown = sorted(path for stranger in strangers(opened.owner, opened.live) for path in stranger.staged)
    folders: tuple[str, ...] = ()
    if not dry_run:
        for context, staged in zip(contexts, leftovers, strict=True):
            folders += clean_writer(context, staged, opened.name)
    files = [path for staged in leftovers for path in staged]
    data = {
        "table": opened.name,
        "removed": not dry_run,
        "files": files,
        "folders": list(folders),
        "files_of_no_known_writer": unknown,
    }
    removed = "would remove" if dry_run else "removed"
    blocks = [Line(f"{removed} {path}") for path in (*files, *folders)]
    blocks += [Line(f"kept {path}: its writer has no log here", "yellow") for path in unknown]
    blocks.append(Line(f"{opened.name}: {removed} {count(len(files), 'file')}, {count(len(folders), 'folder')}"))
    out.show(Report(data, blocks))
