"""Exact statistics, from every file that a reader sees: from its footer, and of columns, if wanted, from its values.

Every epoch that writes clears the accurate flag. It returns, with fresh figures, at `stop`, at the end of
`availableNow` and wherever else a partition is at rest. Files are listed before they are read, after that, and
again once the figures are set: if a listing differs, the partition stays without the flag. Another writer looks at the
flag after it has published, so whoever comes second sees the other and clears the flag.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, BinaryIO

from hivesink.core.partition import LivePartition, PartitionKey, Statistics, by_table
from hivesink.core.statistics import FileStatistics
from hivesink.core.table import Column
from hivesink.errors import FencedOut, HiveSinkError, StoreUnavailable

if TYPE_CHECKING:
    from hivesink.core.epoch import Epoch
    from hivesink.core.partfile import Finished
    from hivesink.sink.commit.context import CommitContext, WriterSpec

logger = logging.getLogger("hivesink")

Measure = Callable[[BinaryIO, Sequence[Column]], FileStatistics]
"""A file's figures, with those of the given columns. Raises ValueError if it is of another format, or damaged.

A pure function of the file, and what it returns adds up: it may as well run elsewhere, a file at a time.
"""


@dataclass(frozen=True, slots=True)
class Counted:
    """A partition's exact figures, and the files that they cover."""

    statistics: Statistics
    files: Sequence[Finished]


@dataclass(frozen=True, slots=True)
class WritersStatistics:
    """What a writer sets, unless another one could make it wrong."""

    context: CommitContext
    spec: WriterSpec

    def refresh(self, head: Epoch, places: Iterable[PartitionKey]) -> None:
        """Raises as `refresh_statistics`."""
        if self.spec.sole_writer():
            measure, columns = self.spec.measure, self.spec.config["sink.statistics.columns"]
            refresh_statistics(self.context, head, places, measure, columns)

    def settle(self, head: Epoch, places: Collection[PartitionKey]) -> None:
        """Where no more rows are expected while the query runs. Raises FencedOut."""
        if not places:
            return
        try:
            self.refresh(head, places)
        except FencedOut:
            raise
        except HiveSinkError as error:
            # No row depends on them, and the end of the query sets them again.
            logger.warning("no exact statistics of %d partitions: %s", len(places), error)


def refresh_statistics(
    context: CommitContext,
    head: Epoch,
    places: Iterable[PartitionKey],
    measure: Measure,
    columns: frozenset[str] | None = frozenset(),
) -> None:
    """Set exact figures for `places`, with those of `columns` (None: of all).

    Raises FencedOut, StoreUnavailable and the metastore's errors.
    """
    before = sorted(context.lookup(places).items())
    counts = context.store.run_parallel(
        partial(_counted, context, partition, live, measure, _wanted(context, table, columns))
        for (table, partition), live in before
    )
    after = context.lookup(place for place, _ in before)
    exact = {
        place: counted
        for (place, live), counted in zip(before, counts, strict=True)
        # Somebody may have moved the partition while footers were read.
        if counted is not None and place in after and after[place].location == live.location
    }
    for table, partitions in by_table(exact).items():
        context.require_head(head)
        _set(context, table, {(table, partition): exact[table, partition] for partition in partitions})


def _set(context: CommitContext, table: str, counted: Mapping[PartitionKey, Counted]) -> None:
    """Set figures, then clear the flag of partitions that have changed meanwhile or can't be checked."""
    changed = set(counted)
    try:
        # If this raises, some may have been set.
        able = context.registrar.set_statistics(context.table(table), [exact.statistics for exact in counted.values()])
        changed -= _unchanged(context, counted) if able else changed
    finally:
        if changed:
            context.registrar.clear_accurate(context.table(table), sorted(partition for _, partition in changed))


def _unchanged(context: CommitContext, counted: Mapping[PartitionKey, Counted]) -> set[PartitionKey]:
    live = context.lookup(counted)
    listed = context.store.run_parallel(partial(context.store.visible_alone, live[place].location) for place in live)
    return {place for place, files in zip(live, listed, strict=True) if files == counted[place].files}


def _wanted(context: CommitContext, table: str, columns: frozenset[str] | None) -> tuple[Column, ...]:
    declared = context.table(table).spec.columns
    return tuple(column for column in declared if columns is None or column.name in columns)


def _counted(
    context: CommitContext, partition: str, live: LivePartition, measure: Measure, columns: Sequence[Column]
) -> Counted | None:
    before = context.store.visible_alone(live.location)
    if before is None:
        return None  # As after UNION ALL in Hive on Tez, which reads HIVE_UNION_SUBDIR_1 too.
    found = FileStatistics()
    try:
        for file in before:
            with context.store.open(file.path) as stream:
                found += measure(stream, columns)
    except StoreUnavailable:
        if context.store.visible_alone(live.location) == before:
            raise
    except ValueError as error:
        # Readers fail on such a file too, which isn't this sink's.
        logger.warning("no exact statistics of %s: %s can't be read (%s)", partition or live.location, file.path, error)
        return None
    if context.store.visible_alone(live.location) != before:
        return None
    known = tuple((column, found.columns[column.name]) for column in columns if column.name in found.columns)
    length = sum(file.length for file in before)
    exact = Statistics(partition, len(before), length, found.rows, found.raw_bytes, known)
    return Counted(exact, before)
