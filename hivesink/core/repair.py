"""Parts that are nowhere: their rows wait again, or a person says that they are gone.

A roll's segments stay until its parts are settled, and so do the dead letters of a replay. So a bucket, or a replay, of
which a part is missing is requeued, as long as the mark of its epoch shows that nobody can have read any of it.
Afterwards a user may have written its rows anew (INSERT OVERWRITE), or may want them gone (TRUNCATE): then the start
stops, and a person decides.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from hivesink.core.actions import RolledBuckets, Snapshot, homes_of, missing_parts
from hivesink.core.epoch import Epoch
from hivesink.core.lifecycle import EpochState, History, Stamp
from hivesink.core.manifest import FORGET, REQUEUE, Manifest, OpenBucket, PartEntry, Slice, commit_after
from hivesink.core.partition import PartitionKey
from hivesink.core.rolling import open_rows


def requeue(history: History, snapshot: Snapshot, stamp: Stamp) -> Manifest | None:
    """An epoch after which the rows of missing parts wait again, with all others of their buckets."""
    buckets = requeueable(history, snapshot)
    if not buckets:
        return None
    manifest = _removing(history, stamp, REQUEUE, [part for parts in buckets.values() for part in parts])
    waiting = dict(manifest.waiting or ())
    for epoch, key in sorted(buckets, reverse=True):
        # They wait ahead of those that have come since.
        back = snapshot.rolled[epoch, key]
        later = waiting.get(key) or OpenBucket.of((), back.first, back.last)
        waiting[key] = replace(later, first=back.first).only((*back.slices, *later.slices))
    return replace(manifest, waiting=tuple(sorted(waiting.items())))


def requeueable(history: History, snapshot: Snapshot) -> Mapping[tuple[Epoch, PartitionKey], list[PartEntry]]:
    """The parts of each rolled bucket of which a part is missing, if the bucket's rows can wait again.

    Segments must have all rows, and no epoch that answers for a part may have begun to publish.
    """
    if not snapshot.rolled:
        return {}
    missing, begun = _missing_and_begun(history, snapshot)
    live = {part.name: part for _, part in history.live_parts}
    buckets = {}
    for epoch, key in snapshot.rolled:
        roll = next(begun.manifest for begun in history.open if begun.manifest.epoch == epoch)
        names = {part.name for part in roll.created if part.key == key}
        if names & missing and not names & begun and names <= live.keys():
            buckets[epoch, key] = [live[name] for name in sorted(names)]
    return buckets


def take_back(history: History, snapshot: Snapshot, stamp: Stamp) -> Manifest | None:
    """An epoch after which the rows of a replay are dead letters again: a part is missing, and nobody has read any."""
    replays = [epoch.manifest for epoch in history.open if epoch.manifest.replaces]
    # Every plan asks, and hardly any history has a replay.
    if not replays:
        return None
    missing, begun = _missing_and_begun(history, snapshot)
    live = {part.name: part for _, part in history.live_parts}
    for replay in replays:
        names = {part.name for part in replay.created}
        # A user may have dropped the letters since: then only the replay has their records.
        letters = ((part.length, homes_of(part, snapshot.partitions)) for part in replay.replaces)
        are_left = all(length in map(snapshot.files.get, paths) for length, paths in letters)
        if are_left and names & missing and not names & begun:
            parts = [live[name] for name in sorted(names & live.keys())]
            return replace(_removing(history, stamp, REQUEUE, parts), replaces=replay.replaces)
    return None


def forget(
    history: History,
    stamp: Stamp,
    parts: Collection[PartEntry] = (),
    *,
    slices: Collection[Slice] = (),
    moved: Collection[PartEntry] = (),
    rows: int,
) -> Manifest:
    """An epoch that no longer answers for `parts`, nor for rows that wait in `slices`; `rows` of them are lost.

    `moved` are parts to publish from where they are staged now.
    """
    manifest = _removing(history, stamp, FORGET if parts or slices else "move", parts, slices)
    remove = (*manifest.remove, *(part.target for part in moved))
    return replace(manifest, add=tuple(moved), remove=remove, forgotten=rows)


def rolled_buckets(
    history: History, floor: Epoch, read: Callable[[Epoch], Manifest], segments: Mapping[str, int]
) -> RolledBuckets:
    """What waited in the buckets that open epochs have rolled, where `segments` (lengths) have all of it.

    `read` gives the log's manifests, those above its `floor`, and raises for a missing manifest.
    """
    buckets: dict[tuple[Epoch, PartitionKey], OpenBucket] = {}
    for roll in (epoch.manifest for epoch in history.open if epoch.manifest.rolled):
        before = open_rows(read(epoch) for epoch in map(Epoch, range(roll.epoch - 1, floor, -1)))
        for key, slices in before.closed(roll).items():
            if slices and all(segments.get(part.segment, 0) >= part.offset + part.length for part in slices):
                buckets[roll.epoch, key] = before.buckets[key].only(slices)
    return buckets


def _missing_and_begun(history: History, snapshot: Snapshot) -> tuple[set[str], set[str]]:
    """Names of parts: those that are nowhere, no other file at their target, and those that may have been visible."""
    missing = (action.part for action in missing_parts(history, snapshot.files, snapshot.partitions))
    begun = (part for epoch in history.open if epoch.state is not EpochState.DECIDED for part in epoch.manifest.add)
    return {part.name for part in missing if part.target not in snapshot.files}, {part.name for part in begun}


def _removing(
    history: History, stamp: Stamp, kind: str, parts: Iterable[PartEntry], slices: Collection[Slice] = ()
) -> Manifest:
    """An epoch that takes `parts` out of the history, and out of what is committed or published."""
    gone = list(parts)
    # The newest record of each partition, whatever became of its rows since.
    commits = {commit.key: commit for epoch in history.open for commit in epoch.manifest.commits}
    # The newest open epoch that commits each partition, but for those that repeat or correct commits.
    manifests = (epoch.manifest for epoch in history.open if not epoch.manifest.remove)
    committed_at = {commit.key: manifest.epoch for manifest in manifests for commit in manifest.commits}
    created_at = {part.name: epoch.manifest.epoch for epoch in history.open for part in epoch.manifest.created}
    covered: dict[PartitionKey, list[PartEntry]] = {}
    for part in gone:
        # A part of a settled epoch has been moved since: a commit covers it.
        if part.key in commits and created_at.get(part.name, 0) <= committed_at.get(part.key, 0):
            covered.setdefault(part.key, []).append(part)
    corrected = {part for own in covered.values() for part in own}
    left = history.rows.without((part for part in gone if part not in corrected), slices)
    return replace(
        history.following(kind, stamp),
        remove=tuple(part.target for part in gone),
        commits=tuple(
            commit_after(commit, key, -sum(part.rows for part in covered[key]), -len(covered[key]))
            for key, commit in commits.items()
            if key in covered
        ),
        waiting=tuple(sorted(left.items())),
    )
