"""Tables of cases as texts: a line for each, its cells between bars, below their names; `#` begins a comment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


def cases(name: str) -> list[Any]:
    lines = (line for line in Path(__file__).with_name(name).read_text(encoding="utf-8").splitlines() if line.strip())
    rows = [[cell.strip() for cell in line.split("|")] for line in lines if not line.startswith("#")]
    return [pytest.param(*row, id=" | ".join(row)) for row in rows[1:]]
