"""Where a record of Kafka's went: its epoch by a search in the log, then what became of that epoch's rows.

Offsets grow from epoch to epoch, so the search reads a manifest for each time that the log can be halved.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from hivesink.core.column_source import Metadata
from hivesink.core.epoch import Epoch
from hivesink.core.lifecycle import Mark
from hivesink.core.manifest import REPLAYS
from hivesink.core.offsets import ends, span
from hivesink.core.partition import known_as
from hivesink.core.progress import why_open
from hivesink.core.rolling import open_rows
from hivesink.core.table import TableName, is_letters, main_table
from hivesink.formats import adapter
from hivesink.sink.inspect.facts import read_log
from hivesink.sink.task.segments import open_slice

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from hivesink.core.log import LogView
    from hivesink.core.manifest import Manifest, PartEntry
    from hivesink.core.offsets import Partition
    from hivesink.core.partition import PartitionKey
    from hivesink.ports import CommitLog
    from hivesink.tables.opened import OpenedTable

_AHEAD = 1000
"""Epochs among which the roll of an epoch's rows is looked for."""
_LETTERS = {Metadata.OFFSET: "record_offset", Metadata.PARTITION: "partition_id", Metadata.TOPIC: "topic"}
_KINDS = {Metadata.OFFSET: pa.int64(), Metadata.PARTITION: pa.int64(), Metadata.TOPIC: pa.string()}


