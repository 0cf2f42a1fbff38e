"""`hivesink verify`: the log against the files against the metastore."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hivesink import wiring
from hivesink.cli.codes import ExitCode
from hivesink.cli.opened import OpenedTable, opened
from hivesink.cli.options import Debug, Json, Metastore, Table, Writer
from hivesink.cli.output import Grid, Line, Report
from hivesink.cli.reporting import reporting
from hivesink.formats.parquet import rows_in
from hivesink.sink.checks import Level
from hivesink.sink.clean import strangers
from hivesink.sink.verify import Verdict
from hivesink.sink.verify import verify as verify_writer

if TYPE_CHECKING:
    from collections.abc import Sequence

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
        verdicts = [verify_writer(one.world, one.name, found.name, count_rows) for one in chosen]
        unknown = _strangers(found)
        out.show(_report(found, verdicts, unknown, epochs))
        if any(verdict.errors for verdict in verdicts):
            raise typer.Exit(ExitCode.FAILED)


def _strangers(found: OpenedTable) -> tuple[str, ...]:
    uids = {uid for writer in found.writers if (uid := writer.world.log.uid(None))}
    return strangers(wiring.file_store(found.live.location, found.site), found.live.location, uids)


def _report(found: OpenedTable, verdicts: Sequence[Verdict], unknown: tuple[str, ...], last: int) -> Report:
    errors = sum(verdict.errors for verdict in verdicts)
    data = {
        "table": found.name,
        "errors": errors,
        "writers": [_data(verdict) for verdict in verdicts],
        "files_of_no_known_writer": list(unknown),
    }
    blocks: list[Line | Grid] = []
    for verdict in verdicts:
        blocks += _blocks(verdict, last)
    blocks += [
        Line(f"note: {path} is of a writer that has no log here: was the log deleted or moved?", "yellow")
        for path in unknown
    ]
    if not verdicts:
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
