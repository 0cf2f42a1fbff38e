"""What `put` finds under a name is durable when it returns, whoever wrote it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hdfs_native import Client, WriteOptions

from hivesink.storage.fs import put_once
from hivesink.storage.hdfs import HdfsFileSystem
from hivesink.storage.local import LocalFileSystem
from tests.storage.realhdfs import hdfs_folder

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The inodes of what was fsynced."""
    found: list[int] = []
    fsync = os.fsync

    def recording(handle: int) -> None:
        found.append(os.fstat(handle).st_ino)
        fsync(handle)

    monkeypatch.setattr(os, "fsync", recording)
    return found


@pytest.mark.parametrize("leftover", [None, b"floor", b"flo", b""])
def test_a_leftover_is_durable_too(tmp_path: Path, synced: list[int], leftover: bytes | None) -> None:
    path = tmp_path / ".f.tmp"
    if leftover is not None:
        path.write_bytes(leftover)
    LocalFileSystem().put(str(path), b"floor")
    assert path.read_bytes() == b"floor"
    assert {path.stat().st_ino, tmp_path.stat().st_ino} <= set(synced)


def test_what_is_made_of_a_leftover_is_durable(tmp_path: Path, synced: list[int]) -> None:
    (tmp_path / ".uid.6856c5a3a26b5a3f.tmp").write_bytes(b"0a")
    put_once(LocalFileSystem(), str(tmp_path / "uid"), b"0a")
    assert (tmp_path / "uid").stat().st_ino in synced
    assert os.listdir(tmp_path) == ["uid"]  # noqa: PTH208


def test_a_leftover_that_vanishes_meanwhile_is_no_error(tmp_path: Path) -> None:
    LocalFileSystem().make_durable(str(tmp_path / "gone"))
    LocalFileSystem().make_durable(str(tmp_path / "gone" / "gone"))


def test_on_hdfs_a_file_that_its_writer_never_closed_is_written_anew(request: pytest.FixtureRequest) -> None:
    """Its bytes can't be read before, so a leftover of the right bytes is on the DataNodes' disks."""
    url, data = hdfs_folder(request), b"floor" * 100_000
    server, _, rest = url.removeprefix("hdfs://").partition("/")
    writer = Client(f"hdfs://{server}", {}, config_dir=os.devnull).create(f"/{rest}/.f.tmp", WriteOptions())
    writer.write(data)
    fs = HdfsFileSystem({})
    assert fs.read(f"{url}/.f.tmp") == b""
    fs.put(f"{url}/.f.tmp", data)
    assert fs.read(f"{url}/.f.tmp") == data
