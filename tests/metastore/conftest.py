from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.metastore.live import DT, OverThrift, made

if TYPE_CHECKING:
    from pathlib import Path

    from hivesink.ports import LiveTable


@pytest.fixture
def live(over: OverThrift, tmp_path: Path) -> LiveTable:
    """A table by `dt`, without partitions yet, at the metastore that the module asks."""
    return made(over, tmp_path, DT)
