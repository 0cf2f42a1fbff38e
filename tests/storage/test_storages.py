"""A storage is an adapter and one line: a scheme of its own takes a log, and a path alone is on the table's storage."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from hivesink.config.site import NO_SITE
from hivesink.core.bucket import file_system_of, scheme
from hivesink.errors import InvalidOption
from hivesink.logs import STORAGES, Storage, commit_log, file_system, store_problems
from tests.inmemory.filesystem import MemoryFileSystem

if TYPE_CHECKING:
    from hivesink.storage.fs import NewModes


@pytest.mark.parametrize(
    ("location", "before", "kind"),
    [
        ("/w/t", "", "file"),
        ("file:/w/t", "file:", "file"),
        ("file:///w/t", "file://", "file"),
        ("hdfs:/w/t", "hdfs:", "hdfs"),
        ("hdfs:///w/t", "hdfs://", "hdfs"),
        ("hdfs://ns:8020/w/t", "hdfs://ns:8020", "hdfs"),
        ("s3a://bucket/t", "s3a://bucket", "s3a"),
        ("w/t", "", ""),
        ("file:w/t", "file:", ""),
        ("hdfs:w/t", "hdfs:", ""),
    ],
)
def test_the_parts_of_a_location(location: str, before: str, kind: str) -> None:
    assert (file_system_of(location), scheme(location)) == (before, kind)


def test_a_storage_is_one_adapter_and_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidOption, match=r"writes only to HDFS .* and local file systems"):
        file_system("mem:/logs", NO_SITE)
    files = MemoryFileSystem()

    def opened(_: object, modes: NewModes | None) -> MemoryFileSystem:
        assert modes is None
        return files

    monkeypatch.setitem(STORAGES, "mem", Storage("mem", "memory (mem:/…)"))
    monkeypatch.setitem(sys.modules, "hivesink.storage.mem", SimpleNamespace(open_file_system=opened))
    assert not store_problems("mem:/logs")
    assert commit_log("mem:/logs/w").uid("0a1b2c3d") == "0a1b2c3d"
    assert files.read("mem:/logs/w/uid") == b"0a1b2c3d\n"
