"""Carries out plans. It alone creates manifests, and looks at the world again where a plan says so."""

from __future__ import annotations

import logging
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from hivesink.core.actions import (
    ClearAccurate,
    Decide,
    Discard,
    Forget,
    Keep,
    LookAgain,
    MarkPublished,
    MarkSettled,
    Publish,
    PutAway,
    Refuse,
    Register,
    SuccessFiles,
    Trim,
)
from hivesink.core.lifecycle import Stamp
from hivesink.core.log import Mark
from hivesink.core.manifest import floor_over
from hivesink.core.partfile import Pending, parse_staged
from hivesink.core.partition import NewPartition
from hivesink.core.plan import NOTHING, GivenUp, Policy, plan, until_look
from hivesink.core.seen import Seen, locate
from hivesink.errors import (
    FencedOut,
    HiveSinkError,
    LengthMismatch,
    PartitionElsewhere,
    PartLost,
    RegistrationFailed,
    TargetTaken,
    Unsupported,
)
from hivesink.sink.commit.cleanup import discard
from hivesink.sink.commit.observe import load, load_begun, look, look_at_tracks

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from hivesink.core.actions import Action
    from hivesink.core.epoch import Epoch
    from hivesink.core.leftovers import Winner
    from hivesink.core.lifecycle import History, Identity
    from hivesink.core.manifest import Manifest, PartEntry
    from hivesink.core.partition import PartitionKey
    from hivesink.sink.commit.context import CommitContext

logger = logging.getLogger("hivesink")

_MOST_ADDS = 2
"""A partition that is gone after it was added as often is kept from the metastore by something else."""


class _StaleError(Exception):
    """Another recovery has brought the same epochs on meanwhile: what is in memory is behind the log."""


