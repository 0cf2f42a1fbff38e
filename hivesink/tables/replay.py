"""The dead letters of a table, and their replay: an epoch of a log of its own, so that it disturbs no job."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from posixpath import basename
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hivesink import wiring
from hivesink.config.options import CommitTrigger, SinkConfig
from hivesink.core.column_source import named_file
from hivesink.core.epoch import STRICT, BatchId, BatchRef, Epoch
from hivesink.core.manifest import REPLAYS, REQUEUE, PartEntry
from hivesink.core.offsets import OtherOffset
from hivesink.errors import (
    CheckpointDiffers,
    EpochTaken,
    FencedOut,
    InvalidOption,
    LogDamaged,
    NewerFormat,
    ReplayOvertaken,
    StoreUnavailable,
    UnknownTable,
    Unsupported,
    WrongUsage,
)
from hivesink.formats import adapter
from hivesink.hiveql.render import declared
from hivesink.logs import file_store
from hivesink.sink.commit.observe import load
from hivesink.sink.inspect.facts import read_log
from hivesink.sink.task.attempt import Letters, Replayed, ReplayRouter, run_replay
from hivesink.sink.task.messages import TablePlan, TaskPlan
from hivesink.sink.task.rejects import KEPT, SCHEMA, STREAM, beside_records, columns_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from numpy.typing import NDArray

    from hivesink.ports import CommitLog, FileStore, LiveTable
    from hivesink.sink.task.messages import TaskReport
    from hivesink.tables.opened import OpenedTable

QUERY = "hivesink rejects replay"
"""Stands for the query in the manifests of replays; no query of Spark's has such an id."""
_OPTIONS = {
    "sink.rolling-policy.on-epoch": "true",
    "sink.partition-commit.trigger": "process-time",
    "sink.on-bad-record": "dead-letter",
    "sink.late-rows": "append",
}


@dataclass(slots=True)
class Census:
    """The wanted dead letters: the ids of those that were decoded, and how many can't be.

    `unsettled` ones are in a file that no log of the table has settled, `lacking` ones came without what the table
    needs beside them.
    """

    decoded: set[str] = field(default_factory=set)
    unsettled: int = 0
    lacking: int = 0

    @property
    def is_empty(self) -> bool:
        return not (self.decoded or self.unsettled or self.lacking)


