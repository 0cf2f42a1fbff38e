"""Complete means complete: `LogFollower`, which `hivesink partitions` and `hivesink wait` read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

import pytest

from hivesink.core.log import LogView
from hivesink.core.progress import Policies
from hivesink.errors import LogDamaged, MetastoreUnreachable
from hivesink.ports import LiveTable
from hivesink.sink.commit.writer import watermark_policy
from hivesink.sink.inspect.facts import LogFollower, PartitionState
from hivesink.storage.commit_log import FileCommitLog
from tests.crash.faults import FaultyFileSystem
from tests.crash.site import LOG, Choosy
from tests.crash.test_commit_steps import REFUSED, WAYS, Life, fed
from tests.ingest import Wrapped
from tests.inmemory.filesystem import MemoryFileSystem
from tests.inmemory.metastore import MemoryMetastore
from tests.sink.harness import TABLE, position
from tests.sink.timed import HOURLY, World, at, place

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
AT_ONCE = HOURLY | {"sink.rolling-policy.on-epoch": "true"}


def follower(world: World, log: FileCommitLog | None = None) -> LogFollower:
    spec = world.job().committer.spec
    policies = Policies(spec.commit_rule, spec.rolling, watermark_policy(spec.config))
    return LogFollower("w", log or world.log, lambda _: policies)


def state(one: LogFollower, partition: str) -> PartitionState:
    one.read()
    [found] = one.states(NOW, [(str(TABLE), partition)])
    return found


def complete(one: LogFollower, *hours: int) -> list[int]:
    return [hour for hour in hours if state(one, place(hour)).is_complete]


def require_true(world: World, one: LogFollower, case: object) -> None:
    """Whatever is said to be complete holds every row of it that the writer has read."""
    one.read()
    head = one.facts.head
    read = 0 if head is None or head.last_batch is None else position(head.last_batch.ref.end[0])
    for hour in range(3, 9):
        if state(one, place(hour)).is_complete:
            given = [row.id for row in world.source.events[:read] if f"dt={row.dt}" == place(hour)]
            assert world.read(hour) == sorted(given), (case, hour)


class Spying(FaultyFileSystem):
    """Calls `spy` after each change."""

    def __init__(self, inner: MemoryFileSystem, spy: Callable[[], None]) -> None:
        super().__init__(inner)
        self.spy = spy

    def _do(self, *change: Any, **more: Any) -> Any:
        done = super()._do(*change, **more)
        self.spy()
        return done


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("keeps_reading", [False, True])
def test_after_every_change_what_is_complete_is_there(way: str, *, keeps_reading: bool) -> None:
    life = Life(options=WAYS[way])
    one, looks = follower(life), list[int]()

    def spy() -> None:
        looks.append(life.phase)
        require_true(life, one if keeps_reading else follower(life), (way, len(looks)))

    life.run(Spying(life.fs, spy))
    assert len(looks) > 40
    assert complete(one, 3, 4, 5, 7) == [3, 4, 5, 7]


def overtaken(log: FileCommitLog, meanwhile: Callable[[], None]) -> Any:
    """A log whose manifests a job trims between a listing and the first read."""
    left = [meanwhile]

    def view(listed: Callable[[], LogView]) -> LogView:
        found = listed()
        while left:
            left.pop()()
        return found

    return Wrapped(log, view=view)


def test_a_trim_between_listing_and_reading_makes_nothing_complete() -> None:
    world = World(options=HOURLY | {"sink.log.retained-epochs": "1"})
    job = world.started()
    world.feed(job, at(3, 10, 1))
    world.feed(job, at(3, 20, 2))

    def meanwhile() -> None:
        for number in range(70):
            world.feed(job, at(3, 30, 100 + number))
        world.feed(job, at(4, 0, 3), at(5, 0, 4))
        world.feed(job, at(4, 30, 5))
        assert job.log.view().floor > 2

    one = follower(world, overtaken(world.log, meanwhile))
    assert complete(one, 3, 4, 5) == [3]
    assert state(one, place(4)).open_rows == 1


@pytest.mark.parametrize("options", [HOURLY, AT_ONCE, {}], ids=["held", "at once", "each publish"])
def test_a_refused_partition_is_not_complete(options: dict[str, str]) -> None:
    metastore = Choosy.of(REFUSED)
    world = World(options=dict(options), metastore=metastore)
    job = world.started()
    one = follower(world)
    for identity, hour in enumerate([3, 4, 5, 6, 3, 7]):
        world.feed(job, at(hour, 0, identity))
        world.wait(job, seconds=61)
        assert complete(one, 3) == []
        require_true(world, one, identity)
    metastore.refused = ""
    world.wait(job)
    world.wait(job, seconds=61)
    require_true(world, one, "relents")
    assert complete(one, 3) == [3]


def test_a_record_of_other_settings_is_not_complete_before_the_end() -> None:
    world = World(options={})
    job = world.started()
    world.feed(job, at(3, 10, 1))
    job.committer.finish()
    assert complete(follower(world), 3) == [3]
    world.options = dict(HOURLY)
    assert complete(follower(world), 3) == []
    job = world.started()
    world.feed(job, at(4, 10, 2))
    assert complete(follower(world), 3, 4) == [3]


def test_a_manifest_that_is_missing_above_the_snapshot_is_damage() -> None:
    world = World(options=dict(HOURLY))
    job = world.started()
    for number in range(4):
        world.feed(job, at(3, number, number))
    world.fs.delete(f"{LOG}/manifests/0000000002.json")
    with pytest.raises(LogDamaged, match="epoch 2"):
        follower(world).read()


def test_the_record_of_a_partition_that_was_refused_covers_no_later_offsets() -> None:
    metastore = Choosy.of(REFUSED)
    world = World(metastore=metastore)
    job = world.started()
    fed(world, job, 1, 3)
    fed(world, job, 2, 5, 3)
    world.wait(job)
    decided = world.records()[REFUSED]
    fed(world, job, 3, 6)
    world.wait(job)
    assert "move" in {world.log.manifest(epoch).kind for epoch in world.log.view().manifests}
    found = follower(world)
    seen = state(found, REFUSED)
    assert (seen.record, seen.is_complete) == (None, False)
    metastore.refused = ""
    world.wait(job)
    assert state(found, REFUSED).record == decided


class Deaf(MemoryMetastore):
    """Whatever is announced to it has no answer."""

    def announce(self, table: LiveTable, files: Mapping[str, Sequence[str]]) -> None:
        super().announce(table, files)
        raise MetastoreUnreachable(self.address, "no event")


def test_rows_of_a_published_epoch_are_readable_before_it_is_finished() -> None:
    world = World(options=dict(HOURLY), metastore=Deaf())
    job = world.started()
    world.feed(job, at(3, 10, 1), at(3, 20, 2))
    world.feed(job, at(4, 10, 3))
    assert world.read(3) == [1, 2]
    found = follower(world)
    seen = state(found, place(3))
    assert (seen.record, seen.open_rows, seen.decided_rows, seen.published_rows) == (None, 0, 0, 2)
    epoch = world.log.view().head
    told = f"its rows are readable, and committed as epoch {epoch}, which isn't finished: the job's log says why"
    assert seen.waits_for == told


@pytest.mark.parametrize("options", [HOURLY, AT_ONCE], ids=["committed", "not committed"])
def test_rows_that_are_decided_while_the_metastore_is_down_are_not_readable(options: dict[str, str]) -> None:
    world = World(options=dict(options))
    job = world.started()
    world.feed(job, at(3, 10, 1))
    world.metastore.go_down()
    world.feed(job, at(3, 20, 2), at(3, 30, 3))
    if options is HOURLY:
        world.feed(job, at(4, 10, 4))
    world.metastore.come_up()
    assert world.read(3) == ([] if options is HOURLY else [1])
    found = follower(world)
    for there in (False, True):
        if there:
            world.wait(job, minutes=5)
        one = state(found, place(3))
        assert one.published_rows + (one.record.commit.rows if one.record else 0) == len(world.read(3))
        assert one.decided_rows == 3 - len(world.read(3))
        assert ("published as a whole" in (one.waits_for or "")) is not there
    assert world.read(3) == [1, 2, 3]
