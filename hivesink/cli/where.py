"""`hivesink where`: what became of a record, by its epoch in the log and that epoch's files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cached_property
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc
import typer

from hivesink.cli.command import command
from hivesink.cli.output import Line, Output, cell_text
from hivesink.core.column_source import Metadata, named_file
from hivesink.core.manifest import REPLAYS, REQUEUE, Manifest, Opened, PartEntry, Recorded
from hivesink.core.offsets import Partition, ends, span
from hivesink.core.partition import PartitionKey, known_as
from hivesink.core.progress import why_open
from hivesink.core.table import TableName, is_letters, main_table, quoted
from hivesink.errors import InvalidOption
from hivesink.formats import adapter
from hivesink.ports import CommitLog
from hivesink.sink.inspect.facts import LogFacts, read_log
from hivesink.sink.task.segments import open_slice
from hivesink.tables.opened import OpenedTable, replaced_letters
from hivesink.tables.rejects import ORIGIN, dead_letters, origin

Record = Annotated[str, typer.Argument(help="topic:partition:offset, or FILE:LINE.", metavar="RECORD")]
_UNREAD = {
    "not read yet": "not read yet: its next record is {read_up_to}",
    "never read": "never read: it expired, or the job began behind it or ended before it",
    "trimmed": "if the job read it, an epoch after {after}, up to {by}, did; their manifests are gone",
}
_LETTERS = {Metadata.OFFSET: "record_offset", Metadata.PARTITION: "partition_id", Metadata.TOPIC: "topic"}
_KINDS = {Metadata.OFFSET: pa.int64(), Metadata.PARTITION: pa.int64(), Metadata.TOPIC: pa.string()}


@command
def where(out: Output, opened: OpenedTable, record: Record) -> None:
    """Say where a record of Kafka's went: its epoch, files or what it waits for, or why it isn't in the table.

    Of a record of a file the log knows nothing: only dead letters are looked through. Read-only.

    Example: hivesink where demo.flights flights:0:17

    """
    kafka = re.fullmatch(r"([\w.-]+):([^:/]*):([^:/]*)", record, re.ASCII)
    file = re.fullmatch(r"(.+):(\d+)", record, re.ASCII)
    if kafka and not (kafka[2].isdecimal() and kafka[3].isdecimal()):
        raise InvalidOption((f"{record!r}: partition and offset are numbers, as in flights:0:17",))
    if not (kafka or file):
        raise InvalidOption((f"{record!r} is no record: write topic:partition:offset, or FILE:LINE",))
    topic, partition, offset = (kafka[1], int(kafka[2]), int(kafka[3])) if kafka else ("", -1, -1)
    now, logs = datetime.now(timezone.utc), opened.every_log() if kafka else {}
    logs = {name: log for name, log in logs.items() if name.partition("/")[0] != REPLAYS}
    traces = [_Trace(opened, name, log, (topic, partition), offset, now) for name, log in logs.items()]
    told = [each for trace in traces if (each := trace.told())]
    if kafka and not told:
        raise InvalidOption((f"no writer of {opened.name} has read partition {partition} of topic {topic!r}",))
    # What a log hasn't, another may have, as before or after a reset.
    told = [each for each in told if each["state"] != "never read"] or told
    letters = [] if file is None or kafka else list(_letters(opened, file[1], int(file[2])))
    table = next((place["table"] for each in told for place in each["places"] if place["has_it"]), opened.name)
    columns = _LETTERS if is_letters(table) else next((trace.columns for trace in traces if trace.columns), {})
    wanted = {Metadata.TOPIC: f"'{topic}'", Metadata.PARTITION: partition, Metadata.OFFSET: offset}
    conditions = [f"{quoted(columns[source])} = {value}" for source, value in wanted.items() if source in columns]
    is_kept = columns and any(each["places"] for each in told)
    select = f"SELECT * FROM {table} WHERE {' AND '.join(conditions)}" if is_kept else None  # noqa: S608  printed
    lines = [Line(text) for each in told for text in _lines(each)]
    texts = (f"{origin(each)}: {each['field'] or 'the record'}: {each['reason']}" for each in letters)
    lines += [Line(f"a dead letter, {text}") for text in texts]
    lines += [] if lines else [Line(f"no dead letter of {opened.name} is of it")]
    lines += [Line(select)] if select else []
    out.show({"table": table, "record": record, "writers": told, "letters": letters, "select": select}, lines)


def _letters(opened: OpenedTable, file: str, line: int) -> Iterator[Mapping[str, Any]]:
    letters = dead_letters(opened)
    for _, rows in letters.every() if letters else ():
        for row in rows.select(["reason", "field", *ORIGIN]).to_pylist():
            if row["line"] == line and f"/{named_file(row['source'] or '')}".endswith(f"/{named_file(file)}"):
                yield row


def _lines(told: Mapping[str, Any]) -> Iterator[str]:
    state, writer = told["state"], f"writer {told['writer']}"
    if state in _UNREAD:
        yield f"{writer}: {_UNREAD[state].format(**told)}"
        return
    batch = f"batch {told['batch']} of query {told['query']}"
    yield f"{writer}: {state} by epoch {told['epoch']} at {cell_text(told['at'])} UTC ({batch})"
    for place in told["places"]:
        words = [place["partition"] or "the table", place["state"]]
        words += [f"since {cell_text(place['since'])} UTC"] if "since" in place else []
        words += [place["why"]] if "why" in place else []
        words += [f"{place['field'] or 'the record'}: {place['reason']}"] if "reason" in place else []
        replay = f"epoch {place['replayed']}" if place.get("replayed") else "a trimmed epoch"
        words += [f"replayed in {replay} of rejects-replay"] if "replayed" in place else []
        yield f"    {'' if place['has_it'] else 'perhaps '}{', '.join(words)}"
        yield from (f"        {path}" for path in place.get("files", ()))
    if told["or"]:
        others = ", ".join(f"{what} ({count:,})" for what, count in told["or"].items())
        yield f"    {'or' if told['places'] else 'in no file of the epoch:'} {others}"


@dataclass
class _Trace:
    """Where the record at `offset` of `place` went, by the `log` called `writer`, at the moment `now` (UTC)."""

    opened: OpenedTable
    writer: str
    log: CommitLog
    place: Partition
    offset: int
    now: datetime
    facts: LogFacts = field(init=False)
    columns: Mapping[Metadata, str] = field(default_factory=dict)
    """The table's columns that the epoch put a record's offset, partition and topic in; none without the first."""

    def told(self) -> dict[str, Any] | None:
        """The JSON of it; None if the writer has never read that partition. Raises LogDamaged, StoreUnavailable."""
        self.facts = facts = read_log(self.log)
        if not facts.view.is_over:
            facts.require_readable()
        read = [(each, last) for each in facts.manifests if (last := each.last_batch) and self._end(each) >= 0]
        if not (read or self._records()):
            return None
        told: dict[str, Any] = {"writer": self.writer, "epoch": None, "places": [], "or": {}}
        starts = {last.epoch: ends(last.ref.start).get(self.place) for _, last in read}
        covering = [(m, last) for m, last in read if (starts[last.epoch] or 0) <= self.offset < self._end(m)]
        if not covering:
            return {**told, **self._unread()}
        # A partition that is new to a batch has no start: nobody knows where it began.
        manifest, last = min(covering, key=lambda pair: (starts[pair[1].epoch] is None, pair[0].epoch != pair[1].epoch))
        told |= {"epoch": last.epoch, "query": last.ref.query, "batch": last.ref.batch}
        if last.epoch != manifest.epoch:
            return {**told, "state": "trimmed", "after": last.epoch - 1, "by": last.epoch}
        sources = self.opened.of_last_run(manifest).sources
        columns = {source: name for name, source in sources.items() if source in _KINDS}
        self.columns = columns if Metadata.OFFSET in columns else {}
        told |= {"state": "perhaps read" if starts[last.epoch] is None else "read", "at": manifest.at}
        every = list(self._places(manifest))
        places = [place for place in every if place["has_it"] is not False]
        if sure := [place for place in places if place["has_it"]]:
            return {**told, "state": "read", "places": sure}
        rows, offsets = manifest.rows, span(last.ref.start, last.ref.end)
        other = {name: getattr(rows, name) for name in ("rejected", "dropped", "late", "skipped")}
        if [place for place in every if is_letters(place["table"])] and not any(is_letters(p["table"]) for p in places):
            other["rejected"] = 0  # All of them were looked through.
        other["no record"] = max(0, (offsets or 0) - rows.records)
        return {**told, "places": places, "or": {name: n for name, n in other.items() if n}}

    def _end(self, manifest: Manifest | None) -> int:
        batch = manifest.last_batch if manifest else None
        return ends(batch.ref.end).get(self.place, -1) if batch else -1

    def _records(self) -> list[Recorded]:
        return [record for record in self.log.records() if self.place in ends(record.end)]

    def _unread(self) -> dict[str, Any]:
        """Of a record that no manifest's batch has read: manifests that are gone may have."""
        facts, view = self.facts, self.facts.view
        if 0 <= (newest := self._end(facts.head)) <= self.offset and not view.is_over:
            return {"state": "not read yet", "read_up_to": newest}
        begun = self._end(facts.manifests[0]) if facts.manifests else -1
        floor = 0 if 0 <= begun <= self.offset else view.floor
        gone = max((floor, *view.missing, *facts.unreadable))
        if not gone:
            return {"state": "never read"}
        epochs: tuple[list[int], list[int]] = [0], []
        for record in self._records():
            epochs[ends(record.end)[self.place] > self.offset].append(record.epoch)
        return {"state": "trimmed", "after": max(epochs[0]), "by": min(epochs[1], default=gone)}

    def _places(self, manifest: Manifest) -> Iterator[dict[str, Any]]:
        """The partitions that got rows of the epoch, each with its files, or what it waits for."""
        facts, head = self.facts, self.facts.head
        policies, buckets = self.opened.policies(head), facts.open_rows.buckets
        waiting = {part for bucket in buckets.values() for part in bucket.slices}
        rolls = self._rolls(manifest)
        homes = {(manifest.epoch, self._today(part.key)): manifest for part in manifest.created}
        for opened in manifest.opened:
            key, bucket = self._today(opened.key), buckets.get(opened.key)
            if opened.slice in waiting and facts.view.is_over:
                yield {**self._in(key, "given up by a reset"), "has_it": None}
            elif opened.slice in waiting and head:
                why = why_open(key, bucket, head.watermark, self.now, policies, at=head.at, has_record=False)
                row = self._match(key, open_slice(self.log.segments, opened.slice))
                yield {**self._in(key, "waits"), "why": why, **row}
            elif opened in rolls:
                homes[rolls[opened].epoch, key] = rolls[opened]
            else:
                yield {**self._in(key, "in the files of a later epoch"), "has_it": None}
        todo = [(facts, home, key) for (_, key), home in homes.items()]
        for log, home, key in todo:
            parts = [part for part in home.created if self._today(part.key) == key]
            replays = [self._replays.get(part.name) for part in parts] if is_letters(key[0]) else []
            for replay in filter(None, replays):
                keys = {self._today(part.key) for part in replay[1].created}
                todo += [each for each in ((*replay, key) for key in sorted(keys)) if each not in todo]
            look = self._look(key, parts)
            state = "given up by a reset" if log.view.is_over else "decided"
            if log.is_published(home.epoch) or look["has_it"]:
                state = "visible" if look["files"] or "replayed" in look else "its file is gone"
            yield {**self._in(key, state), "since": home.at, **look}

    def _rolls(self, manifest: Manifest) -> dict[Opened, Manifest]:
        """By the epoch's slices, the rolls that their files are of, unless they were given up since."""
        rolls: dict[Opened, Manifest] = {}
        for later in self.facts.manifests:
            keys = {self._today(key) for key in later.rolled} if later.epoch > manifest.epoch else set()
            waits = {part for _, bucket in later.waiting or () for part in bucket.slices}
            for opened in manifest.opened:
                if opened.slice in waits:
                    rolls.pop(opened, None)
                elif self._today(opened.key) in keys:
                    rolls.setdefault(opened, later)
        return rolls

    def _in(self, key: PartitionKey, state: str) -> dict[str, Any]:
        letter = "a dead letter, " if is_letters(key[0]) else ""
        return {"table": key[0], "partition": key[1], "state": f"{letter}{state}"}

    def _today(self, key: PartitionKey) -> PartitionKey:
        return known_as(key, main_table(self.opened.name))

    def _of(self, key: PartitionKey) -> Mapping[Metadata, str]:
        return _LETTERS if is_letters(key[0]) else self.columns

    def _look(self, key: PartitionKey, parts: Iterable[PartEntry]) -> dict[str, Any]:
        """The files of `parts` that may have the record, or the one that has; of a dead letter also its reason."""
        live = self.opened.metastore.table(TableName.parse(key[0]))
        home = self.opened.metastore.lookup(live, [key[1]]).get(key[1])
        files, is_sure = list[str](), True
        for part in parts:
            path = f"{home.location.rstrip('/')}/{part.name}" if home else part.target
            if is_letters(key[0]) and part.name in self._replays:
                replay = self._replays[part.name]
                return {"files": [], "has_it": None, "replayed": replay and replay[1].epoch}
            if self.opened.owner.store.find(path) is None:
                is_sure = False
                continue
            if not self._of(key):
                files.append(path)
                continue
            wanted = {name: _KINDS[source] for source, name in self._of(key).items()}
            wanted |= {"reason": pa.string(), "field": pa.string()} if is_letters(key[0]) else {}
            with self.opened.owner.store.open(path) as stream:
                form = adapter((home and home.format) or live.spec.format)
                row = self._match(key, form.read(stream, pa.schema(wanted.items()), 1 << 16))
            if row["has_it"]:
                return {"files": [path], **row}
            files += [path] if row["has_it"] is None else []
        return {"files": files, "has_it": False if is_sure and not files else None}

    def _match(self, key: PartitionKey, batches: Iterable[pa.RecordBatch]) -> dict[str, Any]:
        """Whether the record is among them, and why it was rejected; nobody knows where a column has no value."""
        wanted = {Metadata.OFFSET: self.offset, Metadata.PARTITION: self.place[1], Metadata.TOPIC: self.place[0]}
        has_it = False if self._of(key) else None
        for batch in batches if self._of(key) else ():
            is_it = pa.array([True] * len(batch))
            for source, name in self._of(key).items():
                values = batch[name] if name in batch.schema.names else pa.nulls(len(batch))
                is_it = pc.and_kleene(is_it, pc.equal(values.cast(_KINDS[source]), wanted[source]))
            if rows := batch.filter(is_it).slice(0, 1).to_pylist():
                return {"has_it": True, **{name: rows[0][name] for name in ("reason", "field") if is_letters(key[0])}}
            has_it = None if is_it.null_count else has_it
        return {"has_it": has_it}

    @cached_property
    def _replays(self) -> Mapping[str, tuple[LogFacts, Manifest] | None]:
        """By name, the parts of dead letters that were replaced: by which epoch, None if that is trimmed."""
        every = self.opened.every_log().items()
        logs = {name: read_log(log) for name, log in every if name.partition("/")[0] == REPLAYS}
        replays: dict[str, tuple[LogFacts, Manifest] | None] = dict.fromkeys(replaced_letters(logs))
        for log in logs.values():
            for each in log.manifests:
                names = () if each.kind == REQUEUE else replays.keys() & {part.name for part in each.replaces}
                replays |= dict.fromkeys(names, (log, each))
        return replays
