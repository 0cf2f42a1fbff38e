"""The dead letters of a table: which files have them, for which reasons, and how they come back.

They are decoded again into their table by an epoch of a log of its own, so that it disturbs no job.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from posixpath import basename
from typing import Any

import numpy as np
import pyarrow as pa

from hivesink import errors, wiring
from hivesink.config.options import CommitTrigger, SinkConfig
from hivesink.core.column_source import named_file
from hivesink.core.epoch import BatchId, BatchRef, Epoch
from hivesink.core.manifest import REPLAYS, REQUEUE, PartEntry
from hivesink.core.offsets import OtherOffset
from hivesink.core.table import is_letters, main_table
from hivesink.formats import adapter
from hivesink.hiveql.render import declared
from hivesink.logs import file_store
from hivesink.ports import CommitLog, FileStore, LiveTable
from hivesink.ports.rows import RowReader
from hivesink.sink.commit.observe import load
from hivesink.sink.inspect.facts import read_log
from hivesink.sink.task.attempt import Letters, Replayed, ReplayRouter, run_replay
from hivesink.sink.task.messages import TablePlan, TaskPlan, TaskReport
from hivesink.sink.task.rejects import KEPT, SCHEMA, STREAM, beside_records, columns_of
from hivesink.tables.opened import OpenedTable, replaced_letters

_BATCH = 8192
"""Dead letters that are in memory at a time."""
_QUERY = "hivesink rejects replay"
"""Stands for the query in the manifests of replays; no query of Spark's has such an id."""
_OPTIONS = {
    "sink.rolling-policy.on-epoch": "true",
    "sink.partition-commit.trigger": "process-time",
    "sink.on-bad-record": "dead-letter",
    "sink.late-rows": "append",
}


class DeadLetters:
    """The dead-letter table of a table. Raises UnknownTable if there is none, Unsupported if another has its name."""

    def __init__(self, opened: OpenedTable) -> None:
        self.opened = opened
        self.live: LiveTable = opened.metastore.table(opened.live.spec.name.rejected)
        self.name = str(self.live.spec.name)
        self.plan = TablePlan(replace(self.live.spec, columns=columns_of(self.live.spec)), self.live.location)
        self._store: FileStore = file_store(self.live.location, opened.site)

    def waiting(self) -> int:
        """How many dead letters the jobs hold that are in no file of the table yet, as far as logs can be read."""
        logs = [read_log(context.log).open_rows for context in self.opened.writers.values()]
        buckets = [item for log in logs for item in log.renamed(self.opened.name).buckets.items()]
        return sum(bucket.rows for (table, _), bucket in buckets if table == self.name)

    def files(self) -> list[tuple[PartEntry, bool]]:
        """The files of dead letters, of each name one, as parts without rows; and whether a log has settled the part.

        Only these can be replayed. What a replay has replaced is none, even if it is still there.
        Raises LogDamaged, StoreUnavailable, MetastoreUnreachable.
        """
        logs, files = self.opened.logs(), dict[str, tuple[PartEntry, bool]]()
        for name, log in logs.items():
            # Only replays have replaced any. Any other damaged log is its job's problem.
            if name.partition("/")[0] == REPLAYS:
                log.require_readable()
        replaced = {(part.name, part.length) for part in replaced_letters(logs).values()}
        settled = [log.settled_parts() for log in logs.values()]
        for partition, home in sorted(self.opened.metastore.lookup(self.live, None).items()):
            for file in self._store.visible(home.location):
                name = basename(file.path)
                if (name, file.length) not in replaced:
                    part = PartEntry(self.name, partition, file.path, file.path, file.length, 0)
                    is_settled = any(is_part(name, file.length) for is_part in settled)
                    files.setdefault(name if is_settled else file.path, (part, is_settled))
        return list(files.values())

    def read(self, path: str) -> Iterator[pa.RecordBatch]:
        """The letters of a file, with the columns of SCHEMA. Raises StoreUnavailable, InvalidOption."""
        try:
            with self._store.open(path) as stream:
                yield from adapter(self.live.spec.format).read(stream, SCHEMA, _BATCH)
        except (ValueError, OSError) as error:
            reason = str(error).partition("\n")[0]
            raise errors.InvalidOption((f"{path} can't be read as dead letters: {reason}; move it away",)) from error

    def every(self) -> Iterator[tuple[bool, pa.RecordBatch]]:
        """All of them, by file, and whether they can be replayed. Raises what `files` and `read` raise."""
        for part, is_settled in self.files():
            for rows in self.read(part.target):
                yield is_settled, rows

    def reasons(self) -> tuple[list[dict[str, Any]], int]:
        """The dead letters by reason and field, the most first, and how many can't be replayed. Raises as `every`.

        Times are UTC; `example` says where one of them came from.
        """
        by_reason: dict[tuple[str, str | None], dict[str, Any]] = {}
        unsettled = 0
        for is_settled, rows in self.every():
            unsettled += 0 if is_settled else rows.num_rows
            for row in rows.select(["reason", "field", "arrived_at", *ORIGIN]).to_pylist():
                if row["arrived_at"] is None:
                    continue  # Rows of users may have no time.
                key, at = (row["reason"], row["field"]), row["arrived_at"].replace(tzinfo=timezone.utc)
                new = {"reason": key[0], "field": key[1], "records": 0, "first": at, "last": at, "example": origin(row)}
                entry = by_reason.setdefault(key, new)
                entry["records"] += 1
                entry["first"], entry["last"] = min(entry["first"], at), max(entry["last"], at)
        return sorted(by_reason.values(), key=lambda entry: (-entry["records"], entry["reason"] or "")), unsettled


