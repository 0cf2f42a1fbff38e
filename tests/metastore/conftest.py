from __future__ import annotations

from pathlib import Path

import pytest

from hivesink.ports import LiveTable
from tests.metastore.live import DT, OverThrift, made


@pytest.fixture
def live(over: OverThrift, tmp_path: Path) -> LiveTable:
    """A table by `dt`, without partitions yet, at the metastore that the module asks."""
    return made(over, tmp_path, DT)
