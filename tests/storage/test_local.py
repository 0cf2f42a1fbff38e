"""Local disks: spellings, plain words for what the system refuses, and folders that come and go."""

from __future__ import annotations

import errno
import os
import stat
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hivesink.core.partfile import InProgress, PartName
from hivesink.errors import HiveSinkError, NotWritable, OutcomeUnknown, StoreUnavailable, Unsupported
from hivesink.storage.fs import Entry
from hivesink.storage.local import LocalFileSystem, posix
from hivesink.storage.rename_store import RenameFileStore

FS = LocalFileSystem()


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("/a/b", "/a/b"),
        ("file:/a/b/", "/a/b"),
        ("file:///a/b", "/a/b"),
        ("file:/a/dt=x%3Ay", "/a/dt=x%3Ay"),
        ("/a/file:/b", "/a/file:/b"),
        ("/", "/"),
    ],
)
def test_spellings_of_a_location(location: str, path: str) -> None:
    assert posix(location) == path


def test_a_link_to_a_folder_is_that_folder(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to("disk")
    assert FS.canonical(f"file:{tmp_path}/link/dt=a") == f"{tmp_path.resolve()}/disk/dt=a"
    assert FS.canonical(f"{tmp_path}/./disk//dt=a/") == f"{tmp_path.resolve()}/disk/dt=a"


@pytest.mark.parametrize("location", ["a/b", "hdfs://nn/a", "file://host/a", "file:a", ""])
def test_other_locations_are_refused_by_name(location: str) -> None:
    with pytest.raises(Unsupported, match="not an absolute path"):
        posix(location)


def failing(number: int) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize(
    ("number", "error", "words"),
    [
        (errno.EACCES, NotWritable, "give this user access"),
        (errno.EROFS, NotWritable, "Read-only"),
        (errno.ENOSPC, StoreUnavailable, "No space left on device"),
        (errno.EDQUOT, StoreUnavailable, "Disk quota exceeded"),
        (errno.EPERM, Unsupported, "hard links"),
        (errno.ENOTSUP, Unsupported, "hard links"),
        (errno.EXDEV, Unsupported, "different file systems"),
    ],
)
def test_a_refused_rename_says_why_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, error: type[HiveSinkError], words: str
) -> None:
    FS.write_new(f"{tmp_path}/a", b"x")
    monkeypatch.setattr(os, "link", failing(number))
    with pytest.raises(error, match=words):
        FS.rename(f"{tmp_path}/a", f"{tmp_path}/b")
    assert os.listdir(tmp_path) == ["a"]  # noqa: PTH208 - names


def test_a_failure_after_the_link_leaves_the_outcome_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    FS.write_new(f"{tmp_path}/a", b"x")
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", failing(errno.EIO))
        with pytest.raises(OutcomeUnknown):
            FS.rename(f"{tmp_path}/a", f"{tmp_path}/b")
    assert FS.same_file(f"{tmp_path}/a", f"{tmp_path}/b")


def test_a_full_disk_leaves_no_small_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", failing(errno.ENOSPC))
    fs = LocalFileSystem()
    fs._known.add(str(tmp_path))
    with pytest.raises(StoreUnavailable, match=r"could not write .*/a: No space left on device"):
        fs.write_new(f"{tmp_path}/a", b"x")
    assert fs.list(str(tmp_path)) == []


def test_a_really_full_device_is_told_by_the_stream_itself(tmp_path: Path) -> None:
    (tmp_path / "full").symlink_to("/dev/full")
    with pytest.raises(FileExistsError):
        FS.open_new(f"{tmp_path}/full")
    file = RenameFileStore(FS).create(InProgress(str(tmp_path), PartName("0a1b2c3d", 1, "aaaabbbb", 0, 0, 0)))
    raw = file.stream.raw  # type: ignore[attr-defined]
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, raw.fileno())
    os.close(full)
    file.stream.write(b"x")
    with pytest.raises(StoreUnavailable, match="No space left on device"):
        file.close_for_commit()
    file.abort()
    assert RenameFileStore(FS).staged(str(tmp_path)) == []


def test_a_file_where_a_folder_should_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "dt=1").write_text("in the way")
    with pytest.raises(HiveSinkError, match=f"{tmp_path}/dt=1"):
        FS.write_new(f"{tmp_path}/dt=1/a", b"x")


