"""How long the query's source has been silent, and where that takes the watermark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone

from hivesink.core.epoch import BatchRef
from hivesink.core.manifest import Manifest
from hivesink.core.offsets import KafkaOffset, ends, moved
from hivesink.core.partition_commit import Watermark, WatermarkPolicy, latest, newest_likely
from hivesink.errors import Unsupported
from hivesink.sink.commit.context import CommitContext
from hivesink.sink.task.messages import InputShape, TaskReport

_ALL = ""
"""The name of all input, where rows don't say which partition they are of."""
_BATCHES = "batches"
"""The name of batches, with rows or without: records that the query filters out are no silence."""
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_NEVER = float("-inf")


@dataclass(frozen=True, slots=True)
class InputTraits:
    """What is known of a query's input before its first batch.

    `planned`: its first batch may have been planned before this run. `ends_early`: all of this run's batches were
    planned at its start, as by the trigger `availableNow`. `defers`: a source leaves rows unread until there are
    enough. `holds_back`: Spark's operators keep rows for later.
    """

    planned: bool = False
    ends_early: bool = False
    defers: bool = False
    holds_back: bool = False


@dataclass(slots=True)
class SourceClock:
    """The watermark of a run.

    A partition is silent until Spark's last request for rows, as far as batches hold what it got: while a batch is
    planned, runs or fails, nobody asks. Silence before the run is what the manifests' times show, `idle-timeout` at
    most, so that a wrong clock can't advance the watermark.
    """

    context: CommitContext
    policy: WatermarkPolicy
    traits: InputTraits = field(default_factory=InputTraits)
    _began: float | None = None
    _free: float = _NEVER
    """When the run began or its last batch ended."""
    _asked: float = _NEVER
    """The last time at which Spark has asked; no later."""
    _heard: dict[str, float] = field(default_factory=dict)
    """When rows of each partition have come; no earlier."""
    _reached: datetime | None = None
    """Where the clock goes on in the next silence."""
    _following: datetime | None = None
    """The watermark of Spark's next batch."""

    def start(self, head: Manifest | None) -> None:
        if self._began is not None:
            return
        self._began = self._free = self.context.tick()
        mark = head.watermark if head else None
        if head is None or mark is None:
            return
        self._reached = latest(mark.at, mark.clock)
        self._heard[_BATCHES] = self._began - self.policy.idle.total_seconds()
        for name in mark.newest or [_ALL]:
            silence = self.context.now() - mark.quiet.get(name, head.at)
            silence = min(max(silence, timedelta(0)), self.policy.idle)
            self._heard[name] = self._began - silence.total_seconds()

    def asked(self, tick: float, following: datetime | None = None) -> None:
        """Spark has asked the source for new rows then or later, and got none unless a batch has come since.

        `following`: the watermark that its next batch will have, if its operators are done with the rows of the last.
        """
        if self._began is not None and tick >= self._free and not self.traits.defers:
            self._asked = max(tick, self._asked)
        if following is not None and not self.traits.holds_back:
            self._following = min(following, self.context.now())

    def ended(self) -> None:
        self._free = self.context.tick()

    def mark(self, head: Manifest | None) -> Watermark | None:
        """The watermark as it is now, while no batch comes."""
        before = (head.watermark if head else None) or Watermark()
        # Until the input is silent, the next batch may bring more of what the last batch left unread.
        clock, names = self._reached, [*before.newest, _BATCHES]
        if not before.newest:
            clock, names = latest(clock, self._following), [_ALL]
        mark = replace(before, clock=clock).reached(self._silence(names), self.policy)
        mark = replace(mark, clock=self._reached, quiet=self._quiet(before.newest))
        return mark if mark.newest or mark.at else None

    def mark_after(
        self,
        head: Manifest | None,
        batch: BatchRef,
        shape: InputShape,
        reports: Iterable[TaskReport],
        began: float,
        *,
        behind: int | None,
    ) -> Watermark | None:
        """The watermark once `batch` has been read, which began then; None where nothing says what it is.

        `behind`: how many records it has left unread; None: nobody knows.
        """
        before = (head.watermark if head else None) or Watermark()
        if all(silence >= self.policy.idle for silence in self._silence(before.newest or [_ALL]).values()):
            mark = self.mark(head)
            self._reached = latest(self._reached, mark.at if mark else None)
            # Input that comes again after a pause may do so partition by partition.
            self._heard |= dict.fromkeys(before.newest, began)
        planned = self._began if self.traits.ends_early else self._free
        is_earlier_runs = self.traits.planned and planned == self._began
        # A batch has been planned: no earlier than the batch before it ended, or the run began. A source that defers
        # its rows may, beside others, have been passed over.
        if planned is not None and not is_earlier_runs and not (self.traits.defers and len(batch.end) > 1):
            self._asked = max(planned, self._asked)
        if shape.event_time is None:
            return self._sparks(before, shape.watermark, began)
        now = self.context.now()
        # Of what operators keep no row may ever say that it is from there.
        sources = [] if self.traits.holds_back else _partitions(batch, shape)
        if sources and _ALL not in sources:
            before = replace(before, newest={name: time for name, time in before.newest.items() if name != _ALL})
        times = _newest(reports, before.newest, now + self.policy.idle)
        seen = before.saw(dict.fromkeys(sources), now).saw(times, now)
        # Ignore partitions that never had an event time: they would hold the watermark for ever.
        heard = [name for name in times if seen.newest.get(name) is not None]
        self._heard |= dict.fromkeys(heard, began)
        # It may not have read them to their end, perhaps without a row.
        if behind != 0 and batch.start != batch.end:
            places = (place for pair in zip(batch.start, batch.end, strict=True) for place in moved(*pair))
            self._heard |= dict.fromkeys([_ALL, *(f"{topic}-{number}" for topic, number in places)], began)
        mark = replace(seen, clock=self._reached).reached(self._silence([*seen.newest, _BATCHES]), self.policy)
        self._heard[_BATCHES] = began
        return replace(mark, quiet=self._quiet(name for name in seen.newest if self._heard[name] < began))

    def _sparks(self, before: Watermark, watermark: datetime | None, began: float) -> Watermark | None:
        """Spark's own. A watermark in the future ends no hour that is still to come."""
        self._heard[_ALL], self._following = began, None
        # The partitions of earlier settings would go on by the clock, since they are silent now.
        mark = replace(before, newest={}, quiet={})
        mark = mark.at_least(watermark and min(watermark, self.context.now()))
        self._reached = latest(self._reached, mark.at)
        return replace(mark, clock=self._reached) if mark.at else None

    def _quiet(self, names: Iterable[str]) -> dict[str, datetime]:
        """Since when these partitions have been silent (UTC)."""
        tick, now = self.context.tick(), self.context.now()
        return {name: now - timedelta(seconds=tick - self._heard.setdefault(name, tick)) for name in names}

    def _silence(self, names: Iterable[str]) -> dict[str, timedelta]:
        asked, tick = _NEVER if self.traits.holds_back else self._asked, self.context.tick()
        return {name: timedelta(seconds=max(asked - self._heard.setdefault(name, tick), 0.0)) for name in names}


