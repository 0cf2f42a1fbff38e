"""Carries out plans. Only the executor creates manifests; it looks at the world again when a plan says so."""

from __future__ import annotations

import logging
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from hivesink import errors
from hivesink.core import actions
from hivesink.core.bucket import given_up, is_given_up
from hivesink.core.epoch import Epoch
from hivesink.core.log import Mark
from hivesink.core.losing import is_unread, questionable, reopenable
from hivesink.core.manifest import REOPEN, Manifest, PartEntry, floor_over
from hivesink.core.partfile import Pending, parse_staged
from hivesink.core.partition import NewPartition, PartitionKey
from hivesink.core.partition_commit import newest, recorded
from hivesink.core.plan import Policy, plan, until_look
from hivesink.core.seen import NOTHING, GivenUp, Places, Seen, Winner, losses
from hivesink.sink.commit.announce import announce
from hivesink.sink.commit.observe import load, load_begun, look, look_at_tracks
from hivesink.sink.commit.uncollected import uncollected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hivesink.core.lifecycle import History, Identity
    from hivesink.sink.commit.context import CommitContext

logger = logging.getLogger("hivesink")

_MOST_ADDS = 2
"""A partition that is missing after so many adds is kept out of the metastore by something else."""


class StaleError(errors.FencedOut):
    """Another recovery has advanced the same epochs meanwhile: look again."""


