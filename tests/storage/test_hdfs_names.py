"""A NameNode that belongs to a nameservice has two names, and so has everything on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hivesink.storage.hdfs import HdfsFileSystem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hivesink.storage.hdfs_address import Address

HA = {
    "fs.defaultFS": "hdfs://ns",
    "dfs.nameservices": "ns, other, lame",
    "dfs.ha.namenodes.ns": "nn1, nn2",
    "dfs.namenode.rpc-address.ns.nn1": "One:8020",
    "dfs.namenode.rpc-address.ns.nn2": "two:8021",
    "dfs.ha.namenodes.lame": "nn1",
    "dfs.namenode.rpc-address.other": "third:9000",
}


@pytest.mark.parametrize(
    ("location", "canonical"),
    [
        ("hdfs://one/w", "hdfs://ns/w"),
        ("hdfs://one:8020/w", "hdfs://ns/w"),
        ("hdfs://two:8021/w", "hdfs://ns/w"),
        ("hdfs://two/w", "hdfs://two:8020/w"),
        ("hdfs://third:9000/w", "hdfs://other/w"),
    ],
)
def test_a_namenode_is_its_nameservice(location: str, canonical: str) -> None:
    assert HdfsFileSystem(HA).canonical(location) == canonical


class Recorded:
    """Stands for `HdfsCalls`: notes what a client is asked."""

    def __init__(self) -> None:
        self.renames: list[tuple[str, str]] = []

    def ask(self, call: Callable[[Any], Any], *, repeatable: bool) -> Any:
        assert not repeatable
        return call(self)

    def rename(self, source: str, target: str, *, overwrite: bool) -> None:
        assert not overwrite
        self.renames.append((source, target))


def test_a_part_is_renamed_from_one_name_to_the_other() -> None:
    made: dict[str, Recorded] = {}

    def connect(address: Address, _: Mapping[str, str]) -> Any:
        return made.setdefault(address.authority, Recorded())

    HdfsFileSystem(HA, connect=connect).rename("hdfs://ns/w/.p", "hdfs://one:8020/w/p")
    assert made["ns"].renames == [("/w/.p", "/w/p")]
