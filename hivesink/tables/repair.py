"""Recovery by hand of one writer, as its job's start would do it, and what a person may forget on top of that."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hivesink import wiring
from hivesink.core.lifecycle import Identity
from hivesink.core.rolling import OpenRows
from hivesink.decode.convert import refit
from hivesink.errors import HiveSinkError, InvalidOption, RowsHeldBack
from hivesink.logs import file_store
from hivesink.sink.commit import recovery
from hivesink.sink.commit.observe import load
from hivesink.sink.commit.recovery import Accepted, Recorder
from hivesink.sink.commit.runner import PlanRunner
from hivesink.sink.commit.writer import policy_of, problems_of
from hivesink.sink.task.segments import held_back

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hivesink.config.options import SinkConfig
    from hivesink.core.actions import Action
    from hivesink.core.epoch import Epoch
    from hivesink.core.manifest import Manifest
    from hivesink.core.partition import PartitionKey
    from hivesink.sink.commit.context import CommitContext
    from hivesink.sink.commit.recovery import Loss
    from hivesink.tables.opened import OpenedTable


@dataclass(slots=True)
class Repair:
    """Recovers `writer`, forgets what can't be published of `partitions`, and rolls what waits.

    `ask` gets what would be forgotten, and raises if it may not be. The other fields say what was done, or would be:
    `epoch` is the newest one, None if recovery failed before it; `rolled` are the rows that stop waiting; `held_back`
    says why rows of a bucket would not.
    """

    opened: OpenedTable
    writer: str
    partitions: frozenset[str]
    ask: Callable[[Sequence[Loss]], None]
    epoch: Epoch | None = None
    actions: list[Action] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)
    rolled: OpenRows = field(default_factory=OpenRows)
    held_back: Mapping[PartitionKey, HiveSinkError] = field(default_factory=dict)
    failure: HiveSinkError | None = None

    def run(self, *, dry_run: bool) -> Repair:
        """Recover the writer, or only see what that would do. What prevents it is the `failure`."""
        opened = self.opened
        try:
            opened.require_same(self.writer)
            config, head = opened.start_of(self.writer)
            store = file_store(opened.live.location, opened.site, config["sink.file.permission"])
            context = replace(opened.writers[self.writer], store=store)
            if dry_run:
                self._recover(Recorder, context, config, head)
                if self.rolled.buckets:
                    self._require_sound(config, head)
                    self.losses += recovery.unreadable(self.rolled, context.log.segments, self._accepted)
                    self.held_back = held_back(self.rolled, opened.live.spec, context.log.segments, refit)
                return self
            if self.partitions:
                # What waits couldn't be published afterwards.
                self._require_sound(config, head)
            # Its dead letters may wait for a table that somebody has dropped.
            remaking = replace(context, remake=wiring.remaker(opened.metastore, opened.live))
            self._recover(PlanRunner, remaking, config, head)
            if self.rolled.buckets:
                try:
                    self._roll(context, config)
                finally:
                    history = load(context)
                    left = {waiting.slice for waiting in history.rows.opened}
                    self.epoch = history.epoch
                    self.rolled = self.rolled.beside(left | {loss.slice for loss in self.losses if loss.slice})
        except HiveSinkError as error:
            self.failure = error
        return self

    @property
    def _accepted(self) -> Accepted:
        def confirm(lost: Sequence[Loss]) -> None:
            self.ask(lost)
            self.losses += lost

        return Accepted(self.partitions, confirm)

    def _recover(
        self, kind: type[PlanRunner], context: CommitContext, config: SinkConfig, head: Manifest | None
    ) -> None:
        identity = None
        if head is None:
            # It has decided nothing yet.
            uid = context.log.uid(None)
            if uid is None:
                problem = f"{context.log.location} is no log: it has no uid; restore it, or delete that folder"
                raise InvalidOption((problem,))
            name = self.opened.name
            identity = Identity(
                self.writer, uid, (name,), ((name, config["sink.bucket.time-zone"].key),), context.log.location
            )
        policy = policy_of(self.opened.live.spec, config)

        def finish(runner: PlanRunner) -> None:
            if self.partitions:
                recovery.finish_accepting(runner, self._accepted)
            else:
                runner.finish()

        history = recovery.recover(lambda: kind.begin(context, identity, policy, self.actions.append), finish).history
        self.epoch, self.rolled = history.epoch, history.rows

    def _roll(self, context: CommitContext, config: SinkConfig) -> None:
        """Roll what waits, and forget what can't be rolled of `partitions`."""
        try:
            self.opened.writing(self.writer).committer(tolerant=False).finish()
        except RowsHeldBack:
            if not self.partitions:
                raise
            runner = PlanRunner.begin(context, None, policy_of(self.opened.live.spec, config), lambda _: None)
            recovery.forget_waiting(runner, self._accepted)
            runner.clean_up()
            if runner.history.rows.rows:
                raise

    def _require_sound(self, config: SinkConfig, head: Manifest | None) -> None:
        """Raise InvalidOption where what waits couldn't be published."""
        spec = self.opened.live.spec
        is_main = head is not None and self.opened.served(head) == spec.name
        if is_main and (problems := problems_of(spec, config)):
            raise InvalidOption(problems)
