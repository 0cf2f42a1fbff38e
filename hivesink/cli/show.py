"""`hivesink show`: a picture of a table, in the terminal or as a page that loads nothing and runs no scripts."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timezone
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from hivesink.cli.command import command
from hivesink.cli.output import Grid, Line, Output, cell_text, printable
from hivesink.core.progress import count
from hivesink.errors import WrongUsage
from hivesink.tables.opened import OpenedTable
from hivesink.tables.picture import picture_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hivesink.tables.picture import PartitionPicture, Picture


_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")


@command
def show(out: Output, opened: OpenedTable, *, limit: int = 50, all_: bool = False, html: Path | None = None) -> None:
    """Draw a table's partitions over time: rows, bytes, files, rows that wait and small files; and the last epochs.

    With --html as a page with charts. Read-only: safe to run while a job is writing.

    Example: hivesink show demo.flights --html flights.html

    --limit N: How many partitions to show, the newest ones.
    --all: Show all partitions, however many.
    --html FILE: Write a page with charts to this file, which it replaces.
    """
    picture = picture_of(opened, datetime.now(timezone.utc), None if all_ else limit)
    blocks = list(_blocks(picture))
    if html is not None:
        try:
            html.write_text(_page(picture, blocks), encoding="utf-8")
        except OSError as error:
            raise WrongUsage((f"--html = {str(html)!r}: {error.strerror or error}; name another file",)) from error
        blocks = [Line(f"{picture.table}: written to {html}", "green")]
    out.show({**asdict(picture), "html": None if html is None else str(html)}, blocks)


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


_HEIGHT, _STEP, _WIDTH = 100, 10, 8
_FEWEST = 30
"""Columns for which there is room in each chart: two alone would be as wide as the page."""

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --back: #ffffff; --soft: #5c6675; --line: #d9dee5;
  --whole: #2f6fb5; --open: #8fb8e0; --small: #c97a00; --bad: #c0392b; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ee; --back: #14181e; --soft: #9aa5b3; --line: #313945;
  --whole: #5a9de0; --open: #34557a; --small: #e8a33a; --bad: #e8695c; } }
body { margin: 2rem auto; padding: 0 1rem; max-width: 70rem; color: var(--ink); background: var(--back);
  font: 15px/1.45 system-ui, sans-serif; }
h1, p, figcaption { overflow-wrap: anywhere; }
figcaption { color: var(--soft); font-size: .85rem; }
figure { margin: 1rem 0; }
figure svg { display: block; width: 100%; height: 9rem; border-bottom: 1px solid var(--soft); }
div.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: left; color: var(--soft); font-weight: normal; }
th, td { padding: .15rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
.right { text-align: right; } .bold { font-weight: bold; }
.cyan { color: var(--whole); } .yellow { color: var(--small); } .red { color: var(--bad); }
rect.whole { fill: var(--whole); } rect.open { fill: var(--open); } rect.small { fill: var(--small); }
"""


def _page(picture: Picture, blocks: Sequence[Line | Grid]) -> str:
    """The whole document: two kinds of charts, and `blocks` as in the terminal. Escapes every text of the table."""
    bars = [
        (
            (partition.rows or 0) + partition.waiting_rows,
            "small" if partition.small_files else "open" if partition.waits_for else "whole",
            partition.partition,
        )
        for partition in picture.partitions
    ]
    charts = [_chart(bars, "rows in each partition, with those that wait; orange: small files, pale: not complete")]
    for writer in dict.fromkeys(epoch.writer for epoch in picture.epochs):
        lags = [(epoch.lag_seconds, epoch.epoch) for epoch in picture.epochs if epoch.writer == writer]
        points = [(max(0.0, seconds), "whole", epoch) for seconds, epoch in lags if seconds is not None]
        charts.append(_chart(points, f"writer {writer}: lag of the last epochs, in seconds"))
    body = "\n".join([f"<h1>{_text(picture.table)}</h1>", *charts, *map(_block, blocks)])
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{_text(picture.table)} · hivesink</title>
<style>{_STYLE}</style>
</head>
<body>
{body}
<p>as of {picture.at:%Y-%m-%d %H:%M:%S} UTC</p>
</body>
</html>
"""


def _text(value: object) -> str:
    return escape(printable(str(value)))


def _block(block: Line | Grid) -> str:
    if isinstance(block, Line):
        return f'<p class="{block.style}">{_text(block.text)}</p>'

    def row(tag: str, cells: Sequence[object]) -> str:
        texts = []
        for column, value in zip(block.columns, cells, strict=True):
            line = cell_text(value)
            style = f"{line.style} right" if column in block.right else line.style
            texts.append(f'<{tag} class="{style}">{_text(line.text)}</{tag}>')
        return f"<tr>{''.join(texts)}</tr>"

    rows = "\n".join([row("th", block.columns), *(row("td", cells) for cells in block.rows)])
    return f'<h2>{_text(block.title)}</h2>\n<div class="wide"><table>{rows}</table></div>'


def _chart(bars: Sequence[tuple[float, str, object]], caption: str) -> str:
    """Columns of a height, a style and a name each; nothing without any."""
    most = max((value for value, _, _ in bars), default=0)
    if not most:
        return ""
    ends = f"{caption}; {bars[0][2]} to {bars[-1][2]}; highest: {most:,.0f}"
    shapes = "\n".join(
        f'<rect class="{style}" x="{at * _STEP}" y="{_HEIGHT - height:g}" width="{_WIDTH}" height="{height:g}">'
        f"<title>{_text(name)}: {value:,.0f}</title></rect>"
        for at, (value, style, name) in enumerate(bars)
        for height in [value * _HEIGHT / most]
    )
    box = f"0 0 {max(len(bars), _FEWEST) * _STEP} {_HEIGHT}"
    return (
        f'<figure><svg viewBox="{box}" preserveAspectRatio="none" role="img" aria-label="{_text(caption)}">\n'
        f"{shapes}</svg><figcaption>{_text(ends)}</figcaption></figure>"
    )
