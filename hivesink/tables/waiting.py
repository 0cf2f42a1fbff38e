"""Waiting for a partition until every writer has committed it: one look at a time, so that the caller may sleep."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from hivesink.core.manifest import REPLAYS
from hivesink.core.partition import parse_path, partition_path
from hivesink.core.partition_time import FromTemplate
from hivesink.core.partition_value import canonical
from hivesink.core.progress import count
from hivesink.core.rolling import OpenRows
from hivesink.core.table import Primitive
from hivesink.errors import HiveSinkError, InvalidOption, PartitionInvalid, WrongUsage
from hivesink.tables.opened import open_table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from hivesink.core.partition import PartitionKey
    from hivesink.core.partition_commit import CommitRule
    from hivesink.core.partition_time import FromPatterns
    from hivesink.core.records import Slice
    from hivesink.core.table import Column
    from hivesink.core.why_open import Policies
    from hivesink.sink.inspect.partitions import LogFollower, PartitionState
    from hivesink.tables.opened import OpenedTable

_CHECK = 60.0
"""Seconds between two looks at the segments of rows that wait."""
_EXAMPLE = datetime(2024, 1, 2, 3, 4, 5)  # noqa: DTZ001  a wall clock


@dataclass(frozen=True, slots=True)
class Look:
    """What one look found: `states` has one for each writer, `waits_for` says in words what is missing.

    `waits_for` is None once each of them has committed the partition, or has no rows of it though it is over.
    `is_news`: the look before found something else.
    """

    partition: str
    states: tuple[PartitionState, ...]
    waits_for: str | None
    is_news: bool

    def __str__(self) -> str:
        if self.waits_for is not None:
            return f"{self.partition}: {self.waits_for}"
        revisions = ", ".join(
            f"revision {one.record.commit.revision} of writer {one.writer} ({count(one.record.commit.rows, 'row')})"
            for one in self.states
            if one.record
        )
        if not revisions:
            return f"{self.partition}: over: no rows of writer {', '.join(one.writer for one in self.states)}"
        return f"{self.partition}: committed: {revisions}"

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
    _held: dict[str, tuple[float, tuple[Slice, ...], str | None]] = field(default_factory=dict)
    """Of each writer: when the partition's segments were looked at, which, and what was found."""

    def look(self) -> Look:
        """Look once. Each manifest is read once, however often this is called.

        Raises InvalidOption where the name doesn't fit the table or the writer is unknown, UnknownTable, Unsupported,
        SiteInvalid, LogDamaged, NewerFormat; MetastoreUnreachable, StoreUnavailable unless `tolerant`.
        """
        name, states = self.partition, tuple["PartitionState", ...]()
        try:
            with open_table(self.table, self.metastore) as opened:
                name = _checked(opened, self.partition)
                self._followers = self._followed(opened)
            if not self._followers:
                # Nobody has written yet, and might never be able to: the table's settings are all there is.
                _require_times(opened.policies(None), (opened.name, name), opened.live.spec.partition_columns)
            now = datetime.now(timezone.utc)
            key, columns = (opened.name, name), opened.live.spec.partition_columns
            both = [
                (one, self._explained(opened, one, _state(one, key, columns, now))) for one in self._followers.values()
            ]
            # A writer counts from its first epoch on: a start that was refused leaves a log, too.
            states = tuple(state for one, state in both if one.head is not None)
            missing = [f"writer {one.writer}: {one.waits_for}" for one in states if not one.is_complete]
            if 0 < len(missing) < len(states):
                missing.append("other writers have committed it: name one to wait for it alone")
            reason = "; ".join(missing) if states else f"no writer has written to {opened.name} yet"
        except HiveSinkError as error:
            if not (self.tolerant and error.retryable):
                raise
            reason = str(error)
        is_news, self._told = reason != self._told, reason
        return Look(name, states, reason or None, is_news)

    def _explained(self, opened: OpenedTable, follower: LogFollower, state: PartitionState) -> PartitionState:
        """`state`; rows that can't be rolled are named so. That takes a look at their segments: not at each one."""
        at, slices, reason = self._held.get(follower.writer, (float("-inf"), (), None))
        bucket = follower.open.buckets.get(state.key)
        if bucket is None or not bucket.slices:
            return state
        if time.monotonic() - at >= _CHECK or not {*slices} <= {*bucket.slices}:
            reason = opened.held_back(follower, OpenRows({state.key: bucket})).get(state.key)
            self._held[follower.writer] = time.monotonic(), bucket.slices, reason
        return state if reason is None else replace(state, waits_for=reason)

    def _followed(self, opened: OpenedTable) -> dict[tuple[str, str, str | None], LogFollower]:
        """Those of before, but for logs that were begun anew: their epochs have other manifests."""
        chosen = opened.chosen(self.writer)
        # A replay of dead letters completes no partition, and holds none back.
        names = [name for name in chosen if name != REPLAYS or self.writer is not None]
        logs = {(name, chosen[name].log.location, chosen[name].log.uid(None)): name for name in names}
        found = {key: self._followers.get(key) or opened.follower(name) for key, name in logs.items()}
        for follower in found.values():
            # The table may have been altered since.
            follower.policies_of = opened.policies
        return found