def dead_letters(opened: OpenedTable) -> DeadLetters | None:
    """Those of the table; None if no record was ever rejected.

    Raises InvalidOption for a table of dead letters, Unsupported for one that only has the name.
    """
    try:
        return DeadLetters(opened)
    except errors.UnknownTable:
        if is_letters(opened.name):
            owner = main_table(opened.name)
            raise errors.InvalidOption((f"{opened.name} holds the dead letters of {owner}: name {owner}",)) from None
        return None


ORIGIN = ("topic", "partition_id", "record_offset", "source", "line", "element")
"""The columns that `origin` needs."""


def origin(row: Mapping[str, Any]) -> str:
    """Where a record came from, as `hivesink where` takes it, and its element."""
    element = "" if row["element"] is None else f" element {row['element']}"
    if row["partition_id"] is not None:
        return f"{row['topic']}:{row['partition_id']}:{row['record_offset']}{element}"
    file = named_file(row["source"]) if row["source"] else "the stream"
    return f"{file}{element}" if row["line"] is None else f"{file}:{row['line']}{element}"


@dataclass(slots=True)
class Census:
    """The ids of the dead letters that were decoded, and how many can't be.

    `unsettled` ones are in a file that no log of the table has settled, `lacking` ones came without what the table
    needs beside them.
    """

    decoded: set[str] = field(default_factory=set)
    unsettled: int = 0
    lacking: int = 0


