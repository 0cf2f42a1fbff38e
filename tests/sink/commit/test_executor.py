from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hivesink.core.manifest import PartEntry
from hivesink.core.plan import Policy
from hivesink.errors import PartitionElsewhere, Unsupported
from hivesink.sink.commit.executor import Executor
from hivesink.sink.commit.observe import load
from hivesink.storage.commit_log import RenameCommitLog
from hivesink.storage.rename_store import RenameFileStore
from tests.inmemory.filesystem import MemoryFileSystem
from tests.inmemory.metastore import MemoryMetastore
from tests.sink.harness import LOCATION, SPEC, TABLE, Job, Source, events

if TYPE_CHECKING:
    from hivesink.errors import HiveSinkError


class OneDevice(MemoryFileSystem):
    """Refuses to rename, as local disks do between two file systems."""

    def rename(self, source: str, target: str) -> None:
        if "part-" in target and not target.endswith(".pending"):
            what = f"publishing {source} as {target}"
            raise Unsupported(what, "the two are on different file systems", "keep them on one")
        super().rename(source, target)


@pytest.mark.parametrize(
    ("staged", "error"), [("/here/.part.pending", PartitionElsewhere), ("/there/.part.pending", Unsupported)]
)
def test_a_part_that_cannot_go_where_its_partition_lives_says_so(staged: str, error: type[HiveSinkError]) -> None:
    fs = OneDevice()
    metastore = MemoryMetastore(SPEC)
    metastore.register(TABLE, "dt=2024-01-01", f"{LOCATION}/dt=2024-01-01")
    job = Job(RenameCommitLog(fs, "/log", "w"), RenameFileStore(fs), metastore, Source(events(1)))
    with pytest.raises(Unsupported):
        job.run()
    fs.write_new(staged, b"rows")
    part = PartEntry(str(TABLE), "dt=1", staged, "/there/part-1", length=4, rows=1)
    with pytest.raises(error, match="/there") as told:
        Executor(job.context, load(job.context), Policy(), print)._publish(part, staged)
    if error is PartitionElsewhere:
        assert f"the metastore {job.context.registrar.address} has partition dt=1" in str(told.value)
        assert "its new parts wait in /here: copy them there by hand, or alter" in str(told.value)
