"""Carries out plans. Only the runner creates manifests; it takes another snapshot when a plan says so."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from hivesink import errors
from hivesink.core import actions
from hivesink.core.actions import Snapshot, StagingArea, Winner
from hivesink.core.epoch import Epoch
from hivesink.core.lifecycle import EpochState, History, Identity, floor_over
from hivesink.core.manifest import REQUEUE, Manifest, PartEntry, newest, recorded
from hivesink.core.partfile import Finished, Pending, parse_staged
from hivesink.core.partition import LivePartition, NewPartition, PartitionKey
from hivesink.core.plan import Policy, fence, plan, sweep
from hivesink.sink.commit.context import CommitContext, announce
from hivesink.sink.commit.observe import load, look_at_staging, take_snapshot

if TYPE_CHECKING:
    from typing_extensions import Self

logger = logging.getLogger("hivesink")

_MOST_ADDS = 2
"""A partition that is missing after so many adds is kept out of the metastore by something else."""


class StaleError(errors.FencedOut):
    """Another recovery has advanced the same epochs meanwhile: look again."""


@dataclass(slots=True)
class PlanRunner:
    """A writer's history, and what advances it. `history` is the log's, as far as this run knows."""

    context: CommitContext
    history: History
    policy: Policy
    log_action: Callable[[actions.Action], None] = lambda _: None
    _added: Counter[PartitionKey] = field(default_factory=Counter)

    @classmethod
    def begin(
        cls,
        context: CommitContext,
        identity: Identity | None,
        policy: Policy,
        log_action: Callable[[actions.Action], None] = lambda _: None,
    ) -> Self:
        """Read the log, and shut out an older try that could still decide; `identity` as for `load`.

        `log_action` gets each action after it is carried out. Raises LogDamaged, EpochTaken, Unsupported.
        """
        # The lists first: a job that runs beside this one may begin its next epoch between the two looks.
        lists = tuple(context.log.touched())
        history = load(context, identity)
        for part in history.waiting:
            context.require_format(part)
        if actions.newest(lists) > history.epoch + 1:
            reason = f"tasks have begun epoch {actions.newest(lists)}, but its newest manifest is {history.epoch}"
            raise errors.LogDamaged(context.log.location, reason)
        runner = cls(context, history, policy, log_action)
        if (shut_out := fence(history, lists, context.stamp())) is not None:
            runner.decide(shut_out)
            # The run that is shut out now may have begun to publish before: it looks for that after its mark.
            runner.read_again()
        return runner

    def read_again(self) -> None:
        """Take over marks of others. Raises FencedOut for an epoch of others, which would pass for this run's own."""
        history = load(self.context, self.history.identity)
        if history.epoch != self.history.epoch:
            raise errors.FencedOut(self.context.log.location, self.history.epoch, history.epoch)
        self.history = history

    def decide(self, manifest: Manifest) -> None:
        """The only point of no return; then delete removed parts under their hidden names, which nothing publishes."""
        before, manifest = self.history, self.history.rows.complete(manifest)
        self.context.log.create(manifest)
        self.history = before.decided(manifest)
        kept, removed = {part.name for part in manifest.add}, set(manifest.remove)
        parts = [part for _, part in before.live_parts if part.target in removed and part.name not in kept]
        if manifest.kind == REQUEUE:
            text = "files that something deleted or damaged early are given up, and their rows go back: %d, such as %s"
            logger.warning(text, len(parts), parts[0].target)
        # `hivesink clean` removes what stays.
        with suppress(errors.HiveSinkError):
            self.context.store.discard({part.staged for part in parts if parse_staged(part.hidden)})
        self.log_action(actions.Decide(manifest))

    def finish(self, first: Snapshot | None = None) -> None:
        """Bring every open epoch to its end. `first` is what was seen just before the decision.

        Raises MetastoreUnreachable, RegistrationFailed, RegistrationUnknown (try again later: what is done stays done),
        PartLost and the other errors of `FileStore.publish`, EpochTaken, FencedOut.
        """
        self._added.clear()
        refused: frozenset[PartitionKey] = frozenset()
        taken: frozenset[PartitionKey] = frozenset()
        refusal: errors.RegistrationFailed | None = None
        failed: set[str] = set()
        if first and any(epoch.may_go_back and not epoch.is_published for epoch in self.history.open):
            # A statement since the decision may have taken parts. Their rows go back only before the mark.
            first = self.look(first.partitions)
        while self.history.open:
            snapshot, first = first or self.look(), None
            try:
                snapshot = replace(snapshot, refused=refused, taken=taken)
                planned = tuple(plan(self.history, snapshot, self.context.stamp(), self.policy))
                self._carry_out(planned)
            except StaleError:
                self.read_again()
            except errors.PartLost as error:
                # A dead run's rename may have arrived between the looks at its two names: another look tells.
                if str(error) in failed:
                    raise
                failed.add(str(error))
            except errors.RegistrationFailed as error:
                # Everything that the metastore doesn't refuse is settled first.
                refusal, keys = error, frozenset((error.table, name) for name in error.partitions)
                if keys <= refused:
                    raise
                refused |= keys
                taken |= keys if isinstance(error, errors.FolderTaken) else frozenset()
            else:
                no_step = (actions.ClearAccurate, actions.AlreadyPublished)
                if refusal and all(isinstance(action, no_step) for action in planned):
                    raise refusal

    def look(self, live: Mapping[PartitionKey, LivePartition] | None = None) -> Snapshot:
        """What is there now; arguments and errors as for `take_snapshot`."""
        return take_snapshot(self.context, self.history, live)

    def _carry_out(self, planned: Iterable[actions.Action]) -> None:
        independent = (actions.Publish, actions.AlreadyPublished)
        for is_independent, group in groupby(planned, key=lambda action: isinstance(action, independent)):
            if is_independent:
                self.context.store.run_parallel(partial(self._perform, action) for action in group)
            else:
                for action in group:
                    self._perform(action)

    def look_at_staging(self, winners: frozenset[Winner], *, segments: bool) -> StagingArea:
        """What tasks have left; arguments and errors as for the function of that name."""
        return look_at_staging(self.context, self.history.epoch, winners, segments=segments)

    def clean_up(self, winners: frozenset[Winner] = frozenset(), *, segments: bool = True) -> None:
        """Delete leftovers and old manifests. Raises FencedOut; whatever else fails is tried again later."""
        try:
            staging = self.look_at_staging(winners, segments=segments)
            for action in sweep(self.history, staging, self.policy):
                self._perform(action)
        except errors.FencedOut:
            raise
        except errors.HiveSinkError as error:
            # No row depends on it, so it fails no committed batch; `status` and `verify` show what stays wrong.
            logger.warning("couldn't clean up after epoch %d, will try again: %s", self.history.epoch, error)

    def _perform(self, action: actions.Action) -> None:  # noqa: C901, PLR0912  a case per action, all of them here
        match action:
            case actions.Decide(manifest):
                self.decide(manifest)
                return
            case actions.ClearAccurate(table, partitions):
                self.context.registrar.clear_accurate(self.context.table(table), partitions)
            case actions.Register():
                self._register(action)
            case actions.Publish(part, source):
                self._publish(part, source)
            case actions.AlreadyPublished(part):
                self.context.store.publish(Pending(part.target, part.target, part.length))
            case actions.PartMissing():
                self._require_current()
                raise loss_error(action, self.history.identity.tables[0])
            case actions.SetMark(mark, epoch, waited):
                self.context.log.mark(epoch, mark)
                if mark is EpochState.PUBLISHING:
                    # A run that has shut this run out since may not have seen the mark.
                    self._require_current()
                self.history = self.history.marked(epoch, mark)
                # An empty folder harms nobody.
                with suppress(errors.HiveSinkError):
                    self.context.store.prune(waited)
            case actions.DeleteReplaced(parts):
                self._require_current()
                self.context.store.remove(Finished(part.target, part.length) for part in parts)
            case actions.Announce(kind, partitions):
                self._require_current()
                announce(self.context, self.policy, kind, partitions)
            case actions.Discard(staged, folders):
                self.context.require_head(self.history.epoch)
                self.context.store.discard(staged)
                # An empty folder harms nobody.
                with suppress(errors.HiveSinkError):
                    self.context.store.prune(folders)
            case actions.Forget(lists):
                self.context.log.forget(lists)
            case actions.DropSegments(names):
                self.context.require_head(self.history.epoch)
                self.context.log.segments.drop(names)
            case actions.Trim(epoch):
                self._trim(epoch)
        self.log_action(action)

    def _require_current(self) -> None:
        """Raises FencedOut; StaleError if the log has marks that this run doesn't know of."""
        view = self.context.require_head(self.history.epoch)
        settled = view.settled(Epoch(0))
        is_settled = any(settled >= open_epoch.manifest.epoch for open_epoch in self.history.open)
        is_published = any(view.has(epoch.manifest.epoch, EpochState.PUBLISHED) for epoch in self.history.unpublished)
        if is_settled or is_published:
            raise StaleError(self.context.log.location, self.history.epoch, self.history.epoch)

    def _register(self, action: actions.Register) -> None:
        # An overtaken run would bring back what a user has dropped since.
        self._require_current()
        for partition, _ in action.partitions:
            place = (action.table, partition)
            self._added[place] += 1
            if self._added[place] > _MOST_ADDS:
                where = self.context.registrar.address
                reason = "the metastore accepted it but doesn't list it afterwards"
                raise errors.RegistrationFailed(action.table, "register", reason, where, (partition,))
        waiting: dict[str, list[PartEntry]] = {}
        for part in self.history.waiting:
            waiting.setdefault(part.target.rpartition("/")[0], []).append(part)
        store = self.context.store
        files = store.run_parallel(partial(store.visible, location) for _, location in action.partitions)
        used = {partition: home for (partition, home), visible in zip(action.partitions, files, strict=True) if visible}
        self.context.require_own_folders(action.table, used)
        new = []
        for (partition, location), visible in zip(action.partitions, files, strict=True):
            lengths = {file.path: file.length for file in visible}
            lengths |= {part.target: part.length for part in waiting.get(location, ())}
            new.append(NewPartition(partition, location, len(lengths), sum(lengths.values())))
        self.context.registrar.add(self.context.table(action.table), new)

    def _publish(self, part: PartEntry, source: str) -> None:
        try:
            self.context.store.publish(Pending(source, part.target, part.length))
        except errors.TargetTaken:
            self._require_current()
            target = self.context.find(part.target)
            # A user has copied a visible part to where its partition is now. No other file has its name.
            if source.rpartition("/")[2] != part.name or target is None or target.length != part.length:
                raise
        except errors.PartLost:
            self._require_current()
            raise
        except errors.Unsupported as error:
            folder, where = source.rpartition("/")[0], self.context.registrar.address
            if folder == part.folder:
                raise
            raise errors.PartitionElsewhere(
                part.table, part.partition, part.folder, str(error), where, folder=folder
            ) from error

    def _trim(self, upto: Epoch) -> None:
        """Turn manifests into the floor's totals. Raises LogDamaged, FencedOut, StoreUnavailable."""
        log = self.context.log
        view, before = log.view(), log.floor()
        manifests = [log.manifest(epoch) for epoch in view.manifests if epoch <= upto]
        self.context.require_head(self.history.epoch)
        records = [record for manifest in manifests for record in recorded(manifest)]
        log.trim(floor_over(before, manifests), list(newest(records).values()))
        self.history = replace(self.history, floor=upto)


def loss_error(missing: actions.PartMissing, table: str) -> errors.PartLost:
    """Why everything stops at a missing part, with what to do about it; `table` is the writer's first."""
    part = missing.part
    if not missing.wrong:
        return errors.PartLost.missing(part.staged, part.target).of(table, part.partition)
    path, length = missing.wrong[0]
    return errors.PartLost.wrong_length(path, part.length, length).of(table, part.partition)
