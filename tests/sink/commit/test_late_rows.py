"""Rows of partitions that were over before their batch: `sink.late-rows` and what it counts."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace

import pytest

from hivesink.core.manifest import Rows
from hivesink.errors import HiveSinkError
from hivesink.sink.commit.committer import Committer
from hivesink.sink.task.messages import TablePlan
from hivesink.sink.task.rejects import rejected_spec
from hivesink.storage.rename_store import RenameFileStore
from tests.crash.faults import FaultyFileSystem, Kill, Mode, Plan
from tests.inmemory.metastore import MemoryMetastore
from tests.sink.harness import LOCATION, SPEC, TABLE
from tests.sink.timed import HOURLY, TimedJob, World, at, place

DEAD = rejected_spec(TABLE, f"{LOCATION}__rejected", external=True)
ON_EPOCH = {"sink.rolling-policy.on-epoch": "true"}
BATCHES = (
    (at(3, 10, 1), at(3, 20, 2)),
    (at(4, 10, 3),),
    (at(3, 30, 4), at(4, 20, 5), at(3, 40, 6)),
    (at(5, 0, 7), at(4, 50, 8)),
    (at(4, 55, 9), at(3, 50, 10), at(5, 10, 11)),
)
LATE = {4, 6, 9, 10}


@dataclass
class LateWorld(World):
    """With a table for dead letters."""

    def __post_init__(self) -> None:
        self.metastore = MemoryMetastore(SPEC, DEAD)

    def run(self, fs: FaultyFileSystem | None = None) -> None:
        job = with_dead_letters(self.job(fs))
        job.committer.recover()
        for number, batch in enumerate(BATCHES):
            if number < self.source.committed:
                continue
            if number == len(self.source.planned):
                self.source.events += batch
            job.step(len(batch))
        job.committer.keep_up()
        self.wait(job, hours=2)
        job.committer.finish()

    def letters(self) -> list[int]:
        """The ids of dead letters that readers see."""
        store, found = RenameFileStore(self.fs), list[int]()
        for home in self.metastore.partitions(TABLE.rejected).values():
            for file in store.visible(home):
                with store.open(file.path) as stream:
                    found += [int(line) for line in stream.read().splitlines()]
        return sorted(found)

    def counts(self) -> Rows:
        log = self.log
        return sum((log.manifest(epoch).rows for epoch in log.view().manifests), Rows())


def with_dead_letters(job: TimedJob) -> TimedJob:
    live = job.registrar.table(TABLE.rejected)
    own = job.committer.spec
    identity = replace(own.identity, tables=(str(TABLE), str(TABLE.rejected)))
    spec = replace(own, identity=identity, rejected=TablePlan(live.spec, live.location))
    job.committer = Committer(job.context, spec, job.encode)
    return job


def expected(what: str) -> tuple[list[int], Rows]:
    late, ids = len(LATE), [row.id for batch in BATCHES for row in batch]
    kept = [one for one in ids if what == "append" or one not in LATE]
    counts = {"append": Rows(11, 11), "drop": Rows(11, 7, late=late), "dead-letter": Rows(11, 7, rejected=late)}
    return sorted(kept), counts[what]


@pytest.mark.parametrize("on_epoch", [{}, ON_EPOCH], ids=["held", "at once"])
@pytest.mark.parametrize("what", ["append", "drop", "dead-letter"])
def test_every_row_is_counted_once(what: str, on_epoch: dict[str, str]) -> None:
    world = LateWorld(HOURLY | on_epoch | {"sink.late-rows": what})
    world.run()
    ids, counts = expected(what)
    assert (world.read(3, 4, 5), world.counts()) == (ids, counts)
    assert world.letters() == (sorted(LATE) if what == "dead-letter" else [])
    revisions = {name: one.commit.revision for name, one in world.records().items()}
    assert (revisions[place(3)] > 1) is (what == "append")


@pytest.mark.parametrize("on_epoch", [{}, ON_EPOCH], ids=["held", "at once"])
@pytest.mark.parametrize("what", ["drop", "dead-letter"])
@pytest.mark.parametrize("at_", range(5, 200, 13))
def test_a_batch_that_runs_again_after_a_death_treats_the_same_rows_as_late(
    what: str, on_epoch: dict[str, str], at_: int
) -> None:
    world = LateWorld(HOURLY | on_epoch | {"sink.late-rows": what})
    with contextlib.suppress(Kill, HiveSinkError):
        world.run(FaultyFileSystem(world.fs, Plan(at_, Mode.AFTER)))
    world.run()
    ids, counts = expected(what)
    assert (world.read(3, 4, 5), world.counts()) == (ids, counts)
    assert world.letters() == (sorted(LATE) if what == "dead-letter" else [])


def test_a_new_checkpoint_goes_on_with_the_watermark_and_the_revisions_of_the_log() -> None:
    world = World(HOURLY | {"sink.late-rows": "drop"})
    job = world.started()
    world.feed(job, at(3, 10, 1))
    world.feed(job, at(4, 10, 2))
    job.committer.finish()
    head = job.log.manifest(job.log.view().head)
    assert head.last_batch is not None
    world.source = world.source.new_checkpoint("query-2", start=2)
    job = world.job()
    job.committer = Committer(job.context, replace(job.committer.spec, append=head.last_batch.epoch), job.encode)
    job.committer.recover()
    world.feed(job, at(3, 20, 3), at(4, 20, 4))
    world.feed(job, at(5, 0, 5))
    job.committer.finish()
    assert world.read(3, 4, 5) == [1, 2, 4, 5]
    assert {name: one.commit.revision for name, one in world.records().items()} == {place(3): 1, place(4): 1}