def test_links_to_folders_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "out").symlink_to(tmp_path)
    (tmp_path / "t" / "gone").symlink_to(tmp_path / "none")
    (tmp_path / "t" / "a").write_bytes(b"x")
    assert FS.list(f"{tmp_path}/t") == [Entry("a", 1)]


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("below", ["dt=1", "dt=1/h=2"])
def test_a_partition_whose_folder_is_a_dangling_link_needs_a_person(tmp_path: Path, below: str, known: bool) -> None:
    """As where a disk is not mounted: no try again helps, and what is there is not lost."""
    fs, disk = LocalFileSystem(), tmp_path / "disk"
    store = RenameFileStore(fs)
    disk.mkdir()
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "dt=1").symlink_to(disk)
    part = InProgress(f"{tmp_path}/t/{below}", PartName("0a1b2c3d", 1, "aaaabbbb", 0, 0, 0))
    file = store.create(part)
    file.stream.write(b"x")
    pending = file.close_for_commit()
    disk.rename(tmp_path / "away")
    (tmp_path / "x").write_bytes(b"x")

    fs = fs if known else LocalFileSystem()
    store = RenameFileStore(fs)
    for act in (
        lambda: store.publish(pending),
        lambda: store.find(pending.target),
        lambda: store.create(part),
        lambda: store.mark(f"{tmp_path}/t/{below}/_SUCCESS"),
        lambda: fs.rename(f"{tmp_path}/x", pending.target),
    ):
        with pytest.raises(NotWritable) as told:
            act()
        assert not told.value.retryable
        assert f"{tmp_path}/t/dt=1 can't be used (a symbolic link to {disk}, " in str(told.value)

    (tmp_path / "away").rename(disk)
    store.publish(pending)
    assert [found.length for found in store.visible(f"{tmp_path}/t/{below}")] == [1]


def test_new_names_are_synced_before_old_ones_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The order that a power cut needs: bytes, new folders, new name, and only then the old name's end."""
    done: list[str] = []
    sync, link, unlink = os.fsync, os.link, os.unlink

    def note_sync(handle: int) -> None:
        folder = stat.S_ISDIR(os.fstat(handle).st_mode)
        done.append("sync folder" if folder else "sync file")
        sync(handle)

    def note_link(*names: Any, **more: Any) -> None:
        done.append("link")
        link(*names, **more)

    def note_unlink(name: str) -> None:
        done.append("unlink")
        unlink(name)

    fs = LocalFileSystem()
    fs.write_new(f"{tmp_path}/warm", b"")
    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(os, "link", note_link)
    monkeypatch.setattr(os, "unlink", note_unlink)
    stream = fs.open_new(f"{tmp_path}/dt=1/a")
    stream.write(b"x")
    fs.sync_close(stream, f"{tmp_path}/dt=1/a")
    fs.rename(f"{tmp_path}/dt=1/a", f"{tmp_path}/dt=1/b")
    assert done == ["sync folder", "sync file", "link", "sync folder", "unlink"]


class Pruned(LocalFileSystem):
    """Somebody prunes each folder as empty just after it is made, the first `times` times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def _make(self, folder: str) -> None:
        super()._make(folder)
        if folder.endswith("/dt=1") and self.times:
            self.times -= 1
            LocalFileSystem().remove_empty(folder)


def test_a_folder_that_others_prune_is_made_again(tmp_path: Path) -> None:
    Pruned(times=3).write_new(f"{tmp_path}/dt=1/a", b"x")
    assert FS.read(f"{tmp_path}/dt=1/a") == b"x"


def test_a_folder_that_keeps_vanishing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="vanishing"):
        Pruned(times=1000).write_new(f"{tmp_path}/dt=1/a", b"x")


def test_files_and_the_folders_made_for_them_get_the_wanted_mode(tmp_path: Path) -> None:
    fs = LocalFileSystem(0o640)
    stream = fs.open_new(f"{tmp_path}/dt=1/a")
    fs.sync_close(stream, f"{tmp_path}/dt=1/a")
    fs.write_new(f"{tmp_path}/dt=1/_SUCCESS", b"")
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("dt=1", "dt=1/a", "dt=1/_SUCCESS")]
    assert modes == [0o750, 0o640, 0o640]


def test_folders_keep_the_setgid_bit_and_the_group_of_the_one_above(tmp_path: Path) -> None:
    table = tmp_path / "t"
    table.mkdir()
    os.chown(table, -1, 12345) if os.geteuid() == 0 else None
    table.chmod(0o2775)
    LocalFileSystem(0o660).write_new(f"{table}/a=1/b=2/f", b"x")
    modes = [stat.S_IMODE((table / name).stat().st_mode) for name in ("a=1", "a=1/b=2", "a=1/b=2/f")]
    assert modes == [0o2770, 0o2770, 0o660]
    assert {(table / name).stat().st_gid for name in ("a=1", "a=1/b=2", "a=1/b=2/f")} == {table.stat().st_gid}


def test_folders_keep_a_default_acl(tmp_path: Path) -> None:
    table = tmp_path / "t"
    table.mkdir()
    # Version 2; then owner, user 12345, group, mask and others, each with tag, permissions and id.
    everyone = 0xFFFFFFFF
    entries = [(0x01, 7, everyone), (0x02, 7, 12345), (0x04, 5, everyone), (0x10, 7, everyone), (0x20, 0, everyone)]
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    os.setxattr(table, "system.posix_acl_default", acl)
    LocalFileSystem(0o660).write_new(f"{table}/a=1/b=2/f", b"x")
    assert os.getxattr(table / "a=1/b=2", "system.posix_acl_default") == acl
    assert struct.pack("<HHI", 0x02, 7, 12345) in os.getxattr(table / "a=1/b=2/f", "system.posix_acl_access")
