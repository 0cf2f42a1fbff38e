"""What comes next for a writer: its history and a look at files and metastore in, a list of actions out.

Pure: no I/O, no clock; a moment and a token come in as a `Stamp`. `recover --dry-run` prints what `plan` returns.

Order: nothing is published before the metastore has answered; a partition is registered, and its accurate flag
cleared, before rows come; a partition's success file comes after all its files. Every action may be repeated.

A partition that the metastore doesn't list is registered before anything is published into it: Hive's INSERT INTO an
unlisted partition deletes what is in its folder (HIVE-29744). Its parts wait outside that folder (`set_aside`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from hivesink.core import actions
from hivesink.core.actions import LINGER, PartLocator, Snapshot, StagingArea, homes_of, leftovers, newest, unproven
from hivesink.core.epoch import Epoch
from hivesink.core.lifecycle import CommittedPartition, EpochState, History, Stamp
from hivesink.core.log import StagingIntent
from hivesink.core.manifest import Manifest, PartEntry
from hivesink.core.partition import LivePartition, PartitionKey, by_table, is_aside, same_location
from hivesink.core.partition_commit import PolicyKind
from hivesink.core.reads import segment_epoch
from hivesink.core.repair import requeue, take_back


@dataclass(frozen=True, slots=True)
class Policy:
    """The table's settings. `retained` None: old manifests stay.

    `announce`: how commits are made known, in order, with the success file's name and the user's own function.
    """

    announce: tuple[PolicyKind, ...] = ()
    retained: int | None = None
    success_file: str = "_SUCCESS"
    own: Callable[[CommittedPartition], None] | None = None


def fence(history: History, lists: Iterable[StagingIntent], stamp: Stamp) -> Manifest | None:
    """The epoch that shuts out an older run at a start, if it could still decide or publish; `lists` are the log's."""
    # The try that has begun this epoch can no longer commit it. Nor may another run publish rows which may go back:
    # what it finds missing, this run may have made visible. Also behind another fence: the start that made it may be
    # alive, and two runs on the same head could both publish.
    begun = newest(lists) > history.epoch
    goes_back = any(epoch.manifest.rolled or epoch.manifest.replaces for epoch in history.open)
    is_shut_out = begun or (goes_back and any(epoch.may_go_back for epoch in history.unpublished))
    return history.following("fence", stamp) if is_shut_out else None


def plan(history: History, snapshot: Snapshot, stamp: Stamp, policy: Policy = Policy()) -> Iterator[actions.Action]:
    """What to do about the open epochs, as far as `snapshot` shows. Then look and plan again, while some are open."""
    manifest = requeue(history, snapshot, stamp) or take_back(history, snapshot, stamp)
    if manifest is not None:
        yield actions.Decide(manifest)  # The point of no return.
    else:
        yield from _Open(history, snapshot, snapshot.partitions, stamp, policy).finish()


