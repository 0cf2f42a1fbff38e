"""Epochs that no longer answer for lost parts: a person accepts the loss, or the parts' rows wait again.

A roll's segments stay until its parts are settled. So parts that are lost before anybody could read them are encoded
again. Whoever takes a part later may have written its rows anew (INSERT OVERWRITE), or wants them gone (TRUNCATE).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from hivesink.core.epoch import Epoch
from hivesink.core.lifecycle import EpochState
from hivesink.core.manifest import REOPEN
from hivesink.core.partition_commit import commit_after, commit_without
from hivesink.core.rolling import open_rows
from hivesink.core.seen import NOTHING, abandoned, losses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from hivesink.core.lifecycle import History, Stamp
    from hivesink.core.manifest import Manifest, PartEntry
    from hivesink.core.partition import PartitionKey
    from hivesink.core.rolling import OpenBucket
    from hivesink.core.seen import Closed, GivenUp, Seen

LostBuckets: TypeAlias = "dict[tuple[Epoch, PartitionKey], list[PartEntry]]"
"""Lost parts, by roll and bucket."""


def accepted(history: History, seen: Seen, stamp: Stamp, given_up: GivenUp) -> Manifest | None:
    """An epoch that no longer answers for what is given up. A file that is elsewhere is no loss."""
    if given_up == NOTHING:
        return None
    gone = (loss.part for loss in losses(history, seen.files, seen.partitions) if loss.astray is None)
    lost = [part for part in gone if part.target in given_up.targets]
    parts = [*dict.fromkeys((*lost, *abandoned(history, seen, given_up)))]
    slices = tuple(one for one in history.rows.opened if one in given_up.slices)
    if not parts and not slices:
        return None
    manifest = _without(history, stamp, "accept-lost", parts)
    after = history.rows.after(manifest).dropping(slices)
    # Of these no row waits any more: what was known of them is true again, and made known.
    done = {one.key for one in slices if one.key not in after} - {commit.key for commit in manifest.commits or ()}
    again = (commit_after(given_up.records[key], key, 0, 0) for key in sorted(done & given_up.records.keys()))
    commits = (*(manifest.commits or ()), *again)
    return replace(manifest, given_up=slices, commits=commits, waiting=tuple(sorted(after.items())))


def reopened(history: History, seen: Seen, stamp: Stamp, given_up: GivenUp) -> Manifest | None:
    """An epoch after which the rows of lost parts wait again, but for what is given up."""
    found = reopenable(history, seen, given_up)
    if not found:
        return None
    manifest = _without(history, stamp, REOPEN, [part for parts in found.values() for part in parts])
    waiting = dict(manifest.waiting or ())
    for epoch, key in sorted(found, reverse=True):
        waiting[key] = seen.closed[epoch, key].before(waiting.get(key))
    return replace(manifest, waiting=tuple(sorted(waiting.items())))


def reopenable(history: History, seen: Seen, given_up: GivenUp = NOTHING) -> LostBuckets:
    """The lost parts whose rows can wait again, but for what is given up.

    Only where nobody can have read them, or a person wants them `again`.
    """
    lost = _lost_buckets(history, seen, given_up)
    read = _maybe_read(history) - seen.hidden if lost else frozenset[str]()
    return {
        bucket: parts
        for bucket, parts in lost.items()
        if read.isdisjoint(part.name for part in parts) or given_up.again.issuperset(part.target for part in parts)
    }


def questionable(history: History, seen: Seen) -> LostBuckets:
    """The lost parts whose rows the log still has, and that readers may have had: a person decides about them."""
    unread = reopenable(history, seen)
    return {bucket: parts for bucket, parts in _lost_buckets(history, seen).items() if bucket not in unread}


def _lost_buckets(history: History, seen: Seen, given_up: GivenUp = NOTHING) -> LostBuckets:
    """Only where a roll's files of a bucket are lost together: some run might still publish one that is left."""
    if not seen.closed:
        return {}
    wanted = (one for one in losses(history, seen.files, seen.partitions) if one.part.target not in given_up.waiting)
    gone = {loss.part.name: loss.part for loss in wanted if loss.astray is None and not loss.found}
    names: dict[tuple[Epoch, PartitionKey], list[str]] = {}
    for roll in (epoch.manifest for epoch in history.open):
        names |= {(roll.epoch, key): [] for key in roll.rolled}
        for part in roll.parts:
            if (bucket := (roll.epoch, part.key)) in names:
                names[bucket].append(part.name)
    lost = ((bucket, own) for bucket, own in names.items() if bucket in seen.closed and gone.keys() >= set(own))
    return {bucket: [gone[name] for name in own] for bucket, own in lost}


def _maybe_read(history: History) -> frozenset[str]:
    """The names of parts that some run may have made visible."""
    begun = (
        epoch.manifest
        for epoch in history.open
        # Versions whose manifests lack `settings` left no mark before their first rename.
        if epoch.state is not EpochState.DECIDED or epoch.manifest.settings is None
    )
    return frozenset(part.name for manifest in begun for part in manifest.publishes())


def closed_buckets(
    history: History, floor: Epoch, read: Callable[[Epoch], Manifest], segments: Mapping[str, int]
) -> Closed:
    """What waited in the buckets that open epochs have rolled, where all of it is still in `segments` (names, lengths).

    `read` gives the log's manifests, those above its `floor`, and raises for one that is missing.
    """
    closed: dict[tuple[Epoch, PartitionKey], OpenBucket] = {}
    for roll in (epoch.manifest for epoch in history.open if epoch.manifest.rolled):
        before = open_rows(read(epoch) for epoch in map(Epoch, range(roll.epoch - 1, floor, -1)))
        for key, slices in before.closed(roll).items():
            if all(segments.get(one.segment, 0) >= one.offset + one.length for one in slices):
                closed[roll.epoch, key] = before.buckets[key].only(slices)
    return closed


def _without(history: History, stamp: Stamp, kind: str, parts: Iterable[PartEntry]) -> Manifest:
    """An epoch that takes `parts` out of the history, and out of what is committed or published."""
    gone, commits, committed_at = list(parts), history.commits, _committed_at(history)
    at = {part.name: epoch.manifest.epoch for epoch in history.open for part in epoch.manifest.parts}
    covered: dict[PartitionKey, list[PartEntry]] = {}
    for part in gone:
        # One of an earlier epoch has been moved.
        if part.key in commits and at.get(part.name, 0) <= committed_at.get(part.key, 0):
            covered.setdefault(part.key, []).append(part)
    corrected = {part for own in covered.values() for part in own}
    return replace(
        history.following(kind, stamp),
        lost=tuple(part.target for part in gone),
        commits=tuple(commit_without(commit, covered[key]) for key, commit in commits.items() if key in covered),
        waiting=history.rows.without(part for part in gone if part not in corrected),
    )


def _committed_at(history: History) -> dict[PartitionKey, Epoch]:
    """The newest open epoch that commits each partition, but for those that repeat or correct commits."""
    new = (epoch.manifest for epoch in history.open if not (epoch.manifest.lost or epoch.manifest.moves))
    return {commit.key: manifest.epoch for manifest in new for commit in manifest.commits or ()}