class Replay:
    """What brings dead letters back into their table."""

    def __init__(self, letters: DeadLetters) -> None:
        self.letters = letters
        self._opened = letters.opened
        self._spec = declared(letters.opened.live.spec)

    def recover(self) -> int:
        """Finish what earlier replays have decided.

        Returns how many rows they had that weren't published. Raises what `Committer.recover` raises, LogDamaged,
        NewerFormat, and ReplayOvertaken.
        """
        context = self._opened.writers.get(REPLAYS)
        if context is None:
            return 0
        history = load(context)
        with self._undisturbed():
            self._opened.committer(REPLAYS).recover()
        if _is_taken_back(context.log, history.epoch):
            return 0
        return sum(epoch.manifest.rows.written for epoch in history.unpublished)

    def try_out(self, wanted: Wanted) -> tuple[Replayed, Census]:
        """What a replay would do. Writes nothing. Raises what `DeadLetters.files` and `.read` raise, InvalidOption."""
        config = SinkConfig.parse(self._spec.options, self._options())
        target, now = TablePlan(self._spec, self._opened.live.location), datetime.now(timezone.utc)
        plan = TaskPlan(target, self.letters.plan, config, STREAM, "", Epoch(0), "", now)
        router, census = ReplayRouter(plan, wiring.row_reader, wanted.mended or {}), Census()
        for letters in self._letters(wanted, config, census):
            for _ in router.route(letters):
                pass
        return router.replayed, census

    def run(self, wanted: Wanted, parts: Collection[str]) -> Replayed:
        """Decode again what is wanted of `parts`, and commit it as one epoch, as far as no other replay has done so.

        Raises what `try_out` and `Committer.commit` raise, ReplayOvertaken if another replay is at work.
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
            # The committer has finished all that the log had decided, and this epoch is decided only if nobody has
            # gone on from there: no letter is replayed that an earlier epoch has replaced.
            router = ReplayRouter(plan, wiring.row_reader, wanted.mended or {})
            done.append(router.replayed)
            letters = self._letters(wanted, plan.config, Census(), parts)
            yield run_replay(letters, plan, setup.tools().open(plan), router)

        last = setup.last_batch()
        number = last.ref.batch + 1 if last else 0
        start = last.ref.end if last else (OtherOffset("0"),)
        # After a reset, the batches of the old log are none of the new one's.
        query = f"{QUERY} {setup.spec.identity.uid}"
        committer = setup.committer(tolerant=False)
        ref = BatchRef(query, BatchId(number), start, (OtherOffset(str(number + 1)),))
        with self._undisturbed():
            outcome = committer.commit(ref, STREAM, write)
            committer.finish()
        if outcome.replayed:
            raise ReplayOvertaken(opened.name)
        if _is_taken_back(setup.context.log, outcome.epoch):
            reason = "something deletes the replay's files before they can be read; nothing was replayed"
            raise StoreUnavailable(action="publish", path=opened.live.location, reason=reason)
        return done[-1]

    @contextmanager
    def _undisturbed(self) -> Iterator[None]:
        """Raises ReplayOvertaken for what the committer says of two runs, or of a batch number that is taken."""
        try:
            yield
        except (EpochTaken, FencedOut, CheckpointDiffers) as error:
            raise ReplayOvertaken(self._opened.name) from error

    def _letters(
        self, wanted: Wanted, config: SinkConfig, census: Census, parts: Collection[str] | None = None
    ) -> Iterator[Letters]:
        """All letters of each file, with those to decode, and what `census` counts; of the named `parts` only."""
        needs = beside_records(self._spec, config)
        for file in self.letters.files(wanted.day):
            if parts is not None and not (file.is_settled and file.part.name in parts):
                continue
            for rows in self.letters.read(file):
                places = wanted.among(rows)
                if not file.is_settled:
                    census.unsettled += len(places)
                    continue
                is_lacking = lacking(rows, needs)[places]
                census.lacking += int(np.count_nonzero(is_lacking))
                chosen = places[~is_lacking]
                ids = rows.column("id")
                census.decoded |= {ids[place].as_py() for place in chosen}
                yield Letters(file.part, rows, chosen)

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
        config = SinkConfig.parse(self._spec.options, own)
        if config["sink.partition-commit.trigger"] is CommitTrigger.PARTITION_TIME:
            # A success file and an event say that a partition is complete: a replay doesn't know that.
            own["sink.partition-commit.policy.kind"] = "metastore"
        return own | _OPTIONS


def _is_taken_back(log: CommitLog, epoch: Epoch) -> bool:
    """Whether replays up to `epoch` were given up, since a file of theirs is lost: their records are letters again."""
    return any(manifest.kind == REQUEUE and manifest.epoch > epoch for manifest in read_log(log).manifests)


_BATCH = 8192
"""Dead letters that are in memory at a time."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which dead letters: of this reason, field (in any case) and day (`2024-01-02`), None for all.

    `mended` has new values by id, None for a record without a value: then only these records are wanted.
    """

    reason: str | None = None
    field: str | None = None
    day: str | None = None
    mended: Mapping[str, bytes | None] | None = None

    @property
    def filters(self) -> dict[str, str]:
        """What was asked for, by name."""
        every = {"reason": self.reason, "field": self.field, "day": self.day}
        return {name: text for name, text in every.items() if text is not None}

    def among(self, rows: pa.RecordBatch) -> NDArray[np.int64]:
        """The places of those that are wanted."""
        cells = zip(*(rows.column(name).to_pylist() for name in ("id", "reason", "field")), strict=True)
        return np.array([place for place, letter in enumerate(cells) if self._is_wanted(*letter)], np.int64)

    def _is_wanted(self, letter: str, reason: str, field: str | None) -> bool:
        if self.mended is not None and letter not in self.mended:
            return False
        is_field = self.field is None or (field or "").lower() == self.field.lower()
        return is_field and self.reason in {None, reason}


@dataclass(slots=True)
class Reason:
    """Dead letters of one `reason` and `field`. Times are UTC; `example` says where one of them came from."""

    reason: str
    field: str | None
    count: int
    first: datetime
    last: datetime
    example: str


@dataclass(frozen=True, slots=True)
class LetterFile:
    """A file of dead letters, as a part without rows. Only those of a part that a log has settled can be replayed."""

    part: PartEntry
    is_settled: bool


class DeadLetters:
    """The dead-letter table of a table. Raises UnknownTable if there is none, Unsupported if another has its name."""

    def __init__(self, opened: OpenedTable) -> None:
        self.opened = opened
        self.live: LiveTable = opened.metastore.registrar.table(opened.live.spec.name.rejected)
        self.plan = TablePlan(replace(self.live.spec, columns=columns_of(self.live.spec)), self.live.location)
        self._store: FileStore = file_store(self.live.location, opened.site)

    @property
    def name(self) -> str:
        return str(self.live.spec.name)

    def waiting(self) -> int:
        """How many dead letters the jobs hold that are in no file of the table yet. Raises LogDamaged, NewerFormat."""
        logs = (load(context).rows for context in self.opened.writers.values())
        return sum(bucket.rows for log in logs for (table, _), bucket in log.buckets.items() if table == self.name)

    def files(self, day: str | None = None) -> list[LetterFile]:
        """The files of dead letters, of each name one. What a replay has replaced is none, even if it is still there.

        Raises LogDamaged, NewerFormat, StoreUnavailable, MetastoreUnreachable.
        """
        logs, files = self.opened.logs(), dict[str, LetterFile]()
        for log in logs:
            log.require_readable()
        replaced = {(part.name, part.length) for log in logs for part in log.replaced.values()}
        settled = [log.settled_parts() for log in logs]
        for partition, home in sorted(self.opened.metastore.registrar.lookup(self.live, None).items()):
            for file in self._store.visible(home.location) if day in {None, partition.partition("=")[2]} else ():
                name = basename(file.path)
                if (name, file.length) not in replaced:
                    part = PartEntry(self.name, partition, file.path, file.path, file.length, 0)
                    is_settled = any(is_part(name, file.length) for is_part in settled)
                    files.setdefault(name if is_settled else file.path, LetterFile(part, is_settled))
        return list(files.values())

    def read(self, file: LetterFile) -> Iterator[pa.RecordBatch]:
        """The letters of a file, with the columns of SCHEMA. Raises StoreUnavailable, InvalidOption."""
        path = file.part.target
        try:
            with self._store.open(path) as stream:
                yield from adapter(self.live.spec.format).read(stream, SCHEMA, _BATCH)
        except (ValueError, OSError) as error:
            reason = str(error).partition("\n")[0]
            raise InvalidOption((f"{path} can't be read as dead letters: {reason}; move it away",)) from error

    def wanted(self, wanted: Wanted) -> Iterator[tuple[LetterFile, pa.RecordBatch]]:
        """Those that are wanted, of every file. Raises what `files` and `read` raise."""
        for file in self.files(wanted.day):
            for rows in self.read(file):
                if len(places := wanted.among(rows)):
                    yield file, rows.take(pa.array(places))

    def reasons(self, wanted: Wanted) -> tuple[list[Reason], int]:
        """The dead letters by reason, the most first, and how many of them can't be replayed. Raises as `wanted`."""
        by_reason: dict[tuple[str, str | None], Reason] = {}
        unsettled = 0
        names = ("reason", "field", "arrived_at", "topic", "partition_id", "record_offset", "source", "line")
        for file, rows in self.wanted(wanted):
            unsettled += 0 if file.is_settled else rows.num_rows
            # Rows of users may have no time.
            for row in (row for row in rows.select(names).to_pylist() if row["arrived_at"]):
                key, at = (row["reason"], row["field"]), row["arrived_at"].replace(tzinfo=timezone.utc)
                entry = by_reason.setdefault(key, Reason(*key, 0, at, at, place(row)))
                entry.count, entry.first, entry.last = entry.count + 1, min(entry.first, at), max(entry.last, at)
        return sorted(by_reason.values(), key=lambda entry: (-entry.count, entry.reason or "")), unsettled


