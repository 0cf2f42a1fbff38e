"""Leftovers of tries that lost: which staged files may go, and the deletion of just those.

A staged file of epoch e may be deleted once a manifest at or above e exists and neither manifest e nor the open
state lists it. Touched-lists say in which folders to look.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from hivesink.core.epoch import Epoch
from hivesink.core.partname import parse_staged
from hivesink.errors import MetastoreUnreachable, NotWritable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from hivesink.core.log import Touched
    from hivesink.core.manifest import PartEntry
    from hivesink.sink.world import World

LINGER = 16
"""Epochs for which a loser's touched-list stays: a file that it asked for may yet be created, late."""

Winner = tuple[str, int]
"""An attempt, and a task attempt of it whose report was committed."""


def sweep(
    world: World,
    uid: str,
    head: Epoch,
    keep: Iterable[PartEntry],
    winners: Collection[Winner] = (),
) -> tuple[str, ...]:
    """Delete leftovers of epochs up to `head` where touched-lists point, and forget lists of no more use.

    `keep` are parts that are decided and not published yet. A winner's list points at no leftovers. During a
    query, which says who won, only tries at the head itself are news; recovery looks wherever a list points.
    Returns what was deleted. Raises FencedOut where another run has gone on, StoreUnavailable.
    """
    touched = [found for found in world.log.touched() if found.epoch <= head]
    losers = [found for found in touched if (found.attempt, found.task_attempt) not in winners]
    old = [found for found in losers if found.epoch <= head - LINGER]
    news = [found for found in losers if not winners or found.epoch == head] + old
    gone: tuple[str, ...] = ()
    if news:
        folders = sorted({folder for found in news for folder in world.log.folders(found)})
        world.require_head(head)
        gone = _delete(world, folders, leftovers(world, folders, uid, head, keep))
    world.log.forget([found for found in touched if found not in losers] + old)
    return gone


def leftovers(world: World, folders: Iterable[str], uid: str, head: Epoch, keep: Iterable[PartEntry]) -> list[str]:
    """Staged files of writer `uid` in `folders` that nothing can commit any more."""
    # By name, of which there is one: one folder may have two spellings (a NameNode's, and its nameservice's).
    kept = {part.staged.rpartition("/")[2] for part in keep}
    found = []
    listed = world.store.together(partial(world.store.staged, folder) for folder in folders)
    for inside in listed:
        for staged in inside:
            name = staged.rpartition("/")[2]
            parsed = parse_staged(name)
            if parsed and parsed[0].uid == uid and parsed[0].epoch <= head and name not in kept:
                found.append(staged)
    return found


def newest(touched: Iterable[Touched]) -> Epoch:
    """The highest epoch that any task has begun to write."""
    return max((found.epoch for found in touched), default=Epoch(0))


def _delete(world: World, folders: Iterable[str], staged: list[str]) -> tuple[str, ...]:
    world.store.discard(staged)
    emptied = {path.rpartition("/")[0] for path in staged}
    others = [folder for folder in folders if folder not in emptied]
    seen = world.store.together(partial(world.store.visible, folder) for folder in others)
    emptied |= {folder for folder, files in zip(others, seen, strict=True) if not files}
    unused = [folder for folder in folders if folder in emptied]
    _prune(world, unused)
    return tuple(staged)


def _prune(world: World, folders: list[str]) -> None:
    """Remove emptied folders, but not those of partitions that the metastore lists."""
    places = {}
    for folder in folders:
        table = world.owner(folder)
        if table is not None:
            partition = folder[len(world.table(table).location.rstrip("/")) + 1 :]
            # A partition that was moved may live in a folder of any name, which is then left alone.
            if partition and world.is_partition(table, partition):
                places[table, partition] = folder
    if not places:
        return
    # An empty folder harms nobody.
    with suppress(MetastoreUnreachable):
        registered = world.lookup(places)
        prune(world, (folder for place, folder in places.items() if place not in registered))


def prune(world: World, folders: Iterable[str]) -> None:
    """Remove those of `folders` that are empty and may be removed, the longest first."""
    for folder in sorted(folders, key=len, reverse=True):
        with suppress(NotWritable):
            world.store.prune([folder])
