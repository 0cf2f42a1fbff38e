"""Files that their own writer may not write any more: a mode for the day when they are whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hivesink.storage.fs import NewModes
from hivesink.storage.hdfs import HdfsFileSystem
from hivesink.storage.hdfs_calls import HdfsCalls, RetryPolicy
from tests.storage.realhdfs import hdfs_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest

    from hivesink.storage.hdfs_address import Address

SIZE = 3 << 20


def test_a_file_of_several_blocks_may_be_read_only(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = hdfs_folder(request)
    root = HdfsFileSystem({"fs.permissions.umask-mode": "000"})
    root.write_new(f"{folder}/for-everybody", b"")
    # No superuser: those may write whatever the mode says.
    monkeypatch.setenv("HADOOP_USER_NAME", "anna")
    made: list[HdfsCalls] = []

    def connect(address: Address, known: Mapping[str, str]) -> HdfsCalls:
        if not made:
            made.append(
                HdfsCalls(address, known, RetryPolicy(), tick=lambda: 0.0, sleep=lambda _: None, chance=lambda: 0.0)
            )
        return made[0]

    fs = HdfsFileSystem({"dfs.blocksize": "1m"}, NewModes(permission=0o440), connect=connect)
    path = f"{folder}/part"
    stream = fs.open_new(path)
    for _ in range(SIZE >> 18):
        stream.write(b"x" * (1 << 18))
    fs.sync_close(stream, path)
    assert fs.length(path) == SIZE
    place = "/" + path.split("/", 3)[3]
    status = made[0].ask(lambda client: client.get_file_info(place), repeatable=True)
    assert f"{status.permission:o}" == "440"
