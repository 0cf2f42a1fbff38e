"""Exact statistics, from the footers of every file that a reader sees.

The accurate flag goes with every epoch that writes; it comes back, with fresh figures, at `stop`, at the end of
`availableNow` and wherever else a partition is at rest. Files are listed before and after the footers are
read: a listing that has changed leaves the partition without the flag.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, BinaryIO

from hivesink.ports import LivePartition, Statistics
from hivesink.sink.world import Place, World, by_table

if TYPE_CHECKING:
    from hivesink.core.epoch import Epoch

CountRows = Callable[[BinaryIO], int]


def refresh_statistics(world: World, head: Epoch, places: Iterable[Place], count_rows: CountRows) -> None:
    """Set exact figures for `places`. Raises FencedOut, StoreUnavailable and the metastore's errors."""
    wanted = set(places)
    if not wanted:
        return
    live = world.lookup(wanted)
    for table, partitions in by_table(live).items():
        found = [_exact(world, partition, live[table, partition], count_rows) for partition in partitions]
        exact = [figures for figures in found if figures is not None]
        world.require_head(head)
        world.registrar.set_statistics(world.table(table), exact)


def _exact(world: World, partition: str, live: LivePartition, count_rows: CountRows) -> Statistics | None:
    before = world.store.visible(live.location)
    rows = 0
    for file in before:
        with world.store.open(file.path) as stream:
            rows += count_rows(stream)
    if world.store.visible(live.location) != before:
        return None
    return Statistics(partition, len(before), sum(file.length for file in before), rows)
