"""`hivesink status`: the state of a table's writers."""

from __future__ import annotations

import time
from dataclasses import asdict
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hivesink.cli.codes import ExitCode
from hivesink.cli.command import Metastore, Table, Writer, command
from hivesink.cli.output import Grid, Line, Output, Report, tell
from hivesink.config.parsers import interval
from hivesink.core.manifest_json import last_batch_fields
from hivesink.core.progress import count
from hivesink.core.table import TableName
from hivesink.errors import HiveSinkError, InvalidOption, MetastoreUnreachable, WrongUsage
from hivesink.sink.inspect.verify import WriterStatus, log_status, writer_status
from hivesink.tables.opened import OpenedTable, logs_without_metastore, open_table
from hivesink.tables.rejects import not_dead_letters
from hivesink.tables.waiting import PartitionWait

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hivesink.sink.inspect.partitions import PartitionState

Log = Annotated[
    str | None,
    typer.Option(
        "--log", metavar="FOLDER", help="The root of the table's log, to read it while the metastore is away."
    ),
]

_OPEN = 20
_NO_WRITER = "no writer has written to it yet, or its log is gone, of which `hivesink verify` tells"


@command
def status(out: Output, table: Table, *, log: Log = None, metastore: Metastore = None) -> None:
    """Show a table's writers: last epoch, rows, files by state, partitions that are not registered yet.

    Read-only: safe to run while a job is writing. While the metastore is away, shows what the logs say.

    Example: hivesink status demo.flights
    """
    try:
        with open_table(table, metastore) as opened:
            out.show(_status(opened))
    except MetastoreUnreachable as error:
        if log is None:
            error.args = (f"{error} To read the logs alone, name their root: hivesink status {table} --log FOLDER",)
        else:
            out.show(_status_of_logs(str(TableName.parse(table)), log))
        raise


def _status_of_logs(table: str, root: str) -> Report:
    """What can be told while the metastore is away."""
    about = f"the metastore doesn't answer: this is what the logs in {root} say"
    blocks: list[Line | Grid] = [Line(f"{about}; files and partitions weren't looked at", "bold yellow")]
    writers = []
    for name, log in logs_without_metastore(root).items():
        buckets = sorted(log.open_rows.buckets.items())
        rows = [(*key, bucket.rows, f"{bucket.last:%Y-%m-%d %H:%M:%S}") for key, bucket in buckets]
        data = [{"table": key[0], "partition": key[1], "rows": bucket.rows} for key, bucket in buckets]
        status = log_status(log, name, table)
        writers.append({**_data(status), "waiting_in": data})
        blocks += [_grid(status), Grid("rows that wait", ("table", "partition", "rows", "newest (UTC)"), rows[:_OPEN])]
        blocks += _more(len(rows), "--json has them all")
    if not writers:
        blocks.append(Line(f"no writer has a log in {root}"))
    return Report({"table": table, "log": root, "metastore_away": True, "writers": writers}, blocks)


def _status(opened: OpenedTable) -> Report:
    writers = []
    blocks: list[Line | Grid] = [Line(f"{opened.name} at {opened.live.location}", "bold")]
    if not opened.writers:
        blocks.append(Line(str(opened.folder_gone or _NO_WRITER)))
    for name, context in opened.writers.items():
        status = writer_status(context, name, opened.name)
        incomplete, unknown = _incomplete(opened, name)
        altered, refusal = _start(opened, name)
        more = {
            "incomplete": None if incomplete is None else [state.data for state in incomplete],
            "altered": [{"name": setting, "run": run, "table": now} for setting, (run, now) in altered.items()],
            "no_start": refusal and str(refusal),
        }
        writers.append({**_data(status), **more})
        gaps = [(gap.table, gap.partition, gap.since, gap.location) for gap in status.unregistered]
        blocks += [
            _grid(status),
            Grid("unregistered partitions", ("table", "partition", "since epoch", "folder"), gaps),
        ]
        if unknown is not None:
            blocks.append(Line(f"what its partitions wait for isn't known: {unknown}", "yellow"))
        blocks += _incomplete_block(incomplete or (), opened.name)
        for setting, texts in altered.items():
            run, now = ("unset" if text is None else repr(text) for text in texts)
            what = f"the last run has {run}, the table {now}, which counts from the job's next start on"
            blocks.append(Line(f"{setting}: {what}", "yellow"))
        blocks += [Line(f"no job can start: {refusal}", "red")] if refusal else []
    return Report({"table": opened.name, "location": opened.live.location, "writers": writers}, blocks)