@dataclass(slots=True)
class Executor:
    """One writer's history, and what advances it. `history` is the log's, as far as this run knows."""

    context: CommitContext
    history: History
    policy: Policy
    told: Callable[[actions.Action], None]
    in_doubt: bool = False
    """A manifest was asked for, and this run doesn't know whether the log has it: `begin` anew."""
    _added: Counter[PartitionKey] = field(default_factory=Counter)
    _hidden: set[str] = field(default_factory=set)
    """As in `Seen`."""

    @classmethod
    def begin(
        cls,
        context: CommitContext,
        identity: Identity | None,
        policy: Policy,
        told: Callable[[actions.Action], None] = lambda _: None,
    ) -> Executor:
        """Read the log, and shut out an older try that could still decide; `identity` as for `load`.

        `told` gets each action after it is carried out. Raises LogDamaged, NewerFormat, EpochTaken.
        """
        history, tracks = load_begun(context, identity)
        executor = cls(context, history, policy, told)
        executor.decide(Seen(tracks=tracks), starting=True)
        if executor.history.epoch > history.epoch:
            # The run that is shut out now may have begun to publish before: it looks for that after its mark.
            executor._read_again()
        return executor

    def _read_again(self) -> None:
        """Take over marks of others. Raises FencedOut for an epoch of others, which would pass for this run's own."""
        found = load(self.context, self.history.identity)
        if found.epoch != self.history.epoch:
            raise errors.FencedOut(self.context.log.location, self.history.epoch, found.epoch)
        self.history = found

    def decide(
        self, seen: Seen, *, batch: Manifest | None = None, starting: bool = False, given_up: GivenUp = NOTHING
    ) -> None:
        """Carry out the plan's first decision, if any: a batch, a fence against an older try, or accepted losses."""
        stamp = self.context.stamp()
        everything = plan(self.history, seen, stamp, self.policy, batch=batch, starting=starting, given_up=given_up)
        planned = list(until_look(everything))
        if planned and isinstance(planned[-1], actions.Decide):
            self._carry_out(planned)

    def finish(self, first: Seen | None = None) -> None:
        """Bring every open epoch to its end. `first` is what was seen just before the decision.

        Raises MetastoreUnreachable, RegistrationFailed, RegistrationUnknown (try again later: what is done stays done),
        PartLost and the other errors of `FileStore.publish`, EpochTaken, FencedOut.
        """
        self._added.clear()
        refused: frozenset[PartitionKey] = frozenset()
        taken: frozenset[PartitionKey] = frozenset()
        error: errors.RegistrationFailed | None = None
        told: set[str] = set()
        while self.history.open:
            seen, first = first or self._look(), None
            try:
                with uncollected():
                    planned = tuple(self._plan(replace(seen, refused=refused, taken=taken)))
                self._carry_out(planned)
            except StaleError:
                self._read_again()
            except (errors.PartLost, errors.LengthMismatch) as lost:
                first = self._look()
                self._require_way_on(lost, first, told)
            except errors.RegistrationFailed as failed:
                # Everything that the metastore doesn't refuse is settled first.
                error, named = failed, frozenset((failed.table, name) for name in failed.partitions)
                if named <= refused:
                    raise
                refused |= named
                taken |= named if isinstance(failed, errors.FolderTaken) else frozenset()
            else:
                # Neither of these brings an epoch further.
                if error and all(isinstance(action, (actions.ClearAccurate, actions.Keep)) for action in planned):
                    raise error

    def _require_way_on(self, lost: errors.PartLost | errors.LengthMismatch, seen: Seen, told: set[str]) -> None:
        """Raise `lost` unless its rows can be encoded again, or nothing is lost: that once for each part (`told`)."""
        if reopenable(self.history, seen):
            return
        table = self.history.identity.tables[0]
        if questionable(self.history, seen):
            raise lost.maybe_read().of(table) from lost
        if str(lost) in told or losses(self.history, seen.files, seen.partitions):
            raise lost.of(table)
        told.add(str(lost))  # Its server was away, or somebody has restored it.

    def _carry_out(self, planned: Iterable[actions.Action]) -> None:
        independent = (actions.Publish, actions.Keep)
        for is_independent, group in groupby(planned, key=lambda action: isinstance(action, independent)):
            if is_independent:
                with uncollected():
                    self.context.store.run_parallel(partial(self._perform, action) for action in group)
            else:
                for action in group:
                    self._perform(action)

    @uncollected()
    def _look(self) -> Seen:
        return replace(look(self.context, self.history), hidden=frozenset(self._hidden))

    def clean_up(self, winners: frozenset[Winner] = frozenset(), *, segments: bool = True) -> None:
        """Delete leftovers and old manifests. Raises FencedOut; whatever else fails is tried again later."""
        try:
            tracks = look_at_tracks(self.context, self.history.epoch, winners, segments=segments)
            for action in self._plan(Seen(tracks=tracks)):
                self._perform(action)
        except errors.FencedOut:
            raise
        except errors.HiveSinkError as error:
            # No row depends on it, so it fails no committed batch; `status` and `verify` show what stays wrong.
            logger.warning("couldn't clean up after epoch %d, will try again: %s", self.history.epoch, error)

    def _plan(self, seen: Seen) -> Iterable[actions.Action]:
        return until_look(plan(self.history, seen, self.context.stamp(), self.policy))

    def _perform(self, action: actions.Action) -> None:  # noqa: C901, PLR0912, PLR0915  one case per action, all of them here
        match action:
            case actions.Decide(manifest):
                if manifest.accepted:
                    self._require_unread()
                # The point of no return, and the only one.
                before, self.in_doubt = self.history, True
                self.context.log.create(manifest)
                self.history, self.in_doubt = before.decided(manifest), False
                if manifest.kind == REOPEN:
                    self._drop(before, manifest.lost)
                    gone = "rows of files that something deleted or damaged too early are encoded again: %d, such as %s"
                    logger.warning(gone, len(manifest.lost), manifest.lost[0])
            case actions.ClearAccurate(table, partitions):
                self.context.registrar.clear_accurate(self.context.table(table), partitions)
            case actions.Register():
                self._register(action)
            case actions.Publish(part, source):
                self._publish(part, source)
            case actions.Keep(part):
                self.context.store.publish(Pending(part.target, part.target, part.length))
            case actions.Refuse():
                self._require_current()
                raise _loss(action)
            case actions.PutAway(part, source):
                self._require_current()
                try:
                    self.context.store.publish(Pending(source, part.put_away, part.length))
                except errors.PartLost as error:
                    raise self._stale() from error
            case actions.BeginPublish(epoch, names):
                self.context.log.mark(epoch, Mark.PUBLISHING)
                # A run that has shut this one out since may not have seen the mark.
                self._require_current()
                self._hidden |= names
                self.history = self.history.begun(epoch)
            case actions.MarkPublished(epoch, waited):
                self.context.log.mark(epoch, Mark.PUBLISHED)
                self.history = self.history.published(epoch)
                # An empty folder harms nobody.
                with suppress(errors.HiveSinkError):
                    self.context.store.prune(waited)
            case actions.Announce(kind, partitions):
                self._require_current()
                announce(self.context, self.policy, kind, partitions)
            case actions.MarkFound(epoch):
                self.context.log.mark(epoch, Mark.FOUND)
                self.history = self.history.found()
            case actions.MarkSettled(epoch):
                self.context.log.mark(epoch, Mark.REGISTERED)
                self.history = self.history.confirmed()
            case actions.Discard(staged, folders):
                self.context.require_head(self.history.epoch)
                self.context.discard(staged, folders)
            case actions.Forget(lists):
                self.context.log.forget(lists)
            case actions.DropSegments(names):
                self.context.require_head(self.history.epoch)
                self.context.log.segments.drop(names)
            case actions.Trim(epoch):
                self._trim(epoch)
            case actions.LookAgain():
                return
        self.told(action)

    def _drop(self, before: History, reopened: tuple[str, ...]) -> None:
        """Delete what is left of parts under their hidden names: nothing publishes it once their rows wait again."""
        gone = [part for _, part in before.standing if part.target in reopened and parse_staged(part.hidden)]
        # `hivesink clean` finds what stays.
        with suppress(errors.HiveSinkError):
            self.context.store.discard({path for part in gone for path in (part.staged, part.restored)})

    def _require_current(self) -> None:
        """Raises FencedOut; StaleError if the log has marks that this run doesn't know of."""
        view = self.context.require_head(self.history.epoch)
        settled = view.settled(Epoch(0))
        is_settled = any(settled >= open_epoch.manifest.epoch for open_epoch in self.history.open)
        is_published = any(view.has(one.manifest.epoch, Mark.PUBLISHED) for one in self.history.unpublished)
        if is_settled or is_published:
            raise self._stale()

    def _require_unread(self) -> None:
        """Raises StaleError if another run has begun to publish a replay since this one has read the log."""
        if self.history.is_replay and is_unread(self.history):
            view = self.context.log.view()
            if any(view.state(one.manifest.epoch) is not one.state for one in self.history.open):
                raise self._stale()

    def _stale(self) -> StaleError:
        return StaleError(self.context.log.location, self.history.epoch, self.history.epoch)

    @uncollected()
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
        used = {partition: home for (partition, home), found in zip(action.partitions, files, strict=True) if found}
        self.context.require_own_folders(action.table, used)
        new = []
        for (partition, location), found in zip(action.partitions, files, strict=True):
            lengths = {file.path: file.length for file in found}
            lengths |= {part.target: part.length for part in waiting.get(location, ())}
            new.append(NewPartition(partition, location, len(lengths), sum(lengths.values())))
        self.context.registrar.add(self.context.table(action.table), new)

    def _publish(self, part: PartEntry, source: str) -> None:
        name = part.name
        was_hidden = name in self._hidden
        self._hidden.discard(name)
        try:
            self.context.store.publish(Pending(source, part.target, part.length))
        except (errors.PartLost, errors.LengthMismatch, errors.TargetTaken) as error:
            self._require_current()
            if not self._publish_from_elsewhere(part, source):
                if was_hidden and _stays_hidden(error, part.target):
                    self._hidden.add(name)
                raise
        except errors.Unsupported as error:
            folder, where = source.rpartition("/")[0], self.context.registrar.address
            if folder == part.folder:
                raise
            if not self._publish_from_elsewhere(part, source):
                home, reason = part.folder, str(error)
                raise errors.PartitionElsewhere(
                    part.table, part.partition, home, reason, where, folder=folder, staged=True
                ) from error

    def _publish_from_elsewhere(self, part: PartEntry, source: str) -> bool:
        """Publish a part that can't be renamed from `source` from wherever else it is. False if it is nowhere.

        Raises StaleError if somebody has put it away, to give it up: only a decision brings it back.
        """
        earlier = self.history.earlier_paths.get(part.name, ())
        paths = {path for path in (part.target, part.restored, *given_up(part.target), *earlier) if path != source}
        lengths = {path: file.length for path in paths if (file := self.context.find(path)) is not None}
        located = Places(lengths, {part.name: earlier}).locate(replace(part, staged=source))
        if isinstance(located, actions.Refuse):
            return False
        is_gone = self.context.find(source) is None
        source = located.source if isinstance(located, actions.Publish) else part.restored
        if is_given_up(source):
            if is_gone:
                raise self._stale()
            return False
        self.context.store.publish(Pending(source, part.target, part.length))
        if parse_staged(part.staged.rpartition("/")[2]):
            # No touched-list leads to it any more.
            self.context.store.discard([part.staged])
        return True

    def _trim(self, upto: Epoch) -> None:
        """Turn manifests into the floor's totals. Raises LogDamaged, FencedOut, StoreUnavailable."""
        log = self.context.log
        view, before = log.view(), log.floor()
        manifests: list[Manifest] = []
        for epoch in view.manifests:
            manifests.append(log.manifest(epoch))
            if manifests[-1].settled >= upto:
                break  # `floor_over` needs no more. Usually this is the first one that stays.
        self.context.require_head(self.history.epoch)
        records = [one for manifest in manifests if manifest.epoch <= upto for one in recorded(manifest)]
        log.trim(floor_over(before, manifests, upto), list(newest(records).values()))
        self.history = replace(self.history, floor=upto)


def _stays_hidden(error: errors.HiveSinkError, target: str) -> bool:
    """Whether a publish has certainly failed before the part became visible at `target`."""
    match error:
        case errors.PartLost():
            return not error.in_doubt
        case errors.LengthMismatch():
            return not error.in_doubt and error.path != target
        case _:
            return False


def lost_error(history: History, seen: Seen, refused: actions.Refuse) -> errors.HiveSinkError:
    """What `finish` would raise for it."""
    error = _loss(refused)
    is_read = refused.astray is None and questionable(history, seen)
    return (error.maybe_read() if is_read else error).of(history.identity.tables[0])


def _loss(refused: actions.Refuse) -> errors.PartLost | errors.LengthMismatch:
    way_back = refused.part.way_back(refused.astray) if refused.astray else None
    if not refused.found:
        return errors.PartLost(refused.part.staged, refused.part.target, way_back)
    path, length = refused.found[0]
    return errors.LengthMismatch(path, refused.part.length, length, way_back)
