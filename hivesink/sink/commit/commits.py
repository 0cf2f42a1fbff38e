"""What the driver knows of partition commits: the watermark, which partitions are over, and their last records."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from hivesink.core.offsets import FilesOffset, KafkaOffset
from hivesink.core.partition import PartitionKey
from hivesink.core.partition_commit import commit_after, due_commits
from hivesink.core.watermark import Watermark, latest, newest_likely
from hivesink.errors import Unsupported
from hivesink.sink.commit.observe import load_commits

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from hivesink.core.epoch import BatchRef
    from hivesink.core.manifest import Manifest, PartEntry
    from hivesink.core.partition_commit import CommitRule, Waits
    from hivesink.core.records import Commit
    from hivesink.core.roll_policy import Ages
    from hivesink.core.rolling import OpenRows
    from hivesink.core.watermark import WatermarkPolicy
    from hivesink.sink.commit.context import CommitContext
    from hivesink.sink.task.messages import InputShape, TaskReport

logger = logging.getLogger("hivesink")

_ALL = ""
"""The name of all input, where no partitions are told apart."""
_BATCHES = "batches"
"""The name under which batches count, with rows or without: records that the query filters out are no silence."""
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True)
class InputTraits:
    """What is known of a query's input before its first batch.

    `planned`: its first batch may have been planned before this run. `ends_early`: all of this run's batches were
    planned at its start, as by the trigger `availableNow`. `limit`: the most records of a batch, if there is one.
    `is_piecewise`: a batch may leave files unread. `defers`: a source leaves rows unread until there are enough.
    `holds_back`: Spark's operators keep rows for later.
    """

    planned: bool = False
    ends_early: bool = False
    limit: int | None = None
    is_piecewise: bool = False
    defers: bool = False
    holds_back: bool = False


@dataclass(slots=True)
class PartitionCommits:
    """How long each partition of the source has been silent, and the commits in the log.

    Silence is told by a monotonic clock, between two runs by the manifests' times. `_heard`: no later than then have
    rows of a source partition come. `_last_poll`: no earlier than then has Spark asked for rows, and got what batches
    held.
    """

    context: CommitContext
    rule: CommitRule
    policy: WatermarkPolicy
    traits: InputTraits = field(default_factory=InputTraits)
    _heard: dict[str, float] = field(default_factory=dict)
    _last_poll: float | None = None
    _started: float | None = None
    _ended: float | None = None
    """When the last batch of this run ended: Spark has asked nothing while it ran."""
    _base: datetime | None = None
    """Where the clock goes on in the next silence: `Watermark.clock`, the watermark of before this run, Spark's own."""
    _next: datetime | None = None
    """The one that Spark's next batch will have."""
    _known: dict[PartitionKey, Commit] | None = None
    _warned: bool = False

    def start(self, head: Manifest | None) -> None:
        """A run begins: take up the silence of before it, as the manifests' times show it.

        Cap the silence at `idle-timeout`, so that a wrong clock can't advance the watermark.
        """
        if self._started is not None:
            return
        self._started, now = self.context.tick(), self.context.now()
        mark = head.watermark if head else None
        if head is None or mark is None:
            return
        self._base = latest(mark.at, mark.clock)
        self._heard[_BATCHES] = self._started - self.policy.idle.total_seconds()
        for name in mark.newest or [_ALL]:
            silence = min(max(now - mark.quiet.get(name, head.at), timedelta(0)), self.policy.idle)
            self._heard[name] = self._started - silence.total_seconds()

    def asked(self, tick: float) -> None:
        """Spark has asked the source for new rows then or later, and got none unless a batch has come since."""
        since = self._started if self._ended is None else self._ended
        if since is not None and tick >= since and not self.traits.defers:
            self._last_poll = max(tick, self._last_poll or tick)

    def knows_next(self, at: datetime) -> None:
        """Spark's next batch will have this watermark, if its operators are done with the rows of the last one."""
        if not self.traits.holds_back:
            self._next = min(at, self.context.now())

    def mark(self, head: Manifest | None) -> Watermark | None:
        """The watermark as it is now, while no batch comes."""
        before = head.watermark if head else None
        if before and before.newest:
            silent = self._idle([*before.newest, _BATCHES])
            return replace(replace(before, clock=self._base).reached(silent, self.policy), quiet=self._quiet(before))
        idle = self._idle([_ALL])[_ALL]
        # Until the input is silent, the next batch may bring more of what the last one left unread.
        mark = (before or Watermark()).gone_on(latest(self._base, self._next), idle, self.policy)
        return replace(mark, clock=self._base) if mark.at else before

    def mark_after(
        self, head: Manifest | None, batch: BatchRef, shape: InputShape, reports: Iterable[TaskReport], began: float
    ) -> Watermark | None:
        """The watermark once `batch` has been read, which began then; None where nothing says what it is."""
        goes_on = not (self.traits.holds_back or self.traits.defers)
        before = replace((head.watermark if head else None) or Watermark(), goes_on=goes_on)
        if all(idle >= self.policy.idle for idle in self._idle(before.newest or [_ALL]).values()):
            mark = self.mark(head)
            self._base = latest(self._base, mark.at if mark else None)
            # Input that comes again after a pause may do so one partition after the other.
            self._heard |= dict.fromkeys(before.newest, began)
        self._note_planned(began, batch)
        if shape.event_time is None:
            self._heard[_ALL] = began
            # The sink's own of earlier settings would go on by the clock, since its sources are silent.
            # A wrong time in the future ends no hour that is still to come.
            sparks = shape.watermark and min(shape.watermark, self.context.now())
            mark = Watermark(before.at, goes_on=goes_on).at_least(sparks)
            self._base, self._next = latest(self._base, mark.at), None
            return replace(mark, clock=self._base) if mark.at else None
        # Of what operators keep no row may ever say that it is from there.
        now, sources = self.context.now(), [] if self.traits.holds_back else _sources(batch, shape)
        limit = now + self.policy.idle
        if sources and _ALL not in sources:
            before = before.without(_ALL)
        seen = before.saw(dict.fromkeys(sources), now)
        names = dict.fromkeys(name for report in reports for name in report.newest)
        times = _by_source(reports, limit)
        # A wrong time in the future says nothing, but where there are no others.
        times = {name: at for name, at in times.items() if at <= limit or seen.newest.get(name) is None}
        seen = seen.saw(names, now).saw(times, now)
        # Ignore partitions that never had an event time: one of them would hold the watermark for ever.
        rows = (name for name in names if seen.newest.get(name) is not None)
        self._heard |= dict.fromkeys([*times, *rows, *self._unread(batch)], began)
        mark = replace(seen, clock=self._base).reached(self._idle([*seen.newest, _BATCHES]), self.policy)
        self._heard[_BATCHES] = began
        quiet = {name: at for name, at in self._quiet(seen).items() if self._heard[name] < began}
        return replace(mark, quiet=quiet)

    def is_news(self, head: Manifest, mark: Watermark | None) -> bool:
        """Whether the watermark has gone on since that manifest."""
        return mark is not None and mark.at is not None and mark.at != (head.watermark or Watermark()).at

    def is_awaited(self, head: Manifest, mark: Watermark | None) -> bool:
        """Whether no manifest says yet that the end of a partition has passed that other settings have committed."""
        before, now = head.watermark or Watermark(), mark or Watermark()
        ends = (self.rule.end(key) for key in self.read())
        return any(end is not None and now.has_passed(end) and not before.has_passed(end) for end in ends)

    def waits(self, ages: Mapping[PartitionKey, Ages], head: Manifest | None) -> Waits:
        """As `due_commits`."""
        opened = {key: age.open for key, age in ages.items()}
        return due_commits(self.rule, opened, self.mark(head) or Watermark(), self)

    def final(self, keys: AbstractSet[PartitionKey]) -> set[PartitionKey]:
        """Those of `keys` whose commits have waited until no more rows are expected."""
        return {key for key in keys if self.rule.holds(key)}

    def __contains__(self, key: object) -> bool:
        """Whether the log has a commit of that partition."""
        return key in self.read()

    def records(
        self,
        keys: Iterable[PartitionKey],
        rows: OpenRows,
        parts: Iterable[PartEntry],
        ages: Mapping[PartitionKey, Ages],
        mark: Watermark | None,
    ) -> tuple[Commit, ...]:
        """The commits of those of `keys` that can be committed, once `parts` are published: no row of these waits."""
        counts, files = Counter[PartitionKey](), Counter[PartitionKey]()
        for part in parts:
            counts[part.key] += part.rows
            files[part.key] += 1
        commits = []
        for key in sorted(keys):
            if self.rule.is_unknown(key):
                if not self._warned:
                    logger.warning("%s %s is never committed: no time can be read from its values", *key)
                self._warned = True
                continue
            is_late = key in self and self.rule.end(key) is None
            if is_late or self.rule.is_over(key, ages[key].open if key in ages else timedelta(0), mark or Watermark()):
                before_rows, before_files = rows.published(key)
                total = before_rows + counts[key], before_files + files[key]
                commits.append(commit_after(self.read().get(key), key, *total))
        return tuple(commits)

    def decided(self, manifest: Manifest) -> None:
        """Remember what `manifest` commits."""
        if self._known is not None:
            self._known |= {commit.key: commit for commit in manifest.commits}

    def forget(self) -> None:
        """Another run may have written to the log."""
        self._known = None

    def read(self) -> dict[PartitionKey, Commit]:
        """The log's commits, read once.

        A start doesn't wait for that. An epoch that may commit reads them before its tasks run, since nothing may take
        time between the last look at staged files and the decision.
        """
        if self._known is None:
            self._known = load_commits(self.context, self.rule.table)
        return self._known

    def _note_planned(self, began: float, batch: BatchRef) -> None:
        """A batch has been planned, no earlier than the one before it ended; the first one, than this run began."""
        first = None if self.traits.planned else self._started
        planned = first if self._ended is None or self.traits.ends_early else self._ended
        # Of several sources, one that defers its rows may have been passed over.
        if planned is not None and not (self.traits.defers and len(batch.end) > 1):
            self._last_poll = max(planned, self._last_poll or planned)
        self._ended = began

    def ended(self) -> None:
        self._ended = self.context.tick()

    def _unread(self, batch: BatchRef) -> list[str]:
        """The partitions of which a batch has read records, perhaps all filtered out, and may have left others unread.

        That is one as large as may be; of other sources than Kafka and files, and of files beside Kafka, nobody knows.
        """
        moved, others = _moved(batch), {end for end in batch.end if not isinstance(end, KafkaOffset)} - set(batch.start)
        reads_all = not (moved or self.traits.is_piecewise) and all(isinstance(end, FilesOffset) for end in others)
        names = [_ALL] if others and not reads_all else []
        if self.traits.limit is not None and sum(moved.values()) + len(moved) >= self.traits.limit:
            names += [_ALL, *(name for name, count in moved.items() if count)]
        return names

    def _quiet(self, mark: Watermark) -> dict[str, datetime]:
        """Since when the source's partitions have been silent (UTC)."""
        tick, now = self.context.tick(), self.context.now()
        return {name: now - timedelta(seconds=tick - self._heard.setdefault(name, tick)) for name in mark.newest}

    def _idle(self, names: Iterable[str]) -> dict[str, timedelta]:
        poll = None if self.traits.holds_back else self._last_poll
        heard = {name: self._heard.setdefault(name, self.context.tick()) for name in names}
        return {name: timedelta(seconds=max((poll or at) - at, 0.0)) for name, at in heard.items()}