def _incomplete(opened: OpenedTable, writer: str) -> tuple[Sequence[PartitionState] | None, InvalidOption | None]:
    """The partitions that no commit covers as they are; or why nobody knows."""
    try:
        return [state for state in opened.states(writer, datetime.now(timezone.utc)) if not state.is_complete], None
    except InvalidOption as error:
        return None, error


def _start(
    opened: OpenedTable, writer: str
) -> tuple[Mapping[str, tuple[str | None, str | None]], HiveSinkError | None]:
    """The settings that a start of the writer would find altered, and why no job of it can start."""
    altered: Mapping[str, tuple[str | None, str | None]] = {}
    refusal: HiveSinkError | None = None
    has_letters = False
    try:
        altered = opened.altered(writer)
        has_letters = opened.start_of(writer)[0].has_dead_letters
    except InvalidOption as error:
        refusal = error
    try:
        opened.require_same(writer)
        if has_letters and (foreign := not_dead_letters(opened)):
            raise foreign
    except HiveSinkError as error:
        refusal = error
    return altered, refusal


def _incomplete_block(states: Sequence[PartitionState], table: str) -> Iterator[Line | Grid]:
    counts = ("rows that wait", "decided", "readable")
    rows = [
        (*state.key, state.open_rows, state.decided_rows, state.published_rows, state.waits_for) for state in states
    ]
    columns = ("table", "partition", *counts, "waits for")
    yield Grid("partitions that aren't complete", columns, rows[:_OPEN], right=frozenset(counts))
    yield from _more(len(rows), f"`hivesink partitions {table}` has them all")


def _more(rows: int, where: str) -> list[Line]:
    return [Line(f"and {rows - _OPEN} more; {where}")] if rows > _OPEN else []


def _grid(status: WriterStatus) -> Grid:
    return Grid(f"writer {status.writer}", ("what", "value"), list(_status_rows(status)))


def _data(status: WriterStatus) -> dict[str, Any]:
    """As JSON, with the last batch's offsets as in the manifest."""
    batch = status.last_batch and last_batch_fields(status.last_batch)
    kept = batch and {name: value for name, value in batch.items() if name not in {"appended", "head"}}
    data = {**asdict(status), "last_batch": kept}
    return data if status.files else {name: data[name] for name in data.keys() - {"files", "unregistered"}}


def _status_rows(status: WriterStatus) -> Iterator[tuple[str, object]]:
    rows, last = status.rows, status.last_batch
    when = f" ({status.kind}, {status.at:%Y-%m-%d %H:%M:%S} UTC)" if status.at else ""
    yield "last epoch", f"{status.epoch}{when}"
    yield "rows read", rows.read
    yield "rows written", f"{rows.written}, of which {status.lost_rows} lost" if status.lost_rows else rows.written
    yield "rows rejected, dropped, late, skipped", f"{rows.rejected}, {rows.dropped}, {rows.late}, {rows.skipped}"
    if (files := status.files) is not None:
        yield "files finished", f"{files.finished} ({count(files.finished_bytes, 'byte')})"
        yield "files pending, in progress", f"{files.pending}, {files.in_progress}"
    if (waiting := status.waiting).since is not None:
        where = f"in {count(waiting.buckets, 'bucket')}, {count(waiting.bytes, 'byte')}"
        since = f"{where}, since {waiting.since:%Y-%m-%d %H:%M:%S} UTC"
        yield "rows that wait to be rolled", f"{waiting.rows} ({since})"
    if files is not None:
        yield "unregistered partitions", len(status.unregistered)
    yield "unsettled epochs", ", ".join(map(str, status.unsettled)) or "none"
    if last is None:
        yield "last batch", "none"
    else:
        yield "last batch", f"{last.ref.batch} of query {last.ref.query}, committed as epoch {last.epoch}"
        yield "ended at", ", ".join(str(offset) for offset in last.ref.end)
    yield "tables", ", ".join(status.tables)
    yield "log", f"{status.log} (uid {status.uid}, floor {status.floor})"


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
