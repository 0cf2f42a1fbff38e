"""`hivesink verify`: a check of the logs of a table's writers."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hivesink.cli.codes import ExitCode
from hivesink.cli.command import Debug, Json, Metastore, Table, Writer, reporting
from hivesink.cli.output import Grid, Line, Report
from hivesink.core.progress import count
from hivesink.errors import HiveSinkError
from hivesink.formats import adapter
from hivesink.sink.inspect.findings import Finding, Level
from hivesink.sink.inspect.verify import Verdict
from hivesink.sink.inspect.verify import verify as verify_writer
from hivesink.tables.opened import OpenedTable, open_table
from hivesink.tables.rejects import not_dead_letters

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hivesink.sink.inspect.clean import Stranger
    from hivesink.storage.pointers import Accepted

Quick = Annotated[bool, typer.Option("--quick", help="Don't read the files' footers.")]
Last = Annotated[int, typer.Option("--epochs", min=0, help="How many epochs to print; all are checked.")]

_COUNTS = ("read", "written", "rejected", "dropped", "late", "skipped")
_NOTES = 5
"""Notes of one kind that `verify` prints: TRUNCATE makes one for each file."""
_SUBJECT = re.compile(r"\S*/.*/\S*|\S*\d\S*")


def verify(
    table: Table,
    *,
    writer: Writer = None,
    quick: Quick = False,
    epochs: Last = 20,
    metastore: Metastore = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Check every epoch: offsets are gapless, rows add up, files are there, readable, registered and not doubled.

    Begins at the floor, which holds the totals of older epochs. Read-only: safe to run while a job is writing.
    Exits with 1 if it finds an error; notes are for information.

    Example: hivesink verify demo.flights
    """
    with reporting(as_json=json, debug=debug) as out, open_table(table, metastore) as opened:
        if gone := opened.folder_gone:
            raise gone
        measure = None if quick else adapter(opened.live.spec.format).measure
        verdicts = [
            verify_writer(context, name, opened.name, measure, opened.admission(name))
            for name, context in opened.chosen(writer).items()
        ]
        accepted = opened.logs.accepted()
        unknown = [
            _Unknown(one, before, opened.name, None if before else opened.log_of(one.uid))
            for one in opened.strangers()
            for before in [accepted.get(one.uid)]
        ]
        report = _report(opened, verdicts, unknown, opened.renamed(), epochs)
        out.show(report)
        if report.data["errors"]:
            raise typer.Exit(ExitCode.FAILED)


@dataclass(frozen=True, slots=True)
class _Unknown:
    """Parts of an unknown writer: an error if readers see them, unless a person has accepted them."""

    parts: Stranger
    accepted: Accepted | None
    table: str
    log: str | None

    @property
    def is_error(self) -> bool:
        return self.accepted is None and bool(self.parts.finished)

    @property
    def line(self) -> Line:
        uid, finished, staged = self.parts.uid, self.parts.finished, self.parts.staged
        files = f"{count(len(finished), 'finished file')} and {count(len(staged), 'staged one')} of uid {uid}"
        if self.accepted is not None:
            whose = f"writer {self.accepted.writer}" if self.accepted.writer else "a writer that has no log here"
            kept = f"; its log is kept in {self.accepted.log}" if self.accepted.log else ""
            return Line(f"note: {files}, {whose}, were accepted as they are at {self.accepted.at}{kept}", "yellow")
        files += f", a writer that has no log here, such as {self.parts.paths[0]}"
        if not finished:
            return Line(f"note: {files}: was the log deleted?", "yellow")
        folder = (self.log or "").rpartition("/")[0]
        owner = self.table.removesuffix("__rejected")
        known = f"its log is {self.log}: with sink.log-location = {folder} run `hivesink recover {owner}`"
        cure = known if self.log else "restore its log, or set sink.log-location"
        accept = f"accept them with `hivesink reset {self.table} --uid {uid}`"
        return Line(f"error: {files}: {cure}, or {accept}", "red")

    @property
    def data(self) -> dict[str, Any]:
        return {**asdict(self.parts), "accepted": asdict(self.accepted) if self.accepted else None}


def _report(
    opened: OpenedTable,
    verdicts: Sequence[Verdict],
    unknown: Sequence[_Unknown],
    renamed: Sequence[HiveSinkError],
    last: int,
) -> Report:
    foreign = not_dead_letters(opened)
    errors = sum(verdict.errors for verdict in verdicts) + sum(one.is_error for one in unknown)
    data = {
        "table": opened.name,
        "errors": errors,
        "writers": [{**asdict(verdict), "errors": verdict.errors} for verdict in verdicts],
        "files_of_no_known_writer": [path for one in unknown if not one.accepted for path in one.parts.paths],
        "unknown_writers": [one.data for one in unknown],
        "renamed": [str(one) for one in renamed],
        "not_dead_letters": foreign and str(foreign),
    }
    blocks = [block for verdict in verdicts for block in _blocks(verdict, last)]
    blocks += [one.line for one in unknown]
    blocks += [Line(f"note: {one}", "yellow") for one in (*renamed, *([foreign] if foreign else []))]
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
    errors, notes = ([found for found in verdict.findings if found.level is level] for level in levels)
    for found in errors:
        yield _line(found, "red")
    kinds: dict[str, list[Finding]] = {}
    for found in notes:
        kinds.setdefault(_SUBJECT.sub("", found.text), []).append(found)
    for alike in kinds.values():
        yield from (_line(found, "yellow") for found in alike[:_NOTES])
        if len(alike) > _NOTES:
            yield Line(f"and {count(len(alike) - _NOTES, 'more note')} like these; --json has them all", "yellow")


def _line(found: Finding, colour: str) -> Line:
    epoch = f"epoch {found.epoch}: " if found.epoch else ""
    return Line(f"{found.level.value}: {epoch}{found.text}", colour)
