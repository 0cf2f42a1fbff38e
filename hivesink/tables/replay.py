"""Dead letters decoded again into their table."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from hivesink import wiring
from hivesink.config.options import CommitTrigger, SinkConfig
from hivesink.core.column_source import LINE, PATH, Metadata
from hivesink.core.epoch import STRICT, BatchId, BatchRef, Epoch
from hivesink.core.manifest import REPLAYS, live_parts
from hivesink.core.offsets import OtherOffset
from hivesink.errors import (
    CheckpointDiffers,
    EpochTaken,
    FencedOut,
    InvalidOption,
    LogDamaged,
    NewerFormat,
    ReplayOvertaken,
    ReplaySplit,
)
from hivesink.hiveql.render import declared
from hivesink.sink.commit.observe import load
from hivesink.sink.inspect.facts import read_log
from hivesink.sink.task.assign import assigner_for
from hivesink.sink.task.messages import TablePlan, TaskPlan
from hivesink.sink.task.rejects import OF_REPLAYS, beside_records, rejected_spec
from hivesink.sink.task.replay import QUERY, SHAPE, Letters, Replayed, judge, run_replay

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hivesink.sink.task.messages import TaskReport
    from hivesink.tables.rejects import Census, DeadLetters, Wanted

_OPTIONS = {
    "sink.rolling-policy.on-epoch": "true",
    "sink.partition-commit.trigger": "process-time",
    "sink.on-bad-record": "dead-letter",
    "sink.late-rows": "append",
}

_ANY = datetime(1970, 1, 1, tzinfo=timezone.utc)
"""The arrival of records that don't depend on it."""


