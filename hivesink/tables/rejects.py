"""The dead letters of a table: read, and counted by reason."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import timezone
from posixpath import basename
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from hivesink.core.column_source import LINE, PATH, named_file
from hivesink.core.partfile import PartName
from hivesink.errors import InvalidOption, UnknownTable, Unsupported, WrongUsage
from hivesink.formats import adapter
from hivesink.logs import file_store
from hivesink.sink.commit.observe import load
from hivesink.sink.task.rejects import SCHEMA, columns_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from datetime import datetime

    from hivesink.core.partfile import Finished
    from hivesink.core.partition import LivePartition
    from hivesink.ports import FileStore, LiveTable
    from hivesink.tables.opened import OpenedTable

_BATCH = 8192
"""Dead letters that are in memory at a time."""
_KEPT = {"topic": "topic", "partition": "partition_id", "offset": "record_offset", "timestamp": "record_time"}
_KEPT |= {PATH: "source", LINE: "line"}
"""Columns of a stream that are never null, and where dead letters have them."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which dead letters: of this reason, field and day (`2024-01-02`), None for all.

    A field is taken in any case. `mended` has new values by id, None for a record without a value: then only these
    records are wanted. `replayed`: those that were, instead of those that weren't.
    """

    reason: str | None = None
    field: str | None = None
    day: str | None = None
    mended: Mapping[str, bytes | None] | None = None
    replayed: bool = False

    @property
    def filters(self) -> dict[str, str]:
        """What was asked for, by name."""
        every = {"reason": self.reason, "field": self.field, "day": self.day}
        return {name: text for name, text in every.items() if text is not None}


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

    `replayed`: the ids of those that were; `marks`: how many by partition. `unnamed`: records that an older version
    wrote, and whose place nobody knows, or without a time of arrival, which hivesink never writes: nobody can tell
    whether they were replayed, or as of when. `lacking`: records that were rejected without what the table needs beside
    them. `doubled`: copies.
    """

    replayed: set[str] = field(default_factory=set)
    marks: Counter[str] = field(default_factory=Counter)
    unnamed: int = 0
    lacking: int = 0
    doubled: int = 0
    given: set[str] = field(default_factory=set)

    def begin(self) -> None:
        """Forget an earlier pass."""
        self.replayed, self.given, self.marks = set(), set(), Counter()
        self.unnamed = self.lacking = self.doubled = 0