def sweep(history: History, staging: StagingArea, policy: Policy) -> Iterator[actions.Action]:
    """Discard what nothing can commit any more, forget the lists that no longer lead to a file, trim the log."""
    head = history.epoch
    if staging.folders:
        lost = leftovers(staging.staged, history.identity.uid, history)
        yield actions.Discard(tuple(lost), tuple(filter(is_aside, staging.folders)))
    won = {intent for intent in staging.lists if (intent.attempt, intent.task_attempt) in staging.winners}
    old = (intent for intent in staging.lists if intent.epoch <= (head if intent in won else head - LINGER))
    if forgotten := tuple(old):
        yield actions.Forget(forgotten)
    # A roll's part could still be lost: its rows would wait again.
    if not any(epoch.manifest.rolled for epoch in history.open):
        held = {part.segment for bucket in history.rows.buckets.values() for part in bucket.slices}
        decided = (name for name in staging.segments if 0 < (segment_epoch(name) or 0) <= head)
        if unread := tuple(name for name in decided if name not in held):
            yield actions.DropSegments(unread)
    # Only every few epochs, so that most don't pay for it.
    keep = policy.retained
    if keep is not None and not history.open and not history.epoch % max(1, keep // 4):
        # What waits is known from its newest snapshot on.
        highest = Epoch(min(history.settled, history.epoch - keep, history.rows.snapshot - 1))
        if highest > history.floor:
            yield actions.Trim(highest)


@dataclass(frozen=True)
class _Open:
    """What to do about the open epochs."""

    history: History
    snapshot: Snapshot
    live: Mapping[PartitionKey, LivePartition]
    stamp: Stamp
    policy: Policy

    @cached_property
    def located(self) -> Mapping[Epoch, list[actions.Publish | actions.AlreadyPublished | actions.PartMissing]]:
        """What to do about each part that waits, by the epoch that answers for it."""
        located = defaultdict(list)
        locator = PartLocator(self.snapshot.files, self.history.earlier_paths)
        for epoch, part in self.history.live_parts:
            if not epoch.is_published:
                located[epoch.manifest.epoch].append(locator.next_action(part))
        return located

    @cached_property
    def steps(self) -> list[actions.Publish | actions.AlreadyPublished | actions.PartMissing]:
        return [step for group in self.located.values() for step in group]

    @cached_property
    def held(self) -> frozenset[PartitionKey]:
        """The refused partitions whose parts wait."""
        # Readers find a visible part of a taken folder under its new name: it waits for nothing.
        hidden = {step.key for step in self.steps if not isinstance(step, actions.AlreadyPublished)}
        return self.snapshot.refused - self.live.keys() - (self.snapshot.taken - hidden)

    def finish(self) -> Iterator[actions.Action]:
        """Move, publish or settle: whatever comes first."""
        history = self.history
        moves = tuple(self._moves()) or tuple(self._carried())
        if moves:
            moved = {part.key for _, part in moves}
            manifest = replace(
                history.following("move", self.stamp),
                add=tuple(part for _, part in moves),
                remove=tuple(target for target, _ in moves),
                commits=tuple(commit for commit in history.committed().values() if commit.key in moved),
            )
            yield actions.Decide(manifest)  # The point of no return, for the moves.
            return
        for table, partitions in by_table(key for key, home in self.live.items() if home.accurate).items():
            yield actions.ClearAccurate(table, tuple(partitions))
        yield from map(actions.PartMissing, unproven(history, self.live, self.snapshot.files))
        waits = [self.located.get(epoch.manifest.epoch) for epoch in history.unpublished]
        if all(steps and all(step.key in self.held for step in steps) for steps in waits):
            yield from self._settle()
        else:
            yield from self._publish()

    def _moves(self) -> Iterator[tuple[str, PartEntry]]:
        """The parts that aren't in the folder that `live` has for their partition: the old target, and the part anew.

        Before the decision, the try is repeated with the right folders. If somebody registers the partition elsewhere
        later, an epoch of its own moves the parts, so that a crash in its middle is recovered like any other.
        """
        sources = {step.part.target: step.source for step in self.steps if isinstance(step, actions.Publish)}
        for epoch, part in self.history.live_parts:
            home = self.live.get(part.key)
            if home is None or same_location(part.folder, home.location):
                continue
            at_target = part.target in self.snapshot.files
            if epoch.is_published and not at_target:
                continue  # Whoever deleted it after it was published had their reasons.
            target = f"{home.location.rstrip('/')}/{part.name}"
            staged = part.target if at_target else sources.get(part.target, part.staged)
            if same_location(staged, target):
                staged = target  # It moves back, and has never left.
            yield part.target, replace(part, staged=staged, target=target)

    def _carried(self) -> Iterator[tuple[str, PartEntry]]:
        """The parts of refused partitions go on in an epoch of their own, behind all others, so that these are settled.

        Until then a user may not touch the others' files. Only once a look shows the others where readers find them:
        what is refused is known by then, so no retry decides again.
        """
        waiting = [(epoch, step) for epoch, steps in self.located.items() for step in steps]
        refused = [(epoch, step.part) for epoch, step in waiting if step.key in self.held]
        others = [step for step in self.steps if step.key not in self.held]
        read = self.snapshot.taken | self.live.keys()
        if refused and all(isinstance(step, actions.AlreadyPublished) and step.key in read for step in others):
            free = (epoch for epoch, part in self.history.live_parts if part.key not in self.held)
            last = max((epoch.manifest.epoch for epoch in free), default=Epoch(0))
            yield from ((part.target, part) for _, part in refused if refused[0][0] <= last)

    def _publish(self) -> Iterator[actions.Action]:
        """Register the partitions of the parts that wait, then publish epoch by epoch, but for what is `held`."""
        missing = [step for step in self.steps if isinstance(step, actions.PartMissing) and step.key not in self.held]
        # A published part's partition that a user has dropped since isn't registered again until all is published.
        unready = {step.key for step in self.steps if step.key not in self.live or self.live[step.key].columns_behind}
        folders = {part.key: part.folder for _, part in self.history.live_parts}
        yield from _register({key: folders[key] for key in unready - self.snapshot.refused})
        for epoch in self.history.unpublished:
            number, group = epoch.manifest.epoch, self.located.get(epoch.manifest.epoch, [])
            ready = [step for step in group if step.key not in self.held and not isinstance(step, actions.PartMissing)]
            is_marked = epoch.state is not EpochState.DECIDED or not epoch.may_go_back
            if not is_marked and any(isinstance(step, actions.Publish) for step in ready):
                yield actions.SetMark(EpochState.PUBLISHING, number)
            yield from ready
            yield from (step for step in group if step in missing)
            if any(step in missing for step in group):
                return
            if len(ready) == len(group):
                waited = {step.part.staged.rpartition("/")[0] for step in group}
                yield actions.SetMark(EpochState.PUBLISHED, number, tuple(sorted(filter(is_aside, waited))))

    def _settle(self) -> Iterator[actions.Action]:
        """All is published that isn't refused. What was dropped since the last look is registered again if it has rows.

        A DROP of a managed table's partition takes its files too. Those that went with it are what the user wanted
        gone, also where others came after the DROP.

        What has another partition's folder now was renamed by a user: readers find its published rows there.
        """
        history, live, files, last = self.history, self.live, self.snapshot.files, self.history.settleable
        if last < history.open[0].manifest.epoch or (history.replaced and history.unpublished):
            return
        # Once they were found in place, a partition that is dropped stays so.
        published = [part for epoch, part in history.live_parts if epoch.state is EpochState.PUBLISHED]
        in_place = [part for part in published if part.key in live or part.target in files]
        folders = {part.key: part.folder for part in in_place if part.key not in self.snapshot.taken}
        dropped = {key: folder for key, folder in folders.items() if key not in live}
        if dropped:
            yield from _register(dropped)
            if any(part.key in dropped and part.target not in files for part in published):
                # The next look finds the partition listed, as if an INSERT had taken them.
                yield actions.SetMark(EpochState.VERIFIED, last)
            return
        # Only now: until all can be read, its records are dead letters.
        places = ((part, path) for part in history.replaced for path in homes_of(part, live))
        if replaced := tuple(replace(part, target=path) for part, path in places if files.get(path) == part.length):
            # Then another look: a user's ANALYZE may have counted them.
            yield actions.DeleteReplaced(replaced)
            return
        homes = {**folders, **{key: partition.location for key, partition in live.items()}}
        if self.policy.announce and (committed := tuple(self._committed(homes))):
            if history.marked(last, EpochState.VERIFIED) != history:
                # The user's own code may fail for long: meanwhile the files are the users' own.
                yield actions.SetMark(EpochState.VERIFIED, last)
            yield from (actions.Announce(kind, committed) for kind in self.policy.announce)
        yield actions.SetMark(EpochState.SETTLED, last)

    def _committed(self, homes: Mapping[PartitionKey, str]) -> Iterator[CommittedPartition]:
        files = defaultdict[PartitionKey, list[str]](list)
        for epoch, part in self.history.live_parts:
            if epoch.manifest.epoch <= self.history.settleable:
                files[part.key].append(part.target)
        for key, commit in sorted(self.history.committed(self.history.settleable).items(), key=lambda item: item[0]):
            if key in homes:
                yield CommittedPartition(*key, homes[key].rstrip("/"), tuple(files[key]), commit)


def _register(folders: Mapping[PartitionKey, str]) -> Iterator[actions.Register]:
    for table, partitions in by_table(folders).items():
        yield actions.Register(table, tuple((partition, folders[table, partition]) for partition in partitions))
