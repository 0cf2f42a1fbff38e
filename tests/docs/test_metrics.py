"""docs/metrics.md has each metric of the code with its labels, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from hivesink.core.metrics import KINDS, METRICS, RESULTS
from hivesink.metrics import PREFIX, name_of

PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (`hivesink_.+?) \| ([^|]+) \| (.+) \|$", PAGE, re.MULTILINE)


def test_the_page_has_each_metric_with_its_labels() -> None:
    named = [name for names, _, _ in ROWS for name in re.findall(r"`(.+?)`", names)]
    labels = {metric.name: f"{{{','.join(metric.labels)}}}" if metric.labels else "" for metric in METRICS}
    assert named == [f"{name_of(metric)}{labels[metric.name]}" for metric in METRICS]
    assert all(name.startswith(PREFIX) for name in named)


def test_the_page_has_each_value_of_a_label() -> None:
    meanings = {names: meaning for names, _, meaning in ROWS}
    of_rows = next(meaning for names, meaning in meanings.items() if "rows_total" in names)
    assert re.findall(r"`(\w+)`", of_rows) == [*RESULTS]
    of_epochs = next(meaning for names, meaning in meanings.items() if "epochs_total" in names)
    assert re.findall(r"`(\w+)`", of_epochs) == [*KINDS]
