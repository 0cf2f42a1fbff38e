"""What counts as silence of the source: only time in which Spark has asked for rows and got none."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from hivesink.core.epoch import BatchId, BatchRef
from hivesink.core.offsets import FilesOffset, KafkaOffset, NoOffset
from hivesink.errors import OutcomeUnknown, Unsupported
from hivesink.sink.commit.commits import InputTraits
from hivesink.sink.commit.observe import load
from hivesink.sink.task.messages import InputShape
from tests.sink.harness import TABLE
from tests.sink.inspect.test_partitions import NOW, follower
from tests.sink.timed import HOURLY, Timed, TimedJob, World, at, place

if TYPE_CHECKING:
    from hivesink.core.manifest import Manifest
    from hivesink.sink.task.messages import TaskPlan, TaskReport

LOST = HOURLY | {"sink.late-rows": "drop"}
DELAY = "sink.partition-commit.watermark-delay"
MORNING = datetime(2024, 1, 2, 4, tzinfo=timezone.utc)
FIVE = timedelta(minutes=5)


def dropped(world: World) -> int:
    log = world.log
    return sum(log.manifest(epoch).rows.late for epoch in log.view().manifests)


def commit(world: World, job: TimedJob, batch: BatchRef, *rows: Timed, minutes: int = 0) -> None:
    """A batch that takes that long."""

    def write(plan: TaskPlan) -> list[TaskReport]:
        world.clock.ticks += 60 * minutes
        return job.write(plan, rows)

    job.committer.commit(batch, job.shape, write)


def feed_slowly(world: World, job: TimedJob, minutes: int, *rows: Timed) -> None:
    world.source.events += rows
    batch = world.source.next_batch(len(rows))
    assert batch is not None
    commit(world, job, batch, *rows, minutes=minutes)
    world.source.committed += 1


def test_the_length_of_a_batch_is_nobodys_silence() -> None:
    world = World(LOST)
    job = world.started()
    world.feed(job, at(3, 10, 1), at(3, 10, 2, source=1))
    feed_slowly(world, job, 6, at(5, 1, 3))
    # Spark has not asked since.
    world.clock.ticks += 3600
    job.committer.keep_up()
    assert not world.has_success(3)
    world.feed(job, *(at(3, 11 + number, 10 + number, source=1) for number in range(5)))
    assert dropped(world) == 0


def test_between_two_triggers_nothing_is_known() -> None:
    """With a trigger of ten minutes, an idle timeout of five."""
    world = World(LOST)
    job = world.started()
    world.feed(job, at(3, 10, 1), at(3, 50, 2))
    for _ in range(9):
        world.clock.ticks += 60
        job.committer.keep_up(world.clock.ticks - 600)
    assert world.records() == {}
    world.clock.ticks += 15 * 60
    job.committer.keep_up(world.clock.ticks - 600)
    assert not world.has_success(3)
    world.clock.ticks += 60
    job.committer.keep_up(world.clock.ticks - 600)
    assert world.has_success(3)


def test_a_run_that_ends_by_itself_asks_once() -> None:
    world = World(LOST)
    job = world.started()
    job.committer.read_from(InputTraits(ends_early=True))
    world.feed(job, at(3, 10, 1), at(3, 10, 2, source=1))
    for minute in range(20):
        world.clock.ticks += 60
        world.feed(job, at(5, 1 + minute, 10 + minute))
    assert not world.has_success(3)


@pytest.mark.parametrize(("limit", "is_silent"), [(4, False), (100, True), (None, True)])
def test_a_partition_whose_backlog_is_filtered_out_is_not_silent(limit: int | None, *, is_silent: bool) -> None:
    world = World(LOST)
    job = world.started()
    job.committer.read_from(InputTraits(limit=limit))
    world.feed(job, at(3, 10, 1), at(3, 10, 2, source=1))
    for minute in range(10):
        world.clock.ticks += 60
        # Its offsets move along with those of the other one.
        world.feed(job, at(5, 1 + minute, 10 + minute))
    assert world.has_success(3) is is_silent


def test_a_full_batch_is_no_silence_where_all_input_is_one() -> None:
    world = World(LOST)
    job = world.started()
    job.shape = InputShape(event_time="at")
    job.committer.read_from(InputTraits(limit=2))
    for number in range(5):
        start, end = ((KafkaOffset.of({"t": {"0": at_}}),) for at_ in (number, number + 1))
        batch = BatchRef("q", BatchId(number), start, end)
        commit(world, job, batch, *([] if number else [at(3, 10, 1)]), minutes=60)
    assert not world.has_success(3)


def test_a_partition_that_a_batch_may_have_read_from_its_beginning_makes_it_full() -> None:
    world = World(LOST)
    job = world.started()
    job.committer.read_from(InputTraits(limit=30))

    def feed(first: dict[str, int], last: dict[str, int], *rows: Timed) -> None:
        start, end = KafkaOffset.of({"t": first}), KafkaOffset.of({"t": last})
        commit(world, job, BatchRef("q", BatchId(sum(first.values())), (start,), (end,)), *rows, minutes=10)

    feed({"0": 0}, {"0": 1}, at(3, 10, 1))
    feed({"0": 1}, {"0": 2}, at(3, 20, 2))
    # The first one's rows are all filtered out.
    feed({"0": 2}, {"0": 8, "1": 24}, at(5, 10, 3, source=1))
    assert not world.has_success(3)


@pytest.mark.parametrize(("is_piecewise", "is_silent"), [(True, False), (False, True)])
def test_a_limited_backlog_of_files_is_not_silent(*, is_piecewise: bool, is_silent: bool) -> None:
    world = World(LOST)
    job = world.started()
    job.shape = InputShape(event_time="at")
    job.committer.read_from(InputTraits(is_piecewise=is_piecewise))
    for number in range(5):
        start = FilesOffset(number - 1, "a", 1) if number else NoOffset()
        batch = BatchRef("q", BatchId(number), (start,), (FilesOffset(number, "a", 1),))
        commit(world, job, batch, *([] if number else [at(3, 10, 1)]), minutes=60)
    assert world.has_success(3) is is_silent


def test_of_several_sources_one_that_defers_is_never_silent() -> None:
    world = World(LOST)
    job = world.started()
    job.committer.read_from(InputTraits(defers=True))
    for number in range(5):
        starts = (KafkaOffset.of({"a": {"0": number}}), KafkaOffset.of({"t": {"1": 1}}) if number else NoOffset())
        ends = (KafkaOffset.of({"a": {"0": number + 1}}), KafkaOffset.of({"t": {"1": 1}}))
        world.clock.ticks += 600
        row = at(5, number, number + 1) if number else at(3, 10, 1, source=1)
        commit(world, job, BatchRef("q", BatchId(number), starts, ends), row)
    assert not world.has_success(3)


def test_sparks_watermark_is_no_later_than_the_clock() -> None:
    world = World(LOST)
    job = world.started()
    job.shape = InputShape(watermark=datetime(2100, 1, 1, tzinfo=timezone.utc))
    world.feed(job, at(4, 10, 1))
    mark = world.log.manifest(job.committer.head).watermark
    assert mark is not None
    assert mark.at is not None
    assert mark.at < world.clock.now()


def test_a_time_far_ahead_of_the_clock_ends_nothing() -> None:
    world = World(LOST)
    world.clock.at = MORNING + timedelta(days=3)
    job = world.started()
    world.feed(job, at(3, 10, 1), Timed(2, "2100-01-01 00", 4102444800000000))
    world.feed(job, Timed(3, "2100-01-01 00", 4102444800000001))
    world.feed(job, at(3, 50, 4))
    assert dropped(world) == 0
    assert not world.has_success(3)
    # Where all times are wrong, they count as now.
    other = World(LOST)
    other.clock.at = MORNING
    other.feed(other.started(), Timed(1, "2100-01-01 00", 4102444800000000))
    mark = other.log.manifest(other.log.view().head).watermark
    assert mark is not None
    assert mark.at is not None
    assert MORNING <= mark.at < MORNING + timedelta(minutes=1)


def test_short_runs_pass_a_partition_that_has_gone_quiet() -> None:
    world = World(LOST)
    world.feed(world.started(), at(3, 10, 1), at(3, 10, 2, source=1))
    for hour in range(4, 9):
        world.clock.at += timedelta(hours=1)
        world.clock.ticks += 3600
        job = world.started()
        world.feed(job, at(hour, 10, hour * 10))
        world.wait(job, seconds=30)
        job.committer.finish(roll=False)
    assert world.has_success(3)
    assert world.has_success(6)
    assert not world.has_success(8)


def test_a_partition_that_the_source_no_longer_has_holds_nothing_back() -> None:
    world = World(LOST)
    job = world.started()
    job.shape = InputShape(event_time="at")
    world.feed(job, at(3, 10, 1))
    # From now on the rows say which Kafka partition they are of.
    world.feed(world.started(), at(4, 10, 2))
    assert world.has_success(3)
    mark = world.log.manifest(world.log.view().head).watermark
    assert mark is not None
    assert list(mark.newest) == ["t-0"]


def test_a_silent_input_keeps_the_delay() -> None:
    world = World(LOST | {DELAY: "20min"})
    job = world.started()
    world.feed(job, at(3, 10, 1), at(3, 59, 2))
    world.wait(job, minutes=5 + 20)
    assert not world.has_success(3)
    world.wait(job, minutes=1)
    assert world.has_success(3)


def test_after_a_pause_the_first_partition_that_wakes_does_not_decide_alone() -> None:
    world = World(LOST)
    job = world.started()
    world.feed(job, at(3, 10, 1), at(3, 10, 2, source=1))
    world.wait(job, minutes=10)
    world.feed(job, at(5, 30, 3))
    assert not world.has_success(3)
    world.feed(job, at(3, 40, 4, source=1))
    assert dropped(world) == 0
    world.feed(job, at(5, 31, 5, source=1))
    assert world.has_success(3)


def sparks(world: World, minute: int) -> TimedJob:
    job = world.started()
    mark = MORNING + timedelta(minutes=minute)
    job.shape = InputShape(watermark=mark)
    return job


@pytest.mark.parametrize("open_partitions", [1, 12])
def test_sparks_own_goes_on_as_the_clock_does_whatever_is_committed_meanwhile(open_partitions: int) -> None:
    world = World(
        LOST | {"sink.partition-commit.delay": "1min", "partition.time-extractor.timestamp-pattern": "$dt:00"}
    )
    job = sparks(world, 0)
    rows = [at(4, minute, minute) for minute in range(open_partitions)]
    world.feed(job, *(type(row)(row.id, f"2024-01-02 04:{row.id:02d}", row.micros) for row in rows))
    for _ in range(11 * 6):
        world.wait(job, seconds=10)
    marks = [one.watermark for one in world.records().values() if one.watermark]
    assert max(marks) <= MORNING + timedelta(minutes=11) - FIVE


@pytest.mark.parametrize(("holds_back", "is_over"), [(False, True), (True, False)])
def test_sparks_next_watermark_counts_once_the_input_is_silent(*, holds_back: bool, is_over: bool) -> None:
    world = World(LOST)
    job = world.started()
    job.committer.read_from(InputTraits(holds_back=holds_back))
    job.shape = InputShape()
    world.feed(job, at(3, 10, 1))
    job.committer.knows_next(MORNING + timedelta(minutes=70))
    world.wait(job, seconds=30)
    assert world.records() == {}
    world.wait(job, minutes=6)
    assert world.has_success(3) is is_over


def test_a_partition_whose_rows_have_no_times_for_a_while_is_not_silent() -> None:
    world = World(LOST)
    job = world.started()
    world.feed(job, at(3, 10, 1), at(3, 10, 2, source=1))
    for minute in range(12):
        world.clock.ticks += 60
        world.feed(job, at(5, minute, 10 + minute), replace(at(3, 10, 100 + minute, source=1), micros=None))
    assert not world.has_success(3)


def test_the_clock_goes_on_over_short_runs_of_a_silent_input() -> None:
    world = World(LOST)
    job = world.started()
    world.feed(job, at(3, 10, 1))
    ended = []
    for _ in range(8):
        world.wait(job, seconds=30)
        world.wait(job, minutes=10)
        ended.append(world.has_success(3))
        job.committer.finish(roll=False)
        assert not load(job.context).open
        job = world.started()
    assert (ended[0], ended[-1]) == (False, True)


def test_rows_that_operators_hold_back_are_waited_for() -> None:
    world = World(LOST)
    job = sparks(world, 59)
    job.committer.read_from(InputTraits(holds_back=True))
    world.feed(job, at(4, 10, 1))
    world.wait(job, hours=9)
    assert world.records() == {}


def test_an_hour_that_other_settings_have_committed_ends_again_without_rows() -> None:
    world = World(dict(LOST))
    job = world.started()
    world.feed(job, at(3, 10, 1))
    world.wait(job, hours=3)
    assert world.has_success(3)
    job.committer.finish()
    head = world.log.view().head
    world.options["sink.partition-commit.delay"] = "4h"
    job = world.started()
    log, key = follower(world), (str(TABLE), place(3))
    log.read()
    assert not log.state(key, NOW).is_complete
    for _ in range(20):
        world.wait(job, minutes=15)
    log.read()
    assert log.state(key, NOW).is_complete
    assert world.log.view().head == head + 1
    assert world.log.manifest(world.log.view().head).kind == "watermark"
    assert world.read(3) == [1]


def test_the_end_of_a_query_takes_over_a_watermark_that_had_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(dict(LOST))
    job = world.started()
    world.feed(job, at(3, 10, 1))
    world.wait(job, hours=3)
    job.committer.finish()
    world.options["sink.partition-commit.delay"] = "4h"
    job = world.started()
    world.feed(job, at(4, 10, 2))
    create, log = job.log.create, job.log

    def unanswered(manifest: Manifest) -> None:
        create(manifest)
        raise OutcomeUnknown(action="create", path=log.location, reason="no answer")

    monkeypatch.setattr(log, "create", unanswered)
    with pytest.raises(OutcomeUnknown):
        world.wait(job, hours=1)
    monkeypatch.undo()
    assert world.log.manifest(world.log.view().head).kind == "watermark"
    job.committer.finish()
    assert world.read(3, 4) == [1, 2]


def test_a_source_that_is_not_kafka_holds_back_too() -> None:
    """A union of Kafka and files: rows of the files have no Kafka partition."""
    batch = BatchRef("q", BatchId(0), (NoOffset(), NoOffset()), (KafkaOffset.of({"t": {"0": 1}}), NoOffset()))
    world = World(LOST)
    job = world.started()
    kafka = at(5, 10, 1)
    job.committer.commit(batch, job.shape, lambda plan: job.write(plan, [kafka]))
    mark = world.log.manifest(world.log.view().head).watermark
    assert mark is not None
    assert (mark.at, set(mark.newest)) == (None, {"", "t-0"})


def test_two_sources_of_one_topics_name_are_refused() -> None:
    ends = (KafkaOffset.of({"t": {"0": 1}}), KafkaOffset.of({"t": {"0": 2}}))
    job = World(LOST).started()
    batch = BatchRef("q", BatchId(0), (NoOffset(), NoOffset()), ends)
    with pytest.raises(Unsupported, match="two sources of the stream read a topic of the same name"):
        job.committer.commit(batch, job.shape, lambda plan: job.write(plan, [at(5, 10, 1)]))


def test_partitions_that_no_row_of_a_join_names_hold_nothing_back() -> None:
    world = World(LOST)
    job = world.started()
    job.committer.read_from(InputTraits(holds_back=True))
    world.feed(job, at(3, 10, 1), at(3, 10, 2, source=1))
    world.feed(job, at(5, 10, 3), at(5, 10, 4, source=1))
    assert world.has_success(3)


def test_a_source_that_defers_rows_shows_silence_by_its_batches_only() -> None:
    world = World(LOST)
    job = world.started()
    job.committer.read_from(InputTraits(defers=True))
    world.feed(job, at(3, 10, 1), at(3, 10, 2, source=1))
    world.wait(job, hours=2)
    assert not world.has_success(3)
    world.feed(job, at(5, 10, 3))
    world.clock.ticks += 600
    world.feed(job, at(5, 11, 4))
    world.clock.ticks += 600
    world.feed(job, at(5, 12, 5))
    assert world.has_success(3)


def find_filtered(world: World, job: TimedJob) -> None:
    """Spark finds a record that its query leaves out: a batch without rows."""
    world.source.events.append(at(3, 0, 0))
    batch = world.source.next_batch(1)
    assert batch is not None
    commit(world, job, batch)
    world.source.committed += 1


def silent_but_for_a_record(world: World, job: TimedJob, minutes: int) -> None:
    for _ in range(minutes):
        world.wait(job, minutes=1)
    find_filtered(world, job)


@pytest.mark.parametrize("is_sparks", [False, True])
@pytest.mark.parametrize("is_killed", [False, True])
def test_a_record_now_and_then_does_not_set_the_clock_back(*, is_sparks: bool, is_killed: bool) -> None:
    world = World(LOST)
    shape = InputShape(watermark=MORNING - 50 * timedelta(minutes=1)) if is_sparks else TimedJob.shape
    job = world.started()
    job.shape = shape
    world.feed(job, at(3, 10, 1))
    # Of each 20 minutes, 15 count: the hour's end is 50 minutes away.
    for _ in range(3):
        silent_but_for_a_record(world, job, 20)
        if is_killed:
            job = world.started()
            job.shape = shape
    assert not world.has_success(3)
    for _ in range(9):
        world.wait(job, minutes=1)
    assert not world.has_success(3)
    for _ in range(2):
        world.wait(job, minutes=1)
    assert world.has_success(3)


def test_where_the_clock_was_makes_no_row_late_that_comes_after_an_outage() -> None:
    world = World(LOST)
    job = world.started()
    world.feed(job, at(3, 10, 1), at(3, 10, 2, source=1))
    for _ in range(180):
        world.wait(job, minutes=1)
    assert world.has_success(3)
    # The rest comes in pieces. Until now nobody knew whether hours 4 and 5 have rows.
    for minute in range(4 * 60, 6 * 60, 10):
        rows = [at(minute // 60, minute % 60, 10 * minute + source, source) for source in (0, 1)]
        world.feed(job, *rows)
    assert dropped(world) == 0
    assert world.has_success(4)
    assert not world.has_success(5)


def test_records_that_the_query_leaves_out_are_no_silence() -> None:
    world = World(LOST)
    job = world.started()
    world.feed(job, at(3, 50, 1))
    for _ in range(20):
        silent_but_for_a_record(world, job, 4)
    assert not world.has_success(3)
    mark = world.log.manifest(job.committer.head).watermark
    assert mark is not None
    assert mark.at == MORNING - 10 * timedelta(minutes=1)
    for _ in range(16):
        world.wait(job, minutes=1)
    assert world.has_success(3)
