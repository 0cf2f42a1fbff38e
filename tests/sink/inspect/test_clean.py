"""`clean --strays` while a run moves parts: what looked like a stray for a moment is a part, and stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hivesink.core.epoch import Epoch
from hivesink.core.ownership import default_root
from hivesink.sink.inspect.clean import find_strays, throw_away
from hivesink.storage.commit_log import RenameCommitLog
from hivesink.storage.rename_store import RenameFileStore
from tests.inmemory.filesystem import MemoryFileSystem
from tests.inmemory.metastore import MemoryMetastore
from tests.sink.harness import LOCATION, SPEC, TABLE, Job, Source, events

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hivesink.storage.fs import Entry

NAME = str(TABLE)


class MovedWhileListed(MemoryFileSystem):
    """`path` is renamed to `target` just after its folder was listed for the third time: visible files come then."""

    path = target = ""
    looks = 0

    def list(self, folder: str) -> Sequence[Entry]:
        found = super().list(folder)
        if self.path and folder == self.path.rpartition("/")[0]:
            self.looks += 1
            if self.looks == 3:
                self.rename(self.path, self.target)
        return found


def test_a_part_that_moves_while_the_folders_are_listed_is_not_thrown_away() -> None:
    fs, metastore, source = MovedWhileListed(), MemoryMetastore(SPEC), Source(events(12))
    job = Job(RenameCommitLog(fs, f"{default_root(LOCATION, TABLE)}/w"), RenameFileStore(fs), metastore, source)
    job.run()
    part = job.context.log.manifest(Epoch(1)).add[0]
    name = part.target.rpartition("/")[2]
    fs.path, fs.target = part.target, f"{LOCATION}/dt=9999-moved/{name}"
    fs.write_new(f"{LOCATION}/dt=9999-moved/_begun", b"")
    found = find_strays(job.context, NAME)
    assert [stray.path for stray in found] == [fs.target]
    assert throw_away(job.context, NAME, found) == ()
    assert fs.length(fs.target) == part.length