@dataclass(slots=True)
class Trace:
    """Where the record at `offset` of `place` went, by the log of `writer`, at the moment `now` (UTC)."""

    opened: OpenedTable
    writer: str
    place: Partition
    offset: int
    now: datetime
    view: LogView = field(init=False)
    columns: Mapping[Metadata, str] = field(init=False)
    """The table's columns that have a record's offset, partition and topic; none without the first."""

    def told(self) -> dict[str, Any] | None:
        """The JSON of it; None if the writer has never read that partition. Raises LogDamaged, StoreUnavailable."""
        self.view = view = self._log.view()
        if not view.manifests or (newest := self._end(view.head)) < 0:
            return None
        sources = self.opened.of_last_run(self._read(view.head)).sources
        columns = {source: name for name, source in sources.items() if source in _KINDS}
        self.columns = columns if Metadata.OFFSET in columns else {}
        told: dict[str, Any] = {"writer": self.writer, "epoch": None, "places": [], "or": {}}
        if newest <= self.offset:
            return {**told, "state": "not read yet", "read_up_to": newest}
        manifest = self._read(view.manifests[bisect_right(view.manifests, self.offset, key=self._end)])
        last = manifest.last_batch
        start = ends(last.ref.start).get(self.place, 0) if last else 0
        if last is None or start > self.offset:
            # What came before the first manifest is trimmed; elsewhere no batch has read what lies between two.
            is_first = view.floor and manifest.epoch == view.manifests[0]
            return {**told, **({"state": "trimmed", **self._bounds()} if is_first else {"state": "never read"})}
        told |= {"epoch": last.epoch, "query": last.ref.query, "batch": last.ref.batch, "state": "read"}
        if last.epoch != manifest.epoch:
            return {**told, "state": "trimmed", "after": last.epoch - 1, "by": last.epoch}
        every = list(self._places(manifest))
        places = [place for place in every if place["has_it"] is not False]
        if sure := [place for place in places if place["has_it"]]:
            return {**told, "at": manifest.at, "places": sure}
        rows, offsets = manifest.rows, span(last.ref.start, last.ref.end)
        other = {name: getattr(rows, name) for name in ("rejected", "dropped", "late", "skipped")}
        if [place for place in every if is_letters(place["table"])] and not any(is_letters(p["table"]) for p in places):
            other["rejected"] = 0  # All of them were looked through.
        other["no record"] = max(0, (offsets or 0) - rows.records)
        return {**told, "at": manifest.at, "places": places, "or": {name: n for name, n in other.items() if n}}

    @property
    def _log(self) -> CommitLog:
        return self.opened.writers[self.writer].log

    def _read(self, epoch: Epoch) -> Manifest:
        return self._log.manifest(epoch)

    def _end(self, epoch: Epoch) -> int:
        batch = self._read(epoch).last_batch
        return ends(batch.ref.end).get(self.place, -1) if batch else -1

    def _bounds(self) -> dict[str, Epoch | None]:
        """The epochs between which a trimmed epoch read it, by the commits of then."""
        records = sorted(self._log.records(), key=lambda record: record.epoch)
        at = bisect_right(records, self.offset, key=lambda record: ends(record.end).get(self.place, -1))
        after, by = records[at - 1 : at], records[at : at + 1]
        return {"after": after[0].epoch if after else Epoch(0), "by": by[0].epoch if by else self.view.floor}

    def _places(self, manifest: Manifest) -> Iterator[dict[str, Any]]:
        """The partitions that got rows of the epoch, each with its files, or what it waits for."""
        view, head = self.view, self._read(self.view.head)
        settled, policies = view.settled(head.settled), self.opened.policies(head)
        buckets = open_rows(self._read(Epoch(epoch)) for epoch in range(view.head, view.floor, -1)).buckets
        waiting = {part for bucket in buckets.values() for part in bucket.slices}
        rolled = {opened.key for opened in manifest.opened if opened.slice not in waiting}
        for opened in manifest.opened:
            if opened.slice in waiting:
                key, bucket = self._today(opened.key), buckets.get(opened.key)
                why = why_open(key, bucket, head.watermark, self.now, policies, at=head.at, has_record=False)
                row = self._match(key, open_slice(self._log.segments, opened.slice))
                has_it = row is not None if self._of(key) else None
                yield {**self._in(key, "waits"), "why": why, "has_it": has_it, **(row or {})}
        homes = {(manifest.epoch, part.key): manifest for part in manifest.created}
        for epoch in view.manifests[bisect_right(view.manifests, manifest.epoch) :][: _AHEAD if rolled else 0]:
            later = self._read(epoch)
            homes |= {(epoch, key): later for key in rolled.intersection(later.rolled)}
            rolled -= {*later.rolled}
            if not rolled:
                break
        for (epoch, key), home in homes.items():
            is_read = epoch <= settled or view.has(epoch, Mark.PUBLISHED)
            state = self._in(self._today(key), "visible" if is_read else "decided")
            yield {
                **state,
                "since": home.at,
                **self._look(self._today(key), [part for part in home.created if part.key == key]),
            }
        for key in rolled:
            yield {**self._in(self._today(key), "in the files of a later epoch"), "has_it": None}

    def _in(self, key: PartitionKey, state: str) -> dict[str, Any]:
        letter = "a dead letter, " if is_letters(key[0]) else ""
        return {"table": key[0], "partition": key[1], "state": f"{letter}{state}"}

    def _today(self, key: PartitionKey) -> PartitionKey:
        return known_as(key, main_table(self.opened.name))

    def _of(self, key: PartitionKey) -> Mapping[Metadata, str]:
        return _LETTERS if is_letters(key[0]) else self.columns

    def _look(self, key: PartitionKey, parts: Iterable[PartEntry]) -> dict[str, Any]:
        """The files of `parts` that are there, or the one that has the record; of a dead letter also its reason."""
        live = self.opened.metastore.table(TableName.parse(key[0]))
        home = self.opened.metastore.lookup(live, [key[1]]).get(key[1])
        files, is_known = list[str](), bool(self._of(key))
        for part in parts:
            path = f"{home.location.rstrip('/')}/{part.name}" if home else part.target
            if is_letters(key[0]) and (replay := self._replayed(part.name)):
                return {"files": [], "has_it": None, "replayed": replay}
            if self.opened.owner.store.find(path) is None:
                is_known = False
                continue
            files.append(path)
            if self._of(key):
                wanted = {name: _KINDS[source] for source, name in self._of(key).items()}
                wanted |= {"reason": pa.string(), "field": pa.string()} if is_letters(key[0]) else {}
                with self.opened.owner.store.open(path) as stream:
                    form = adapter((home and home.format) or live.spec.format)
                    row = self._match(key, form.read(stream, pa.schema(wanted.items()), 1 << 16))
                if row is not None:
                    return {"files": [path], "has_it": True, **row}
        return {"files": files, "has_it": False if is_known else None}

    def _match(self, key: PartitionKey, batches: Iterable[pa.RecordBatch]) -> dict[str, Any] | None:
        """What the row of the record says of its rejection; None without one, or if no column has offsets."""
        wanted = {Metadata.OFFSET: self.offset, Metadata.PARTITION: self.place[1], Metadata.TOPIC: self.place[0]}
        for batch in batches if self._of(key) else ():
            rows = pa.Table.from_batches([batch])
            for source, name in self._of(key).items():
                rows = rows.filter(pc.equal(rows[name].cast(_KINDS[source]), wanted[source]))
            if rows.num_rows:
                row = rows.slice(0, 1).to_pylist()[0]
                return {name: row[name] for name in ("reason", "field") if is_letters(key[0])}
        return None

    def _replayed(self, name: str) -> Epoch | None:
        """The epoch of the replays that has replaced the dead letters' file `name`."""
        logs = self.opened.every_log(REPLAYS).values() if REPLAYS in self.opened.writers else ()
        manifests = (manifest for log in logs for manifest in read_log(log).manifests)
        return next((each.epoch for each in manifests if any(part.name == name for part in each.replaces)), None)
