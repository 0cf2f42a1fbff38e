from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hivesink import HiveSink, session, sources
from hivesink.config.options import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable

API = (Path(__file__).parents[1] / "docs" / "python.md").read_text(encoding="utf-8")
PAGE = (Path(__file__).parents[1] / "docs" / "options.md").read_text(encoding="utf-8")
ROWS = {
    found["name"]: found
    for found in re.finditer(
        r"^\| `(?P<name>[\w.-]+)` \| (?P<default>[^|]+) \| (?P<values>[^|]+) \| (?P<meaning>[^|]+) \|$",
        PAGE,
        re.MULTILINE,
    )
}


def test_the_page_has_every_option_once_and_no_other() -> None:
    assert sorted(re.findall(r"^\| `([\w.-]+)`", PAGE, re.MULTILINE)) == sorted(OPTIONS)


@pytest.mark.parametrize("name", OPTIONS)
def test_default_values_and_meaning_are_the_declared_ones(name: str) -> None:
    spec, row = OPTIONS[name], ROWS[name]
    default = {None: "none", "": "empty"}.get(spec.default, f"`{spec.default}`")
    assert row["default"] == default
    assert row["values"] == spec.values
    assert row["meaning"].startswith(spec.help)


@pytest.mark.parametrize(
    ("heading", "call"),
    [
        ("session", session),
        ("sources.kafka", sources.kafka),
        ("sources.lines", sources.lines),
        ("HiveSink.for_table", HiveSink.for_table),
        ("sink.start", HiveSink.start),
    ],
)
def test_the_page_of_the_api_has_every_parameter(heading: str, call: Callable[..., object]) -> None:
    section = API.partition(f"\n## `{heading}(")[2].partition("\n## ")[0]
    assert section
    for name in inspect.signature(call).parameters.keys() - {"self"}:
        assert re.search(rf"\b{name}\b", section), name
