"""The page of `hivesink show --html`: one file that loads nothing from elsewhere and runs no scripts."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from hivesink.cli.output import Grid, Line, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hivesink.tables.picture import Picture

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


def page(picture: Picture, blocks: Iterable[Line | Grid]) -> str:
    """The whole document: two kinds of charts, and `blocks` as in the terminal. Escapes every text of the table."""
    body = "\n".join([f"<h1>{_text(picture.table)}</h1>", *_charts(picture), *map(_block, blocks)])
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
    rows = "\n".join(_row("td", block, row) for row in block.rows)
    heading = f"<h2>{_text(block.title)}</h2>"
    return f'{heading}\n<div class="wide"><table>{_row("th", block, block.columns)}\n{rows}</table></div>'


def _row(tag: str, grid: Grid, cells: Sequence[object]) -> str:
    def cell(column: str, value: object) -> str:
        line = value if isinstance(value, Line) else Line(str(value))
        style = f"{line.style} right" if column in grid.right else line.style
        return f'<{tag} class="{style}">{_text(line.text)}</{tag}>'

    return f"<tr>{''.join(map(cell, grid.columns, cells))}</tr>"


def _charts(picture: Picture) -> Iterator[str]:
    bars = [
        (
            (partition.rows or 0) + partition.waiting_rows,
            "small" if partition.small_files else "open" if partition.waits_for else "whole",
            partition.partition,
        )
        for partition in picture.partitions
    ]
    caption = "rows in each partition, with those that wait; orange: small files, pale: not complete"
    yield from _chart(bars, caption)
    for writer in dict.fromkeys(epoch.writer for epoch in picture.epochs):
        epochs = [epoch for epoch in picture.epochs if epoch.writer == writer]
        lags = [(epoch.lag_seconds, epoch.epoch) for epoch in epochs]
        points = [(max(0.0, seconds), "whole", epoch) for seconds, epoch in lags if seconds is not None]
        yield from _chart(points, f"writer {writer}: lag of the last epochs, in seconds")


def _chart(bars: Sequence[tuple[float, str, object]], caption: str) -> Iterator[str]:
    """Columns of a height, a style and a name each; nothing without any."""
    most = max((value for value, _, _ in bars), default=0)
    if not most:
        return
    ends = f"{caption}; {bars[0][2]} to {bars[-1][2]}; highest: {most:,.0f}"
    shapes = "\n".join(
        f'<rect class="{style}" x="{at * _STEP}" y="{_HEIGHT - height:g}" width="{_WIDTH}" height="{height:g}">'
        f"<title>{_text(name)}: {value:,.0f}</title></rect>"
        for at, (value, style, name) in enumerate(bars)
        for height in [value * _HEIGHT / most]
    )
    box = f"0 0 {max(len(bars), _FEWEST) * _STEP} {_HEIGHT}"
    yield f'<figure><svg viewBox="{box}" preserveAspectRatio="none" role="img" aria-label="{_text(caption)}">'
    yield f"{shapes}</svg><figcaption>{_text(ends)}</figcaption></figure>"
