"""The checks of `verify`: pure functions of gathered evidence.

What is an error and what a note: a settled epoch's files are the users' own, so one that is gone is a note. An
error is what makes a reader's answer differ from the log: rows that are missing, doubled or out of sight.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from hivesink.core.bucket import is_aside
from hivesink.core.epoch import Epoch
from hivesink.core.offsets import chain, span
from hivesink.core.table import TableName

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from hivesink.core.epoch import LastBatch
    from hivesink.core.manifest import Manifest, PartEntry, Rows
    from hivesink.core.partition import LivePartition, PartitionKey
    from hivesink.sink.inspect.facts import FileFacts, LogFacts, StagedPart


class Level(Enum):
    """How bad a finding is: only errors make `verify` fail."""

    ERROR = "error"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that isn't as the log says; `epoch` is None where it is about no single one."""

    level: Level
    epoch: Epoch | None
    text: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was found for one writer. `read` are row counts by path, or why the file can't be read.

    `head_after` is the log's head after the files were listed: a run may be at work meanwhile.
    """

    log: LogFacts
    head_after: Epoch
    tables: Mapping[str, str]
    files: FileFacts
    read: Mapping[str, int | str]
    live: Mapping[PartitionKey, LivePartition]

    def place(self, location: str) -> str:
        """`location` as the paths in `files` are spelled."""
        return self.files.place(location)


def _error(epoch: Epoch | None, text: str) -> Finding:
    return Finding(Level.ERROR, epoch, text)


def _note(epoch: Epoch | None, text: str) -> Finding:
    return Finding(Level.NOTE, epoch, text)


def whole(evidence: Evidence) -> Iterator[Finding]:
    """Manifests follow each other from the floor to the head, all of this log, and time doesn't run back."""
    log = evidence.log
    for epoch, reason in sorted(log.unreadable.items()):
        yield _error(epoch, str(reason))
    for epoch in log.missing:
        marked = ", while its mark is there" if epoch in log.view.marks else ""
        text = f"the manifest of epoch {epoch} is missing in {log.location}{marked}"
        yield _error(epoch, f"{text}; restore it from a snapshot or a backup")
    if log.view.floor and not log.view.manifests:
        yield _error(log.view.floor, f"every manifest above the floor is missing in {log.location}; restore them")
    before: Manifest | None = None
    for manifest in log.manifests:
        if before and manifest.at < before.at:
            yield _error(manifest.epoch, f"its time {manifest.at} is before that of epoch {before.epoch}")
        before = manifest


def offsets(evidence: Evidence) -> Iterator[Finding]:
    """Each batch starts where the one before it ended, and epochs without a batch carry the last one on."""
    before: Manifest | None = None
    for manifest in evidence.log.manifests:
        if before is not None and before.epoch + 1 == manifest.epoch and before.last_batch is not None:
            yield from _carried_on(manifest, before.last_batch)
        before = manifest


def _carried_on(manifest: Manifest, before: LastBatch) -> Iterator[Finding]:
    epoch, last = manifest.epoch, manifest.last_batch
    if last is None or last.epoch != epoch:
        if last != before:
            yield _error(epoch, f"it carries on another batch than {before.ref.batch} of epoch {before.epoch}")
        return
    gap = chain(before.ref.end, last.ref.start)
    if last.appended:
        yield _note(epoch, f"query {last.ref.query} begins a new history by `append`: {gap or 'it happens to follow'}")
        return
    if last.ref.query != before.ref.query:
        if gap is not None:
            yield _error(epoch, f"query {last.ref.query} doesn't start where epoch {before.epoch} ended: {gap}")
        return
    if last.ref.batch != before.ref.batch + 1:
        yield _error(epoch, f"batch {last.ref.batch} comes after batch {before.ref.batch} of epoch {before.epoch}")
    if gap is not None:
        yield _error(epoch, f"its batch doesn't start where epoch {before.epoch} ended: {gap}")


def gaps(evidence: Evidence) -> Iterator[Finding]:
    """Offsets without a record: what compaction, transactions and `failOnDataLoss=false` leave out."""
    for manifest in evidence.log.manifests:
        last = manifest.last_batch
        if last is None or last.epoch != manifest.epoch:
            continue
        offsets_read = span(last.ref.start, last.ref.end)
        if offsets_read is not None and offsets_read != manifest.rows.read:
            text = (
                f"its batch spans {offsets_read} Kafka offsets and {manifest.rows.read} rows came out of it: the job "
                "filters or adds rows, or the topic is compacted, transactional or had lost records"
            )
            yield _note(manifest.epoch, text)