def _by_source(reports: Iterable[TaskReport], limit: datetime) -> dict[str, datetime]:
    """The newest event time of each source partition, as `newest_likely` has it."""
    times: dict[str, list[datetime]] = {}
    for name, at in (both for report in reports for both in report.newest.items()):
        if at is not None:
            times.setdefault(name, []).append(_EPOCH + timedelta(microseconds=at))
    newest = ((name, newest_likely(known, limit)) for name, known in times.items())
    return {name: at for name, at in newest if at is not None}


def _moved(batch: BatchRef) -> dict[str, int]:
    """How many records of each Kafka partition the batch may cover: it is as large as may be, or smaller.

    One that is new to the batch, or was made again, may have been read from its beginning.
    """
    counts: dict[str, int] = {}
    for start, end in zip(batch.start, batch.end, strict=True):
        if isinstance(end, KafkaOffset):
            first = dict(start.next) if isinstance(start, KafkaOffset) else {}
            counts |= {f"{name[0]}-{name[1]}": _records(first.get(name, 0), last) for name, last in end.next}
    return counts


def _records(start: int, end: int) -> int:
    return end - start if end >= start else end


def _sources(batch: BatchRef, shape: InputShape) -> list[str]:
    """The partitions of the source, if rows say which they come from. Raises Unsupported if two have one name."""
    if shape.partition is None:
        return [_ALL]
    # One that the stream reads twice, as in a union with itself, is there twice.
    ends = list(dict.fromkeys(end for end in batch.end if isinstance(end, KafkaOffset)))
    names = [f"{topic}-{number}" for end in ends for (topic, number), _ in end.next]
    if len(set(names)) < len(names):
        what = "a watermark of the sink's own where two sources of the stream read a topic of the same name"
        way = "give each source a watermark of Spark's (withWatermark)"
        raise Unsupported(what, "rows don't say which of them they are of", way)
    return names if all(isinstance(end, KafkaOffset) for end in batch.end) else [*names, _ALL]
