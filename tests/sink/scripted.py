"""Scripts of what comes to a job of `timed`: batches, waits and runs, a word each."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING

from hivesink.sink.commit.observe import load
from hivesink.sink.commit.source_clock import InputTraits
from tests.sink.timed import HOURLY, TimedJob, World, at, place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hivesink.core.epoch import BatchRef
    from hivesink.core.partition_commit import Watermark
    from hivesink.sink.task.messages import InputShape, TaskPlan, TaskReport
    from tests.sink.timed import Timed

MINUTE = timedelta(minutes=1)


@dataclass
class Run:
    """A job, and what happens to it: a script of the words that `play` knows."""

    world: World = field(default_factory=lambda: World(dict(HOURLY)))
    traits: InputTraits = field(default_factory=InputTraits)
    shape: InputShape = TimedJob.shape
    behind: int | None = 0
    ids: Iterator[int] = field(default_factory=lambda: count(1))
    job: TimedJob = field(init=False)

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        self.job = self.world.started()
        self.job.shape = self.shape
        self.job.committer.clock.traits = self.traits

    @property
    def mark(self) -> Watermark:
        mark = self.world.log.manifest(self.world.log.view().head).watermark
        assert mark is not None
        return mark

    def row(self, word: str) -> Timed:
        time, _, source = word.partition("/")
        if time == "x":
            return replace(at(3, 10, next(self.ids), int(source)), micros=None)
        hour, minute = map(int, time.split(":"))
        return at(hour, minute, next(self.ids), int(source or 0))

    def commit(self, batch: BatchRef, *rows: Timed, minutes: float = 0) -> None:
        def write(plan: TaskPlan) -> list[TaskReport]:
            self.world.clock.ticks += 60 * minutes
            return self.job.write(plan, rows)

        self.job.committer.commit(batch, self.job.shape, write, self.behind)

    def play(self, script: str) -> None:
        """Rows of one batch are `3:10,3:20/1,x/1`: the second is of Kafka's partition 1, the third has no time.

        `_` is a record that the query leaves out. `>6`: the next batch takes 6 minutes. `+5`: 5 minutes pass, then
        Spark asks and finds nothing. `<5`: they pass, and what is known is that it asked 10 minutes ago. `~5`: nobody
        asks. `@5`: both clocks go on. `^` ends the run, `$` without publishing, `|` begins the next. `!3`, `-3`: hour 3
        has a success file, or none; `r3:1,2`: readers find these rows there; `=3:1,2,1`: its revision, rows and files.
        """
        minutes, clock = 0.0, self.world.clock
        for word in script.split():
            kind, length = word[0], word[1:]
            match kind:
                case "+" | "<" | "~" | "@":
                    clock.ticks += 60 * float(length)
                    clock.at += float(length) * MINUTE if kind == "@" else timedelta(0)
                    if kind in "+<":
                        self.job.committer.keep_up(clock.ticks - (600 if kind == "<" else 0))
                case ">":
                    minutes = float(length)
                case "$":
                    self.job.committer.finish(roll=False)
                    assert not load(self.job.context).open
                case "^":
                    self.job.committer.finish()
                case "|":
                    self.start()
                case "r" | "=":
                    hour, _, expected = length.partition(":")
                    ids = ",".join(map(str, self.world.read(int(hour))))
                    assert (ids if kind == "r" else self.record(int(hour))) == expected, (word, script)
                case "!" | "-":
                    assert self.world.has_success(int(length)) is (kind == "!"), (word, script)
                case _:
                    rows = [] if word == "_" else [self.row(one) for one in word.split(",")]
                    self.world.source.events += rows or [at(3, 0, 0)]
                    batch = self.world.source.next_batch(max(1, len(rows)))
                    assert batch is not None
                    self.commit(batch, *rows, minutes=minutes)
                    self.world.source.committed, minutes = self.world.source.committed + 1, 0

    @property
    def late(self) -> int:
        """How many rows were late."""
        log = self.world.log
        return sum(log.manifest(epoch).rows.late for epoch in log.view().manifests)

    def record(self, hour: int) -> str:
        """Revision, rows and files of the hour's commit."""
        found = self.world.records().get(place(hour))
        return f"{found.commit.revision},{found.commit.rows},{found.commit.files}" if found else ""
