"""Parts of move epochs: their staged place is a finished file, which must never be taken for a leftover name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from hivesink.core.partfile import Finished, Pending
from hivesink.errors import TargetTaken
from hivesink.storage.local import LocalFileSystem
from hivesink.storage.rename_store import RenameFileStore
from tests.inmemory.filesystem import MemoryFileSystem

if TYPE_CHECKING:
    from pathlib import Path

    from hivesink.storage.fs import FileSystem

NAME = "part-00c0ffee0001-1-aaaaaaaaaat0-0-0.snappy.parquet"


@pytest.mark.parametrize("fs", [LocalFileSystem(), MemoryFileSystem()], ids=["local", "memory"])
def test_a_part_that_is_at_its_place_already_stays(fs: FileSystem, tmp_path: Path) -> None:
    """A partition that was moved and moved back: the move's two ends are one name."""
    path = f"{tmp_path}/dt=1/{NAME}"
    fs.write_new(path, b"rows")
    store = RenameFileStore(fs)
    assert store.publish(Pending(path, path, 4)) == Finished(path, 4)
    assert fs.read(path) == b"rows"


@pytest.mark.parametrize("snapshot", [False, True])
def test_one_name_through_a_linked_folder_is_not_a_second_name(tmp_path: Path, snapshot: bool) -> None:
    """To unlink it would lose the rows, or leave them in a user's hard-linked snapshot only."""
    fs = LocalFileSystem()
    (tmp_path / "alias").symlink_to(tmp_path / "real")
    path = f"{tmp_path}/real/{NAME}"
    fs.write_new(path, b"rows")
    if snapshot:
        os.link(path, tmp_path / "snapshot")
    with pytest.raises(TargetTaken):
        RenameFileStore(fs).publish(Pending(path, f"{tmp_path}/alias/{NAME}", 4))
    assert fs.read(path) == b"rows"


def test_a_rename_that_was_cut_short_is_finished(tmp_path: Path) -> None:
    fs = LocalFileSystem()
    old, new = f"{tmp_path}/a/{NAME}", f"{tmp_path}/b/{NAME}"
    fs.write_new(old, b"rows")
    fs.link(old, new)
    RenameFileStore(fs).publish(Pending(old, new, 4))
    assert (fs.read(old), fs.read(new)) == (None, b"rows")
