"""`hivesink status`: the state of a table's writers."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hivesink.cli.command import Metastore, Table, command
from hivesink.cli.output import Grid, Line, Output, Report
from hivesink.core.manifest import REPLAYS
from hivesink.core.manifest_json import last_batch_fields
from hivesink.core.progress import count
from hivesink.errors import HiveSinkError, InvalidOption, MetastoreUnreachable
from hivesink.sink.inspect.status import LogStatus, WriterStatus, log_status, writer_status
from hivesink.tables.opened import LogsAlone, OpenedTable, logs_without_metastore, open_table
from hivesink.tables.rejects import not_dead_letters

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hivesink.core.epoch import LastBatch
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
            out.show(_status_of_logs(logs_without_metastore(table, log)))
        raise


def _status_of_logs(logs: LogsAlone) -> Report:
    """What can be told while the metastore is away."""
    about = f"the metastore doesn't answer: this is what the logs in {logs.root} say"
    blocks: list[Line | Grid] = [Line(f"{about}; files and partitions weren't looked at", "bold yellow")]
    data = []
    for writer, log in logs.read():
        one = log_status(log, writer, logs.table)
        waiting = [
            (*key, bucket.rows, f"{bucket.last:%Y-%m-%d %H:%M:%S}")
            for key, bucket in sorted(log.open_rows.buckets.items())
        ]
        blocks.append(Grid(f"writer {writer}", ("what", "value"), list(_status_rows(one))))
        blocks.append(
            Grid("rows that wait to be rolled", ("table", "partition", "rows", "newest (UTC)"), waiting[:_OPEN])
        )
        if len(waiting) > _OPEN:
            blocks.append(Line(f"and {count(len(waiting) - _OPEN, 'more partition')}"))
        rows = [{"table": name, "partition": partition, "rows": count} for name, partition, count, _ in waiting]
        data.append({**asdict(one), "last_batch": _batch_data(one.last_batch), "waiting_in": rows})
    if not data:
        blocks.append(Line(f"no writer has a log in {logs.root}"))
    return Report({"table": logs.table, "log": logs.root, "metastore_away": True, "writers": data}, blocks)


def _status(opened: OpenedTable) -> Report:
    statuses = [writer_status(context, writer, opened.name) for writer, context in opened.writers.items()]
    writers = []
    blocks: list[Line | Grid] = [Line(f"{opened.name} at {opened.live.location}", "bold")]
    if not statuses:
        blocks.append(Line(str(opened.folder_gone or _NO_WRITER)))
    for one in statuses:
        open_ones, unknown = _incomplete(opened, one.writer)
        altered, refusal = _start(opened, one.writer)
        more = {
            "last_batch": _batch_data(one.last_batch),
            "incomplete": None if open_ones is None else [state.data for state in open_ones],
            "altered": [{"name": name, "run": run, "table": now} for name, (run, now) in altered.items()],
            "no_start": refusal and str(refusal),
        }
        writers.append({**asdict(one), **more})
        blocks.append(Grid(f"writer {one.writer}", ("what", "value"), list(_status_rows(one))))
        gaps = [(gap.table, gap.partition, gap.since, gap.location) for gap in one.unregistered]
        blocks.append(Grid("unregistered partitions", ("table", "partition", "since epoch", "folder"), gaps))
        if unknown is not None:
            blocks.append(Line(f"what its partitions wait for isn't known: {unknown}", "yellow"))
        blocks += [*_open_blocks(opened.name, open_ones or ()), *_altered_lines(altered)]
        blocks += [Line(f"no job can start: {refusal}", "red")] if refusal else []
    return Report({"table": opened.name, "location": opened.live.location, "writers": writers}, blocks)


def _incomplete(opened: OpenedTable, writer: str) -> tuple[Sequence[PartitionState] | None, InvalidOption | None]:
    """The partitions that no commit covers as they are; or why nobody knows."""
    try:
        return [one for one in opened.states(writer, datetime.now(timezone.utc)) if not one.is_complete], None
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
        # A replay takes the settings of the day that it runs.
        altered = opened.altered(writer) if writer != REPLAYS else {}
        has_letters = opened.for_recovery(writer)[1].has_dead_letters
    except InvalidOption as error:
        refusal = error
    try:
        opened.require_same(writer)
        if has_letters and (foreign := not_dead_letters(opened)):
            raise foreign
    except HiveSinkError as error:
        refusal = error
    return altered, refusal


def _altered_lines(altered: Mapping[str, tuple[str | None, str | None]]) -> Iterator[Line]:
    for name, texts in altered.items():
        run, now = ("unset" if text is None else repr(text) for text in texts)
        what = f"the last run has {run}, the table {now}"
        yield Line(f"{name}: {what}, which counts from the job's next start on", "yellow")


def _open_blocks(table: str, found: Sequence[PartitionState]) -> Iterator[Line | Grid]:
    rows = [
        (one.table, one.partition, one.open_rows, one.decided_rows, one.published_rows, one.waits_for)
        for one in found[:_OPEN]
    ]
    counts = ("rows that wait", "decided", "readable")
    columns = ("table", "partition", *counts, "waits for")
    yield Grid("partitions that aren't complete", columns, rows, right=frozenset(counts))
    if len(found) > _OPEN:
        yield Line(f"and {len(found) - _OPEN} more; `hivesink partitions {table}` has them all")


def _status_rows(status: LogStatus) -> Iterator[tuple[str, object]]:
    rows, last = status.rows, status.last_batch
    when = f" ({status.kind}, {status.at:%Y-%m-%d %H:%M:%S} UTC)" if status.at else ""
    yield "last epoch", f"{status.epoch}{when}"
    yield "rows read", rows.read
    yield "rows written", f"{rows.written}, of which {status.lost_rows} lost" if status.lost_rows else rows.written
    yield "rows rejected, dropped, late, skipped", f"{rows.rejected}, {rows.dropped}, {rows.late}, {rows.skipped}"
    if isinstance(status, WriterStatus):
        files = status.files
        yield "files finished", f"{files.finished} ({count(files.finished_bytes, 'byte')})"
        yield "files pending, in progress", f"{files.pending}, {files.in_progress}"
    if (waiting := status.waiting).since is not None:
        where = f"in {count(waiting.buckets, 'bucket')}, {count(waiting.bytes, 'byte')}"
        since = f"{where}, since {waiting.since:%Y-%m-%d %H:%M:%S} UTC"
        yield "rows that wait to be rolled", f"{waiting.rows} ({since})"
    if isinstance(status, WriterStatus):
        yield "unregistered partitions", len(status.unregistered)
    yield "unsettled epochs", ", ".join(map(str, status.unsettled)) or "none"
    if last is None:
        yield "last batch", "none"
    else:
        yield "last batch", f"{last.ref.batch} of query {last.ref.query}, committed as epoch {last.epoch}"
        yield "ended at", ", ".join(str(offset) for offset in last.ref.end)
    yield "tables", ", ".join(status.tables)
    yield "log", f"{status.log} (uid {status.uid}, floor {status.floor})"


def _batch_data(last: LastBatch | None) -> dict[str, Any] | None:
    """A batch as JSON, with its offsets as in the manifest."""
    fields = last_batch_fields(last)
    return (
        None if fields is None else {name: value for name, value in fields.items() if name not in {"appended", "head"}}
    )
