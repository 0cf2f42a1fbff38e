"""What writers have done: `status`, `metrics` and `partitions`, and `wait` for a partition."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from itertools import groupby
from typing import Annotated, Any

import typer

from hivesink.cli.codes import ExitCode
from hivesink.cli.command import Metastore, Table, command
from hivesink.cli.output import Grid, Line, Output, tell
from hivesink.config.parsers import interval
from hivesink.core.epoch import LastBatch
from hivesink.core.manifest_json import last_batch_fields
from hivesink.core.offsets import KafkaOffset
from hivesink.core.table import is_letters
from hivesink.errors import HiveSinkError, InvalidOption
from hivesink.sink.inspect.facts import LogFacts, read_log
from hivesink.sink.inspect.verify import figures
from hivesink.tables.opened import OpenedTable
from hivesink.tables.rejects import dead_letters
from hivesink.tables.waiting import PartitionWait

Partition = Annotated[str, typer.Argument(help="One partition, such as dt=2024-01-02--03.", metavar="PARTITION")]


@command
def status(out: Output, opened: OpenedTable) -> None:
    """Show a table's writers: last epoch, rows, what waits, and whether a job can start.

    Read-only: safe to run while a job is writing.

    Example: hivesink status demo.flights
    """
    writers = []
    blocks: list[Line | Grid] = [Line(f"{opened.name} at {opened.live.location}", "bold")]
    if not opened.writers:
        none = "no writer has written to it yet, or its log is gone, of which `hivesink verify` tells"
        blocks.append(Line(str(opened.folder_gone or none)))
    for name, context in opened.writers.items():
        log = read_log(context.log)
        log.require_readable()
        data, last = _data(opened, name, log), log.head and log.head.last_batch
        rows = [item for item in {**data, "last_batch": last and _told(last)}.items() if item[0] != "writer"]
        blocks.append(Grid(f"writer {name} (times in UTC)", ("what", "value"), rows))
        blocks.append(offsets_grid(name, log.lag.data))
        if refusal := _refusal(opened, name):
            blocks.append(Line(f"no job can start: {refusal}", "red"))
        writers.append({**data, "offsets": log.lag.data, "no_start": refusal and str(refusal)})
    out.show({"table": opened.name, "location": opened.live.location, "writers": writers}, blocks)


def _data(opened: OpenedTable, writer: str, log: LogFacts) -> dict[str, Any]:
    """The JSON of a writer; epoch 0: nothing was committed yet."""
    head, rows = log.head, log.open_rows
    batch = last_batch_fields(head.last_batch) if head and head.last_batch else None
    buckets = sum(bool(bucket.slices) for bucket in rows.buckets.values())
    return {
        "writer": writer,
        "uid": log.uid,
        "log": log.location,
        "tables": log.tables or (opened.name,),
        "epoch": log.view.head,
        "at": head and head.at,
        "kind": head and head.kind,
        "floor": log.view.floor,
        "rows": asdict(log.total.totals),
        "lost_rows": log.total.forgotten,
        "waiting": {"rows": rows.rows, "bytes": rows.bytes, "buckets": buckets, "since": rows.since},
        "unsettled": [manifest.epoch for manifest in log.open],
        # The offsets as in the manifest.
        "last_batch": batch and {key: value for key, value in batch.items() if key not in {"appended", "head"}},
    }


def _told(last: LastBatch) -> str:
    """A batch in words. Of Kafka's offsets there is a grid."""
    ends = (str(end) for end in last.ref.end if not isinstance(end, KafkaOffset))
    return ", ".join([f"batch {last.ref.batch} of query {last.ref.query}, in epoch {last.epoch}", *ends])


def offsets_grid(writer: str, offsets: Sequence[Mapping[str, object]]) -> Grid:
    """How far the writer is in each Kafka partition, as `Lag.data`; no rows for other sources."""
    title = f"the first offsets that writer {writer} hasn't read, or that aren't visible or complete yet"
    return Grid.of(title, offsets, "partition", "read", "visible", "complete")


