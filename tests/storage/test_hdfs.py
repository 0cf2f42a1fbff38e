"""HDFS itself: modes, ACLs, owners, what is left after failures, and files of any size."""

from __future__ import annotations

import os

import pytest
from hdfs_native import AclEntry, Client

from hivesink.errors import NotWritable, StoreUnavailable
from hivesink.storage.hdfs import HdfsFileSystem
from tests.storage.realhdfs import apart, hdfs_folder


class Place:
    """A folder of one's own: `url`, `path` in the file system, and a client to look at it as a user would."""

    def __init__(self, url: str) -> None:
        self.url = url
        server, _, rest = url.removeprefix("hdfs://").partition("/")
        self.path = f"/{rest}"
        self.client = Client(f"hdfs://{server}", {}, config_dir=os.devnull)
        # It finds out whose it is when it first connects.
        self.client.get_file_info("/")

    def mode(self, name: str) -> str:
        return f"{self.client.get_file_info(f'{self.path}{name}').permission:o}"

    def acl(self, name: str) -> set[tuple[str | None, str]]:
        found = self.client.get_acl_status(f"{self.path}{name}").entries
        return {(entry.name, entry.permissions) for entry in found if entry.scope == "access" and entry.type == "user"}


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Place:
    return Place(hdfs_folder(request))


def user(monkeypatch: pytest.MonkeyPatch, name: str, mode: int | None = None, **site: str) -> HdfsFileSystem:
    """The file system as another user: a client finds out whose it is when it first connects."""
    monkeypatch.setenv("HADOOP_USER_NAME", name)
    return apart(site, mode)


@pytest.mark.parametrize(
    ("properties", "file", "folder"),
    [({}, "644", "755"), ({"fs.permissions.umask-mode": "027"}, "640", "750")],
)
def test_the_sites_umask_is_applied(place: Place, properties: dict[str, str], file: str, folder: str) -> None:
    HdfsFileSystem(properties).write_new(f"{place.url}/a=1/b=2/f", b"x")
    assert (place.mode("/a=1/b=2/f"), place.mode("/a=1/b=2"), place.mode("/a=1")) == (file, folder, folder)


@pytest.mark.parametrize("mode", [None, 0o660])
def test_a_default_acl_is_inherited_whole(place: Place, mode: int | None) -> None:
    place.client.mkdirs(place.path, 0o750, create_parent=True)
    place.client.modify_acl_entries(
        place.path,
        [
            AclEntry("user", "default", "rwx", "bob"),
            AclEntry("user", "default", "rwx"),
            AclEntry("group", "default", "r-x"),
            AclEntry("other", "default", "---"),
        ],
    )
    fs = HdfsFileSystem({"fs.permissions.umask-mode": "077"}, mode)
    fs.write_new(f"{place.url}/a=1/f", b"x")
    assert ("bob", "rwx") in place.acl("/a=1")
    assert ("bob", "rwx") in place.acl("/a=1/f")
    assert any(entry.scope == "default" for entry in place.client.get_acl_status(f"{place.path}/a=1").entries)
    # The mask, which a mode's group bits are under an ACL, takes nothing away.
    assert (place.mode("/a=1"), place.mode("/a=1/f")) == ("770", "660")


def test_the_permission_is_there_before_the_file_is_renamed(place: Place) -> None:
    fs = HdfsFileSystem({}, 0o640)
    stream = fs.open_new(f"{place.url}/t/dt=1/f")
    stream.write(b"rows")
    fs.sync_close(stream, f"{place.url}/t/dt=1/f")
    assert (place.mode("/t/dt=1/f"), place.mode("/t/dt=1")) == ("640", "750")
    assert place.mode("/t") == "750"


def test_a_log_is_as_open_as_the_folder_that_it_is_in_and_no_more(place: Place) -> None:
    place.client.mkdirs(place.path, 0o775, create_parent=True)
    place.client.set_permission(place.path, 0o1777)
    HdfsFileSystem({}, as_folder=True).write_new(f"{place.url}/.hivesink/db.t/w/uid", b"x")
    found = [
        place.mode(name) for name in ("/.hivesink", "/.hivesink/db.t", "/.hivesink/db.t/w", "/.hivesink/db.t/w/uid")
    ]
    assert found == ["1777", "775", "775", "644"]
    place.client.mkdirs(f"{place.path}/own", 0o700)
    HdfsFileSystem({}, as_folder=True).write_new(f"{place.url}/own/.hivesink/uid", b"x")
    assert (place.mode("/own/.hivesink"), place.mode("/own/.hivesink/uid")) == ("700", "600")


def test_who_may_not_write_is_told_user_path_and_mode(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    HdfsFileSystem({}).write_new(f"{place.url}/t/f", b"x")
    alice = user(monkeypatch, "alice")
    with pytest.raises(NotWritable, match=r'user=alice, access=WRITE, inode="/\S+/t":\w+:\w+:drwxr-xr-x') as told:
        alice.write_new(f"{place.url}/t/g", b"x")
    assert place.url in str(told.value)
    assert not told.value.retryable
    for call in (
        lambda: alice.rename(f"{place.url}/t/f", f"{place.url}/t/g"),
        lambda: alice.delete(f"{place.url}/t/f"),
    ):
        with pytest.raises(NotWritable):
            call()


def test_files_of_several_blocks_are_whole(place: Place) -> None:
    fs = HdfsFileSystem({"dfs.blocksize": "1m", "dfs.replication": "1"})
    for size in (1 << 20, (1 << 20) + 1, (5 << 19) + 7):
        data = os.urandom(size)
        stream = fs.open_new(f"{place.url}/{size}")
        for start in range(0, size, 300_000):
            stream.write(data[start : start + 300_000])
        assert stream.tell() == size
        fs.sync_close(stream, f"{place.url}/{size}")
        assert fs.length(f"{place.url}/{size}") == size
        assert fs.read(f"{place.url}/{size}") == data
        found = place.client.get_file_info(f"{place.path}/{size}")
        assert (found.replication, found.blocksize) == (1, 1 << 20)


def test_a_stream_that_is_closed_without_its_end_is_no_file_of_that_length(place: Place) -> None:
    fs = HdfsFileSystem({})
    stream = fs.open_new(f"{place.url}/f")
    stream.write(b"rows")
    stream.close()
    assert fs.length(f"{place.url}/f") == 0
    assert fs.delete(f"{place.url}/f")
    stream = fs.open_new(f"{place.url}/f")
    stream.write(b"rows")
    assert fs.delete(f"{place.url}/f")
    with pytest.raises(StoreUnavailable, match="deleted it meanwhile"):
        fs.sync_close(stream, f"{place.url}/f")
    assert fs.length(f"{place.url}/f") is None


def test_a_file_of_several_blocks_may_be_read_only(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    HdfsFileSystem({"fs.permissions.umask-mode": "000"}).write_new(f"{place.url}/for-everybody", b"")
    # No superuser: those may write whatever the mode says.
    fs = user(monkeypatch, "anna", 0o440, **{"dfs.blocksize": "1m"})
    stream = fs.open_new(f"{place.url}/part")
    for _ in range(12):
        stream.write(b"x" * (1 << 18))
    fs.sync_close(stream, f"{place.url}/part")
    assert (fs.length(f"{place.url}/part"), place.mode("/part")) == (3 << 20, "440")
