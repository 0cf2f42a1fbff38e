"""The ratios as a picture: a bar for each peer and workload, from the line at which both are equal."""

from __future__ import annotations

from html import escape
from itertools import groupby
from math import log
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.report import Ratio

SHOWN = {
    "rows/s: right is faster": ("rows_per_s",),
    "CPU: left is less": ("cpu_s_per_mrow",),
    "bytes, or ms an epoch: left is less": ("bytes", "epoch_ms"),
}
ROW, GAP, LABEL, PANEL, EDGE = 18, 26, 190, 300, 5.0
"""Lengths in pixels; `EDGE` is the ratio at which a bar reaches the panel's edge."""
BETTER, WORSE = "#2a7f62", "#b5523b"
TEXT = 'font-family="sans-serif" font-size="12" fill="#333"'


def svg(ratios: Sequence[Ratio]) -> str:
    """Bars on a logarithmic scale: twice as fast is as long as half as fast."""
    shown = [one for one in ratios if any(one.metric in metrics for metrics in SHOWN.values())]
    by_case = {name: list(found) for name, found in groupby(shown, key=lambda one: one.workload)}
    parts: list[str] = []
    y = GAP
    for n, title in enumerate(SHOWN):
        parts.append(_text(LABEL + n * PANEL + PANEL / 2, y - 8, f"hivesink / peer, {title}", "middle"))
    for name, found in by_case.items():
        y += GAP
        parts.append(_text(4, y - 6, name, "start", bold=True))
        for peer in dict.fromkeys(one.peer for one in found):
            parts.append(_text(LABEL - 8, y + 13, peer, "end"))
            for n, metrics in enumerate(SHOWN.values()):
                values = [one.value for one in found if one.peer == peer and one.metric in metrics]
                parts += [_bar(LABEL + n * PANEL, y, value, more="rows_per_s" in metrics) for value in values]
            y += ROW
    for n in range(len(SHOWN)):
        x = LABEL + n * PANEL + PANEL / 2
        parts.append(f'<line x1="{x}" y1="{GAP}" x2="{x}" y2="{y}" stroke="#333"/>')
    width, height = LABEL + len(SHOWN) * PANEL, y + GAP // 2
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
    return "\n".join([head, f'<rect width="{width}" height="{height}" fill="#fff"/>', *parts, "</svg>"]) + "\n"


def _bar(left: float, y: float, value: float, *, more: bool) -> str:
    half = PANEL / 2 - 40
    length = min(1.0, abs(log(value)) / log(EDGE)) * half
    middle = left + PANEL / 2
    start = middle if value >= 1 else middle - length
    colour = BETTER if (value >= 1) == more else WORSE
    at = middle + length + 5 if value >= 1 else middle - length - 5
    return f'<rect x="{start:.1f}" y="{y + 3}" width="{length:.1f}" height="{ROW - 6}" fill="{colour}"/>' + _text(
        at, y + 13, f"{value:.2f}", "start" if value >= 1 else "end"
    )


def _text(x: float, y: float, text: str, anchor: str, *, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y}" text-anchor="{anchor}" {TEXT}{weight}>{escape(text)}</text>'
