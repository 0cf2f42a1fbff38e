"""`hivesink status`: how a table's writers stand."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from hivesink.cli.opened import OpenedTable, opened
from hivesink.cli.options import Debug, Json, Metastore, Table
from hivesink.cli.output import Grid, Line, Report
from hivesink.cli.reporting import reporting
from hivesink.core import offsets
from hivesink.sink.inspect.status import WriterStatus, writer_status

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hivesink.core.epoch import LastBatch


def status(table: Table, metastore: Metastore = None, json: Json = False, debug: Debug = False) -> None:
    """Show a table's writers: last epoch, rows, files by state, what is not registered yet.

    It only looks, and may run beside a job.

    Example: hivesink status demo.flights
    """
    with reporting(as_json=json, debug=debug) as out, opened(table, metastore) as found:
        statuses = [writer_status(writer.context, writer.name, found.name) for writer in found.writers]
        out.show(_report(found, statuses))


def _report(found: OpenedTable, statuses: Sequence[WriterStatus]) -> Report:
    data = {
        "table": found.name,
        "location": found.live.location,
        "writers": [_data(status) for status in statuses],
    }
    blocks: list[Line | Grid] = [Line(f"{found.name} at {found.live.location}", "bold")]
    if not statuses:
        blocks.append(Line("no writer has written to it yet"))
    for status in statuses:
        blocks.append(Grid(f"writer {status.writer}", ("what", "how it stands"), list(_rows(status))))
        gaps = [(gap.table, gap.partition, gap.since, gap.location) for gap in status.unregistered]
        blocks.append(Grid("unregistered partitions", ("table", "partition", "since epoch", "folder"), gaps))
    return Report(data, blocks)


def _rows(status: WriterStatus) -> Iterator[tuple[str, object]]:
    rows, files = status.rows, status.files
    when = f" ({status.kind}, {status.at:%Y-%m-%d %H:%M:%S} UTC)" if status.at else ""
    yield "last epoch", f"{status.epoch}{when}"
    yield "rows read", rows.read
    yield "rows written", f"{rows.written}, of which {status.lost_rows} lost" if status.lost_rows else rows.written
    yield "rows rejected, dropped, late, skipped", f"{rows.rejected}, {rows.dropped}, {rows.late}, {rows.skipped}"
    yield "files finished", f"{files.finished} ({files.finished_bytes} bytes)"
    yield "files pending, in progress", f"{files.pending}, {files.in_progress}"
    yield "unregistered partitions", len(status.unregistered)
    yield "unsettled epochs", ", ".join(map(str, status.unsettled)) or "none"
    yield from _batch_rows(status.last_batch)
    yield "tables", ", ".join(status.tables)
    yield "log", f"{status.log} (uid {status.uid}, floor {status.floor})"


def _batch_rows(last: LastBatch | None) -> Iterator[tuple[str, object]]:
    if last is None:
        yield "last batch", "none"
        return
    yield "last batch", f"{last.ref.batch} of query {last.ref.query}, committed as epoch {last.epoch}"
    yield "ended at", ", ".join(str(offset) for offset in last.ref.end)


def _data(status: WriterStatus) -> dict[str, Any]:
    return {**asdict(status), "last_batch": batch_data(status.last_batch)}


def batch_data(last: LastBatch | None) -> dict[str, Any] | None:
    """A batch as JSON, its offsets in the manifest's own form."""
    if last is None:
        return None
    return {
        "epoch": last.epoch,
        "query": last.ref.query,
        "batch": last.ref.batch,
        "start": [offsets.to_json(offset) for offset in last.ref.start],
        "end": [offsets.to_json(offset) for offset in last.ref.end],
    }
