"""`hivesink show`: a picture of a table, in the terminal or as a page."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hivesink.cli.command import Debug, Json, Metastore, Table, reporting
from hivesink.cli.marks import bar, life, marks_of, size, summary
from hivesink.cli.output import Grid, Line, Report
from hivesink.cli.page import page
from hivesink.cli.page_file import require_replaceable, write_page
from hivesink.core.progress import count
from hivesink.tables.opened import open_table
from hivesink.tables.picture import picture_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hivesink.core.picture import EpochPicture, PartitionPicture, Picture, Rejects

Limit = Annotated[int, typer.Option("--limit", min=1, help="How many partitions to show, the newest ones.")]
All = Annotated[bool, typer.Option("--all", help="Show all partitions, however many.")]
Epochs = Annotated[int, typer.Option("--epochs", min=0, help="How many epochs of each writer to show, the last ones.")]
Html = Annotated[Path | None, typer.Option("--html", help="Write a page with charts to this file.", metavar="FILE")]
Force = Annotated[bool, typer.Option("--force", help="Let --html replace a file that isn't such a page.")]

_REASONS = 10
_WAITS = 60
"""Characters of what a partition waits for; `hivesink partitions` has all of it."""


def show(
    table: Table,
    *,
    limit: Limit = 50,
    everything: All = False,
    epochs: Epochs = 20,
    html: Html = None,
    force: Force = False,
    metastore: Metastore = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Draw a table's partitions over time: rows, bytes and files; small files, gaps and open partitions stand out.

    With --html as a page with charts, also of the last epochs and the dead letters. Read-only: safe to run while a job
    is writing.

    Example: hivesink show demo.flights --html flights.html
    """
    with reporting(as_json=json, debug=debug) as out:
        if html is not None:
            require_replaceable(html, force=force)
        with open_table(table, metastore) as opened:
            picture = picture_of(opened, datetime.now(timezone.utc), None if everything else limit, epochs)
        blocks = [*_blocks(picture)]
        if html is not None:
            write_page(html, page(picture), force=force)
            blocks = [Line(f"{picture.table}: written to {html}", "green")]
        out.show(Report({**_data(picture), "html": None if html is None else str(html)}, blocks))


def _blocks(picture: Picture) -> Iterator[Line | Grid]:
    yield Line(f"{picture.table} at {picture.location}", "bold")
    yield Line(summary(picture))
    most = max((one.rows or 0 for one in picture.partitions), default=0)
    columns = ("partition", "rows", "", "from", "bytes", "files", "marks")
    rows = [row for one in picture.partitions for row in _rows(one, most, picture.file_size)]
    yield Grid("", columns, rows, right=frozenset({"rows", "bytes", "files"}))
    for writer, some in picture.by_writer():
        yield _epoch_grid(writer, some)
    yield from _reject_lines(picture.rejects)
    for note in picture.notes:
        yield Line(f"note: {note}", "yellow")


def _rows(one: PartitionPicture, most: int, file_size: int) -> Iterator[tuple[object, ...]]:
    if one.gap is not None:
        yield Line(f"⋮ {one.gap.text}", "bold magenta"), "", "", "", "", "", ""
    is_small = one.is_small(file_size)
    marks = Line("; ".join(marks_of(one, file_size, _WAITS)), "yellow")
    name = one.partition or "(the whole table)"
    rows = "-" if one.rows is None else f"{one.rows:,}"
    files = Line("-" if one.files is None else f"{one.files:,}", "bold red" if is_small else "")
    yield name, rows, Line(bar(one.rows, most), "cyan"), one.rows_from or "-", size(one.bytes), files, marks


def _epoch_grid(writer: str, epochs: list[EpochPicture]) -> Grid:
    most = max(one.rows.read for one in epochs)
    rows = [
        (
            one.epoch,
            one.kind,
            f"{one.at:%Y-%m-%d %H:%M:%S}",
            f"{one.rows.read:,}",
            Line(bar(one.rows.read, most), "cyan"),
            one.rows.rejected or "",
            one.files or "",
            "" if one.lag is None else str(one.lag).partition(".")[0],
            life(one),
        )
        for one in epochs
    ]
    columns = ("epoch", "kind", "decided (UTC)", "rows read", "", "rejected", "files", "lag", "since then")
    right = frozenset({"epoch", "rows read", "rejected", "files", "lag"})
    return Grid(f"writer {writer}: the last epochs", columns, rows, right=right)


def _reject_lines(rejects: Rejects) -> Iterator[Line]:
    if not rejects.counted and not rejects.reasons:
        return
    yield Line(f"{count(rejects.counted, 'rejected row')} by the logs; dead letters in {rejects.table}", "bold red")
    if rejects.reasons is None:
        yield Line(f"their reasons aren't known: {rejects.unknown or ''}", "yellow")
        return
    for reason, rows in [*rejects.reasons.items()][:_REASONS]:
        yield Line(f"  {rows:,}: {reason}")
    if len(rejects.reasons) > _REASONS:
        yield Line(f"  and {len(rejects.reasons) - _REASONS} more reasons; --json has them all")


def _data(picture: Picture) -> dict[str, Any]:
    return {
        "table": picture.table,
        "location": picture.location,
        "at": picture.at,
        "file_size": picture.file_size,
        "partitions_in_all": picture.total,
        "gaps_in_all": picture.total_gaps,
        "partitions": [_partition_data(one, picture.file_size) for one in picture.partitions],
        "epochs": [_epoch_data(one) for one in picture.epochs],
        "rejects": {
            "counted": picture.rejects.counted,
            "table": picture.rejects.table,
            "reasons": picture.rejects.reasons,
            "unknown": picture.rejects.unknown,
        },
        "notes": picture.notes,
    }


def _partition_data(one: PartitionPicture, file_size: int) -> dict[str, Any]:
    gap = one.gap and {"unit": one.gap.unit, "count": one.gap.count, "first": one.gap.first, "last": one.gap.last}
    return {
        "partition": one.partition,
        "time": one.at,
        "registered": one.is_registered,
        "rows": one.rows,
        "rows_from": one.rows_from,
        "bytes": one.bytes,
        "files": one.files,
        "small_files": one.is_small(file_size),
        "missing_before": gap,
        "waiting_rows": one.waiting_rows,
        "waits_for": one.waits_for,
    }


def _epoch_data(one: EpochPicture) -> dict[str, Any]:
    return {
        "writer": one.writer,
        "epoch": one.epoch,
        "kind": one.kind,
        "at": one.at,
        **{name: getattr(one.rows, name) for name in ("read", "written", "rejected", "dropped", "late", "skipped")},
        "files": one.files,
        "published_rows": one.published_rows,
        "published": one.is_published,
        "registered": one.is_settled,
        "lag_seconds": None if one.lag is None else one.lag.total_seconds(),
        "seconds_since_last": None if one.since_last is None else one.since_last.total_seconds(),
    }