class Replay:
    """What brings dead letters back into their table."""

    def __init__(self, letters: DeadLetters) -> None:
        self.letters = letters
        self._opened = letters.opened
        self._spec = declared(letters.opened.live.spec)

    def require_possible(self) -> None:
        """Raise InvalidOption if the table is of a version whose records can't be marked."""
        name, there = self.letters.name, {column.name for column in self.letters.live.spec.columns}
        own = rejected_spec(self._spec.name, None, external=False).columns
        if missing := [f"{one.name} {one.type}" for one in own if one.name in OF_REPLAYS - there]:
            way = f"run: ALTER TABLE {name} ADD COLUMNS ({', '.join(missing)}) CASCADE"
            problem = f"{name} lacks columns that replays need; {way}, and start the job again"
            raise InvalidOption((problem,))

    def recover(self) -> int:
        """Finish what earlier replays have decided.

        Returns how many rows they had that weren't published. Raises what `Committer.recover` raises, LogDamaged,
        NewerFormat, and ReplayOvertaken.
        """
        context = self._opened.writers.get(REPLAYS)
        if context is None:
            return 0
        decided = sum(epoch.manifest.rows.written for epoch in load(context).unpublished)
        with self._undisturbed():
            self._opened.committer(REPLAYS).recover()
        return decided

    def try_out(self, wanted: Wanted, census: Census) -> Replayed:
        """What a replay would do. Writes nothing.

        Raises what `DeadLetters.read` raises, InvalidOption, ReplaySplit.
        """
        spec, config, found = self._spec, self._config(self._options()), Replayed()
        target, now = TablePlan(spec, self._opened.live.location), datetime.now(timezone.utc)
        plan = TaskPlan(target, None, config, SHAPE, "", Epoch(0), "", now)
        assigner = assigner_for(spec, config)
        for some in self._records(wanted, census, config):
            judge(some, plan, wiring.row_reader, assigner, found)
        return found

    def run(self, wanted: Wanted, census: Census) -> Replayed:
        """Decode them again, and commit those that fit as one epoch. What another replay has done isn't done again.

        Raises what `DeadLetters.read` and `Committer.commit` raise, ReplaySplit, ReplayOvertaken if another replay is
        at work.
        """
        opened, done = self._opened, list[Replayed]()
        setup = wiring.OpenedWriter.open(
            table=opened.live.spec.name,
            writer=REPLAYS,
            metastore=opened.metastore,
            history_policy=STRICT,
            options=self._options(),
            site=opened.site,
        )

        def write(plan: TaskPlan) -> Iterator[TaskReport]:
            # The committer has published all that the log had decided, so the marks of earlier replays can be read;
            # and this epoch is decided only if nobody has gone on from there.
            done.append(Replayed())
            tools, records = setup.tools().open(plan), self._records(wanted, census, plan.config)
            yield run_replay(records, plan, tools, wiring.row_reader, done[-1])

        last = setup.last_batch()
        number = last.ref.batch + 1 if last else 0
        start = last.ref.end if last else (OtherOffset("0"),)
        # After a reset, the batches of the old log are none of the new one's.
        query = f"{QUERY} {setup.spec.identity.uid}"
        committer = setup.committer(tolerant=False)
        ref = BatchRef(query, BatchId(number), start, (OtherOffset(str(number + 1)),))
        with self._undisturbed():
            outcome = committer.commit(ref, SHAPE, write)
            committer.finish()
        if outcome.replayed:
            raise ReplayOvertaken(self._opened.name)
        return done[-1]

    @contextmanager
    def _undisturbed(self) -> Iterator[None]:
        """Raises ReplayOvertaken for what the committer says of two runs, or of a batch number that is taken."""
        try:
            yield
        except (EpochTaken, FencedOut, CheckpointDiffers) as error:
            raise ReplayOvertaken(self._opened.name) from error

    def _records(self, wanted: Wanted, census: Census, config: SinkConfig) -> Iterator[Letters]:
        """The records to decode again. Raises what `DeadLetters.read` raises, and ReplaySplit."""
        is_dated, due = _uses_arrival(config), self._marks_due()
        for day, batch in self.letters.read(wanted, census, beside_records(self._spec, config)):
            if census.marks[day] < due[day]:
                raise ReplaySplit.marks(self.letters.name, day, due[day], census.marks[day])
            arrivals = batch.column("arrived_at").dictionary_encode()
            for code, arrival in enumerate(arrivals.dictionary.to_pylist() if is_dated else [_ANY]):
                own = batch.filter(pc.equal(arrivals.indices, code)) if is_dated else batch
                yield _letters(day, arrival.replace(tzinfo=timezone.utc), own, wanted.mended or {})

    def _marks_due(self) -> Counter[str]:
        """How many marks earlier replays have published at least, by partition."""
        due = Counter[str]()
        context = self._opened.writers.get(REPLAYS)
        if context is None:
            return due
        facts = read_log(context.log)
        for manifest, part in live_parts(facts.manifests):
            # Those of an epoch that another run publishes meanwhile may come.
            if part.table.endswith("__rejected") and facts.is_published(manifest.epoch):
                due[part.partition] += part.rows
        return due

    def _config(self, options: Mapping[str, str]) -> SinkConfig:
        return SinkConfig.parse(self._spec.options, options)

    def _options(self) -> dict[str, str]:
        """The settings of the job that wrote last, and those of a replay."""
        heads = []
        for writer, context in self._opened.writers.items():
            # A damaged log is its job's problem.
            with suppress(LogDamaged, NewerFormat):
                head = load(context).head if writer != REPLAYS else None
                if head is not None:
                    heads.append(head)
        newest = max(heads, key=lambda head: head.at, default=None)
        own = dict(newest.options if newest else ())
        config = self._config(own)
        if config["sink.partition-commit.trigger"] is CommitTrigger.PARTITION_TIME:
            # A success file and an event say that a partition is complete: a replay doesn't know that.
            own["sink.partition-commit.policy.kind"] = "metastore"
        return own | _OPTIONS


def _uses_arrival(config: SinkConfig) -> bool:
    """Whether a row may depend on when its batch arrived. Each arrival costs a decoder."""
    match config["sink.bucket.assigner"]:
        case "partition-columns":
            is_used = False
        case "date-time":
            is_used = config["sink.bucket.time-column"] is None
        case _:
            is_used = True
    return is_used or Metadata.ARRIVAL in config.sources.values()


def _letters(day: str, arrival: datetime, batch: pa.RecordBatch, mended: Mapping[str, bytes | None]) -> Letters:
    ids: list[str] = batch.column("id").to_pylist()
    values = batch.column("value")
    if mended:
        both = zip(ids, values.to_pylist(), strict=True)
        values = pa.array([mended.get(one, value) for one, value in both], pa.binary())
    columns = {
        "value": values,
        "topic": batch.column("topic"),
        "partition": batch.column("partition_id"),
        "offset": batch.column("record_offset"),
        PATH: batch.column("source"),
        LINE: batch.column("line"),
        "key": batch.column("record_key"),
        # Times without a zone are UTC here.
        "timestamp": batch.column("record_time").cast(pa.timestamp("us", "UTC")),
        "headers": batch.column("headers"),
    }
    return Letters(day, arrival, tuple(ids), pa.RecordBatch.from_pydict(columns))