class Executor:
    """One writer's history, and what brings it on. `history` is always as the log has it, as far as this run knows."""

    def __init__(
        self, context: CommitContext, history: History, policy: Policy, told: Callable[[Action], None]
    ) -> None:
        self.context = context
        self.history = history
        self.policy = policy
        self._told = told
        self._added: Counter[tuple[str, str]] = Counter()

    @classmethod
    def begin(
        cls,
        context: CommitContext,
        identity: Identity | None,
        policy: Policy,
        told: Callable[[Action], None] = lambda _: None,
    ) -> Executor:
        """Read the log, and shut out an older try that could still decide; `identity` as for `load`.

        `told` is called with each action once it is carried out.

        Raises LogDamaged, NewerFormat, LogCopied, EpochTaken.
        """
        found, tracks = load_begun(context, identity)
        executor = cls(context, found, policy, told)
        executor.decide(Seen(tracks=tracks), starting=True)
        return executor

    def decide(
        self,
        seen: Seen,
        *,
        batch: Manifest | None = None,
        starting: bool = False,
        given_up: GivenUp = NOTHING,
    ) -> None:
        """Decide what the plan decides first: a batch, a fence against an older try, or accepted losses, if any."""
        actions = list(self._plan(seen, batch=batch, starting=starting, given_up=given_up))
        if actions and isinstance(actions[-1], Decide):
            self._carry_out(actions)

    def finish(self, first: Seen | None = None) -> None:
        """Bring every open epoch to its end. `first` is what was seen just before the decision.

        Raises MetastoreUnreachable, RegistrationFailed, RegistrationUnknown (try again later: what is done
        stays done), PartLost and the other errors of `FileStore.publish`, EpochTaken, FencedOut.
        """
        self._added.clear()
        seen = first
        refused: frozenset[PartitionKey] = frozenset()
        error: RegistrationFailed | None = None
        while self.history.open:
            now = replace(seen or look(self.context, self.history), refused=refused)
            seen = None
            try:
                self._carry_out(self._plan(now))
            except _StaleError:
                self.history = load(self.context, self.history.identity)
            except RegistrationFailed as failed:
                # Whatever the metastore doesn't refuse goes on first.
                error, found = failed, frozenset((failed.table, name) for name in failed.partitions)
                if found <= refused:
                    raise
                refused |= found
            else:
                if error is not None:
                    raise error

    def _carry_out(self, actions: Iterable[Action]) -> None:
        for independent, some in groupby(actions, key=lambda action: isinstance(action, (Publish, Keep))):
            if independent:
                self.context.store.run_parallel(partial(self._perform, action) for action in some)
            else:
                for action in some:
                    self._perform(action)

    def clean_up(self, winners: frozenset[Winner] = frozenset()) -> None:
        """Delete leftovers, and let go of old manifests. Raises FencedOut; anything else is tried again later."""
        try:
            tracks = look_at_tracks(self.context, self.history.epoch, winners)
            for action in self._plan(Seen(tracks=tracks)):
                self._perform(action)
        except FencedOut:
            raise
        except HiveSinkError as error:
            # No row depends on it, so it fails no committed batch; `status` and `verify` say what stays wrong.
            logger.warning("cleaning up after epoch %d failed, and is tried again: %s", self.history.epoch, error)

    def _plan(
        self,
        seen: Seen,
        *,
        batch: Manifest | None = None,
        starting: bool = False,
        given_up: GivenUp = NOTHING,
    ) -> Iterable[Action]:
        stamp = Stamp(self.context.now(), self.context.token())
        return until_look(
            plan(self.history, seen, stamp, self.policy, batch=batch, starting=starting, given_up=given_up)
        )

    def _perform(self, action: Action) -> None:  # noqa: C901, PLR0912  one case an action, and all of them here
        match action:
            case Decide(manifest):
                # The point of no return, and the only one.
                self.context.log.create(manifest)
                self.history = self.history.decided(manifest)
            case ClearAccurate(table, partitions):
                self.context.registrar.clear_accurate(self.context.table(table), partitions)
            case Register():
                self._register(action)
            case Publish(part, source):
                self._publish(part, source)
            case Keep(part):
                self.context.store.publish(Pending(part.target, part.target, part.length))
            case Refuse():
                self._require_current()
                raise _loss(action)
            case PutAway(part, source):
                self._require_current()
                self.context.store.publish(Pending(source, part.put_away, part.length))
            case MarkPublished(epoch, waited):
                self.context.log.mark(epoch, Mark.PUBLISHED)
                self.history = self.history.published(epoch)
                # An empty folder harms nobody.
                with suppress(HiveSinkError):
                    self.context.store.prune(waited)
            case SuccessFiles(paths):
                self._require_current()
                self.context.store.run_parallel(partial(self.context.store.mark, path) for path in paths)
            case MarkSettled(epoch):
                self.context.log.mark(epoch, Mark.REGISTERED)
                self.history = self.history.confirmed()
            case Discard(staged, folders):
                self._require_head()
                discard(self.context, staged, folders)
            case Forget(lists):
                self.context.log.forget(lists)
            case Trim(epoch):
                self._trim(epoch)
            case LookAgain():
                return
        self._told(action)

    def _require_head(self) -> None:
        self.context.require_head(self.history.epoch)

    def _require_current(self) -> None:
        """Raises FencedOut, or _StaleError where the log has marks that this run doesn't know of."""
        view, epoch = self.context.log.view(), self.history.epoch
        if view.head != epoch:
            raise FencedOut(self.context.log.location, epoch, view.head)
        done = {epoch for epoch, found in view.marks.items() if Mark.PUBLISHED in found}
        settled = Mark.REGISTERED in view.marks.get(epoch, frozenset())
        if self.history.open and (settled or done & {found.manifest.epoch for found in self.history.unpublished}):
            raise _StaleError

    def _register(self, action: Register) -> None:
        # A run that was overtaken would bring back what a user has dropped since.
        self._require_current()
        for partition, _ in action.partitions:
            place = (action.table, partition)
            self._added[place] += 1
            if self._added[place] > _MOST_ADDS:
                where = self.context.registrar.address
                raise RegistrationFailed(action.table, "register", "it isn't there afterwards", where, (partition,))
        waiting: dict[str, list[PartEntry]] = {}
        for part in self.history.waiting():
            waiting.setdefault(part.target.rpartition("/")[0], []).append(part)
        new = (
            partial(self._new_partition, partition, location, waiting.get(location, ()))
            for partition, location in action.partitions
        )
        self.context.registrar.add(self.context.table(action.table), self.context.store.run_parallel(new))

    def _new_partition(self, partition: str, location: str, waiting: Collection[PartEntry]) -> NewPartition:
        lengths = {file.path: file.length for file in self.context.store.visible(location)}
        lengths |= {part.target: part.length for part in waiting}
        return NewPartition(partition, location, len(lengths), sum(lengths.values()))

    def _publish(self, part: PartEntry, source: str) -> None:
        try:
            self.context.store.publish(Pending(source, part.target, part.length))
        except (PartLost, LengthMismatch, TargetTaken):
            self._require_current()
            if not self._publish_from_elsewhere(part, source):
                raise
        except Unsupported as error:
            if source.rpartition("/")[0] == part.folder:
                raise
            if not self._publish_from_elsewhere(part, source):
                raise PartitionElsewhere(
                    part.table,
                    part.partition,
                    part.folder,
                    str(error),
                    self.context.registrar.address,
                    folder=source.rpartition("/")[0],
                    staged=True,
                ) from error

    def _publish_from_elsewhere(self, part: PartEntry, source: str) -> bool:
        """Publish a part that can't be renamed from `source` from wherever else it is; False where it is nowhere."""
        earlier = self.history.earlier_paths().get(part.name, ())
        paths = {path for path in (part.target, part.restored, part.put_away, *earlier) if path != source}
        found = {path: file.length for path in paths if (file := self.context.find(path)) is not None}
        where = locate(replace(part, staged=source), earlier, found)
        if isinstance(where, Refuse):
            return False
        place = where.source if isinstance(where, Publish) else part.restored
        self.context.store.publish(Pending(place, part.target, part.length))
        if parse_staged(part.staged.rpartition("/")[2]):
            # No list of touched folders leads to it any more.
            self.context.store.discard([part.staged])
        return True

    def _trim(self, upto: Epoch) -> None:
        """Manifests become the floor's totals. Raises LogDamaged, FencedOut, StoreUnavailable."""
        log = self.context.log
        view, before = log.view(), log.floor()
        manifests: list[Manifest] = []
        for epoch in view.manifests:
            manifests.append(log.manifest(epoch))
            if manifests[-1].settled >= upto:
                break  # `floor_over` needs no more; mostly, this is the first one that stays.
        self._require_head()
        log.trim(floor_over(before, manifests, upto))
        self.history = replace(self.history, floor=upto)


def _loss(refused: Refuse) -> HiveSinkError:
    if not refused.found:
        return PartLost(refused.part.staged, refused.part.target)
    path, length = refused.found[0]
    return LengthMismatch(path, refused.part.length, length)


__all__ = ["Executor"]