def rows(evidence: Evidence) -> Iterator[Finding]:
    """Rows read = written + rejected + dropped + late + skipped, and the parts hold those written and rejected."""
    floor = evidence.log.floor
    if floor is not None and not floor.totals.balanced:
        yield _error(floor.epoch, f"the floor's totals don't add up: {_figures(floor.totals)}")
    for manifest in evidence.log.manifests:
        if not manifest.rows.balanced:
            yield _error(manifest.epoch, f"its rows don't add up: {_figures(manifest.rows)}")
        if manifest.open.added or manifest.open.removed:
            continue  # Rows that wait in segments are written by a later epoch.
        dead = {str(TableName.parse(table).rejected) for table in manifest.tables}
        for what, wanted, found in (
            ("written", manifest.rows.written, sum(p.rows for p in manifest.parts if p.table not in dead)),
            ("rejected", manifest.rows.rejected, sum(p.rows for p in manifest.parts if p.table in dead)),
        ):
            if wanted != found:
                yield _error(manifest.epoch, f"{wanted} rows {what}, but its parts hold {found}")


def _figures(found: Rows) -> str:
    return (
        f"read {found.read}, written {found.written}, rejected {found.rejected}, dropped {found.dropped}, "
        f"late {found.late}, skipped {found.skipped}"
    )


def present(evidence: Evidence) -> Iterator[Finding]:
    """Each part stands at its target with its length, or waits to be published."""
    there = {found.path for found in evidence.files.staged} | set(evidence.files.visible)
    for manifest, part in evidence.log.effective():
        length = evidence.files.visible.get(evidence.place(part.target))
        if length is not None and length != part.length:
            text = f"{part.target} has {length} bytes where {part.length} were written; something else changed it"
            yield _error(manifest.epoch, text)
        elif length is None:
            yield _absent(evidence, manifest, part, there)
    for manifest in evidence.log.manifests:
        if manifest.lost:
            yield _note(manifest.epoch, f"a person has accepted that {len(manifest.lost)} parts are lost")
    for target in sorted(evidence.log.lost):
        if evidence.place(target) in evidence.files.visible:
            yield _note(None, f"{target} was accepted as lost and is there; its rows are read again")


def _absent(evidence: Evidence, manifest: Manifest, part: PartEntry, there: Collection[str]) -> Finding:
    """What it means that nothing stands at a part's target; `there` are all files that do."""
    epoch, rows = manifest.epoch, f"{part.target} ({part.rows} rows)"
    if evidence.log.is_published(epoch):
        if _is_unproven(evidence, manifest, part):
            text = f"{rows} went before its epoch was settled; restore it, or accept the loss"
            return _error(epoch, f"{text} with `hivesink recover TABLE --accept-lost`")
        now = _moved_to(evidence, part)
        gone = f"has been moved to {now}" if now else "is gone"
        return _note(epoch, f"{rows} {gone} since it was published, by a user's act")
    if evidence.place(part.staged) in there or evidence.place(part.restored) in there:
        return _note(epoch, f"{rows} waits to be published; `hivesink recover` does it")
    text = f"{rows} is neither staged nor published; restore it, or accept the loss"
    return _error(epoch, f"{text} with `hivesink recover TABLE --accept-lost`")


def _is_unproven(evidence: Evidence, manifest: Manifest, part: PartEntry) -> bool:
    """Whether nobody can have had a right to take a published part yet: the rule of `core.seen.unproven`."""
    if manifest.epoch not in {found.epoch for found in evidence.log.open}:
        return False
    home = evidence.live.get((part.table, part.partition))
    if manifest.log is None:
        return home is None
    is_at_home = home is not None and evidence.place(home.location) == evidence.place(part.folder)
    return is_at_home and is_aside(part.staged.rpartition("/")[0])


def _moved_to(evidence: Evidence, part: PartEntry) -> str | None:
    """Where `part` stands now that it isn't at its target; where readers find it, if it is there."""
    if evidence.place(part.target) in evidence.files.visible:
        return None
    live = evidence.live.get((part.table, part.partition))
    home = live and evidence.place(live.location)
    found = evidence.files.places(part.target.rpartition("/")[2])
    return min(found, key=lambda path: (path.rpartition("/")[0] != home, path), default=None)


