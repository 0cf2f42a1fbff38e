from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hivesink.core.manifest import PartEntry
from hivesink.core.plan import Policy
from hivesink.errors import PartitionElsewhere, PartLost, Unsupported
from hivesink.sink.commit.observe import load
from hivesink.sink.commit.runner import PlanRunner
from hivesink.storage.commit_log import FileCommitLog
from hivesink.storage.rename_store import RenameFileStore
from tests.inmemory.filesystem import MemoryFileSystem
from tests.inmemory.metastore import MemoryMetastore
from tests.sink.harness import LOCATION, SPEC, TABLE, Job, Source, events

if TYPE_CHECKING:
    from hivesink.core.partfile import Finished, Pending
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
    job = Job(FileCommitLog(fs, "/log"), RenameFileStore(fs), metastore, Source(events(1)))
    with pytest.raises(Unsupported):
        job.run()
    fs.write_new(staged, b"rows")
    part = PartEntry(str(TABLE), "dt=1", staged, "/there/part-1", length=4, rows=1)
    with pytest.raises(error, match="/there") as told:
        PlanRunner(job.context, load(job.context), Policy(), print)._publish(part, staged)
    if error is PartitionElsewhere:
        assert f"the metastore {job.context.registrar.address} has partition dt=1" in str(told.value)
        assert "its new parts wait in /here: move them there under their last names, or alter" in str(told.value)


class Blinking(RenameFileStore):
    """Doesn't find a part the first few times that it is to be published."""

    misses = 0

    def publish(self, part: Pending) -> Finished:
        if self.misses:
            self.misses -= 1
            raise PartLost.missing(part.staged, part.target)
        return super().publish(part)


def test_a_part_that_is_there_again_is_published() -> None:
    """A part that is missing whenever it is published isn't tried for ever."""
    fs = MemoryFileSystem()
    store = Blinking(fs)
    metastore = MemoryMetastore(SPEC)
    job = Job(FileCommitLog(fs, "/log"), store, metastore, Source(events(2)))
    store.misses = 1
    assert job.step(1)
    assert [file.length > 0 for file in store.visible(metastore.partitions(TABLE)["dt=2024-01-01"])] == [True]
    store.misses = 2
    with pytest.raises(PartLost):
        job.step(1)