class DeadLetters:
    """The dead-letter table of a table. Raises UnknownTable if there is none, Unsupported if another has its name."""

    def __init__(self, opened: OpenedTable) -> None:
        self.opened = opened
        self.live: LiveTable = opened.metastore.registrar.table(opened.live.spec.name.rejected)
        columns_of(self.live.spec)
        self._store: FileStore = file_store(self.live.location, opened.site)

    @property
    def name(self) -> str:
        return str(self.live.spec.name)

    def files(self) -> int:
        return sum(len(self._store.visible(home.location)) for home in self._homes().values())

    def waiting(self) -> int:
        """How many dead letters the jobs hold that are in no file of the table yet. Raises LogDamaged, NewerFormat."""
        logs = (load(context).rows for context in self.opened.writers.values())
        return sum(bucket.rows for log in logs for (table, _), bucket in log.buckets.items() if table == self.name)

    def read(self, wanted: Wanted, census: Census, needs: Collection[str] = ()) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The records that are wanted, each once: their partition, and rows as the table has them, `id` filled.

        Only those that have what `needs` names, columns of a stream.

        Raises StoreUnavailable, MetastoreUnreachable; InvalidOption for a file that can't be read.
        """
        census.begin()
        marks = {(day, one) for day, _, _, batch in self._scan(("id", "replayed_at"), None) for one in _marked(batch)}
        census.replayed, census.marks = {one for _, one in marks}, Counter(day for day, _ in marks)
        for day, file, first, batch in self._scan(SCHEMA.names, wanted.day):
            ids, lacking = _ids(batch, file, first), _lacking(batch, needs)
            kept = []
            for row, (one, mark, arrival) in enumerate(zip(ids, *_times(batch), strict=True)):
                if mark is not None or (one in census.replayed) != wanted.replayed:
                    continue
                if one is None or arrival is None:
                    census.unnamed += 1
                elif one in census.given:
                    census.doubled += 1
                elif _fits(batch, row, one, wanted):
                    if lacking[row]:
                        census.lacking += 1
                        continue
                    census.given.add(one)
                    kept.append(row)
            if kept:
                at = batch.schema.get_field_index("id")
                named = batch.set_column(at, SCHEMA.field("id"), pa.array(ids, pa.string()))
                yield day, named.take(pa.array(kept))

    def reasons(self, wanted: Wanted, census: Census) -> list[Reason]:
        """The dead letters by reason, the most first. Raises what `read` raises."""
        found: dict[tuple[str, str | None], Reason] = {}
        told = ("reason", "field", "arrived_at", "topic", "partition_id", "record_offset", "source", "line")
        for _, batch in self.read(wanted, census):
            for row in batch.select(told).to_pylist():
                key, at = (row["reason"], row["field"]), row["arrived_at"].replace(tzinfo=timezone.utc)
                one = found.setdefault(key, Reason(*key, 0, at, at, place(row)))
                one.count, one.first, one.last = one.count + 1, min(one.first, at), max(one.last, at)
        return sorted(found.values(), key=lambda one: (-one.count, one.reason))

    def _scan(self, names: Collection[str], day: str | None) -> Iterator[tuple[str, str, int, pa.RecordBatch]]:
        """The partition, the file, the number of the first row in it, and rows."""
        schema = pa.schema([SCHEMA.field(name) for name in names])
        for partition, home in sorted(self._homes().items()):
            if day is None or partition == f"dt={day}":
                for file in self._store.visible(home.location):
                    first = 0
                    for batch in self._rows(file, schema):
                        yield partition, file.path, first, batch
                        first += batch.num_rows

    def _homes(self) -> Mapping[str, LivePartition]:
        return self.opened.metastore.registrar.lookup(self.live, None)

    def _rows(self, file: Finished, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        try:
            with self._store.open(file.path) as stream:
                yield from adapter(self.live.spec.format).read(stream, schema, _BATCH)
        except (ValueError, OSError) as error:
            reason = str(error).partition("\n")[0]
            raise InvalidOption((f"{file.path} can't be read as dead letters: {reason}; move it away",)) from error


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


def _marked(batch: pa.RecordBatch) -> list[str]:
    found: list[str] = batch.filter(pc.is_valid(batch.column("replayed_at"))).column("id").to_pylist()
    return found


def _times(batch: pa.RecordBatch) -> tuple[list[datetime | None], list[datetime | None]]:
    return batch.column("replayed_at").to_pylist(), batch.column("arrived_at").to_pylist()


def _ids(batch: pa.RecordBatch, file: str, first: int) -> list[str | None]:
    """A name for each row. Records of older versions have none but their Kafka position, or their place in a part."""
    name = basename(file)
    is_part = PartName.parse(name) is not None

    def place(row: int, topic: str | None, partition: int | None, offset: int | None) -> str | None:
        if offset is not None:
            return f"{topic}-{partition}-{offset}"
        # Any other file may be a compacted one: its rows had other names before.
        return f"{name}-{first + row}" if is_part else None

    cells = (batch.column(name).to_pylist() for name in ("topic", "partition_id", "record_offset"))
    both = enumerate(zip(batch.column("id").to_pylist(), *cells, strict=True))
    return [place(row, *where) if one is None else one for row, (one, *where) in both]


def _lacking(batch: pa.RecordBatch, needs: Collection[str]) -> list[bool]:
    """Which rows were rejected without what `needs` names."""
    names = {_KEPT[name] for name in needs if name in _KEPT}
    # A record may have no key and no headers; an older version kept none.
    names |= {"id"} if {"key", "headers"} & {*needs} else set()
    nulls = [batch.column(name).is_null().to_pylist() for name in names]
    return [any(row) for row in zip(*nulls, strict=True)] if nulls else [False] * batch.num_rows


def _fits(batch: pa.RecordBatch, row: int, one: str, wanted: Wanted) -> bool:
    if wanted.mended is not None and one not in wanted.mended:
        return False
    if wanted.reason is not None and batch.column("reason")[row].as_py() != wanted.reason:
        return False
    return wanted.field is None or (batch.column("field")[row].as_py() or "").lower() == wanted.field.lower()