def dead_letters(opened: OpenedTable) -> DeadLetters | None:
    """Those of the table; None if no record was ever rejected.

    Raises WrongUsage for a table of dead letters, Unsupported for one that only has the name.
    """
    try:
        return DeadLetters(opened)
    except UnknownTable:
        owner = opened.name.removesuffix("__rejected")
        if owner != opened.name:
            raise WrongUsage((f"{opened.name} holds the dead letters of {owner}: name {owner}",)) from None
        return None


def not_dead_letters(opened: OpenedTable) -> Unsupported | None:
    """Why what has the name of the dead-letter table is none."""
    try:
        DeadLetters(opened)
    except UnknownTable:
        return None
    except Unsupported as error:
        return error
    return None


def place(row: Mapping[str, Any]) -> str:
    """Where a record came from, in words."""
    if row["partition_id"] is not None:
        return f"{row['topic']} partition {row['partition_id']} offset {row['record_offset']}"
    file = named_file(row["source"]) if row["source"] else "the stream"
    return file if row["line"] is None else f"{file} line {row['line']}"


def lacking(rows: pa.RecordBatch, needs: Collection[str]) -> NDArray[np.bool_]:
    """Which letters came without a column of the stream that `needs` names. A record may have no key and no headers."""
    names = [KEPT[name] for name in needs if name in KEPT and name not in {"key", "headers"}]
    is_lacking = np.zeros(rows.num_rows, np.bool_)
    for name in names:
        is_lacking |= rows.column(name).is_null().to_numpy(zero_copy_only=False)
    return is_lacking
