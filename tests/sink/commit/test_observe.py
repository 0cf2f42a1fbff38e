"""A log that is read while its writer goes on: what was never missing is never called so."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import pytest

from hivesink.core.epoch import Epoch
from hivesink.core.lifecycle import Mark
from hivesink.core.manifest import Floor, Rows, floor_over
from hivesink.errors import LogDamaged, StoreUnavailable
from hivesink.sink.commit.observe import load
from hivesink.sink.inspect.facts import read_log
from hivesink.storage.commit_log import FileCommitLog
from hivesink.storage.rename_store import RenameFileStore
from tests.contracts.manifests import edited, small
from tests.inmemory.filesystem import MemoryFileSystem
from tests.inmemory.metastore import MemoryMetastore
from tests.sink.harness import SPEC, UID, Job, Source, events

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hivesink.core.manifest import Manifest
    from hivesink.sink.commit.context import CommitContext
    from hivesink.storage.fs import Entry, FileSystem

LOG = "/warehouse/demo.db/.hivesink/demo.events/w"


@dataclass
class Beside:
    """A file system beside which somebody does something `before` its call number `at`, or within it if it lists.

    A listing isn't a snapshot: it shows the names up to `cut`, in `order`, as they were before, the others as after.
    """

    inner: MemoryFileSystem
    act: Callable[[], object]
    at: int
    cut: int | None = None
    order: Callable[[str], Any] = str
    calls: list[str] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return lambda *args: self._call(name, *args)

    def _call(self, name: str, *args: Any) -> Any:
        self.calls.append(name)
        call = getattr(self.inner, name)
        if len(self.calls) != self.at:
            return call(*args)
        before = call(*args) if name == "list" else ()
        self.act()
        after = call(*args)
        return after if self.cut is None or name != "list" else self._torn(before, after, self.cut)

    def _torn(self, before: Sequence[Entry], after: Sequence[Entry], cut: int) -> list[Entry]:
        names = sorted({entry.name for entry in (*before, *after)}, key=self.order)
        early = set(names[:cut])
        found = [e for e in before if e.name in early] + [e for e in after if e.name not in early]
        return sorted(found, key=lambda entry: entry.name)


@dataclass
class Writer:
    """A writer of four rows an epoch that has come to epoch 8, with its floor at 2."""

    fs: MemoryFileSystem = field(default_factory=MemoryFileSystem)

    def __post_init__(self) -> None:
        self.log = FileCommitLog(self.fs, LOG)
        self.log.uid(UID)
        self.go_on(8)
        self.trim(2)

    def trim(self, epoch: int) -> None:
        gone = [self.log.manifest(found) for found in self.log.view().manifests if found <= epoch]
        self.log.trim(floor_over(self.log.floor(), gone))

    def go_on(self, epochs: int = 2) -> None:
        head = self.log.view().head
        for epoch in range(head + 1, head + 1 + epochs):
            self.log.create(replace(small(epoch), uid=UID, settled=Epoch(epoch - 1), rows=Rows(4, 4)))
            self.log.mark(Epoch(epoch), Mark.PUBLISHED)
            self.log.mark(Epoch(epoch), Mark.SETTLED)

    def log_beside(self, act: Callable[[Writer], None], at: int, **how: Any) -> tuple[FileCommitLog, Beside]:
        beside = Beside(self.fs, partial(act, self), at, **how)
        return FileCommitLog(cast("FileSystem", beside), LOG), beside


@pytest.fixture
def context() -> CommitContext:
    fs = MemoryFileSystem()
    return Job(FileCommitLog(fs, LOG), RenameFileStore(fs), MemoryMetastore(SPEC), Source(events(8))).context


def _trim(writer: Writer) -> None:
    writer.trim(5)


def _go_on(writer: Writer) -> None:
    writer.go_on()


def _go_far(writer: Writer) -> None:
    """So far that nothing is left of what there was."""
    writer.go_on(8)
    writer.trim(12)


ACTS: tuple[Callable[[Writer], None], ...] = (_trim, _go_on, _go_far)
ORDERS = (str, lambda name: name[::-1])
"""A local disk lists in any order: the floors after the manifests, or before, or a newer manifest before an older."""


@pytest.mark.parametrize("act", ACTS)
def test_a_writer_at_work_between_any_two_calls_is_no_damage(act: Callable[[Writer], None]) -> None:
    step = 0
    while True:
        step += 1
        writer = Writer()
        log, beside = writer.log_beside(act, step)
        facts = read_log(log)
        assert (dict(facts.unreadable), facts.missing) == ({}, ())
        assert facts.totals in (Rows(32, 32), Rows(40, 40), Rows(64, 64))
        assert facts.totals.read == 4 * facts.view.head
        if step > len(beside.calls):
            break
    assert step > 10


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("act", ACTS)
def test_a_listing_that_a_writer_tears_is_no_damage(
    act: Callable[[Writer], None], order: Callable[[str], Any], context: CommitContext
) -> None:
    for cut in range(1, 40, 4):
        for step in (1, 2, 3):
            writer = Writer()
            facts = read_log(writer.log_beside(act, step, cut=cut, order=order)[0])
            assert (dict(facts.unreadable), facts.missing) == ({}, ())
            assert facts.totals.read == 4 * facts.view.head

            writer = Writer()
            history = load(replace(context, log=writer.log_beside(act, step, cut=cut, order=order)[0]))
            assert history.epoch >= 8


def test_a_log_that_never_stands_still_is_not_called_damaged() -> None:
    class Trimming(FileCommitLog):
        """Its floor rises whenever the newest manifest has been read."""

        def manifest(self, epoch: Epoch) -> Manifest:
            found = super().manifest(epoch)
            floor = self.floor()
            assert floor is not None
            if epoch == self.view().head:
                self.trim(Floor(Epoch(floor.epoch + 1), Rows()))
            return found

    writer = Writer()
    writer.go_on(12)
    with pytest.raises(StoreUnavailable, match="its floor rose"):
        read_log(Trimming(writer.fs, LOG))


def test_a_lost_head_whose_marks_are_there_is_damage(context: CommitContext) -> None:
    writer = Writer()
    writer.fs.delete(f"{LOG}/manifests/0000000008.json")
    assert read_log(writer.log).missing == (8,)
    with pytest.raises(LogDamaged, match="epoch 8 is missing, while marks of epoch 8 are there"):
        load(replace(context, log=writer.log))


@pytest.mark.parametrize("batches", [1, 3])
def test_a_batch_is_not_written_again_where_the_head_was_lost(batches: int) -> None:
    fs = MemoryFileSystem()
    source, metastore = Source(events(12)), MemoryMetastore(SPEC)
    log, store = FileCommitLog(fs, LOG), RenameFileStore(fs)
    Job(log, store, metastore, source).run(batches=batches)
    fs.delete(f"{LOG}/manifests/{batches:010d}.json")
    source.committed -= 1
    with pytest.raises(LogDamaged, match=f"epoch {batches} is missing"):
        Job(log, store, metastore, source).run(batches=1)


def test_a_manifest_that_was_copied_from_another_log_is_damage(context: CommitContext) -> None:
    """A table of the same name elsewhere: its writer, too, goes by `w`."""
    writer, path = Writer(), f"{LOG}/manifests/0000000009.json"
    own = writer.fs.read(f"{LOG}/manifests/0000000008.json")
    assert own is not None
    writer.fs.write_new(path, edited(edited(own, UID.encode(), b"ffffffff"), b'"epoch": 8', b'"epoch": 9'))
    with pytest.raises(LogDamaged, match=rf"{path} .*uid is ffffffff, this log's is {UID}"):
        load(replace(context, log=writer.log))
    facts = read_log(writer.log)
    assert "uid is ffffffff" in str(facts.unreadable[Epoch(9)])
