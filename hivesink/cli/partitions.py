"""`hivesink partitions` and `hivesink wait`: which partitions are complete, and what the others wait for."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Annotated

import typer

from hivesink.cli.codes import ExitCode
from hivesink.cli.command import Metastore, Table, Writer, command
from hivesink.cli.output import Grid, Line, Output, Report, tell
from hivesink.config.parsers import interval
from hivesink.errors import WrongUsage
from hivesink.tables.opened import OpenedTable
from hivesink.tables.waiting import PartitionWait

if TYPE_CHECKING:
    from hivesink.sink.inspect.partitions import PartitionState

Partition = Annotated[str, typer.Argument(help="One partition, such as dt=2024-01-02--03.", metavar="PARTITION")]
Timeout = Annotated[
    str | None, typer.Option("--timeout", help="Give up after this long, such as 2h. Default: never.", metavar="TIME")
]
Every = Annotated[str, typer.Option("--every", help="How often to look.", metavar="TIME")]


@command
def partitions(out: Output, opened: OpenedTable, *, writer: Writer = None) -> None:
    """List a table's partitions: commits with their revision, rows, files and watermark, and what the others wait for.

    Read-only: safe to run while a job is writing. With --json also the offsets that each commit covers.

    Example: hivesink partitions demo.flights
    """
    now = datetime.now(timezone.utc)
    states = [state for name in opened.chosen(writer) for state in opened.states(name, now)]
    rows = [_row(state) for state in states]
    columns = ("writer", "table", "partition", "revision", "rows", "files", "watermark (UTC)", "waits for")
    grid = Grid(f"partitions of {opened.name}", columns, rows, right=frozenset({"revision", "rows", "files"}))
    blocks = [grid] if rows else [Line(f"no writer has rows of {opened.name} yet")]
    out.show(Report({"table": opened.name, "partitions": [state.data for state in states]}, blocks))


@command
def wait(
    out: Output,
    table: Table,
    partition: Partition,
    *,
    writer: Writer = None,
    timeout: Timeout = None,
    every: Every = "2s",
    metastore: Metastore = None,
) -> None:
    """Wait until every writer of the table has committed a partition; say meanwhile what it waits for.

    Ends with 0 once it is committed, also if it is over without a row, and with 75 after the timeout.

    Example: hivesink wait demo.flights dt=2024-01-02--03 --timeout 2h
    """
    limit = None if timeout is None else time.monotonic() + _seconds(timeout, "--timeout")
    pause, awaited = _seconds(every, "--every"), PartitionWait(table, partition, writer, metastore)
    while (look := awaited.look()).waits_for is not None:
        if limit is not None and time.monotonic() >= limit:
            line = Line(f"{look.partition}: timed out: {look.waits_for}", "red")
            out.show(Report({"partition": look.partition, "waits_for": look.waits_for}, [line]))
            raise typer.Exit(ExitCode.RETRY)
        if look.is_news:
            tell(str(look))
        time.sleep(pause if limit is None else max(0.0, min(pause, limit - time.monotonic())))
    out.show(Report(look.commits, [Line(str(look), "green")]))


def _seconds(text: str, option: str) -> float:
    try:
        length: timedelta = interval(text)
    except ValueError as error:
        raise WrongUsage((f"{option} = {text!r}: {error}",)) from error
    return length.total_seconds()


def _row(state: PartitionState) -> tuple[object, ...]:
    record = state.record
    known = (
        ("", "", "", "")
        if record is None
        else (
            record.commit.revision,
            record.commit.rows,
            record.commit.files,
            f"{record.watermark:%Y-%m-%d %H:%M:%S}" if record.watermark else "",
        )
    )
    return state.writer, state.table, state.partition, *known, state.waits_for or ""
