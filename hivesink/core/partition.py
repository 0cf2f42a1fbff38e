"""Partitions as a metastore holds them, and as the sink asks for them. All are named by their escaped path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

PartitionKey = tuple[str, str]
"""A table's name and a partition's escaped path (`""`: the unpartitioned table itself)."""


@dataclass(frozen=True, slots=True)
class LivePartition:
    """A registered partition. `accurate`: `COLUMN_STATS_ACCURATE` says that statistics hold."""

    partition: str
    location: str
    accurate: bool
    columns_behind: bool


@dataclass(frozen=True, slots=True)
class NewPartition:
    """A partition to register: its escaped path, its folder, its files' number and bytes."""

    partition: str
    location: str
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Statistics:
    """Exact figures of a partition (`""`: of an unpartitioned table), for Hive to answer from."""

    partition: str
    files: int
    bytes: int
    rows: int


def by_table(places: Iterable[PartitionKey]) -> dict[str, list[str]]:
    """Distinct partitions by table, both sorted."""
    found: dict[str, list[str]] = {}
    for table, partition in sorted(set(places)):
        found.setdefault(table, []).append(partition)
    return found
