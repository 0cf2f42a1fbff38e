"""The runs, one at a time: cold ones in a process of their own, warm ones in processes that have drained before."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from unittest.mock import patch
from uuid import uuid4

from bench import flink
from bench.cases import REGISTERED as REGISTERS
from bench.cases import WRITERS, Case
from bench.contenders import (
    ARROW,
    BEFORE,
    CLEAN,
    HDFS,
    METRICS,
    NOOP,
    ON_EPOCH,
    ORC,
    OWN,
    SPARK_ORC,
    SPARK_SINK,
    Drain,
    Drained,
)
from bench.ground import Ground, clear, prepare
from bench.processes import Flink, Meter, Process, Python, executors
from bench.records import Landed, Topic, differences, land, topic
from bench.report import Run, Series

WARM_ROWS = 400_000
SHARED = {ON_EPOCH: OWN, CLEAN: OWN, NOOP: OWN, ARROW: OWN, ORC: OWN, SPARK_ORC: SPARK_SINK}
"""Warm contenders that run in the process of another one."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the contenders run: `data` holds what the benchmark makes, `before` another commit's checkout.

    `environment` is its clients', `login` as `EmbeddedKafka.login`. `other` is for contenders that don't run here.
    """

    ground: Ground
    servers: str
    data: Path
    before: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    login: Mapping[str, str] = field(default_factory=dict)
    other: Mapping[str, Place] = field(default_factory=dict)

    @property
    def log(self) -> Path:
        return self.data / "contenders.log"

    def process(self, contender: str) -> Process:
        if program := flink.PROGRAMS.get(contender):
            return Flink(self.ground, self.log, self.data / program)
        return Python(self.ground, self.log, self.before if contender == BEFORE else None, self.environment)

    def of(self, contender: str) -> Place:
        return self.other.get(contender, self)

    def prepare(self) -> None:
        for place in (self, *self.other.values()):
            with patch.dict(os.environ, place.environment):
                prepare(place.ground)

    def topic(self, case: Case, contender: str, rows: int) -> Topic:
        return topic(self.servers, self.data / "topics", case.workload_of(contender), rows, self.login)

    def drain(self, case: Case, contender: str, topic: Topic, batches: int) -> Drain:
        return Drain(
            contender=contender,
            workload=case.workload_of(contender).name,
            name=f"t{uuid4().hex[:12]}",
            rows=topic.rows,
            per_batch=-(-topic.rows // batches),
            servers=self.servers,
            topic=topic.name,
        )


@dataclass(slots=True)
class Race:
    """One case: all its rounds, but for the runs that `series` has already."""

    case: Case
    place: Place
    series: Series
    _warm: dict[str, Process] = field(default_factory=dict)

    def run(self, rounds: int) -> None:
        case = self.case
        missing = self.series.missing(case, rounds)
        contenders = list(dict.fromkeys(name for _, name in missing))
        topics = {name: self.place.of(name).topic(case, name, case.rows) for name in contenders}
        with ExitStack() as stack:
            if case.cold:
                self._first_drains(contenders, topics)
            else:
                self._warm_up(stack, contenders)
            for number, name in missing:
                self.series.add(self._one(number, name, topics[name]))

    def _warm_up(self, stack: ExitStack, contenders: Sequence[str]) -> None:
        """Start the processes; each contender has one drain that doesn't count."""
        shared = contenders[0] if self.place.ground.master else None
        for name in contenders:
            key, place = shared or SHARED.get(name, name), self.place.of(name)
            if key not in self._warm:
                self._warm[key] = stack.enter_context(place.process(key))
            self._warm[name] = self._warm[key]
            small = place.topic(self.case, name, min(WARM_ROWS, self.case.rows))
            drain = place.drain(self.case, name, small, min(self.case.batches, 5))
            checked(self.case, place, drain, self._warm[name].drain(drain), small)

    def _first_drains(self, contenders: Sequence[str], topics: Mapping[str, Topic]) -> None:
        """One drain of each contender that doesn't count: the first of all pays for cold pages.

        Flink's programs have their archives of classes from it.
        """
        for name in contenders:
            self._one(-1, name, topics[name])

    def _one(self, number: int, name: str, topic: Topic) -> Run:
        place = self.place.of(name)
        drain = place.drain(self.case, name, topic, self.case.batches)
        drained, meter = self._cold(drain) if self.case.cold else self._in_its_turn(drain)
        landed = checked(self.case, place, drain, drained, topic)
        print(f"{self.case.name} round {number + 1}: {name} {drained.seconds:.1f} s", file=sys.stderr, flush=True)
        return Run(
            case=self.case.name,
            round=number,
            contender=name,
            rows=topic.rows,
            seconds=drained.seconds,
            batch_ms=drained.batch_ms,
            step_ms=drained.step_ms,
            cpu=meter.cpu,
            machine=meter.machine,
            peak=meter.peak,
            task_peak=meter.task_peak,
            files=landed.files,
            bytes=landed.bytes,
            requests=drained.requests,
            roll=drained.roll,
        )

    def _cold(self, drain: Drain) -> tuple[Drained, Meter]:
        begun = perf_counter()
        with self.place.of(drain.contender).process(drain.contender) as process, Meter([process.pid]) as meter:
            drained = process.drain(drain)
            seconds = perf_counter() - begun
        return replace(drained, seconds=seconds), meter

    def _in_its_turn(self, drain: Drain) -> tuple[Drained, Meter]:
        process = self._warm[drain.contender]
        of_it = executors(process.ready) if isinstance(process, Python) else []
        with Meter([process.pid, *of_it]) as meter:
            drained = process.drain(drain)
        return drained, meter


def checked(case: Case, place: Place, drain: Drain, drained: Drained, topic: Topic) -> Landed:
    """All must have done the same work, or nothing here says anything. Its table goes. Raises SystemExit."""
    if drain.contender not in WRITERS:
        wrong = [] if drained.rows == topic.rows else [f"{drained.rows} of {topic.rows} records were read"]
        landed = Landed(0, 0, {})
    else:
        workload = case.workload_of(drain.contender)
        with patch.dict(os.environ, place.environment):
            landed = land(place.ground, drain.name, workload, registered=drain.contender in REGISTERS)
        wrong = differences(landed.figures, topic.figures)
        if drain.contender in {OWN, HDFS, ON_EPOCH, METRICS, BEFORE, ORC} and landed.rejected != topic.rejected():
            wrong.append(f"{landed.rejected} dead letters where {topic.rejected()} are due")
    if wrong:
        message = f"{drain.contender} in {case.name}, table {drain.name}: {'; '.join(wrong)}"
        raise SystemExit(message)
    with patch.dict(os.environ, place.environment):
        clear(place.ground, drain.name)
    return landed


def race(cases: Sequence[Case], place: Place, series: Series, rounds: int) -> Mapping[str, list[Run]]:
    for case in cases:
        Race(case, place, series).run(rounds)
    return {case.name: [run for run in series.runs if run.case == case.name] for case in cases}
