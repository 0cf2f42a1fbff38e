from __future__ import annotations

import re
from pathlib import Path

import pytest

from hivesink.options import OPTIONS

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
