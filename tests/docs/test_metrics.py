"""docs/metrics.md has each metric of the code with its labels, and no other; the alerts are tried by promtool.

Whether the endpoint exports what alerts and dashboard ask for: tests/integration/test_metastore_down.py.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from hivesink.core.manifest import KINDS
from hivesink.core.metrics import METRICS, RESULTS
from hivesink.metrics import PREFIX, name_of
from tests.docs.pages import blocks_run_by

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "metrics.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (`hivesink_.+?) \| ([^|]+) \| (.+) \|$", PAGE, re.MULTILINE)


def test_the_page_has_each_metric_with_its_labels() -> None:
    named = [name for names, _, _ in ROWS for name in re.findall(r"`(.+?)`", names)]
    labels = {metric.name: f"{{{','.join(metric.labels)}}}" if metric.labels else "" for metric in METRICS}
    assert named == [f"{name_of(metric)}{labels[metric.name]}" for metric in METRICS]
    marked = [names for names, _, _ in ROWS if "†" in names]
    assert [name for names in marked for name in re.findall(r"`(\w+)", names)] == [
        name_of(metric) for metric in METRICS if not metric.by_log
    ]
    assert all(name.startswith(PREFIX) for name in named)


def test_the_page_has_each_value_of_a_label() -> None:
    meanings = {names: meaning for names, _, meaning in ROWS}
    of_rows = next(meaning for names, meaning in meanings.items() if "rows_total" in names)
    assert re.findall(r"`(\w+)`", of_rows) == [*RESULTS]
    of_epochs = next(meaning for names, meaning in meanings.items() if "epochs_total" in names)
    assert re.findall(r"`(\w+)`", of_epochs) == [*KINDS]


def test_prometheus_takes_the_pages_configuration_and_each_alert_fires(tmp_path: Path) -> None:
    [block] = blocks_run_by(__file__, "docs/metrics.md")
    config = yaml.safe_load(block.text)
    rules = yaml.safe_load((DOCS / config["rule_files"][0]).read_text(encoding="utf-8"))
    assert len(rules["groups"][0]["rules"]) == 5
    if (promtool := shutil.which("promtool")) is None:
        pytest.skip("no promtool: it is in Debian's package prometheus")
    (tmp_path / "prometheus.yml").write_text(block.text, encoding="utf-8")
    shutil.copy(DOCS / "alerts.yml", tmp_path)
    rule_tests = Path(__file__).parent / "alerts.test.yml"
    for asked in (["check", "config", str(tmp_path / "prometheus.yml")], ["test", "rules", str(rule_tests)]):
        done = subprocess.run([promtool, *asked], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