class Replay:
    """What brings dead letters back into their table.

    `mended` has new values by id, None for a record without a value: then only these records come back.
    """

    def __init__(self, letters: DeadLetters, mended: Mapping[str, bytes | None] | None = None) -> None:
        self.letters = letters
        self._mended = mended
        self._opened = letters.opened
        self._spec = declared(letters.opened.live.spec)

    def recover(self) -> int:
        """Finish what earlier replays have decided.

        Returns how many rows they had that weren't published. Raises what `Committer.recover` raises, LogDamaged,
        and ReplayOvertaken.
        """
        context = self._opened.writers.get(REPLAYS)
        if context is None:
            return 0
        history = load(context)
        with self._undisturbed():
            self._opened.writing(REPLAYS).committer(tolerant=False).recover()
        if _is_taken_back(context.log, history.epoch):
            return 0
        return sum(epoch.manifest.rows.written for epoch in history.unpublished)

    def try_out(self) -> tuple[Replayed, Census]:
        """What a replay would do. Writes nothing. Raises what `DeadLetters.files` and `.read` raise, InvalidOption."""
        config = SinkConfig.parse(self._spec.options, self._options())
        target, now = TablePlan(self._spec, self._opened.live.location), datetime.now(timezone.utc)
        plan = TaskPlan(target, self.letters.plan, config, STREAM, "", Epoch(0), "", now)
        router, census = ReplayRouter(plan, self._reader, self._mended or {}), Census()
        for letters in self._letters(config, census):
            for _ in router.route(letters):
                pass
        return router.replayed, census

    def run(self, parts: Collection[str]) -> Replayed:
        """Decode `parts` again, and commit that as one epoch, as far as no other replay has done so.

        Raises what `try_out` and `Committer.commit` raise, ReplayOvertaken if another replay is at work.
        """
        opened, done = self._opened, list[Replayed]()
        setup = opened.writing(REPLAYS, self._options())

        def write(plan: TaskPlan) -> Iterator[TaskReport]:
            # The committer has finished all that the log had decided, and this epoch is decided only if nobody has
            # gone on from there: no letter is replayed that an earlier epoch has replaced.
            router = ReplayRouter(plan, self._reader, self._mended or {})
            done.append(router.replayed)
            letters = self._letters(plan.config, Census(), parts)
            yield run_replay(letters, plan, setup.tools().open(plan), router)

        last = setup.last_batch()
        number = last.ref.batch + 1 if last else 0
        start = last.ref.end if last else (OtherOffset("0"),)
        # After a reset, the batches of the old log are none of the new one's.
        query = f"{_QUERY} {setup.spec.identity.uid}"
        committer = setup.committer(tolerant=False)
        ref = BatchRef(query, BatchId(number), start, (OtherOffset(str(number + 1)),))
        with self._undisturbed():
            outcome = committer.commit(ref, STREAM, write)
            committer.finish()
        if outcome.replayed:
            raise errors.ReplayOvertaken(opened.name)
        if _is_taken_back(setup.context.log, outcome.epoch):
            reason = "something deletes the replay's files before they can be read; nothing was replayed"
            raise errors.StoreUnavailable(action="publish", path=opened.live.location, reason=reason)
        return done[-1]

    def _reader(self, plan: TaskPlan) -> RowReader:
        """By the schemas of then, whatever the registry has today."""
        return wiring.row_reader(plan, self._opened.owner.root, self._opened.site, compares=False)

    @contextmanager
    def _undisturbed(self) -> Iterator[None]:
        """Raises ReplayOvertaken for what the committer says of two runs, or of a batch number that is taken."""
        try:
            yield
        except (errors.EpochTaken, errors.FencedOut, errors.CheckpointDiffers) as error:
            raise errors.ReplayOvertaken(self._opened.name) from error

    def _letters(self, config: SinkConfig, census: Census, parts: Collection[str] | None = None) -> Iterator[Letters]:
        """All letters of each file, with those to decode, and what `census` counts; of the named `parts` only."""
        # A record may have no key and no headers.
        needs = (beside_records(self._spec, config) & KEPT.keys()) - {"key", "headers"}
        for part, is_settled in self.letters.files():
            if parts is not None and not (is_settled and part.name in parts):
                continue
            for rows in self.letters.read(part.target):
                ids, mended = rows.column("id"), self._mended
                chosen = np.arange(len(ids))
                places = chosen if mended is None else chosen[[letter in mended for letter in ids.to_pylist()]]
                if not is_settled:
                    census.unsettled += len(places)
                    continue
                is_lacking = np.zeros(rows.num_rows, np.bool_)
                for name in needs:
                    is_lacking |= rows.column(KEPT[name]).is_null().to_numpy(zero_copy_only=False)
                chosen = places[~is_lacking[places]]
                census.lacking += len(places) - len(chosen)
                census.decoded.update(ids.take(pa.array(chosen)).to_pylist())
                yield Letters(part, rows, chosen)

    def _options(self) -> dict[str, str]:
        """The settings of the job that wrote last, and those of a replay."""
        heads = []
        for context in self._opened.jobs.values():
            # A damaged log is its job's problem.
            with suppress(errors.LogDamaged):
                heads += [head] if (head := load(context).head) else []
        own = dict(max(heads, key=lambda head: head.at).options) if heads else {}
        config = SinkConfig.parse(self._spec.options, own)
        if config["sink.partition-commit.trigger"] is CommitTrigger.PARTITION_TIME:
            # A success file and an event say that a partition is complete: a replay doesn't know that.
            own["sink.partition-commit.policy.kind"] = "metastore"
        return own | _OPTIONS


def _is_taken_back(log: CommitLog, epoch: Epoch) -> bool:
    """Whether replays up to `epoch` were given up, since a file of theirs is lost: their records are letters again."""
    return any(manifest.kind == REQUEUE and manifest.epoch > epoch for manifest in read_log(log).manifests)
