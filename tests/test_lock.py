from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

from packaging.specifiers import SpecifierSet

LOCK = Path(__file__).parents[1] / "requirements.lock"
OLDEST = "3.11.2"
"""Debian 12's."""


def test_all_that_is_locked_installs_on_debians_python() -> None:
    pinned = re.findall(r"^([\w.-]+)==(\S+)", LOCK.read_text(), re.MULTILINE)
    too_new = {}
    for name, version in pinned:
        try:
            found = metadata(name)
        except PackageNotFoundError:
            # Of another platform or Python than this one.
            continue
        if found["Version"] == version and not SpecifierSet(found["Requires-Python"] or "").contains(OLDEST):
            too_new[name] = found["Requires-Python"]
    assert len(pinned) > 50
    assert too_new == {}
