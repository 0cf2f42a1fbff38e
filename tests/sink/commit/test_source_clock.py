"""What counts as silence of the source: only time in which Spark has asked for rows and got none; and event times."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest

from hivesink.core.epoch import BatchId, BatchRef, Epoch
from hivesink.core.manifest import Manifest
from hivesink.core.offsets import KafkaOffset, NoOffset, SourceOffset
from hivesink.errors import OutcomeUnknown, Unsupported
from hivesink.sink.commit.source_clock import InputTraits
from hivesink.sink.task.events import EventTimes
from hivesink.sink.task.messages import InputShape
from tests.sink.harness import readable
from tests.sink.timed import HOURLY, MINUTE, Run, Timed, TimedJob, World, at, wall

LOST = HOURLY | {"sink.late-rows": "drop"}
MORNING = datetime(2024, 1, 2, 4, tzinfo=timezone.utc)


def lost(**more: Any) -> Run:
    """A run that drops late rows."""
    return Run(World(options=dict(LOST)), **more)


BOTH = "3:10,3:10/1 "
HOUR_5 = [f"5:{minute:02d}" for minute in range(1, 21)]
MOVING = "".join(f"~1 {time} " for time in HOUR_5)
ALL_INPUT = InputShape(event_time="at")
OUTAGE = [f"{minute // 60}:{minute % 60:02d}" for minute in range(4 * 60, 6 * 60, 10)]
NOW_AND_THEN = "3:10 " + ("+1 " * 20 + "_ ") * 3 + "-3 " + "+1 " * 9 + "-3 +1 +1 !3"
KILLED = NOW_AND_THEN.replace("_", "_ |")
SPARKS = InputShape(watermark=MORNING - 50 * MINUTE)

CASES = {
    "a batch's length is nobody's silence": (lost(), BOTH + ">6 5:01 ~60 -3 3:11/1 3:12/1 3:13/1 -3"),
    "between two triggers nothing is known": (lost(), "3:10,3:50 " + "<1 " * 9 + "-3 <15 -3 <1 !3"),
    "a run that ends by itself asks once": (lost(traits=InputTraits(ends_early=True)), BOTH + MOVING + "-3"),
    "all that a partition had is read": (lost(), BOTH + MOVING + "!3"),
    "a partition may have more": (lost(behind=2), BOTH + MOVING + "-3"),
    "nobody knows whether it has more": (lost(behind=None), BOTH + MOVING + "-3"),
    "all input may have more": (lost(shape=ALL_INPUT, behind=1), ">60 3:10 " + ">60 _ " * 4 + "-3"),
    "short runs pass a partition that has gone quiet": (
        lost(),
        BOTH + "".join(f"@60 | {hour}:10 +0.5 $ " for hour in range(4, 9)) + "!3 !6 -8",
    ),
    "a silent input keeps the delay": (
        Run(World(options=LOST | {"sink.partition-commit.watermark-delay": "20min"})),
        "3:10,3:59 +25 -3 +1 !3",
    ),
    "the first partition that wakes does not decide": (lost(), BOTH + "+10 5:30 -3 3:40/1 5:31/1 !3"),
    "rows without times are no silence": (lost(), BOTH + "".join(f"~1 {time},x/1 " for time in HOUR_5) + "-3"),
    "the clock goes on over short runs": (lost(), "3:10 +0.5 +10 -3 $ | " + "+0.5 +10 $ | " * 6 + "+0.5 +10 !3"),
    "operators hold rows back": (
        lost(traits=InputTraits(holds_back=True), shape=InputShape(watermark=MORNING + 59 * MINUTE)),
        "4:10 +540 -4",
    ),
    "no row of a join names a partition": (
        lost(traits=InputTraits(holds_back=True)),
        BOTH + "5:10,5:10/1 !3",
    ),
    "only batches show the silence of what defers rows": (
        lost(traits=InputTraits(defers=True)),
        BOTH + "+120 -3 5:10 ~10 5:11 ~10 5:12 !3",
    ),
    # Of each 20 minutes, 15 count: the hour's end is 50 minutes away.
    "a record now and then does not set the clock back": (lost(), NOW_AND_THEN),
    "nor by Spark's watermark": (lost(shape=SPARKS), NOW_AND_THEN),
    "nor where the run is killed": (lost(), KILLED),
    "nor where a run by Spark's is killed": (lost(shape=SPARKS), KILLED),
    # Until the rest comes, in pieces, nobody knows whether hours 4 and 5 have rows.
    "no row after an outage is late": (
        lost(),
        BOTH + "+1 " * 180 + "!3 " + "".join(f"{time},{time}/1 " for time in OUTAGE) + "!4 -5",
    ),
    "records that the query leaves out are no silence": (
        lost(),
        "3:50 " + ("+1 " * 4 + "_ ") * 20 + "-3 " + "+1 " * 16 + "!3",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_silence(case: str) -> None:
    run, script = CASES[case]
    run.play(script)
    assert run.late == 0


def test_of_several_sources_one_that_defers_is_never_silent() -> None:
    run = lost(traits=InputTraits(defers=True))
    for number in range(5):
        start, end = (KafkaOffset.of({"a": {"0": number + more}}) for more in (0, 1))
        other = KafkaOffset.of({"t": {"1": 1}})
        run.world.clock.ticks += 600
        batch = BatchRef("q", BatchId(number), (start, other if number else NoOffset()), (end, other))
        run.commit(batch, at(5, number, number + 1) if number else at(3, 10, 1, source=1))
    assert not run.world.has_success(3)


def test_a_time_far_ahead_of_the_clock_ends_nothing() -> None:
    run, year_2100 = lost(), 4102444800000000
    run.world.clock.at = MORNING + timedelta(days=3)
    run.world.feed(run.job, at(3, 10, 1), Timed(2, "2100-01-01 00", year_2100))
    run.world.feed(run.job, Timed(3, "2100-01-01 00", year_2100 + 1))
    run.play("3:50 -3")
    # Where all times are wrong, they count as now; so does Spark's watermark.
    for shape in (TimedJob.shape, InputShape(watermark=datetime(2100, 1, 1, tzinfo=timezone.utc))):
        other = lost(shape=shape)
        other.world.clock.at = MORNING
        other.world.feed(other.job, Timed(1, "2100-01-01 00", year_2100))
        assert other.mark.at is not None
        assert MORNING <= other.mark.at < MORNING + MINUTE


def test_a_partition_that_the_source_no_longer_has_holds_nothing_back() -> None:
    run = lost(shape=ALL_INPUT)
    run.play("3:10")
    # From now on the rows say which Kafka partition they are of.
    run.shape = TimedJob.shape
    run.play("| 4:10 !3")
    assert list(run.mark.newest) == ["t-0"]


@pytest.mark.parametrize("open_partitions", [1, 12])
def test_sparks_own_goes_on_as_the_clock_does_whatever_is_committed_meanwhile(open_partitions: int) -> None:
    minutes = {"sink.partition-commit.delay": "1min", "partition.time-extractor.timestamp-pattern": "$dt:00"}
    run = Run(World(options=LOST | minutes), shape=InputShape(watermark=MORNING))
    rows = [at(4, minute, minute) for minute in range(open_partitions)]
    run.world.feed(run.job, *(replace(row, dt=f"2024-01-02 04:{row.id:02d}") for row in rows))
    for _ in range(11 * 6):
        run.world.wait(run.job, seconds=10)
    marks = [one.watermark for one in run.world.records().values() if one.watermark]
    assert max(marks) <= MORNING + (11 - 5) * MINUTE


@pytest.mark.parametrize(("holds_back", "is_over"), [(False, True), (True, False)])
def test_sparks_next_watermark_counts_once_the_input_is_silent(*, holds_back: bool, is_over: bool) -> None:
    run = lost(traits=InputTraits(holds_back=holds_back), shape=InputShape())
    run.play("3:10")
    run.job.committer.clock.asked(run.world.clock.ticks, MORNING + 70 * MINUTE)
    run.play("+0.5 -3 +6 " + ("!3" if is_over else "-3"))


def test_the_end_of_a_query_takes_over_a_watermark_that_had_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    run = lost()
    run.play("3:10 4:10")
    create, log = run.job.log.create, run.job.log

    def unanswered(manifest: Manifest) -> None:
        create(manifest)
        raise OutcomeUnknown(action="create", path=log.location, reason="no answer")

    monkeypatch.setattr(log, "create", unanswered)
    with pytest.raises(OutcomeUnknown):
        run.job.committer.finish()
    monkeypatch.undo()
    run.job.committer.finish()
    assert run.world.read(3, 4) == [1, 2]


def test_a_source_that_is_not_kafka_holds_back_too() -> None:
    """A union of Kafka and files: rows of the files have no Kafka partition."""
    run, starts = lost(), (NoOffset(), NoOffset())
    run.commit(BatchRef("q", BatchId(0), starts, (KafkaOffset.of({"t": {"0": 1}}), NoOffset())), at(5, 10, 1))
    assert (run.mark.at, set(run.mark.newest)) == (None, {"", "t-0"})


def test_two_sources_of_one_topics_name_are_refused() -> None:
    ends: tuple[SourceOffset, ...] = tuple(KafkaOffset.of({"t": {"0": end}}) for end in (1, 2))
    with pytest.raises(Unsupported):
        lost().commit(BatchRef("q", BatchId(0), (NoOffset(), NoOffset()), ends), at(5, 10, 1))


BERLIN = HOURLY | {"sink.timestamp-zone": "Europe/Berlin", "sink.bucket.time-zone": "Europe/Berlin"}
AFTER_DELAY = {"sink.rolling-policy.on-epoch": "false", "sink.partition-commit.delay": "30min"}
WATERMARK = "sink.partition-commit.watermark-delay"


def clock(identity: int, day: str, time: str, source: int = 0) -> Timed:
    """An event in the partition that the wall clock of its time says."""
    return Timed(identity, f"{day} {time[:2]}", wall(f"{day} {time}"), source)


def committed(world: World) -> list[str]:
    return sorted(name.removeprefix("dt=") for name in world.records())


def test_rows_of_an_hour_that_no_clock_shows_end_no_hour_early() -> None:
    world, day = World(options=dict(BERLIN)), "2024-03-31"
    job = world.started()
    for identity, time in enumerate(["01:30", "02:10", "02:50"]):
        world.feed(job, clock(identity, day, time))
    assert committed(world) == []
    world.feed(job, clock(3, day, "03:01"))
    assert committed(world) == [f"{day} 01", f"{day} 02"]
    world.wait(job, hours=2)
    world.check(range(4))


ABSURD = {
    "the first moment": wall("0001-01-01"),
    "before the years": -(10**18),
    "the last moment": wall("9999-12-31 23:59:59.999999"),
    "beyond the years": 10**18,
}


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
@pytest.mark.parametrize("micros", ABSURD.values(), ids=ABSURD)
@pytest.mark.parametrize("first", [False, True])
def test_absurd_times_stop_nothing(micros: int, zone: str, *, first: bool) -> None:
    world = World(options=HOURLY | {"sink.timestamp-zone": zone, WATERMARK: "1h"})
    world.clock.at = datetime(2024, 1, 2, 12, tzinfo=timezone.utc)
    job = world.started()
    if not first:
        world.feed(job, at(3, 10, 1))
    world.feed(job, Timed(2, "absurd", micros))
    world.feed(job, at(3, 20, 3), at(23, 0, 4))
    world.wait(job)
    world.wait(job, days=3)
    job.committer.finish()
    assert world.read(3, 23) == ([3, 4] if first else [1, 3, 4])
    assert readable(job.store, world.metastore, ["dt=absurd"]) == [2]
    assert world.open() == {"dt=absurd"}


def newest(options: dict[str, str], values: pa.Array) -> list[int | None]:
    """The newest event time of the column `at`, in µs."""
    job = World(options=HOURLY | options).job()
    events = EventTimes(job.committer.spec.task_plan(Epoch(1), InputShape(event_time="at"), job.context.stamp()))
    events.take(pa.record_batch({"at": values}), pa.table({}), None)
    return list(events.newest.values())


@pytest.mark.parametrize(("type_", "value"), [("date32", 2932896), ("date32", -719162), ("int64", 253402300799999)])
@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York"])
def test_absurd_dates_and_numbers_have_a_time_that_the_driver_knows(type_: str, value: int, zone: str) -> None:
    (found,) = newest({"sink.timestamp-zone": zone}, pa.array([value, None], getattr(pa, type_)()))
    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
    assert found is None or epoch + timedelta(microseconds=found) >= datetime.min.replace(tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("form", "number", "micros"),
    [
        ("text", 1_704_164_400_123, 1_704_164_400_123_000),
        ("at=epoch-seconds", 1_704_164_400, 1_704_164_400_000_000),
        ("epoch-nanos", 1_704_164_400_123_456_789, 1_704_164_400_123_456),
        ("epoch-days", 19_724, 1_704_153_600_000_000),
        # Numbers of another unit count for nothing.
        ("text", 1_704_164_400, None),
        ("epoch-seconds", 1_704_164_400_123, None),
    ],
)
def test_numbers_are_event_times_in_their_unit(form: str, number: int, micros: int | None) -> None:
    assert newest({"sink.timestamp-format": form}, pa.array([number, None])) == [micros]


NO_TIMES = "".join(f"3:{minute:02d},x/1 +1 " for minute in range(7))
SET = [-48, -1, 1, 48]
TIMES: dict[str, tuple[dict[str, str], str]] = {
    "rows out of order within the delay are part of the first commit": (
        {WATERMARK: "10min"},
        "3:05 4:09 3:58 4:02 3:59 -3 4:10 =3:1,3,1",
    ),
    "null times only hold their rows until the stop": ({}, "x/0 +300 r3: =3: ^ r3:1 =3:"),
    "a source of null times holds nothing back for longer than an idle one": ({}, NO_TIMES + "4:00,x/1 !3 -4"),
    "a source partition that appears holds back, and once it is idle no more": (
        {},
        "3:10 3:20/1 4:10 -3 " + "".join(f"+1 4:1{minute} " for minute in range(1, 6)) + "!3 -4 $ | 5:00 !4",
    ),
}


@pytest.mark.parametrize("case", TIMES)
def test_times(case: str) -> None:
    options, script = TIMES[case]
    Run(World(options=HOURLY | options)).play(script)


@pytest.mark.parametrize("hours", SET)
def test_a_wall_clock_that_is_set_commits_no_hour_early_and_leaves_none_open(hours: int) -> None:
    run = Run()
    run.world.clock.at = datetime(2024, 1, 2, 4, tzinfo=timezone.utc)
    run.play("3:10,3:59")
    run.world.clock.at += timedelta(hours=hours)
    run.play("+4 -3 $ | +0 -3")
    run.world.clock.at -= timedelta(hours=hours)
    run.play("3:59 -3 +3000 !3 =4:")
    run.world.check([1, 2, 3])


@pytest.mark.parametrize("hours", SET)
def test_a_delay_goes_by_a_clock_that_nobody_sets(hours: int) -> None:
    run = Run(World(options=dict(AFTER_DELAY)))
    run.play("3:10")
    run.world.clock.at += timedelta(hours=hours)
    run.play("+29 =3: +1 =3:1,1,1")


def test_a_start_with_a_clock_that_was_set_back_waits_one_delay_at_most() -> None:
    run = Run(World(options=dict(AFTER_DELAY)))
    run.play("3:10 $")
    run.world.clock.at -= timedelta(days=3)
    run.play("| +30 =3:1,1,1")


def test_a_watermark_of_the_sinks_own_does_not_go_on_by_the_clock_once_it_is_sparks() -> None:
    world = World()
    job = world.started()
    world.feed(job, at(3, 10, 1))
    job.committer.finish(roll=False)
    job = world.started()
    job.shape = replace(job.shape, event_time=None, watermark=datetime(2024, 1, 2, 3, 15, tzinfo=timezone.utc))
    for minute in range(70):
        world.feed(job, at(3, 20, 100 + minute))
        world.wait(job, minutes=1)
    assert committed(world) == []
    job.shape = replace(job.shape, watermark=datetime(2024, 1, 2, 4, tzinfo=timezone.utc))
    world.feed(job, at(4, 1, 300))
    assert committed(world) == ["2024-01-02 03"]
