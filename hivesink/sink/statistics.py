"""Exact statistics, from the footers of every file that a reader sees.

The accurate flag goes with every epoch that writes; it comes back, with fresh figures, at `stop`, at the end of
`availableNow` and wherever else a partition is at rest. Files are listed before and after the footers are
read: a listing that has changed leaves the partition without the flag.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, BinaryIO

from hivesink.core.partition import LivePartition, Place, Statistics
from hivesink.core.plan import by_table
from hivesink.errors import StoreUnavailable

if TYPE_CHECKING:
    from hivesink.core.epoch import Epoch
    from hivesink.sink.world import World

CountRows = Callable[[BinaryIO], int]


def refresh_statistics(world: World, head: Epoch, places: Iterable[Place], count_rows: CountRows) -> None:
    """Set exact figures for `places`. Raises FencedOut, StoreUnavailable and the metastore's errors."""
    wanted = set(places)
    if not wanted:
        return
    live = world.lookup(wanted)
    ordered = sorted(live.items())
    figures = world.store.together(partial(_exact, world, place[1], found, count_rows) for place, found in ordered)
    exact = dict(zip((place for place, _ in ordered), figures, strict=True))
    again = world.lookup(live)
    known = {
        place: found
        for place, found in exact.items()
        # Somebody may have moved the partition while footers were read.
        if found is not None and place in again and again[place].location == live[place].location
    }
    for table, partitions in by_table(known).items():
        world.require_head(head)
        world.registrar.set_statistics(world.table(table), [known[table, partition] for partition in partitions])


def _exact(world: World, partition: str, live: LivePartition, count_rows: CountRows) -> Statistics | None:
    before = world.store.visible(live.location)
    rows = 0
    try:
        for file in before:
            with world.store.open(file.path) as stream:
                rows += count_rows(stream)
    except StoreUnavailable:
        if world.store.visible(live.location) == before:
            raise
    if world.store.visible(live.location) != before:
        return None
    return Statistics(partition, len(before), sum(file.length for file in before), rows)
