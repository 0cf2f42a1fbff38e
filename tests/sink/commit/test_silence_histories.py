"""Random histories of Spark and Kafka: no row that comes in order is ever late, and everything is committed in the end.

Records that the query leaves out come now and then, also once the input has stopped.

Spark is modelled as it is: planning asks all Kafka partitions at once, a batch then takes its time, and so may whatever
comes before the sink's call; timers fire between batches only; runs die, end by themselves, and find planned batches.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone

import pytest

from hivesink.core.epoch import BatchId, BatchRef
from hivesink.core.offsets import KafkaOffset
from hivesink.sink.commit.source_clock import InputTraits
from hivesink.sink.task.messages import TaskPlan, TaskReport
from tests.sink.harness import Clock
from tests.sink.timed import HOURLY, Timed, TimedJob, World

IDLE, SPAN = 300.0, 7200.0
"""Seconds: the idle timeout, and for how long rows come."""
MORNING = datetime(2024, 1, 2, 3, tzinfo=timezone.utc)
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Ticking(Clock):
    """Both clocks go by the ticks alone."""

    def now(self) -> datetime:
        return MORNING + timedelta(seconds=self.ticks)


@dataclass
class Topic:
    """Kafka partitions, each with its rows and the ticks at which they come; and Spark's checkpoint over them.

    None stands for a record that the query leaves out.
    """

    rows: list[list[tuple[float, Timed | None]]]
    plans: list[list[int]] = field(default_factory=list)
    unread: list[int | None] = field(default_factory=list)
    """What each plan has left; None once the run that knew it is gone."""
    committed: int = 0

    @property
    def has_planned(self) -> bool:
        return len(self.plans) > self.committed

    def end(self, batch: int) -> list[int]:
        return self.plans[batch] if batch >= 0 else [0] * len(self.rows)

    def there(self, tick: float) -> list[int]:
        return [sum(at <= tick for at, _ in own) for own in self.rows]

    def has_planned_all(self, tick: float) -> bool:
        """Whether Spark, asking now, finds nothing new."""
        return self.there(tick) == self.end(len(self.plans) - 1)

    def plan(self, there: list[int], limit: int | None) -> bool:
        """Plan the next batch, if there is anything for it."""
        done = self.end(len(self.plans) - 1)
        left = [new - old for new, old in zip(there, done, strict=True)]
        if limit and sum(left) > limit:
            # As Spark prorates: no partition with rows gets none.
            left = [one and max(1, limit * one // sum(left)) for one in left]
        if any(left):
            self.plans.append([old + new for old, new in zip(done, left, strict=True)])
            self.unread.append(sum(there) - sum(self.plans[-1]))
        return any(left)

    def batch(self) -> tuple[BatchRef, list[Timed]]:
        first, last = self.end(self.committed - 1), self.end(self.committed)
        start, end = (KafkaOffset.of({"t": {str(p): at for p, at in enumerate(ends)}}) for ends in (first, last))
        rows = [row for p, own in enumerate(self.rows) for _, row in own[first[p] : last[p]] if row]
        return BatchRef("q", BatchId(self.committed), (start,), (end,)), rows


def filled(rng: random.Random, delay: float) -> Topic:
    """Rows in order but for `delay`, in each partition at gaps below the idle timeout; one may go silent for good."""
    topic, number = Topic([[] for _ in range(rng.randint(1, 3))]), 0
    for p, own in enumerate(topic.rows):
        end = rng.uniform(60, SPAN / 2) if p and rng.random() < 0.4 else SPAN
        lag, tick = rng.choice([0, 0, 600, 3000]), rng.uniform(1, 30)
        while tick < end:
            number += 1
            seconds = tick - lag - (rng.uniform(0, delay) if rng.random() < 0.5 else 0)
            at = MORNING + timedelta(seconds=seconds)
            own.append((tick, Timed(number, f"{at:%Y-%m-%d %H}", (at - EPOCH) // timedelta(microseconds=1), p)))
            tick += rng.uniform(0.2, 0.95) * IDLE
        if rng.random() < 0.3:
            own += [(rng.uniform(0, SPAN), None) for _ in range(rng.randint(1, 20))]
            own.sort(key=lambda one: one[0])
    return topic


@dataclass
class History:
    """One world, its source, and what is drawn."""

    rng: random.Random
    world: World = field(default_factory=World)
    topic: Topic = field(default_factory=lambda: Topic([]))

    def __post_init__(self) -> None:
        delay = self.rng.choice([0, 120])
        self.world.options = HOURLY | {
            "sink.late-rows": "drop",
            "sink.partition-commit.watermark-delay": f"{delay}s",
            "sink.rolling-policy.on-epoch": self.rng.choice(["true", "false"]),
        }
        self.world.clock = Ticking()
        self.topic = filled(self.rng, delay)

    @property
    def tick(self) -> float:
        return self.world.clock.ticks

    def passes(self, least: float, most: float) -> None:
        self.world.clock.ticks += self.rng.uniform(least, most)

    def begin(self, *, ends_early: bool = False) -> TimedJob:
        job = self.world.started()
        job.committer.clock.traits = InputTraits(planned=self.topic.has_planned, ends_early=ends_early)
        self.topic.unread = [None for _ in self.topic.unread]
        return job

    def run_batch(self, job: TimedJob) -> None:
        ref, rows = self.topic.batch()
        if self.rng.random() < 0.1:
            self.passes(0, 1.5 * IDLE)

        def write(plan: TaskPlan) -> list[TaskReport]:
            self.passes(*((IDLE, 4 * IDLE) if self.rng.random() < 0.05 else (0.1, 8)))
            return job.write(plan, rows)

        job.committer.commit(ref, job.shape, write, self.topic.unread[self.topic.committed])
        self.topic.committed += 1

    def live(self) -> None:
        """One run, to its end or death."""
        ends_early, limit = self.rng.random() < 0.3, self.rng.choice([None, None, 3, 8])
        interval, check = self.rng.choice([0, 10, 90, 700]), self.rng.choice([10, 45])
        job, stop = self.begin(ends_early=ends_early), self.tick + self.rng.choice([30, 600, 3600])
        there = self.topic.there(self.tick)
        while ends_early or self.tick < stop:
            asked = there if ends_early else self.topic.there(self.tick)
            if self.topic.has_planned or self.topic.plan(asked, limit):
                if self.rng.random() < 0.03:
                    return
                self.run_batch(job)
            elif ends_early:
                break
            if not ends_early:
                self._wait(job, interval, check)
        job.committer.finish(roll=self.rng.random() < 0.5)

    def _wait(self, job: TimedJob, interval: int, check: int) -> None:
        """Until Spark's next trigger; with an interval of 0 it asks all the time."""
        if not interval:
            if self.topic.has_planned_all(self.tick):
                job.committer.keep_up(self.tick)
            self.passes(0.01, 5)
            return
        following = (self.tick // interval + 1) * interval
        while self.tick + check < following:
            self.world.clock.ticks += check
            job.committer.keep_up(self.tick - interval)
        self.world.clock.ticks = following

    def settle(self) -> None:
        """One job that goes on, or is killed now and then; the input has stopped, but for what the query leaves out."""
        job, gap, dies = self.begin(), self.rng.choice([3.0, 4.0, 1000.0]), self.rng.random() < 0.5
        following = self.tick + gap * IDLE
        for _ in range(400):
            if self.tick >= following:
                self.rng.choice(self.topic.rows).append((self.tick, None))
                following = self.tick + gap * IDLE
            if self.topic.has_planned or self.topic.plan(self.topic.there(self.tick), None):
                self.run_batch(job)
                job = self.begin() if dies else job
            self.world.clock.ticks += IDLE / 8
            # Spark plans at once after a batch that an earlier run has planned: it has found nothing new only then.
            if self.topic.has_planned_all(self.tick):
                job.committer.keep_up(self.tick)
        job.committer.finish()


@pytest.mark.parametrize("seed", [*range(15), *(pytest.param(one, marks=pytest.mark.long) for one in range(15, 1000))])
def test_no_row_in_order_is_late_and_all_are_committed(seed: int) -> None:
    history = History(random.Random(seed))  # noqa: S311  no secret
    while history.tick < SPAN:
        history.live()
        history.passes(1, 1800)
    history.settle()
    rows = [row for own in history.topic.rows for _, row in own if row]
    log = history.world.log
    assert sum(log.manifest(epoch).rows.late for epoch in log.view().manifests) == 0
    found = {name: one.commit.rows for name, one in history.world.records().items()}
    assert found == Counter(f"dt={row.dt}" for row in rows)
    history.world.check(row.id for row in rows)
