"""The dead letters of a table: which files have them, and how many there are of each reason."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timezone
from posixpath import basename
from typing import TYPE_CHECKING, Any

from hivesink.core.column_source import named_file
from hivesink.core.manifest import REPLAYS, PartEntry
from hivesink.core.table import is_letters, main_table
from hivesink.errors import InvalidOption, UnknownTable
from hivesink.formats import adapter
from hivesink.logs import file_store
from hivesink.sink.inspect.facts import read_log
from hivesink.sink.task.messages import TablePlan
from hivesink.sink.task.rejects import SCHEMA, columns_of
from hivesink.tables.opened import OpenedTable, replaced_letters

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from hivesink.ports import FileStore, LiveTable

_BATCH = 8192
"""Dead letters that are in memory at a time."""


@dataclass(frozen=True, slots=True)
class LetterFile:
    """A file of dead letters, as a part without rows. Only those of a part that a log has settled can be replayed."""

    part: PartEntry
    is_settled: bool


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

    def files(self) -> list[LetterFile]:
        """The files of dead letters, of each name one. What a replay has replaced is none, even if it is still there.

        Raises LogDamaged, StoreUnavailable, MetastoreUnreachable.
        """
        logs, files = self.opened.logs(), dict[str, LetterFile]()
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

    def every(self) -> Iterator[tuple[LetterFile, pa.RecordBatch]]:
        """All of them, by file. Raises what `files` and `read` raise."""
        for file in self.files():
            for rows in self.read(file):
                yield file, rows

    def reasons(self) -> tuple[list[dict[str, Any]], int]:
        """The dead letters by reason and field, the most first, and how many can't be replayed. Raises as `every`.

        Times are UTC; `example` says where one of them came from.
        """
        by_reason: dict[tuple[str, str | None], dict[str, Any]] = {}
        unsettled = 0
        names = ("reason", "field", "arrived_at", "topic", "partition_id", "record_offset", "source", "line", "element")
        for file, rows in self.every():
            unsettled += 0 if file.is_settled else rows.num_rows
            # Rows of users may have no time.
            for row in (row for row in rows.select(names).to_pylist() if row["arrived_at"]):
                key, at = (row["reason"], row["field"]), row["arrived_at"].replace(tzinfo=timezone.utc)
                new = {"reason": key[0], "field": key[1], "records": 0, "first": at, "last": at, "example": place(row)}
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
    except UnknownTable:
        if is_letters(opened.name):
            owner = main_table(opened.name)
            raise InvalidOption((f"{opened.name} holds the dead letters of {owner}: name {owner}",)) from None
        return None


def place(row: Mapping[str, Any]) -> str:
    """Where a record came from, in words."""
    element = "" if row["element"] is None else f" element {row['element']}"
    if row["partition_id"] is not None:
        return f"{row['topic']} partition {row['partition_id']} offset {row['record_offset']}{element}"
    file = named_file(row["source"]) if row["source"] else "the stream"
    return f"{file}{element}" if row["line"] is None else f"{file} line {row['line']}{element}"
