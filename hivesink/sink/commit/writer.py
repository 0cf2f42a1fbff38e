"""What a writer writes, and one epoch's outcome with the time it took: what goes into the committer and comes out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hivesink.config.options import PolicyKind
from hivesink.core.epoch import STRICT, BatchRef, Epoch, HistoryPolicy
from hivesink.core.manifest import NO_ROWS, Rows
from hivesink.core.plan import Policy
from hivesink.sink.task.messages import TaskPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hivesink.config.options import SinkConfig
    from hivesink.core.lifecycle import Identity, Stamp
    from hivesink.sink.commit.statistics import CountRows
    from hivesink.sink.task.messages import InputShape, TablePlan


@dataclass(frozen=True, slots=True)
class Committed:
    """One epoch's outcome. `waiting` says why epochs wait to be finished, if they do."""

    epoch: Epoch
    replayed: bool
    rows: Rows = NO_ROWS
    files: int = 0
    partitions: int = 0
    milliseconds: Mapping[str, int] = field(default_factory=dict)
    waiting: str | None = None


@dataclass(slots=True)
class Stopwatch:
    """Milliseconds per step. `tick` is a monotonic clock in seconds. Laps of one name add up."""

    tick: Callable[[], float]
    laps: dict[str, int] = field(default_factory=dict)
    _last: float = field(init=False)

    def __post_init__(self) -> None:
        self._last = self.tick()

    def lap(self, name: str) -> None:
        now = self.tick()
        self.laps[name] = self.laps.get(name, 0) + round(1000 * (now - self._last))
        self._last = now


@dataclass(frozen=True, slots=True)
class WriterSpec:
    """What a writer writes: its identity, tables and settings.

    `options` are those of `config` that the job gave itself; the others are the table's.
    `tolerant`: wait for a metastore that is down, up to `sink.registration.max-delay`; otherwise raise at once.
    """

    identity: Identity
    target: TablePlan
    rejected: TablePlan | None
    config: SinkConfig
    count_rows: CountRows
    history_policy: HistoryPolicy = STRICT
    tolerant: bool = True
    on_commit: Callable[[Committed], None] = lambda _: None
    was_written: Callable[[BatchRef], bool] = lambda _: False
    """Whether a log that `hivesink reset` put aside has committed this batch; asked until the new log has a batch."""
    sole_writer: Callable[[], bool] = lambda: True
    """Whether no other writer has a log for the target: only then can statistics be exact."""
    options: tuple[tuple[str, str], ...] = ()

    @property
    def tables(self) -> dict[str, TablePlan]:
        """The tables to write, by name."""
        return {table.name: table for table in (self.target, self.rejected) if table}

    @property
    def policy(self) -> Policy:
        return policy_of(self.config)

    def task_plan(self, epoch: Epoch, shape: InputShape, stamp: Stamp) -> TaskPlan:
        """One try at `epoch`, with every partition in its default folder."""
        return TaskPlan(
            target=self.target,
            rejected=self.rejected,
            config=self.config,
            shape=shape,
            uid=self.identity.uid,
            epoch=epoch,
            attempt=stamp.attempt,
            arrival=stamp.at,
        )


def policy_of(config: SinkConfig) -> Policy:
    """What the settings say about the end of an epoch."""
    name: str = config["sink.partition-commit.success-file.name"]
    has_file = PolicyKind.SUCCESS_FILE in config["sink.partition-commit.policy.kind"]
    return Policy(name if has_file else None, config["sink.log.retained-epochs"])
