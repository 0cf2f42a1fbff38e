from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.metastore.live import DT, OverThrift, declared

if TYPE_CHECKING:
    from pathlib import Path

    from hivesink.ports import LiveTable


@pytest.fixture
def live(over: OverThrift, tmp_path: Path) -> LiveTable:
    """A table by `dt`, without partitions yet, at the metastore that the module asks."""
    spec = declared(tmp_path, DT)
    over.create(spec)
    return over.connect().table(spec.name)
