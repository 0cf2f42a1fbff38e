"""Epochs that no longer answer for lost parts: a person accepts the loss, or the parts' rows wait again.

A roll's segments stay until its parts are settled. So a bucket of which a part is lost before anybody could read it is
encoded again. Whoever takes a part later may have written its rows anew (INSERT OVERWRITE), or wants them gone
(TRUNCATE).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from hivesink.core.actions import Keep, Publish, Refuse
from hivesink.core.epoch import Epoch
from hivesink.core.lifecycle import EpochState
from hivesink.core.manifest import REOPEN
from hivesink.core.partition_commit import commit_after, commit_without
from hivesink.core.rolling import open_rows
from hivesink.core.seen import NOTHING, abandoned, judged, losses
from hivesink.errors import ReplaySplit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from hivesink.core.lifecycle import History, Stamp
    from hivesink.core.manifest import Manifest, PartEntry
    from hivesink.core.partition import PartitionKey
    from hivesink.core.rolling import OpenBucket
    from hivesink.core.seen import Closed, GivenUp, Seen

LostBuckets: TypeAlias = "dict[tuple[Epoch, PartitionKey], list[Publish | Refuse]]"
"""All parts of buckets of which some are lost, by roll and bucket."""


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
    done = {one.key for one in slices if one.key not in after} - {commit.key for commit in manifest.commits}
    again = (commit_after(given_up.records[key], key, 0, 0) for key in sorted(done & given_up.records.keys()))
    commits = (*manifest.commits, *again)
    return replace(manifest, given_up=slices, commits=commits, waiting=tuple(sorted(after.items())))


def together(history: History, seen: Seen, given_up: GivenUp) -> GivenUp:
    """`given_up`, with all that goes with it: of a replay's rows and marks, none is lost without the others.

    Only where nobody can have read any, or a person wants them `again` and nobody can read any now. Raises ReplaySplit.
    """
    if not history.is_replay:
        return given_up
    gone = {one.part for one in losses(history, seen.files, seen.partitions) if one.astray is None}
    # Who gives up a partition by its name knows where its rows are.
    lost = {part for part in gone if part.target in (given_up.targets | given_up.again) - given_up.waiting}
    if not lost:
        return given_up
    parts = {part for _, part in history.standing}
    targets = frozenset(part.target for part in parts)
    whole = replace(given_up, targets=given_up.targets | targets, waiting=given_up.waiting | targets)
    readable = parts - gone - {*abandoned(history, seen, whole)}
    is_wanted = given_up.again.issuperset(part.target for part in lost)
    if readable or not (is_wanted or is_unread(history)):
        first = min(lost, key=lambda part: part.target)
        raise ReplaySplit(first.target, *first.key, tuple(sorted(part.target for part in readable)))
    return whole


def is_unread(history: History) -> bool:
    """Whether no part of an open epoch can have been visible, where all epochs are marked before that."""
    return all(epoch.state is EpochState.DECIDED for epoch in history.open)


def reopened(history: History, seen: Seen, stamp: Stamp, given_up: GivenUp) -> Manifest | None:
    """An epoch after which the rows of lost parts wait again, but for what is given up."""
    found = reopenable(history, seen, given_up)
    if not found:
        return None
    manifest = _without(history, stamp, REOPEN, [one.part for parts in found.values() for one in parts])
    waiting = dict(manifest.waiting or ())
    for epoch, key in sorted(found, reverse=True):
        waiting[key] = seen.closed[epoch, key].before(waiting.get(key))
    return replace(manifest, waiting=tuple(sorted(waiting.items())))


def reopenable(history: History, seen: Seen, given_up: GivenUp = NOTHING) -> LostBuckets:
    """The buckets whose rows can wait again, but for what is given up.

    Only where nobody can have read any of a bucket's parts, and segments have all rows, or where all parts are lost and
    a person wants them `again`.
    """
    lost = _lost_buckets(history, seen, given_up)
    read = _maybe_read(history) - seen.hidden if lost else frozenset[str]()
    return {
        bucket: parts
        for bucket, parts in lost.items()
        if (bucket not in seen.torn and read.isdisjoint(one.part.name for one in parts))
        or (_are_lost(parts) and given_up.again.issuperset(one.part.target for one in parts))
    }


def questionable(history: History, seen: Seen) -> LostBuckets:
    """The lost buckets whose rows the log still has, but not all, or readers may have had them: a person decides."""
    unread = reopenable(history, seen)
    lost = _lost_buckets(history, seen)
    return {bucket: parts for bucket, parts in lost.items() if bucket not in unread and _are_lost(parts)}


def _are_lost(parts: Iterable[Publish | Refuse]) -> bool:
    return all(isinstance(one, Refuse) for one in parts)


def _lost_buckets(history: History, seen: Seen, given_up: GivenUp = NOTHING) -> LostBuckets:
    """Those of which no part can be read now. One that is torn is lost."""
    if not seen.closed:
        return {}
    hidden: dict[str, Publish | Refuse] = {}
    for one in judged(history, seen.files, seen.partitions):
        target = one.part.target
        if not isinstance(one, Keep) and target not in seen.files and target not in given_up.waiting:
            hidden |= {one.part.name: one} if _is_hidden(one) else {}
    names: dict[tuple[Epoch, PartitionKey], list[str]] = {}
    for roll in (epoch.manifest for epoch in history.open):
        names |= {(roll.epoch, key): [] for key in roll.rolled}
        for part in roll.parts:
            if (bucket := (roll.epoch, part.key)) in names:
                names[bucket].append(part.name)
    whole = {bucket: own for bucket, own in names.items() if bucket in seen.closed and hidden.keys() >= set(own)}
    found = {bucket: [hidden[name] for name in own] for bucket, own in whole.items()}
    return {bucket: parts for bucket, parts in found.items() if any(isinstance(one, Refuse) for one in parts)}


def _is_hidden(found: Publish | Refuse) -> bool:
    """Whether nothing is left of a part, but for files under its hidden name, where a start looks."""
    if isinstance(found, Refuse):
        if found.astray is not None:
            return False
        paths = [path for path, _ in found.found]
    else:
        paths = [found.source]
    part = found.part
    return all(path.rpartition("/")[2] == part.hidden != part.name for path in paths)


def _maybe_read(history: History) -> frozenset[str]:
    """The names of parts that some run may have made visible."""
    begun = (epoch.manifest for epoch in history.open if epoch.state is not EpochState.DECIDED)
    return frozenset(part.name for manifest in begun for part in manifest.publishes())


def closed_buckets(
    history: History, floor: Epoch, read: Callable[[Epoch], Manifest], segments: Mapping[str, int]
) -> tuple[Closed, frozenset[tuple[Epoch, PartitionKey]]]:
    """What waited in the buckets that open epochs have rolled; and those of which `segments` (lengths) lack some.

    `read` gives the log's manifests, those above its `floor`, and raises for one that is missing.
    """
    closed: dict[tuple[Epoch, PartitionKey], OpenBucket] = {}
    torn: set[tuple[Epoch, PartitionKey]] = set()
    for roll in (epoch.manifest for epoch in history.open if epoch.manifest.rolled):
        before = open_rows(read(epoch) for epoch in map(Epoch, range(roll.epoch - 1, floor, -1)))
        for key, slices in before.closed(roll).items():
            whole = [segments.get(one.segment, 0) >= one.offset + one.length for one in slices]
            if any(whole):
                closed[roll.epoch, key] = before.buckets[key].only(slices)
            if not all(whole):
                torn.add((roll.epoch, key))
    return closed, frozenset(torn)


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
    return {commit.key: manifest.epoch for manifest in new for commit in manifest.commits}
