"""Charts as HTML and inline SVG, and the page's style in light and dark."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_HEIGHT, _STEP, _WIDTH = 100, 10, 8
_FEWEST = 30
"""Columns for which there is room in each chart: two alone would be as wide as the page."""

STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --back: #ffffff; --soft: #5c6675; --line: #d9dee5;
  --whole: #2f6fb5; --open: #8fb8e0; --small: #c97a00; --bad: #c0392b; --gap: #a06cc0; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ee; --back: #14181e; --soft: #9aa5b3; --line: #313945;
  --whole: #5a9de0; --open: #34557a; --small: #e8a33a; --bad: #e8695c; --gap: #b98ad8; } }
body { margin: 2rem auto; padding: 0 1rem; max-width: 70rem; color: var(--ink); background: var(--back);
  font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin-bottom: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin-top: 2.2rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1rem; }
p, figcaption { color: var(--soft); overflow-wrap: anywhere; }
p.note { color: var(--small); }
figure { margin: 1rem 0; }
figure svg { display: block; width: 100%; height: 9rem; border-bottom: 1px solid var(--soft); }
figure .most, figure .ends { font-size: .85rem; color: var(--soft); }
figure .ends { overflow-wrap: anywhere; }
div.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: left; color: var(--soft); font-weight: normal; }
th, td { padding: .15rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; white-space: nowrap; }
td:first-child, td:last-child { white-space: normal; overflow-wrap: anywhere; min-width: 8rem; }
tr.gap td { color: var(--gap); font-weight: bold; }
tr.small td:last-child, tr.small td:nth-child(6) { color: var(--small); font-weight: bold; }
.meter { display: block; width: 10rem; height: .9rem; margin-top: .2rem; }
.meter i { display: block; height: 100%; min-width: 1px; }
.whole { fill: var(--whole); } .open { fill: var(--open); } .small { fill: var(--small); }
.bad { fill: var(--bad); } .gap { fill: var(--gap); }
i.whole { background: var(--whole); } i.open { background: var(--open); } i.small { background: var(--small); }
i.bad { background: var(--bad); } i.gap { background: var(--gap); }
.legend i { display: inline-block; width: .8rem; height: .8rem; margin: 0 .3rem 0 1rem; }
"""

LEGEND = (
    '<p class="legend"><i class="whole"></i>complete<i class="open"></i>not complete'
    '<i class="small"></i>small files<i class="gap"></i>gap</p>'
)


@dataclass(frozen=True, slots=True)
class Column:
    """One column, of which `bad` is drawn in red. Of `kind` = `gap` it is a mark of full height; None draws nothing."""

    value: float | None
    kind: str
    tooltip: str
    bad: float = 0


def columns(bars: Sequence[Column], caption: str, most_text: str, ends: str) -> str:
    """A chart of columns, as high as their values; a pointer shows their tooltips. Escapes all texts.

    `ends` says what the first and the last column are.
    """
    most = max((one.value or 0 for one in bars), default=0)
    shapes = "\n".join(_column(at, one, most) for at, one in enumerate(bars))
    box = f"0 0 {max(len(bars), _FEWEST) * _STEP} {_HEIGHT}"
    return (
        f'<figure><figcaption>{escape(caption)}</figcaption><div class="most">{escape(most_text)}</div>'
        f'<svg viewBox="{box}" preserveAspectRatio="none" role="img" aria-label="{escape(caption)}">\n{shapes}\n</svg>'
        f'<div class="ends">{escape(ends)}</div></figure>'
    )


def _column(at: int, one: Column, most: float) -> str:
    middle = at * _STEP + _STEP / 2
    if one.kind == "gap":
        return _bar(middle, 2, _HEIGHT, one.kind, one.tooltip)
    heights = ((one.value or 0, one.kind), (one.bad, "bad"))
    return "".join(
        # What isn't 0 is seen.
        _bar(middle, _WIDTH, max(1.0, value * _HEIGHT / most), kind, one.tooltip)
        for value, kind in heights
        if value
    )


def _bar(middle: float, width: float, height: float, kind: str, tooltip: str) -> str:
    box = f'x="{middle - width / 2:g}" y="{_HEIGHT - height:g}" width="{width:g}" height="{height:g}"'
    return f'<rect class="{kind}" {box}><title>{escape(tooltip)}</title></rect>'


def meter(value: int | None, most: int, kind: str) -> str:
    """`value` as a horizontal bar, of full width for `most`."""
    share = 100 * value / most if value and most else 0
    return f'<span class="meter"><i class="{kind}" style="width:{share:.1f}%"></i></span>' if share else ""
