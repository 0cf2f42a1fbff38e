"""A log that is read while its writer goes on: what was never missing is never called so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

import pytest

from hivesink.core.epoch import Epoch
from hivesink.core.lifecycle import EpochState, Floor, floor_over
from hivesink.core.manifest import Manifest, PartEntry, Rows
from hivesink.core.partfile import Finished, Pending
from hivesink.core.plan import Policy
from hivesink.errors import HiveSinkError, LogDamaged, PartitionElsewhere, PartLost, StoreUnavailable, Unsupported
from hivesink.sink.commit.context import CommitContext
from hivesink.sink.commit.observe import load
from hivesink.sink.commit.runner import PlanRunner
from hivesink.sink.inspect.facts import read_log
from hivesink.storage.commit_log import FileCommitLog
from hivesink.storage.fs import Entry, FileSystem
from hivesink.storage.rename_store import RenameFileStore
from tests.contracts.manifests import small
from tests.crash.faults import At, Kill
from tests.crash.site import Site
from tests.inmemory.filesystem import MemoryFileSystem
from tests.inmemory.metastore import MemoryMetastore
from tests.sink.harness import LOCATION, SPEC, TABLE, UID, Job, Source, events, partitions

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
            self.log.mark(Epoch(epoch), EpochState.PUBLISHED)
            self.log.mark(Epoch(epoch), EpochState.SETTLED)

    def log_beside(self, act: Callable[[Writer], None], at: int, **how: Any) -> tuple[FileCommitLog, Beside]:
        beside = Beside(self.fs, partial(act, self), at, **how)
        return FileCommitLog(cast("FileSystem", beside), LOG), beside


@pytest.fixture
def context() -> CommitContext:
    fs = MemoryFileSystem()
    return Job(FileCommitLog(fs, LOG), RenameFileStore(fs), MemoryMetastore(SPEC), Source(events(8))).context


def _go_far(writer: Writer) -> None:
    """So far that nothing is left of what there was."""
    writer.go_on(8)
    writer.trim(12)


ACTS: tuple[Callable[[Writer], None], ...] = (lambda writer: writer.trim(5), Writer.go_on, _go_far)
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
        assert (dict(facts.unreadable), facts.view.missing) == ({}, ())
        assert facts.total.totals in (Rows(32, 32), Rows(40, 40), Rows(64, 64))
        assert facts.total.totals.read == 4 * facts.view.head
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
            assert (dict(facts.unreadable), facts.view.missing) == ({}, ())
            assert facts.total.totals.read == 4 * facts.view.head

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


@pytest.mark.parametrize("batches", [1, 3])
def test_a_batch_is_not_written_again_where_the_head_was_lost(batches: int) -> None:
    site = Site(Source(events(12)))
    site.job().run(batches=batches)
    site.fs.delete(f"{site.log.location}/manifests/{batches:010d}.json")
    site.source.committed -= 1
    with pytest.raises(LogDamaged, match=f"epoch {batches} is missing"):
        site.job().run(batches=1)


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
        assert "its new parts wait in /here: move them there" in str(told.value)


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


# One folder under two spellings: a cluster that got a second NameNode has partitions at both of its names.
OTHER = "/nn1"
CALLS = "canonical open_new write_new rename delete remove_empty length is_folder list read"


class TwoNames(MemoryFileSystem):
    """`/nn1/a` is `/a`."""


def _same(name: str) -> Any:
    def call(self: TwoNames, *arguments: Any) -> Any:
        plain = (value.removeprefix(OTHER) if isinstance(value, str) else value for value in arguments)
        return getattr(MemoryFileSystem, name)(self, *plain)

    return call


for name in CALLS.split():
    setattr(TwoNames, name, _same(name))


@pytest.fixture
def two_names() -> Site:
    """Every partition of the source is registered under the cluster's other name."""
    site = Site(Source(events(12)), fs=TwoNames())
    for partition in partitions(site.source.events):
        site.metastore.register(TABLE, partition, f"{OTHER}{LOCATION}/{partition}")
    return site


def recovers_in_the_dark(site: Site) -> None:
    job = site.job()
    site.metastore.go_down()
    job.committer.recover()
    site.metastore.come_up()


@pytest.mark.parametrize("meanwhile", [lambda _: None, Site.clean, recovers_in_the_dark])
def test_parts_that_are_decided_under_one_name_are_published_under_the_other(
    two_names: Site, meanwhile: Callable[[Site], None]
) -> None:
    with pytest.raises(Kill):
        two_names.job(At(two_names.fs, r"^rename .*\.pending -> ")).run(batches=1)
    assert two_names.waiting()
    meanwhile(two_names)
    two_names.job().run()
    two_names.check(range(12))
    assert two_names.errors() == []


def test_parts_of_a_partition_that_turns_out_to_be_at_the_other_name_are_published(two_names: Site) -> None:
    job = two_names.job()
    job.committer.recover()
    two_names.metastore.go_down()
    job.step()
    two_names.metastore.come_up()
    job.committer.finish()
    two_names.job().run()
    two_names.check(range(12))
