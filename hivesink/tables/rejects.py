"""The dead letters of a table: read, counted by reason, and decoded again into the table."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from hivesink import wiring
from hivesink.config.options import CommitTrigger, SinkConfig
from hivesink.core.epoch import STRICT, BatchId, BatchRef, Epoch
from hivesink.core.offsets import OtherOffset
from hivesink.errors import EpochTaken, InvalidOption, LogDamaged, NewerFormat, UnknownTable
from hivesink.formats.reading import rows
from hivesink.sink.commit.observe import load
from hivesink.sink.task.assign import assigner_for
from hivesink.sink.task.messages import TablePlan, TaskPlan
from hivesink.sink.task.rejects import SCHEMA
from hivesink.sink.task.replay import QUERY, SHAPE, WRITER, Letters, Replayed, judge, run_replay

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from hivesink.core.partfile import Finished
    from hivesink.core.partition import LivePartition
    from hivesink.ports import FileStore, LiveTable
    from hivesink.sink.task.messages import TaskReport
    from hivesink.tables.opened import OpenedTable

_OPTIONS = {
    "sink.rolling-policy.on-epoch": "true",
    "sink.partition-commit.trigger": "process-time",
    "sink.on-bad-record": "dead-letter",
    "sink.late-rows": "append",
}
_NEEDED = {"id": "STRING", "replayed_at": "TIMESTAMP"}
_BATCH = 8192
"""Dead letters that are in memory at a time."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which dead letters: of this reason, field and day (`2024-01-02`), None for all.

    `mended` has new values by id: then only these records are wanted.
    """

    reason: str | None = None
    field: str | None = None
    day: str | None = None
    mended: Mapping[str, bytes] | None = None


@dataclass(slots=True)
class Reason:
    """Dead letters of one `reason` and `field`. Times are UTC; `example` says where one of them came from."""

    reason: str
    field: str | None
    count: int
    first: datetime
    last: datetime
    example: str


@dataclass(slots=True)
class Census:
    """What a pass over the dead letters has found beside those that it gave.

    `unnamed`: records with neither id nor Kafka offset, of an older version, or without a time of arrival, which
    hivesink never writes: nobody can tell which of them were replayed, or as of when.
    """

    replayed: int = 0
    unnamed: int = 0
    doubled: int = 0
    given: set[str] = field(default_factory=set)


class DeadLetters:
    """The dead-letter table of a table. Raises UnknownTable if there is none."""

    def __init__(self, opened: OpenedTable) -> None:
        self.opened = opened
        self.live: LiveTable = opened.metastore.registrar.table(opened.live.spec.name.rejected)
        self._store: FileStore = wiring.file_store(self.live.location, opened.site)

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.live.spec.name)

    def waiting(self) -> int:
        """How many dead letters the jobs hold that are in no file of the table yet. Raises LogDamaged, NewerFormat."""
        logs = (load(context).rows for context in self.opened.writers.values())
        return sum(bucket.rows for log in logs for (table, _), bucket in log.buckets.items() if table == self.name)

    def read(self, wanted: Wanted, census: Census) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The records that weren't replayed, each once: their partition, and rows as the table has them, `id` filled.

        Raises StoreUnavailable, MetastoreUnreachable; InvalidOption for a file that can't be read.
        """
        marked = {one for _, ids in self._scan(("id", "replayed_at"), None) for one in _marked(ids)}
        census.replayed = len(marked)
        for day, batch in self._scan(SCHEMA.names, wanted.day):
            ids = _ids(batch)
            kept = []
            for row, one in enumerate(ids):
                if batch.column("replayed_at")[row].is_valid or one in marked:
                    continue
                if one is None or not batch.column("arrived_at")[row].is_valid:
                    census.unnamed += 1
                elif one in census.given:
                    census.doubled += 1
                elif _fits(batch, row, one, wanted):
                    census.given.add(one)
                    kept.append(row)
            if kept:
                at = batch.schema.get_field_index("id")
                named = batch.set_column(at, SCHEMA.field("id"), pa.array(ids, pa.string()))
                yield day, named.take(pa.array(kept))

    def reasons(self, wanted: Wanted, census: Census) -> list[Reason]:
        """The dead letters by reason, the most first. Raises what `read` raises."""
        found: dict[tuple[str, str | None], Reason] = {}
        told = ("reason", "field", "arrived_at", "topic", "partition_id", "record_offset", "source")
        for _, batch in self.read(wanted, census):
            for row in batch.select(told).to_pylist():
                key, at = (row["reason"], row["field"]), row["arrived_at"].replace(tzinfo=timezone.utc)
                one = found.setdefault(key, Reason(*key, 0, at, at, place(row)))
                one.count, one.first, one.last = one.count + 1, min(one.first, at), max(one.last, at)
        return sorted(found.values(), key=lambda one: (-one.count, one.reason))

    def letters(self, wanted: Wanted, census: Census) -> Iterator[Letters]:
        """The records to decode again. Raises what `read` raises."""
        for day, batch in self.read(wanted, census):
            arrivals = batch.column("arrived_at").dictionary_encode()
            for code, arrival in enumerate(arrivals.dictionary.to_pylist()):
                own = batch.filter(pc.equal(arrivals.indices, code))
                yield _letters(day, arrival.replace(tzinfo=timezone.utc), own, wanted.mended or {})

    def require_replayable(self) -> None:
        """Raise InvalidOption if the table is of a version whose records can't be marked."""
        there = {column.name for column in self.live.spec.columns}
        if missing := [f"{name} {kind}" for name, kind in _NEEDED.items() if name not in there]:
            way = f"run: ALTER TABLE {self.name} ADD COLUMNS ({', '.join(missing)}) CASCADE"
            problem = f"{self.name} lacks columns which say what was replayed; {way}"
            raise InvalidOption((problem,))

    def try_out(self, wanted: Wanted, census: Census) -> Replayed:
        """What a replay would do. Writes nothing. Raises what `read` raises, InvalidOption."""
        spec, found = self.opened.live.spec, Replayed()
        config = SinkConfig.parse(spec.options, self._options())
        target = TablePlan(spec, self.opened.live.location)
        now = datetime.now(timezone.utc)
        plan = TaskPlan(target, None, config, SHAPE, "", Epoch(0), "", now)
        assigner = assigner_for(spec, config)
        for some in self.letters(wanted, census):
            judge(some, plan, wiring.row_reader, assigner, found)
        return found

    def replay(self, wanted: Wanted, census: Census) -> Replayed:
        """Decode them again, and commit those that fit as one epoch. What another replay has done isn't done again.

        Raises what `read` raises, EpochTaken if another replay is at work, and what `Committer.commit` raises.
        """
        opened, done = self.opened, list[Replayed]()
        setup = wiring.Setup.open(
            table=opened.live.spec.name,
            writer=WRITER,
            metastore=opened.metastore,
            history_policy=STRICT,
            options=self._options(),
            site=opened.site,
        )

        def write(plan: TaskPlan) -> Iterator[TaskReport]:
            # The committer has published all that the log had decided, so the marks of earlier replays can be read;
            # and this epoch is decided only if nobody has gone on from there.
            census.given.clear()
            done.append(Replayed())
            tools = setup.tools().open(plan)
            yield run_replay(self.letters(wanted, census), plan, tools, wiring.row_reader, done[-1])

        last = setup.last_batch()
        number = last.ref.batch + 1 if last else 0
        start = last.ref.end if last else (OtherOffset("0"),)
        # After a reset, the batches of the old log are none of the new one's.
        query = f"{QUERY} {setup.spec.identity.uid}"
        committer = setup.committer(tolerant=False)
        ref = BatchRef(query, BatchId(number), start, (OtherOffset(str(number + 1)),))
        outcome = committer.commit(ref, SHAPE, write)
        committer.finish()
        if outcome.replayed:
            raise EpochTaken(setup.context.log.location, outcome.epoch)
        return done[-1]

    def _options(self) -> dict[str, str]:
        """The settings of the job that wrote last, and those of a replay."""
        heads = []
        for writer, context in self.opened.writers.items():
            # A damaged log is its job's problem.
            with suppress(LogDamaged, NewerFormat):
                head = load(context).head if writer != WRITER else None
                if head is not None:
                    heads.append(head)
        newest = max(heads, key=lambda head: head.at, default=None)
        own = dict(newest.options if newest else ())
        config = SinkConfig.parse(self.opened.live.spec.options, own)
        if config["sink.partition-commit.trigger"] is CommitTrigger.PARTITION_TIME:
            # A success file and an event say that a partition is complete: a replay doesn't know that.
            own |= {"sink.partition-commit.policy.kind": "metastore", "sink.partition-commit.policy.class": "none"}
        return own | _OPTIONS

    def _scan(self, names: Collection[str], day: str | None) -> Iterator[tuple[str, pa.RecordBatch]]:
        schema = pa.schema([SCHEMA.field(name) for name in names])
        homes: Mapping[str, LivePartition] = self.opened.metastore.registrar.lookup(self.live, None)
        for partition, home in sorted(homes.items()):
            if day is None or partition == f"dt={day}":
                for file in self._store.visible(home.location):
                    yield from ((partition, batch) for batch in self._rows(file, schema))

    def _rows(self, file: Finished, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        try:
            with self._store.open(file.path) as stream:
                yield from rows(stream, schema, _BATCH)
        except (ValueError, OSError) as error:
            reason = str(error).partition("\n")[0]
            raise InvalidOption((f"{file.path} can't be read as dead letters: {reason}; move it away",)) from error


def dead_letters(opened: OpenedTable) -> DeadLetters | None:
    """Those of the table; None if no record was ever rejected."""
    try:
        return DeadLetters(opened)
    except UnknownTable:
        return None


def place(row: Mapping[str, Any]) -> str:
    """Where a record came from, in words."""
    if row["partition_id"] is not None:
        return f"{row['topic']} partition {row['partition_id']} offset {row['record_offset']}"
    return row["source"] or "the stream"


def _marked(batch: pa.RecordBatch) -> list[str]:
    found: list[str] = batch.filter(pc.is_valid(batch.column("replayed_at"))).column("id").to_pylist()
    return found


def _ids(batch: pa.RecordBatch) -> list[str | None]:
    """A name for each row. Records of older versions have none but their Kafka position."""
    names = ("id", "topic", "partition_id", "record_offset")
    return [
        one if one is not None or offset is None else f"{topic}-{partition}-{offset}"
        for one, topic, partition, offset in zip(*(batch.column(name).to_pylist() for name in names), strict=True)
    ]


def _fits(batch: pa.RecordBatch, row: int, one: str, wanted: Wanted) -> bool:
    if wanted.mended is not None and one not in wanted.mended:
        return False
    both = (("reason", wanted.reason), ("field", wanted.field))
    return all(text is None or batch.column(name)[row].as_py() == text for name, text in both)


def _letters(day: str, arrival: datetime, batch: pa.RecordBatch, mended: Mapping[str, bytes]) -> Letters:
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
        "_path": batch.column("source"),
        "key": batch.column("record_key"),
        # Times without a zone are UTC here.
        "timestamp": batch.column("record_time").cast(pa.timestamp("us", "UTC")),
        "headers": batch.column("headers"),
    }
    return Letters(day, arrival, tuple(ids), pa.RecordBatch.from_pydict(columns))