def _refusal(opened: OpenedTable, writer: str) -> HiveSinkError | None:
    """Why no job of the writer can start."""
    try:
        config, _ = opened.start_of(writer)
        opened.require_same(writer)
        if config.has_dead_letters and not is_letters(opened.name):
            dead_letters(opened)
    except HiveSinkError as error:
        return error
    return None


@command
def metrics(out: Output, opened: OpenedTable) -> None:
    """Print a table's metrics by its log alone, in Prometheus's text format: also while no job runs.

    Read-only: safe to run while a job is writing.

    Example: hivesink metrics demo.flights
    """
    from hivesink.metrics import Families

    now, samples = datetime.now(timezone.utc), {}
    for writer, context in opened.writers.items():
        log = read_log(context.log)
        log.require_readable()
        samples[opened.name, writer] = [*figures(log, opened.policies(log.head).rule).samples(now)]
    data = [{"writer": writer, **asdict(each)} for (_, writer), every in samples.items() for each in every]
    text = Families(lambda: samples).text()
    out.show({"table": opened.name, "metrics": data}, [Line(text.rstrip("\n"))])


@command
def partitions(out: Output, opened: OpenedTable, *, writer: str | None = None) -> None:
    """List a table's partitions: commits with their revision, rows, files and watermark, and what the others wait for.

    Read-only: safe to run while a job is writing. With --json also the offsets that each commit covers.

    Example: hivesink partitions demo.flights
    """
    now = datetime.now(timezone.utc)
    states = [state for name in opened.chosen(writer) for state in opened.states(name, now)]
    blocks: list[Line | Grid] = []
    for (name, table), some in groupby(states, key=lambda state: (state.writer, state.table)):
        rows, waits = list[dict[str, object]](), list[Line]()
        for state in some:
            commit, mark = (state.record.commit, state.record.watermark) if state.record else (None, None)
            figures = {name: commit and getattr(commit, name) for name in ("revision", "rows", "files")}
            rows.append({"partition": state.partition, **figures, "watermark (UTC)": mark})
            waits += [Line(f"{state.partition} waits: {state.waits_for}", "yellow")] if state.waits_for else []
        blocks += [Grid.of(f"partitions of {table} by writer {name}", rows, "revision", "rows", "files"), *waits]
    blocks = blocks or [Line(f"no writer has rows of {opened.name} yet")]
    out.show({"table": opened.name, "partitions": [state.data for state in states]}, blocks)


_PAUSE = 2.0
"""Seconds between two looks at a partition."""


@command
def wait(
    out: Output,
    table: Table,
    partition: Partition,
    *,
    writer: str | None = None,
    timeout: str | None = None,
    metastore: Metastore = None,
) -> None:
    """Wait until every writer of the table has committed a partition; say meanwhile what it waits for.

    Ends with 0 once it is committed, also if it is over without a row, and with 75 after the timeout.

    Example: hivesink wait demo.flights dt=2024-01-02--03 --timeout 2h

    --timeout TIME: Give up after this long, such as 2h. Default: never.
    """
    try:
        limit = None if timeout is None else time.monotonic() + interval(timeout).total_seconds()
    except ValueError as error:
        raise InvalidOption((f"--timeout = {timeout!r}: {error}",)) from error
    awaited = PartitionWait(table, partition, writer, metastore)
    while (look := awaited.look()).waits_for is not None:
        if limit is not None and time.monotonic() >= limit:
            line = Line(f"{look.partition}: timed out: {look.waits_for}", "red")
            out.show({"partition": look.partition, "waits_for": look.waits_for}, [line])
            raise typer.Exit(ExitCode.RETRY)
        if look.is_news:
            tell(str(look))
        time.sleep(_PAUSE if limit is None else max(0.0, min(_PAUSE, limit - time.monotonic())))
    out.show(look.commits, [Line(str(look), "green")])