def footers(evidence: Evidence) -> Iterator[Finding]:
    """Each part holds the rows that its epoch counted."""
    for manifest, part in evidence.log.effective():
        found = evidence.read.get(evidence.place(part.target), part.rows)
        if isinstance(found, str):
            yield _error(manifest.epoch, f"{part.target} can't be read: {found}")
        elif found != part.rows:
            yield _error(manifest.epoch, f"{part.target} holds {found} rows where {part.rows} were written")


def registered(evidence: Evidence) -> Iterator[Finding]:
    """Each partition that holds published parts is in the metastore, at their folder."""
    staged = {found.path.rpartition("/")[2] for found in evidence.files.staged}
    waiting = {(gap.table, gap.partition) for gap in evidence.log.unregistered(staged)}
    places: dict[tuple[str, str, str], Epoch] = {}
    for manifest, part in evidence.log.effective():
        if evidence.place(part.target) in evidence.files.visible:
            places[part.table, part.partition, part.folder] = manifest.epoch
    for (table, partition, folder), epoch in places.items():
        if table not in evidence.tables:
            continue
        live, name = evidence.live.get((table, partition)), f"{table} {partition}".strip()
        if live is not None and evidence.place(live.location) == evidence.place(folder):
            continue
        if live is not None:
            text = f"{name} is registered at {live.location}, but its parts are in {folder}: no reader finds them"
            yield _error(epoch, f"{text}; move them there, or alter the partition's location")
        elif (table, partition) in waiting or not evidence.log.is_published(epoch):
            yield _note(epoch, f"{name} waits for its registration; `hivesink recover` does it")
        else:
            text = f"{name} is not in the metastore, but its parts are in {folder}: no reader finds them"
            yield _error(epoch, f"{text}; add it again with MSCK REPAIR TABLE, or remove the folder")
    for table in evidence.log.tables:
        if table not in evidence.tables:
            yield _note(None, f"table {table} is not in the metastore any more; its files were not looked at")


def doubled(evidence: Evidence) -> Iterator[Finding]:
    """No file of this writer stands in the table that no epoch answers for: its rows would be read twice."""
    for epoch, path in strays(evidence):
        text = f"{path} is in no manifest: its rows are doubled or were never committed; see `hivesink clean --strays`"
        yield _error(epoch, f"{text}, which leaves alone what is in no partition's folder")


def strays(evidence: Evidence) -> Iterator[tuple[Epoch, str]]:
    """The writer's visible files that no epoch answers for, with the epochs in their names."""
    log = evidence.log
    known = {evidence.place(part.target) for _, part in log.effective()} | {
        evidence.place(target) for target in log.lost
    }
    # A part that a user moved, with its folder or its whole table, is the same part: its name is unique.
    known |= {
        now
        for manifest, part in log.effective()
        if log.is_published(manifest.epoch) and (now := _moved_to(evidence, part))
    }
    # Where readers find its partition now: who moved it may have left copies at its old place.
    known |= {
        f"{evidence.place(live.location)}/{part.target.rpartition('/')[2]}"
        for _, part in log.effective()
        if (live := evidence.live.get((part.table, part.partition)))
    }
    # What a move epoch is still to move stands wherever an earlier epoch put it.
    waiting = {
        part.target.rpartition("/")[2] for manifest, part in log.effective() if not log.is_published(manifest.epoch)
    }
    epochs = {manifest.epoch for manifest in log.manifests}
    for path, name, _ in evidence.files.parts():
        if name.uid != log.uid or path in known or path.rpartition("/")[2] in waiting:
            continue
        # A run at work may have decided and published more since the log was read.
        if name.epoch in epochs or name.epoch > evidence.head_after:
            yield Epoch(name.epoch), path


def leftovers(evidence: Evidence) -> Iterator[Finding]:
    """Staged files that wait for nothing."""
    log = evidence.log
    waiting = {
        evidence.place(path)
        for manifest, part in log.effective()
        if not log.is_published(manifest.epoch)
        for path in (part.staged, part.restored)
    }
    for found in evidence.files.staged:
        if found.name.uid == log.uid and found.path not in waiting:
            yield _note(Epoch(found.name.epoch), _leftover(found, log.view.head))


def _leftover(found: StagedPart, head: Epoch) -> str:
    if found.name.epoch <= head:
        return f"{found.path} is a leftover of a try that lost; `hivesink clean` removes it"
    return f"{found.path} is of a run at work, or of one that died; the writer's next start removes it"


CHECKS: tuple[Callable[[Evidence], Iterator[Finding]], ...] = (
    whole,
    offsets,
    gaps,
    rows,
    present,
    footers,
    registered,
    doubled,
    leftovers,
)
