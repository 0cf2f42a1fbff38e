"""`hivesink partitions` and `hivesink wait`: which partitions are complete, and what the others wait for."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hivesink.cli.codes import ExitCode
from hivesink.cli.command import Debug, Json, Metastore, Table, Writer, reporting
from hivesink.cli.opened import open_table
from hivesink.cli.output import Grid, Line, Report
from hivesink.config.parsers import interval
from hivesink.core import offsets
from hivesink.core.partition import parse_path, partition_path
from hivesink.errors import InvalidOption, PartitionPathInvalid

if TYPE_CHECKING:
    from hivesink.cli.opened import OpenedTable
    from hivesink.sink.inspect.partitions import LogFollower, PartitionState

Partition = Annotated[str, typer.Argument(help="One partition, such as dt=2024-01-02--03.", metavar="PARTITION")]
Timeout = Annotated[
    str | None, typer.Option("--timeout", help="Give up after this long, such as 2h. Default: never.", metavar="TIME")
]
Every = Annotated[str, typer.Option("--every", help="How often to look.", metavar="TIME")]


def partitions(
    table: Table, *, writer: Writer = None, metastore: Metastore = None, json: Json = False, debug: Debug = False
) -> None:
    """List a table's partitions: commits with their revision, rows, files and watermark, and what the others wait for.

    Read-only: safe to run while a job is writing. With --json also the offsets that each commit covers.

    Example: hivesink partitions demo.flights
    """
    with reporting(as_json=json, debug=debug) as out, open_table(table, metastore) as opened:
        states: list[PartitionState] = []
        for follower in _followers(opened, writer):
            follower.read()
            states += follower.states(datetime.now(timezone.utc))
        rows = [_row(state) for state in states]
        columns = ("writer", "table", "partition", "revision", "rows", "files", "watermark (UTC)", "waits for")
        grid = Grid(f"partitions of {opened.name}", columns, rows, right=frozenset({"revision", "rows", "files"}))
        out.show(Report({"table": opened.name, "partitions": [_data(state) for state in states]}, [grid]))


def wait(
    table: Table,
    partition: Partition,
    *,
    writer: Writer = None,
    timeout: Timeout = None,
    every: Every = "2s",
    metastore: Metastore = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Wait until every writer of the table has committed a partition; say meanwhile what it waits for.

    Ends with 0 once it is committed, also if it is over without a row, and with 75 after the timeout.

    Example: hivesink wait demo.flights dt=2024-01-02--03 --timeout 2h
    """
    with reporting(as_json=json, debug=debug) as out:
        limit = None if timeout is None else time.monotonic() + _seconds(timeout, "--timeout")
        pause, told, followers = _seconds(every, "--every"), "", list["LogFollower"]()
        while True:
            with open_table(table, metastore) as opened:
                name = _checked(opened, partition)
                known = {follower.writer for follower in followers}
                followers += [one for one in _followers(opened, writer) if one.writer not in known]
            states = [_state(follower, opened.name, name) for follower in followers]
            reason = "; ".join(f"writer {one.writer}: {one.waits_for}" for one in states if not one.is_complete)
            if states and not reason:
                out.show(Report({"partition": name, "commits": [_data(one) for one in states]}, [_done(name, states)]))
                return
            reason = reason or f"no writer has written to {opened.name} yet"
            if limit is not None and time.monotonic() >= limit:
                line = Line(f"{name}: timed out: {reason}", "red")
                out.show(Report({"partition": name, "waits_for": reason}, [line]))
                raise typer.Exit(ExitCode.RETRY)
            if reason != told:
                typer.echo(f"{name}: {reason}", err=True)
                told = reason
            time.sleep(pause if limit is None else max(0.0, min(pause, limit - time.monotonic())))


def _followers(opened: OpenedTable, writer: str | None) -> list[LogFollower]:
    return [opened.follower(name) for name in opened.chosen(writer)]


def _state(follower: LogFollower, table: str, partition: str) -> PartitionState:
    follower.read()
    return follower.state((table, partition), datetime.now(timezone.utc))


def _checked(opened: OpenedTable, partition: str) -> str:
    """The partition's name as Hive writes it. Raises InvalidOption."""
    columns = [column.name for column in opened.live.spec.partition_columns]
    try:
        pairs = parse_path(partition)
    except PartitionPathInvalid as error:
        raise InvalidOption((str(error),)) from error
    if [name for name, _ in pairs] != columns:
        form = "/".join(f"{name}=…" for name in columns) or "nothing: it has no partitions"
        raise InvalidOption((f"{partition!r} is no partition of {opened.name}: write {form}",))
    return partition_path(columns, [value for _, value in pairs])


def _seconds(text: str, option: str) -> float:
    try:
        found: timedelta = interval(text)
    except ValueError as error:
        raise InvalidOption((f"{option} = {text!r}: {error}",)) from error
    return found.total_seconds()


def _done(name: str, states: list[PartitionState]) -> Line:
    revisions = ", ".join(
        f"revision {one.record.commit.revision} of writer {one.writer} ({one.record.commit.rows} rows)"
        for one in states
        if one.record
    )
    return Line(f"{name}: committed: {revisions or 'it is over, and has no rows'}", "green")


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


def _data(state: PartitionState) -> dict[str, Any]:
    record = state.record
    commit = (
        None
        if record is None
        else {
            "revision": record.commit.revision,
            "rows": record.commit.rows,
            "files": record.commit.files,
            "epoch": record.epoch,
            "at": record.at,
            "watermark": record.watermark,
            "offsets": [offsets.to_json(offset) for offset in record.end],
        }
    )
    return {
        "writer": state.writer,
        "table": state.table,
        "partition": state.partition,
        "complete": state.is_complete,
        "commit": commit,
        "open_rows": state.open_rows,
        "published_rows": state.published_rows,
        "waits_for": state.waits_for,
    }
