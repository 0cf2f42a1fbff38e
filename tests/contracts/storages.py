"""The storages that the contract suites run on, each as the registry gives it."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

from hivesink.logs import STORAGES, StorageKind
from hivesink.storage.fs import Storage
from hivesink.storage.rename_store import RenameFileStore
from tests.contracts.multipart import multipart
from tests.inmemory.filesystem import MemoryFileSystem
from tests.storage.realhdfs import hdfs_folder
from tests.storage.reals3 import s3_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest


def made_up(request: pytest.FixtureRequest, storage: Storage) -> str:
    """The location of a storage that nobody but the registry knows: an adapter and a line."""
    patch: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
    patch.setitem(sys.modules, "adapters.madeup", SimpleNamespace(storage=lambda _: storage))
    patch.setitem(STORAGES, "made+up", StorageKind("adapters.madeup:storage", "made+up:/"))
    return "made+up:/w"


def _memory(request: pytest.FixtureRequest, _: Path) -> str:
    fs = MemoryFileSystem()
    return made_up(request, Storage(lambda _: RenameFileStore(fs), lambda: fs))


WITH_RENAME: dict[str, Callable[[pytest.FixtureRequest, Path], str]] = {
    "local": lambda _, path: str(path),
    "memory": _memory,
    "hdfs": lambda request, _: hdfs_folder(request),
}
PLACES: dict[str, Callable[[pytest.FixtureRequest, Path], str]] = {
    **WITH_RENAME,
    "local-uri": lambda _, path: f"file:{path}",
    "multipart": lambda request, _: made_up(request, multipart()),
    "s3": lambda request, _: s3_folder(request),
}
