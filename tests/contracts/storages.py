"""The storages that the contract suites run on, each as the registry gives it."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from hivesink.logs import STORAGES, StorageKind
from hivesink.storage import hdfs
from hivesink.storage.fs import Storage
from hivesink.storage.rename_store import RenameFileStore
from hivesink.storage.s3 import S3Files, S3FileStore
from jobs.cluster import Cluster, settings
from tests.inmemory.filesystem import MemoryFileSystem
from tests.inmemory.s3 import MemoryS3, objects_of
from tests.secure.site import site_of
from tests.storage.realhdfs import hdfs_folder
from tests.storage.reals3 import s3_folder

if TYPE_CHECKING:
    import pytest


def made_up(request: pytest.FixtureRequest, storage: Storage, place: str = "made+up:/w") -> str:
    """The location of a storage that nobody but the registry knows: an adapter and a line."""
    patch: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
    patch.setitem(sys.modules, "adapters.madeup", SimpleNamespace(storage=lambda _: storage))
    patch.setitem(STORAGES, place.partition(":")[0], StorageKind("adapters.madeup:storage", place))
    return place


def _memory(request: pytest.FixtureRequest, _: Path) -> str:
    fs = MemoryFileSystem()
    return made_up(request, Storage(lambda _: RenameFileStore(fs), lambda: fs))


def _memory_s3(request: pytest.FixtureRequest) -> str:
    objects = objects_of(MemoryS3())
    return made_up(request, Storage(lambda _: S3FileStore(objects), lambda: S3Files(objects)), "s3a://bucket/w")


def _secured(request: pytest.FixtureRequest) -> str:
    cluster: Cluster = request.getfixturevalue("alice")
    return made_up(
        request,
        hdfs.storage(site_of(cluster).hadoop),
        f"{cluster.filesystem}{settings.TEMPORARY}/{secrets.token_hex(6)}",
    )


WITH_RENAME: dict[str, Callable[[pytest.FixtureRequest, Path], str]] = {
    "local": lambda _, path: str(path),
    "memory": _memory,
    "hdfs": lambda request, _: hdfs_folder(request),
    "hdfs-secured": lambda request, _: _secured(request),
}
PLACES: dict[str, Callable[[pytest.FixtureRequest, Path], str]] = {
    **WITH_RENAME,
    "local-uri": lambda _, path: f"file:{path}",
    "s3-memory": lambda request, _: _memory_s3(request),
    "s3": lambda request, _: s3_folder(request),
}
