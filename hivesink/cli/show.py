"""`hivesink show`: a picture of a table in the terminal."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from hivesink.cli.command import command
from hivesink.cli.output import Grid, Line, Output
from hivesink.core.progress import count
from hivesink.tables.opened import OpenedTable
from hivesink.tables.picture import picture_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hivesink.tables.picture import PartitionPicture, Picture


_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")


@command
def show(out: Output, opened: OpenedTable, *, limit: int = 50, all_: bool = False) -> None:
    """Draw a table's partitions over time: rows, bytes, files, rows that wait and small files; and the last epochs.

    Read-only: safe to run while a job is writing.

    Example: hivesink show demo.flights

    --limit N: How many partitions to show, the newest ones.
    --all: Show all partitions, however many.
    """
    picture = picture_of(opened, datetime.now(timezone.utc), None if all_ else limit)
    out.show(asdict(picture), _blocks(picture))


def _blocks(picture: Picture) -> Iterator[Line | Grid]:
    partitions = picture.partitions
    yield Line(f"{picture.table} at {picture.location}", "bold")
    if not partitions:
        yield Line("it has no partitions yet")
    else:
        which = count(len(partitions), "partition")
        if len(partitions) < picture.partitions_in_all:
            which = f"the newest {len(partitions):,} of {picture.partitions_in_all:,} partitions"
        small = sum(partition.small_files > 0 for partition in partitions)
        waiting = sum(partition.waits_for is not None for partition in partitions)
        yield Line(f"{which}, {small:,} with small files, {waiting:,} not complete")
    most = max((partition.rows or 0 for partition in partitions), default=0)
    rows = [_partition_row(partition, most) for partition in partitions]
    yield Grid.of("partitions, the newest last", rows, "rows", "bytes", "files")
    epochs = [asdict(epoch) for epoch in picture.epochs]
    yield Grid.of("the last epochs (times in UTC)", epochs, "epoch", "read", "rejected", "files", "lag_seconds")
    if picture.rejected:
        yield Line(f"{count(picture.rejected, 'rejected row')}; `hivesink rejects` shows dead letters", "bold red")


def _partition_row(partition: PartitionPicture, most: int) -> dict[str, object]:
    marks = []
    if not partition.registered:
        marks.append("not registered")
    elif partition.files == 0:
        marks.append("no files")
    if partition.waiting_rows:
        marks.append(f"{count(partition.waiting_rows, 'row')} not readable yet")
    if partition.small_files:
        marks.append(count(partition.small_files, "small file"))
    if partition.waits_for:
        marks.append(f"waits: {partition.waits_for}")
    files = "-" if partition.files is None else f"{partition.files:,}"
    return {
        "partition": partition.partition or "(the whole table)",
        "rows": None if partition.rows is None else f"{partition.rows:,}",
        "": Line(bar(partition.rows, most), "cyan"),
        "bytes": _size(partition.bytes),
        "files": Line(files, "bold red" if partition.small_files else ""),
        "marks": Line("; ".join(marks), "yellow"),
    }


def bar(value: int | None, most: int) -> str:
    """`value` as a bar, of 20 characters for `most`; at least one for what isn't 0."""
    return "█" * max(1, round(value * 20 / most)) if value and most > 0 else ""


def _size(length: int | None) -> str | None:
    """`1.5 MB`, in powers of 1000."""
    if length is None:
        return None
    value, unit = float(length), 0
    while value >= 999.5 and unit < len(_UNITS) - 1:  # noqa: PLR2004  it would round to 1000
        value, unit = value / 1000, unit + 1
    return f"{value:.0f} {_UNITS[unit]}" if unit == 0 or value >= 99.5 else f"{value:.1f} {_UNITS[unit]}"  # noqa: PLR2004
