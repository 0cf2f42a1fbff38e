"""`hivesink show`: a picture of a table, in the terminal or as a page."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hivesink.cli.command import command
from hivesink.cli.output import Grid, Line, Output, Report
from hivesink.cli.page import page
from hivesink.core.progress import count
from hivesink.errors import WrongUsage
from hivesink.tables.opened import OpenedTable
from hivesink.tables.picture import picture_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hivesink.tables.picture import EpochPicture, PartitionPicture, Picture

Limit = Annotated[
    int, typer.Option("--limit", metavar="N", min=1, help="How many partitions to show, the newest ones.")
]
All = Annotated[bool, typer.Option("--all", help="Show all partitions, however many.")]
Html = Annotated[
    Path | None,
    typer.Option("--html", help="Write a page with charts to this file, which it replaces.", metavar="FILE"),
]

_BAR = 20
_EIGHTHS = " ▏▎▍▌▋▊▉"
_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")


@command
def show(out: Output, opened: OpenedTable, *, limit: Limit = 50, everything: All = False, html: Html = None) -> None:
    """Draw a table's partitions over time: rows, bytes, files, rows that wait and small files; and the last epochs.

    With --html as a page with charts. Read-only: safe to run while a job is writing.

    Example: hivesink show demo.flights --html flights.html
    """
    picture = picture_of(opened, datetime.now(timezone.utc), None if everything else limit)
    blocks = list(_blocks(picture))
    if html is not None:
        try:
            html.write_text(page(picture, blocks), encoding="utf-8")
        except OSError as error:
            raise WrongUsage((f"--html = {str(html)!r}: {error.strerror or error}; name another file",)) from error
        blocks = [Line(f"{picture.table}: written to {html}", "green")]
    out.show(Report({**asdict(picture), "html": None if html is None else str(html)}, blocks))


def _blocks(picture: Picture) -> Iterator[Line | Grid]:
    yield Line(f"{picture.table} at {picture.location}", "bold")
    yield Line(_summary(picture))
    most = max((partition.rows or 0 for partition in picture.partitions), default=0)
    yield Grid(
        "partitions, the newest last",
        ("partition", "rows", "", "bytes", "files", "marks"),
        [_partition_row(partition, most) for partition in picture.partitions],
        right=frozenset({"rows", "bytes", "files"}),
    )
    yield Grid(
        "the last epochs",
        ("writer", "epoch", "kind", "decided (UTC)", "rows read", "rejected", "files", "lag"),
        [_epoch_row(epoch) for epoch in picture.epochs],
        right=frozenset({"epoch", "rows read", "rejected", "files", "lag"}),
    )
    if picture.rejected:
        yield Line(f"{count(picture.rejected, 'rejected row')}; `hivesink rejects` shows dead letters", "bold red")


def _summary(picture: Picture) -> str:
    """How many partitions are shown, and what stands out."""
    if not picture.partitions:
        return "it has no partitions yet"
    shown, every = len(picture.partitions), picture.partitions_in_all
    which = count(shown, "partition") if shown == every else f"the newest {shown:,} of {every:,} partitions"
    small = sum(partition.small_files > 0 for partition in picture.partitions)
    waiting = sum(partition.waits_for is not None for partition in picture.partitions)
    return f"{which}, {small:,} with small files, {waiting:,} not complete"


def _partition_row(partition: PartitionPicture, most: int) -> tuple[object, ...]:
    marks = []
    if not partition.registered:
        marks.append("not registered yet")
    elif partition.files == 0:
        marks.append("no files")
    if partition.waiting_rows:
        marks.append(f"{count(partition.waiting_rows, 'row')} not readable yet")
    if partition.small_files:
        marks.append(count(partition.small_files, "small file"))
    if partition.waits_for:
        marks.append(f"waits: {partition.waits_for}")
    return (
        partition.partition or "(the whole table)",
        "-" if partition.rows is None else f"{partition.rows:,}",
        Line(bar(partition.rows, most), "cyan"),
        size(partition.bytes),
        Line("-" if partition.files is None else f"{partition.files:,}", "bold red" if partition.small_files else ""),
        Line("; ".join(marks), "yellow"),
    )


def _epoch_row(epoch: EpochPicture) -> tuple[object, ...]:
    lag = "-" if epoch.lag_seconds is None else f"{epoch.lag_seconds:,.0f} s"
    decided, read = f"{epoch.at:%Y-%m-%d %H:%M:%S}", f"{epoch.read:,}"
    return epoch.writer, epoch.epoch, epoch.kind, decided, read, epoch.rejected, epoch.files, lag


def bar(value: int | None, most: int) -> str:
    """`value` as a bar, of 20 characters for `most`; at least a sliver for what isn't 0."""
    if not value or most <= 0:
        return ""
    eighths = max(1, round(value * _BAR * 8 / most))
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def size(length: int | None) -> str:
    """`1.5 MB`, in powers of 1000; `-` if it isn't known."""
    if length is None:
        return "-"
    value, unit = float(length), 0
    while value >= 999.5 and unit < len(_UNITS) - 1:  # noqa: PLR2004  it would round to 1000
        value, unit = value / 1000, unit + 1
    return f"{value:.0f} {_UNITS[unit]}" if unit == 0 or value >= 99.5 else f"{value:.1f} {_UNITS[unit]}"  # noqa: PLR2004
