"""Waiting for a partition until every writer has committed it: a look at a time, so that the caller may sleep."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from hivesink.core.partition import PartitionKey, parse_path, partition_path
from hivesink.core.partition_value import canonical
from hivesink.core.progress import Policies, count
from hivesink.core.table import Column
from hivesink.errors import HiveSinkError, InvalidOption
from hivesink.sink.inspect.facts import LogFollower, PartitionState
from hivesink.tables.opened import OpenedTable, open_table

_FIGURES = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|(\d+ days?, )?\d+:\d\d:\d\d|[\d,]+ rows?")
"""What changes in a reason with each batch and each look."""
_EXAMPLE = datetime(2024, 1, 2, 3, 4, 5)  # noqa: DTZ001  a wall clock


@dataclass(frozen=True, slots=True)
class Look:
    """What one look found: `states` has one for each writer, `waits_for` says in words what is missing.

    `waits_for` is None once each of them has committed the partition, or has no rows of it though it is over.
    `is_news`: the look before found something else than other times, durations and numbers of rows.
    """

    partition: str
    states: tuple[PartitionState, ...]
    waits_for: str | None
    is_news: bool

    def __str__(self) -> str:
        if self.waits_for is not None:
            return f"{self.partition}: {self.waits_for}"
        revisions = ", ".join(
            f"revision {state.record.commit.revision} of writer {state.writer} "
            f"({count(state.record.commit.rows, 'row')})"
            for state in self.states
            if state.record
        )
        if not revisions:
            return f"{self.partition}: over: no rows of writer {', '.join(state.writer for state in self.states)}"
        return f"{self.partition}: committed: {revisions}"

    @property
    def commits(self) -> dict[str, Any]:
        """`partition` and each writer's `commits`: values that JSON has."""
        return {"partition": self.partition, "commits": [state.data for state in self.states]}


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
    _followers: dict[tuple[str, str], LogFollower] = field(default_factory=dict)
    _told: str | None = None

    def look(self) -> Look:
        """Look once. Each manifest is read once, however often this is called.

        Raises InvalidOption where the name doesn't fit the table or the writer is unknown, UnknownTable, Unsupported,
        LogDamaged; MetastoreUnreachable, StoreUnavailable unless `tolerant`.
        """
        name, states = self.partition, list[PartitionState]()
        try:
            with open_table(self.table, self.metastore) as opened:
                name = _checked(opened, self.partition)
                self._follow(opened)
            key, columns = (opened.name, name), opened.live.spec.partition_columns
            if not self._followers:
                # Nobody has written yet, and might never be able to: the table's settings are all there is.
                _require_possible(opened.policies(None), key, columns, None)
            now = datetime.now(timezone.utc)
            for follower in self._followers.values():
                follower.read()
                [state] = follower.states(now, [key])
                _require_possible(follower.policies, key, columns, state)
                # A writer counts from its first epoch on: a start that was refused leaves a log, too.
                if follower.facts.head is not None:
                    states.append(state)
            missing = [f"writer {state.writer}: {state.waits_for}" for state in states if not state.is_complete]
            if 0 < len(missing) < len(states):
                missing.append("other writers have committed it: name one to wait for it alone")
            reason = "; ".join(missing) if states else f"no writer has written to {opened.name} yet"
        except HiveSinkError as error:
            if not (self.tolerant and error.retryable):
                raise
            states, reason = [], str(error)
        about = _FIGURES.sub("", reason)
        is_news, self._told = about != self._told, about
        return Look(name, tuple(states), reason or None, is_news)

    def _follow(self, opened: OpenedTable) -> None:
        """Keep the followers of before, but for logs that were begun anew: their epochs have other manifests."""
        # A replay of dead letters completes no partition, and holds none back.
        writers = opened.jobs if self.writer is None else opened.chosen(self.writer)
        followers = {}
        for name, context in writers.items():
            key = (name, context.log.location)
            # The table may have been altered since.
            followers[key] = self._followers.get(key) or LogFollower(name, context.log, opened.policies)
            followers[key].policies_of = opened.policies
        self._followers = followers


def _require_possible(
    policies: Policies, key: PartitionKey, columns: Sequence[Column], state: PartitionState | None
) -> None:
    """Raise InvalidOption for a name for which no row ever comes, or that lacks the time which its commit needs."""
    table, partition = key
    names, values = policies.names, dict(parse_path(partition))
    if names is not None and not (state and state.has_rows):
        start = names.start(values)
        texts = {name: pattern.format(start or _EXAMPLE) for name, pattern in names.patterns}
        if None not in map(values.get, texts):
            made = _path(columns, [*(values | texts).values()])
            if start is None or made != partition:
                raise InvalidOption((f"{partition!r} is no partition that {table} can have: write it as in {made}",))
    if policies.rule.is_unknown(key) and not (state and state.is_complete):
        what = f"no time can be read from its values by the partition.time-extractor settings of {table}"
        raise InvalidOption((f"{partition!r} is never committed: {what}",))


def _checked(opened: OpenedTable, partition: str) -> str:
    """The partition's name as Hive writes it. Raises InvalidOption, PartitionInvalid."""
    columns = opened.live.spec.partition_columns
    names = [column.name for column in columns]
    pairs = parse_path(partition)
    if [name for name, _ in pairs] == names:
        return _path(columns, [value for _, value in pairs])
    form = "/".join(f"{name}=…" for name in names) or "nothing: it has no partitions"
    raise InvalidOption((f"{partition!r} is no partition of {opened.name}: write {form}",))


def _path(columns: Sequence[Column], values: Sequence[str | None]) -> str:
    texts = [canonical(value, column.type) for value, column in zip(values, columns, strict=True)]
    return partition_path([column.name for column in columns], texts)
