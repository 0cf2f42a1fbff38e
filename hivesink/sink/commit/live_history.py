"""The writer's history during a run: recovered where it is in doubt, finished as far as the metastore lets."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from hivesink.core.snapshot import Snapshot
from hivesink.errors import HiveSinkError
from hivesink.sink.commit.committed import Deadline
from hivesink.sink.commit.epochwriter import METASTORE_TROUBLE
from hivesink.sink.commit.recovery import recover
from hivesink.sink.commit.runner import PlanRunner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hivesink.core.manifest import Manifest
    from hivesink.core.partition import PartitionKey
    from hivesink.sink.commit.committed import Stopwatch
    from hivesink.sink.commit.context import CommitContext
    from hivesink.sink.commit.epochwriter import Written
    from hivesink.sink.commit.writer import WriterSpec


@dataclass(slots=True)
class LiveHistory:
    """`rows_changed` is called whenever other rows may wait than those that the run has seen."""

    context: CommitContext
    spec: WriterSpec
    rows_changed: Callable[[PlanRunner], None]
    deadline: Deadline = field(init=False)
    runner: PlanRunner | None = None
    seen: set[PartitionKey] = field(default_factory=set)
    """The partitions that this run has published into."""
    _is_current: bool = False

    def __post_init__(self) -> None:
        self.deadline = Deadline(self.spec.patience, "epochs wait to be published or registered")

    @property
    def current(self) -> PlanRunner | None:
        """What advances the history, if that is the log's as far as this run can know."""
        runner = self.runner
        return runner if runner and self._is_current and not runner.in_doubt else None

    def recover(self) -> PlanRunner:
        """Finish what earlier runs decided. Raises as `Committer.recover`."""
        self._is_current = False
        runner = recover(partial(PlanRunner.begin, self.context, self.spec.identity, self.spec.policy), self._take_over)
        self.rows_changed(runner)
        self._is_current = True
        return runner

    def recovered(self) -> PlanRunner:
        return self.current or self.recover()

    @contextmanager
    def advancing(self) -> Iterator[None]:
        """Until the block has ended well, memory may be behind the log."""
        self._is_current = False
        yield
        self._is_current = True

    def decide(self, runner: PlanRunner, manifest: Manifest, written: Written, watch: Stopwatch) -> None:
        """Decide `manifest`, publish what was `written` for it, and sweep what lost."""
        runner.decide(Snapshot(), decision=manifest)
        watch.lap("manifest")
        # The lookup before the manifest says nothing about older epochs that still wait.
        fresh = len(runner.history.open) == 1 and self.deadline.trouble is None and written.live is not None
        staged = {part.staged: part.length for part in written.parts}
        self.finish(runner, Snapshot(staged, written.live) if fresh else None)
        watch.lap("publish")
        winners = frozenset((written.attempt, report.task_attempt) for report in written.reports)
        runner.clean_up(winners, segments=bool(manifest.rolled))
        watch.lap("sweep")

    def finish(self, runner: PlanRunner, first: Snapshot | None = None) -> None:
        """Bring open epochs to their end, unless the metastore is down for now; `first` as of `runner`."""
        try:
            self._carry_out(runner, first)
        except METASTORE_TROUBLE as error:
            self.tolerate(error)
        else:
            self.deadline.clear()

    def _carry_out(self, runner: PlanRunner, first: Snapshot | None = None) -> None:
        before = runner.history.epoch
        self.seen |= runner.history.places
        try:
            runner.finish(first)
        finally:
            if runner.history.epoch > before:
                # Rows of missing files may wait again.
                self.rows_changed(runner)

    def close(self, runner: PlanRunner) -> None:
        """As `finish`, but tolerate nothing: the query ends."""
        try:
            self._carry_out(runner)
        except HiveSinkError as error:
            self._left_open(error)
            raise

    def tolerate(self, error: HiveSinkError) -> None:
        """Raises `error` once it has lasted for too long."""
        if self.deadline.has_passed(error, self.context.tick()):
            raise self._left_open(error)

    def _left_open(self, error: HiveSinkError) -> HiveSinkError:
        """`error`, with what it means for the rows that are decided."""
        if error.retryable and self.runner and self.runner.history.open:
            waits = "are committed but can't be read until the job or `hivesink recover` runs"
            error.args = (f"rows of {self.spec.target.name} {waits}: {error}",)
        return error

    def _take_over(self, runner: PlanRunner) -> None:
        self.runner = runner
        self.finish(runner)
