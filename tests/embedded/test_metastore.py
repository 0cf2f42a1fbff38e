"""Starts of the embedded metastore that fail; tests/cli/test_metastore.py has one that doesn't."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hivesink.embedded import metastore as detached
from hivesink.errors import NotWritable

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.main_path


def test_a_home_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    home = tmp_path / "file" / "home"
    with pytest.raises(NotWritable, match=f"^{home} can't be used .*HIVESINK_HOME"):
        detached.start(home)
    # What every command asks that needs a metastore. A user who may not look gets another OSError.
    with pytest.raises(NotWritable, match=f"^{home}/metastore/server.json can't be used .*HIVESINK_HOME"):
        detached.status(home)
