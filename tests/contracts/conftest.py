"""The storages that logs are tried on."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from hivesink.config.site import NO_SITE
from hivesink.logs import storage_of
from hivesink.storage.fs import Files, FileSystem
from tests.contracts.storages import PLACES, WITH_RENAME


@pytest.fixture(params=WITH_RENAME)
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[FileSystem, str]:
    """A file system with rename, and a folder on it."""
    place = WITH_RENAME[request.param](request, tmp_path)
    return cast("FileSystem", storage_of(place, NO_SITE).logs()), place


@pytest.fixture(params=[*WITH_RENAME, "s3-memory", "s3"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Files, str]:
    """The files of any storage, and a folder there."""
    place = PLACES[request.param](request, tmp_path)
    return storage_of(place, NO_SITE).logs(), place
