"""The file systems with rename that logs are tried on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hivesink.config.site import NO_SITE
from hivesink.logs import file_system
from tests.contracts.storages import WITH_RENAME

if TYPE_CHECKING:
    from pathlib import Path

    from hivesink.storage.fs import FileSystem


@pytest.fixture(params=WITH_RENAME)
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[FileSystem, str]:
    """A file system and a folder on it."""
    place = WITH_RENAME[request.param](request, tmp_path)
    return file_system(place, NO_SITE), place
