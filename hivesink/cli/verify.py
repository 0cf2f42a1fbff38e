"""`hivesink verify`: the log against the files against the metastore."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hivesink import wiring
from hivesink.cli.codes import ExitCode
from hivesink.cli.opened import OpenedTable, OpenedWriter, opened
from hivesink.cli.options import Debug, Json, Metastore, Table, Writer
from hivesink.cli.output import Grid, Line, Report
from hivesink.cli.reporting import reporting
from hivesink.formats.parquet import rows_in
from hivesink.sink.inspect.checks import Level
from hivesink.sink.inspect.verify import Verdict
from hivesink.sink.inspect.verify import verify as verify_writer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hivesink.logs import Accepted, TableLogs
    from hivesink.sink.commit.statistics import CountRows
    from hivesink.sink.inspect.clean import Stranger

Quick = Annotated[bool, typer.Option("--quick", help="Don't read the files' footers.")]
Last = Annotated[int, typer.Option("--epochs", min=0, help="How many epochs to print; all are checked.")]

_COUNTS = ("read", "written", "rejected", "dropped", "late", "skipped")


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
    """Check every epoch: offsets chain, rows add up, files are there, readable and registered, none is doubled.

    Goes back to the floor, which carries the totals of older epochs. It only looks, and may run beside a job.
    Exits with 1 where it finds an error; a note is for information.

    Example: hivesink verify demo.flights
    """
    with reporting(as_json=json, debug=debug) as out, opened(table, metastore) as found:
        count_rows = None if quick else rows_in
        chosen = found.chosen(writer)
        verdicts = [_verdict(found, one, count_rows) for one in chosen]
        report = _report(found, verdicts, _strangers(found), epochs)
        out.show(report)
        if report.data["errors"]:
            raise typer.Exit(ExitCode.FAILED)


def _verdict(found: OpenedTable, writer: OpenedWriter, count_rows: CountRows | None) -> Verdict:
    log, store = writer.context.log, writer.context.store
    admission = wiring.admission(found.live, log, store, writer.name, found.site)
    return verify_writer(writer.context, writer.name, found.name, count_rows, admission)


def _strangers(found: OpenedTable) -> list[_Unknown]:
    """Parts of no known writer: an error where readers see them, unless a person has accepted them."""
    accepted = found.logs.accepted()
    return [_Unknown(one, accepted.get(one.uid), found.logs) for one in found.strangers()]


@dataclass(frozen=True, slots=True)
class _Unknown:
    parts: Stranger
    accepted: Accepted | None
    logs: TableLogs

    @property
    def is_error(self) -> bool:
        return self.accepted is None and bool(self.parts.finished)

    @property
    def line(self) -> Line:
        uid, finished, staged = self.parts.uid, self.parts.finished, self.parts.staged
        files = f"{len(finished)} finished files and {len(staged)} staged ones of uid {uid}"
        if self.accepted is not None:
            whose = f"writer {self.accepted.writer}" if self.accepted.writer else "a writer without a log here"
            kept = f"; its log is kept in {self.accepted.log}" if self.accepted.log else ""
            return Line(f"note: {files}, {whose}, were accepted as they are at {self.accepted.at}{kept}", "yellow")
        first = self.parts.paths[0]
        if not finished:
            return Line(
                f"note: {files}, a writer that has no log here, such as {first}: was the log deleted?", "yellow"
            )
        log = self.logs.with_uid(uid)
        way = f"its log is {log}: set sink.log-location" if log else "restore its log, or set sink.log-location"
        text = f"error: {files}, a writer that has no log here, such as {first}: {way}, or accept them with"
        return Line(f"{text} `hivesink reset {self.logs.table} --uid {uid}`", "red")

    @property
    def data(self) -> dict[str, Any]:
        return {**asdict(self.parts), "accepted": asdict(self.accepted) if self.accepted else None}


def _report(found: OpenedTable, verdicts: Sequence[Verdict], unknown: Sequence[_Unknown], last: int) -> Report:
    errors = sum(verdict.errors for verdict in verdicts) + sum(one.is_error for one in unknown)
    data = {
        "table": found.name,
        "errors": errors,
        "writers": [_data(verdict) for verdict in verdicts],
        "files_of_no_known_writer": [path for one in unknown if not one.accepted for path in one.parts.paths],
        "unknown_writers": [one.data for one in unknown],
    }
    blocks: list[Line | Grid] = []
    for verdict in verdicts:
        blocks += _blocks(verdict, last)
    blocks += [one.line for one in unknown]
    if not verdicts and not errors:
        blocks.append(Line(f"no writer has written to {found.name} yet: there is nothing to verify"))
    elif errors:
        blocks.append(Line(f"{found.name}: {errors} error{'s' if errors > 1 else ''}", "bold red"))
    else:
        blocks.append(Line(f"{found.name}: no errors", "bold green"))
    return Report(data, blocks)


def _data(verdict: Verdict) -> dict[str, Any]:
    return {**asdict(verdict), "errors": verdict.errors}


def _blocks(verdict: Verdict, last: int) -> list[Line | Grid]:
    shown = verdict.epochs[len(verdict.epochs) - min(last, len(verdict.epochs)) :]
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
        for epoch in shown
    ]
    columns = ("epoch", "kind", "time (UTC)", *_COUNTS, "files", "published", "errors")
    title = f"writer {verdict.writer}: epochs {verdict.floor + 1} to {verdict.head}"
    total = ", ".join(f"{name} {getattr(verdict.totals, name)}" for name in _COUNTS)
    return [
        Grid(title, columns, rows, right=frozenset({"epoch", *_COUNTS, "files", "errors"})),
        Line(f"all epochs: {total}"),
        *(
            Line(
                f"{found.level.value}: " + (f"epoch {found.epoch}: " if found.epoch else "") + found.text,
                "red" if found.level is Level.ERROR else "yellow",
            )
            for found in verdict.findings
        ),
    ]
