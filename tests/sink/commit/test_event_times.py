"""Clocks and event times as they come: set clocks, daylight saving, disorder, nulls and absurd times."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pyarrow as pa
import pytest

from hivesink.core.epoch import Epoch
from hivesink.sink.task.events import EventTimes
from hivesink.sink.task.messages import InputShape
from tests.sink.harness import readable
from tests.sink.scripted import Run
from tests.sink.timed import HOURLY, Timed, World, at, wall

BERLIN = HOURLY | {"sink.timestamp-zone": "Europe/Berlin", "sink.bucket.time-zone": "Europe/Berlin"}
AFTER_DELAY = {"sink.rolling-policy.on-epoch": "false", "sink.partition-commit.delay": "30min"}
WATERMARK = "sink.partition-commit.watermark-delay"


def clock(identity: int, day: str, time: str, source: int = 0) -> Timed:
    """An event in the partition that the wall clock of its time says."""
    return Timed(identity, f"{day} {time[:2]}", wall(f"{day} {time}"), source)


def committed(world: World) -> list[str]:
    return sorted(name.removeprefix("dt=") for name in world.records())


def test_an_hour_that_comes_twice_is_committed_after_its_second_time() -> None:
    world, day = World(dict(BERLIN)), "2024-10-27"
    job = world.started()
    for identity, time in enumerate(["01:30", "02:10", "02:55", "02:05", "02:59"]):
        world.feed(job, clock(identity, day, time))
    assert committed(world) == [f"{day} 01"]
    world.feed(job, clock(9, day, "03:00"))
    assert committed(world) == [f"{day} 01", f"{day} 02"]
    world.wait(job, hours=2)
    world.check([0, 1, 2, 3, 4, 9])


def test_an_hour_that_comes_twice_ends_by_the_clock_after_its_second_time() -> None:
    world, day = World(dict(BERLIN)), "2024-10-27"
    job = world.started()
    world.feed(job, clock(1, day, "02:50"))
    world.wait(job, minutes=5 + 69)
    assert committed(world) == []
    world.wait(job, minutes=1)
    assert committed(world) == [f"{day} 02"]


def test_rows_of_an_hour_that_no_clock_shows_end_no_hour_early() -> None:
    world, day = World(dict(BERLIN)), "2024-03-31"
    job = world.started()
    world.feed(job, clock(1, day, "01:30"))
    world.feed(job, clock(2, day, "02:10"))
    world.feed(job, clock(3, day, "02:50"))
    assert committed(world) == []
    world.feed(job, clock(4, day, "03:01"))
    assert committed(world) == [f"{day} 01", f"{day} 02"]
    world.wait(job, hours=2)
    world.check([1, 2, 3, 4])


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
    world = World(HOURLY | {"sink.timestamp-zone": zone, WATERMARK: "1h"})
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


@pytest.mark.parametrize(("type_", "value"), [("date32", 2932896), ("date32", -719162), ("int64", 253402300799999)])
@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York"])
def test_absurd_dates_and_numbers_have_a_time_that_the_driver_knows(type_: str, value: int, zone: str) -> None:
    job = World(HOURLY | {"sink.timestamp-zone": zone}).job()
    plan = job.committer.spec.task_plan(Epoch(1), InputShape(event_time="at"), job.context.stamp())
    batch = pa.record_batch({"at": pa.array([value, None], getattr(pa, type_)())})
    events = EventTimes(plan)
    events.take(batch, pa.table({}), None)
    (found,) = events.newest.values()
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
    job = World(HOURLY | {"sink.timestamp-format": form}).job()
    plan = job.committer.spec.task_plan(Epoch(1), InputShape(event_time="at"), job.context.stamp())
    events = EventTimes(plan)
    events.take(pa.record_batch({"at": pa.array([number, None])}), pa.table({}), None)
    assert list(events.newest.values()) == [micros]


NO_TIMES = "".join(f"3:{minute:02d},x/1 +1 " for minute in range(7))
SET = [-48, -1, 1, 48]
CASES: dict[str, tuple[dict[str, str], str]] = {
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


@pytest.mark.parametrize("case", CASES)
def test_times(case: str) -> None:
    options, script = CASES[case]
    Run(World(HOURLY | options)).play(script)


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
    run = Run(World(dict(AFTER_DELAY)))
    run.play("3:10")
    run.world.clock.at += timedelta(hours=hours)
    run.play("+29 =3: +1 =3:1,1,1")


def test_a_start_with_a_clock_that_was_set_back_waits_one_delay_at_most() -> None:
    run = Run(World(dict(AFTER_DELAY)))
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