def _state(follower: LogFollower, key: PartitionKey, columns: Sequence[Column], now: datetime) -> PartitionState:
    follower.read()
    state = follower.state(key, now)
    if not state.has_rows:
        _require_possible(follower.policies.names, key, columns)
        _require_likely(follower, key, {column.name for column in columns if column.type is Primitive.STRING})
    if not state.is_complete:
        _require_known(follower.policies.rule, key)
    return state


def _require_times(policies: Policies, key: PartitionKey, columns: Sequence[Column]) -> None:
    """Raise InvalidOption for a name that never comes, or that lacks the time which its commit needs."""
    _require_possible(policies.names, key, columns)
    _require_known(policies.rule, key)


def _require_known(rule: CommitRule, key: PartitionKey) -> None:
    if rule.is_unknown(key):
        what = f"no time can be read from its values by the partition.time-extractor settings of {key[0]}"
        raise InvalidOption((f"{key[1]!r} is never committed: {what}",))


def _require_likely(follower: LogFollower, key: PartitionKey, texts: AbstractSet[str]) -> None:
    """Raise InvalidOption for a time whose `texts` are spelled as in no partition of the log.

    No row may ever have that name; values of other types have one spelling only.
    """
    clock = follower.policies.rule.clock
    if clock is None or not isinstance(clock.extractor, FromTemplate):
        return
    # What no time can be read from is no example.
    places = sorted(place for place in follower.places if not follower.policies.rule.is_unknown(place))
    known = [partition for table, partition in places if table == key[0]]
    names = [name for name in clock.extractor.columns if name in texts]

    def form(partition: str) -> tuple[str, ...]:
        values = dict(parse_path(partition))
        return tuple(re.sub(r"\d", "0", values[name] or "") for name in names)

    if known and form(key[1]) not in map(form, known):
        raise InvalidOption((f"{key[1]!r} is spelled like no partition of {key[0]}: write it as in {known[-1]}",))


def _require_possible(names: FromPatterns | None, key: PartitionKey, columns: Sequence[Column]) -> None:
    """Raise InvalidOption for a name that the table's time patterns never make: no row ever comes for it."""
    table, partition = key
    values = dict(parse_path(partition))
    if names is None:
        return
    start = names.start(values)
    texts = {name: pattern.format(start or _EXAMPLE) for name, pattern in names.patterns}
    if None in map(values.get, texts):
        return
    made = _path(columns, [*(values | texts).values()])
    if start is None or made != partition:
        raise InvalidOption((f"{partition!r} is no partition that {table} can have: write it as in {made}",))


def _checked(opened: OpenedTable, partition: str) -> str:
    """The partition's name as Hive writes it. Raises WrongUsage."""
    columns = opened.live.spec.partition_columns
    names = [column.name for column in columns]
    try:
        pairs = parse_path(partition)
        if [name for name, _ in pairs] == names:
            return _path(columns, [value for _, value in pairs])
    except PartitionInvalid as error:
        raise WrongUsage((str(error),)) from error
    form = "/".join(f"{name}=…" for name in names) or "nothing: it has no partitions"
    raise WrongUsage((f"{partition!r} is no partition of {opened.name}: write {form}",))


def _path(columns: Sequence[Column], values: Sequence[str | None]) -> str:
    texts = [canonical(value, column.type) for value, column in zip(values, columns, strict=True)]
    return partition_path([column.name for column in columns], texts)
