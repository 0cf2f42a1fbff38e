"""What every file system with rename promises."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hivesink.storage.fs import Entry

if TYPE_CHECKING:
    from hivesink.storage.fs import FileSystem


def test_rename_neither_overwrites_nor_invents_and_makes_folders(opened: tuple[FileSystem, str]) -> None:
    fs, place = opened
    fs.write_new(f"{place}/a", b"a")
    fs.write_new(f"{place}/b", b"b")
    with pytest.raises(FileExistsError):
        fs.rename(f"{place}/a", f"{place}/b")
    with pytest.raises(FileNotFoundError):
        fs.rename(f"{place}/none", f"{place}/c/d")
    fs.rename(f"{place}/a", f"{place}/new/folder/a")
    assert (fs.read(f"{place}/b"), fs.read(f"{place}/new/folder/a")) == (b"b", b"a")
    with pytest.raises(FileExistsError):
        fs.rename(f"{place}/b", f"{place}/new")


def test_a_folder_is_renamed_with_all_that_is_in_it_and_never_over_anything(opened: tuple[FileSystem, str]) -> None:
    fs, place = opened
    fs.write_new(f"{place}/w/deep/a", b"a")
    fs.rename_folder(f"{place}/w", f"{place}/aside")
    assert not fs.list(f"{place}/w")
    assert fs.read(f"{place}/aside/deep/a") == b"a"
    with pytest.raises(FileNotFoundError):
        fs.rename_folder(f"{place}/w", f"{place}/other")
    fs.write_new(f"{place}/w/deep/a", b"new")
    with pytest.raises(FileExistsError):
        fs.rename_folder(f"{place}/w", f"{place}/aside")
    assert (fs.read(f"{place}/w/deep/a"), fs.read(f"{place}/aside/deep/a")) == (b"new", b"a")


def test_a_file_is_no_folder(opened: tuple[FileSystem, str]) -> None:
    fs, place = opened
    fs.write_new(f"{place}/f", b"x")
    assert [list(fs.list(f"{place}/{name}")) for name in ("f", "f/g", "none")] == [[], [], []]
    assert (fs.length(f"{place}/f/g"), fs.read(f"{place}/f/g"), fs.delete(f"{place}/f/g")) == (None, None, False)
    assert not fs.remove_empty(f"{place}/f")
    assert not fs.remove_empty(place)
    assert list(fs.list(place)) == [Entry("f", 1)]


def test_a_folder_that_others_remove_is_made_again(opened: tuple[FileSystem, str]) -> None:
    fs, place = opened
    fs.write_new(f"{place}/a=1/b=2/f", b"x")
    fs.rename_folder(f"{place}/a=1", f"{place}/taken")
    fs.write_new(f"{place}/a=1/b=2/g", b"x")
    assert list(fs.list(f"{place}/a=1/b=2")) == [Entry("g", 1)]