def _newest(
    reports: Iterable[TaskReport], known: Mapping[str, datetime | None], limit: datetime
) -> dict[str, datetime | None]:
    """The newest event time of each partition that rows are of.

    A time beyond `limit` is taken to be wrong: it says nothing, but where there are no others.
    """
    times: dict[str, list[datetime]] = {}
    for name, at in (both for report in reports for both in report.newest.items()):
        times.setdefault(name, []).extend([] if at is None else [_EPOCH + timedelta(microseconds=at)])
    newest = {name: newest_likely(own, limit) for name, own in times.items()}
    return {name: None if at and at > limit and known.get(name) else at for name, at in newest.items()}


def _partitions(batch: BatchRef, shape: InputShape) -> list[str]:
    """The partitions of the source, if rows say which they come from. Raises Unsupported if two have the same name."""
    if shape.partition is None:
        return [_ALL]
    # A source that the stream reads twice, as in a union with itself, is there twice.
    sources = dict.fromkeys(end for end in batch.end if isinstance(end, KafkaOffset))
    names = [f"{topic}-{number}" for end in sources for topic, number in ends((end,))]
    if len(set(names)) < len(names):
        what = "a watermark of the sink's own where two sources of the stream read a topic of the same name"
        way = "give each source a watermark of Spark's (withWatermark)"
        raise Unsupported(what, "rows don't say which of them they are of", way)
    return names if all(isinstance(end, KafkaOffset) for end in batch.end) else [*names, _ALL]
