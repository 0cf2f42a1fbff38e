"""Waiting for a partition until every writer has committed it: one look at a time, so that the caller may sleep."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from hivesink.core.partition import parse_path, partition_path
from hivesink.errors import HiveSinkError, InvalidOption, PartitionPathInvalid
from hivesink.tables.opened import open_table

if TYPE_CHECKING:
    from hivesink.sink.inspect.partitions import LogFollower, PartitionState
    from hivesink.tables.opened import OpenedTable


@dataclass(frozen=True, slots=True)
class Look:
    """What one look found: `states` has one for each writer, `waits_for` says in words what is missing.

    `waits_for` is None once all have committed the partition. `is_news`: the look before found something else.
    """

    partition: str
    states: tuple[PartitionState, ...]
    waits_for: str | None
    is_news: bool

    def __str__(self) -> str:
        if self.waits_for is not None:
            return f"{self.partition}: {self.waits_for}"
        revisions = ", ".join(
            f"revision {one.record.commit.revision} of writer {one.writer} ({one.record.commit.rows} rows)"
            for one in self.states
            if one.record
        )
        return f"{self.partition}: committed: {revisions or 'it is over, and has no rows'}"

    @property
    def commits(self) -> dict[str, Any]:
        """`partition` and `commits`, one for each writer: values that JSON has."""
        return {"partition": self.partition, "commits": [one.data for one in self.states]}


@dataclass(slots=True)
class PartitionWait:
    """A wait for `partition` (`dt=2024-01-02--03`) of `table`, for one `writer` or for all (None).

    `tolerant`: a metastore or file system that doesn't answer is waited for as well; otherwise `look` raises the error.
    """

    table: str
    partition: str
    writer: str | None = None
    metastore: str | None = None
    tolerant: bool = False
    _followers: dict[tuple[str, str, str | None], LogFollower] = field(default_factory=dict)
    _told: str | None = None

    def look(self) -> Look:
        """Look once. Each manifest is read once, however often this is called.

        Raises InvalidOption where the name doesn't fit the table or the writer is unknown, UnknownTable, Unsupported,
        SiteInvalid, LogDamaged, NewerFormat, LogCopied; MetastoreUnreachable, StoreUnavailable unless `tolerant`.
        """
        name, states = self.partition, tuple["PartitionState", ...]()
        try:
            with open_table(self.table, self.metastore) as opened:
                name = _checked(opened, self.partition)
                self._followers = self._followed(opened)
            now = datetime.now(timezone.utc)
            states = tuple(_state(one, (opened.name, name), now) for one in self._followers.values())
            missing = [f"writer {one.writer}: {one.waits_for}" for one in states if not one.is_complete]
            reason = "; ".join(missing) if states else f"no writer has written to {opened.name} yet"
        except HiveSinkError as error:
            if not (self.tolerant and error.retryable):
                raise
            reason = str(error)
        is_news, self._told = reason != self._told, reason
        return Look(name, states, reason or None, is_news)

    def _followed(self, opened: OpenedTable) -> dict[tuple[str, str, str | None], LogFollower]:
        """Those of before, but for logs that were begun anew: their epochs have other manifests."""
        logs = {(name, one.log.location, one.log.uid(None)): name for name, one in opened.chosen(self.writer).items()}
        return {key: self._followers.get(key) or opened.follower(name) for key, name in logs.items()}


def _state(follower: LogFollower, key: tuple[str, str], now: datetime) -> PartitionState:
    follower.read()
    return follower.state(key, now)


def _checked(opened: OpenedTable, partition: str) -> str:
    """The partition's name as Hive writes it. Raises InvalidOption."""
    columns = [column.name for column in opened.live.spec.partition_columns]
    try:
        pairs = parse_path(partition)
    except PartitionPathInvalid as error:
        raise InvalidOption((str(error),)) from error
    if [name for name, _ in pairs] != columns:
        form = "/".join(f"{name}=…" for name in columns) or "nothing: it has no partitions"
        raise InvalidOption((f"{partition!r} is no partition of {opened.name}: write {form}",))
    return partition_path(columns, [value for _, value in pairs])
