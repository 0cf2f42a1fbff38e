"""What `verify` finds, and its checks: pure functions of gathered evidence.

An error makes a reader's answer differ from the log: rows that are missing, doubled or out of sight. The rest are
notes: a settled epoch's files are the users' own, so even a missing one is only a note.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import Enum
from functools import partial
from itertools import pairwise
from posixpath import basename, dirname
from typing import TYPE_CHECKING

from hivesink.core.epoch import Epoch
from hivesink.core.lifecycle import EpochState
from hivesink.core.log import stray_floor
from hivesink.core.offsets import chain, span
from hivesink.core.progress import count
from hivesink.core.rolling import OpenRows, segment_epoch
from hivesink.core.snapshot import is_unproven
from hivesink.core.table import TableName
from hivesink.sink.commit.recovery import ALL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hivesink.core.epoch import LastBatch
    from hivesink.core.manifest import Manifest, PartEntry, Rows
    from hivesink.sink.inspect.facts import Evidence


class Level(Enum):
    """How bad a finding is: only errors make `verify` fail."""

    ERROR = "error"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that isn't as the log says; `epoch` is None if it isn't about a single epoch."""

    level: Level
    epoch: Epoch | None
    text: str


error, note = partial(Finding, Level.ERROR), partial(Finding, Level.NOTE)


def whole(evidence: Evidence) -> Iterator[Finding]:
    """Manifests follow each other from the floor to the head, all belong to this log, and time doesn't run back."""
    log = evidence.log
    for epoch, reason in sorted(log.unreadable.items()):
        yield error(epoch, str(reason))
    for epoch in log.missing:
        marked = ", while its mark is there" if epoch in log.view.marks else ""
        text = f"the manifest of epoch {epoch} is missing in {log.location}{marked}"
        yield error(epoch, f"{text}; restore it from a snapshot or a backup")
    if stray := stray_floor(log.location, log.view):
        yield error(log.view.floor, str(stray))
    for before, manifest in pairwise(log.manifests):
        if manifest.at < before.at:
            yield error(manifest.epoch, f"its time {manifest.at} is before that of epoch {before.epoch}")


def offsets(evidence: Evidence) -> Iterator[Finding]:
    """Each batch starts where the one before it ended; epochs without a batch carry the last one on."""
    for before, manifest in pairwise(evidence.log.manifests):
        if before.epoch + 1 == manifest.epoch and before.last_batch is not None:
            yield from _carried_on(manifest, before.last_batch)


def _carried_on(manifest: Manifest, before: LastBatch) -> Iterator[Finding]:
    epoch, last = manifest.epoch, manifest.last_batch
    if last is None or last.epoch != epoch:
        if last != before:
            yield error(epoch, f"it carries on a batch other than {before.ref.batch} of epoch {before.epoch}")
        return
    gap = chain(before.ref.end, last.ref.start)
    if last.appended:
        yield note(epoch, f"query {last.ref.query} begins a new history by `append`" + (f": {gap}" if gap else ""))
        return
    if last.ref.query != before.ref.query:
        if gap is not None:
            yield error(epoch, f"query {last.ref.query} doesn't start where epoch {before.epoch} ended: {gap}")
        return
    if last.ref.batch != before.ref.batch + 1:
        yield error(epoch, f"batch {last.ref.batch} comes after batch {before.ref.batch} of epoch {before.epoch}")
    if gap is not None:
        yield error(epoch, f"its batch doesn't start where epoch {before.epoch} ended: {gap}")


def gaps(evidence: Evidence) -> Iterator[Finding]:
    """Offsets without a record: what compaction, transactions and `failOnDataLoss=false` leave out."""
    for manifest in evidence.log.manifests:
        last = manifest.last_batch
        if last is None or last.epoch != manifest.epoch:
            continue
        offsets_read = span(last.ref.start, last.ref.end)
        if offsets_read is not None and offsets_read != manifest.rows.read:
            text = f"its batch spans {offsets_read} Kafka offsets and {manifest.rows.read} rows came out of it"
            why = "the job filters or adds rows, or the topic is compacted, transactional or had lost records"
            yield note(manifest.epoch, f"{text}: {why}")


def rows(evidence: Evidence) -> Iterator[Finding]:
    """Rows read = written + rejected + dropped + late + skipped, and the parts hold those written and rejected."""
    floor = evidence.log.floor
    if floor is not None and not floor.totals.balanced:
        yield error(floor.epoch, f"the floor's totals don't add up: {_figures(floor.totals)}")
    after = None if floor else OpenRows()
    for manifest in evidence.log.manifests:
        before = after
        after = OpenRows().after(manifest) if manifest.waiting is not None else before and before.after(manifest)
        if not manifest.rows.balanced:
            yield error(manifest.epoch, f"its rows don't add up: {_figures(manifest.rows)}")
        if manifest.forgotten:
            yield note(manifest.epoch, f"a person has accepted that {manifest.forgotten} rows are lost")
        dead = {str(TableName.parse(table).rejected) for table in manifest.tables}
        rejected = sum(part.rows for part in manifest.created if part.table in dead)
        written = sum(part.rows for part in manifest.created) - rejected
        if manifest.rolled:
            yield from _rolled(manifest, before, written + rejected)
            continue
        for opened in manifest.opened:
            if opened.table in dead:
                rejected += opened.slice.rows
            else:
                written += opened.slice.rows
        for what, counted, held in (
            ("written", manifest.rows.written, written),
            ("rejected", manifest.rows.rejected, rejected),
        ):
            if counted != held:
                yield error(manifest.epoch, f"{counted} rows {what}, but its files hold {held}")


def _rolled(manifest: Manifest, before: OpenRows | None, held: int) -> Iterator[Finding]:
    """Its parts hold the rows of the slices that it closed; None: nobody knows these any more."""
    # The table may have been renamed while they waited.
    name = manifest.rolled[0][0].removesuffix("__rejected")
    closed = before.renamed(name).closed(manifest).values() if before else ()
    waited = sum(part.rows for slices in closed for part in slices) if before else held
    if waited != held:
        yield error(manifest.epoch, f"{waited} rows waited for it, but its parts hold {held}")


def segments(evidence: Evidence) -> Iterator[Finding]:
    """Each segment that holds rows that wait is there, and whole."""
    needed: dict[str, int] = {}
    for bucket in evidence.log.open_rows.buckets.values():
        for part in bucket.slices:
            needed[part.segment] = max(needed.get(part.segment, 0), part.offset + part.length)
    if evidence.head_after != evidence.log.view.head:
        return  # A job that runs beside this may have rolled them meanwhile.
    for name, length in sorted(needed.items()):
        actual, path = evidence.segments.get(name), f"{evidence.log.location}/segments/{name}"
        if actual is None or actual < length:
            state = "is missing" if actual is None else f"has {actual} of {length} bytes"
        elif name in evidence.damaged:
            state = evidence.damaged[name].removeprefix("it ")
        else:
            continue
        recover = f"hivesink recover {evidence.log.tables[0]} --forget PARTITION"
        advice = f"restore it from a backup, or accept the loss with `{recover}`"
        yield error(segment_epoch(name), f"{path} {state}, and rows wait in it; {advice}")


def _figures(rows: Rows) -> str:
    return ", ".join(f"{name} {count}" for name, count in asdict(rows).items())


def present(evidence: Evidence) -> Iterator[Finding]:
    """Each part is where readers find it, with its length, or waits to be published."""
    for manifest, part in evidence.log.effective():
        path, target = evidence.places.get(part.name), evidence.files.canonical(part.target)
        if not evidence.log.is_published(manifest.epoch) and target in evidence.files.visible:
            path = target  # Where a start looks.
        length = part.length if path is None else evidence.files.visible[path]
        if length != part.length:
            text = f"{path} has {count(length, 'byte')} where {part.length} were written; something else changed it"
            yield error(manifest.epoch, text)
        elif target not in evidence.files.visible and part.name not in evidence.replaced:
            yield _absent(evidence, manifest, part)
    forgotten = {target.rpartition("/")[2] for target in evidence.log.forgotten}
    settled = {part.name for part in evidence.log.replaced.values()} if not evidence.log.open else set[str]()
    for path in sorted(evidence.files.visible):
        if basename(path) in settled:
            yield note(None, f"{path} is there though a replay has replaced it: delete it")
        if basename(path) in forgotten and dirname(path) in evidence.shown:
            yield note(None, f"{path} was given up as lost and is there; its rows are read again")


def _absent(evidence: Evidence, manifest: Manifest, part: PartEntry) -> Finding:
    """What it means that a part's target is missing."""
    epoch, rows = manifest.epoch, f"{part.target} ({count(part.rows, 'row')})"
    table = part.table.removesuffix("__rejected")
    advice = f"restore it, or run `hivesink recover {table} --forget {part.partition or ALL}`"
    state = evidence.log.view.state(epoch)
    if part.key in manifest.rolled and state is EpochState.DECIDED:
        advice = f"the next start encodes its rows again if their segments are all there; otherwise {advice}"
    home = evidence.homes.get(part.key)
    if not evidence.log.is_published(epoch):
        paths = evidence.files.of(part)
        if evidence.files.canonical(part.staged) in paths:
            return note(epoch, f"{rows} waits to be published; `hivesink recover` does it")
        elsewhere = f", but it is at {paths[0]}" if paths else ""
        return error(epoch, f"{rows} is neither staged nor published{elsewhere}; {advice}")
    now = evidence.places.get(part.name)
    is_home = home is not None and home == evidence.files.canonical(part.folder)
    is_open = manifest.epoch in {unsettled.epoch for unsettled in evidence.log.open}
    if is_open and state is EpochState.PUBLISHED and is_unproven(part, is_home=is_home):
        elsewhere = f" and is at {now}" if now else ""
        return error(epoch, f"{rows} disappeared before its epoch was settled{elsewhere}; {advice}")
    gone = f"has been moved to {now}" if now else "is gone"
    return note(epoch, f"{rows} {gone} since it was published: somebody other than hivesink did that")


def footers(evidence: Evidence) -> Iterator[Finding]:
    """Each part holds the rows that its epoch counted."""
    for manifest, part in evidence.log.effective():
        path = evidence.places.get(part.name)
        rows = evidence.read.get(path or "", part.rows)
        if isinstance(rows, str):
            yield error(manifest.epoch, f"{path} can't be read: {rows}")
        elif rows != part.rows:
            yield error(manifest.epoch, f"{path} holds {count(rows, 'row')} where {part.rows} were written")


def registered(evidence: Evidence) -> Iterator[Finding]:
    """Each partition that holds published parts is in the metastore, at their folder."""
    waiting = {(gap.table, gap.partition) for gap in evidence.log.unregistered(evidence.files)}
    newest = {
        (part.table, part.partition, dirname(path)): manifest.epoch
        for manifest, part in evidence.log.effective()
        if part.table in evidence.tables and (path := evidence.places.get(part.name))
    }
    readers = {home: f"{table} {partition}".strip() for (table, partition), home in evidence.homes.items()}
    for (table, partition, folder), epoch in newest.items():
        live, name = evidence.live.get((table, partition)), f"{table} {partition}".strip()
        if evidence.homes.get((table, partition)) == folder:
            continue
        if reader := readers.get(folder):
            yield note(epoch, f"readers find the rows of {name} in {folder} as {reader}: somebody has renamed it")
        elif live is not None:
            text = f"{name} is registered at {live.location}, but its parts are in {folder}: no reader finds them"
            yield error(epoch, f"{text}; move them there, or alter the partition's location")
        elif (table, partition) in waiting or not evidence.log.is_published(epoch):
            yield note(epoch, f"{name} waits for its registration; `hivesink recover` does it")
        else:
            text = f"{name} is not in the metastore, but its parts are in {folder}: no reader finds them"
            advice = "add it again (MSCK REPAIR TABLE, or ADD PARTITION … LOCATION), or move the folder away"
            yield error(epoch, f"{text}; {advice}")
    for table in evidence.log.tables:
        if table not in evidence.tables:
            yield note(None, f"table {table} is no longer in the metastore; its files were not checked")


def shared(evidence: Evidence) -> Iterator[Finding]:
    """No two partitions of a table are at one folder."""
    at: dict[tuple[str, str], list[str]] = {}
    for (table, partition), home in sorted(evidence.homes.items()):
        at.setdefault((table, home), []).append(partition)
    for (table, folder), partitions in at.items():
        if len(partitions) > 1:
            text = f"{' and '.join(partitions)} of {table} are registered at one folder, {folder}"
            advice = "drop the one that has no files of its own, or move its files and alter its location"
            yield error(None, f"{text}: readers find its rows under each name; {advice}")


def newer(evidence: Evidence) -> Iterator[Finding]:
    """No file is of an epoch after the log's newest one: its rows may be right, and the log too old."""
    head = evidence.head_after
    later = sorted(file.path for file, _ in evidence.files.parts(evidence.log.uid) if file.name.epoch > head)
    if later:
        text = f"{len(later)} files, such as {later[0]}, are of epochs after {head}, where this log ends: it is too old"
        yield error(None, f"{text}; restore the log's newest copy, and leave the files alone")


def doubled(evidence: Evidence) -> Iterator[Finding]:
    """Every visible file of this writer belongs to an epoch: the rows of any other would be read twice."""
    log, shown = evidence.log, evidence.shown
    # What was copied with its partition is read at one place only.
    moved = {evidence.files.canonical(target) for manifest in log.manifests for target in manifest.remove}
    known = {path for path in moved if dirname(path) not in shown} | {
        evidence.files.canonical(path) for path in log.forgotten
    }
    # A forgotten part may have been moved by a user while readers had it.
    waiting = {target.rpartition("/")[2] for target in log.forgotten}
    for manifest, part in log.effective():
        target = evidence.files.canonical(part.target)
        # Whoever moved it may have left copies.
        known.add(evidence.places.get(part.name) or target)
        if dirname(target) not in shown:
            known.add(target)
        if not log.is_published(manifest.epoch):
            # A move epoch finds its parts wherever an earlier epoch put them.
            waiting.add(part.name)
    epochs = {manifest.epoch for manifest in log.manifests}
    bases = tuple(f"{evidence.files.canonical(location)}/" for location in evidence.tables.values())
    for file, _ in evidence.files.parts(log.uid):
        if file.path in known or file.path.rpartition("/")[2] in waiting:
            continue
        if dirname(file.path) not in shown and not file.path.startswith(bases):
            continue  # No reader looks there.
        # A running job may have decided and published more since the log was read; a later file is in no log yet.
        if file.name.epoch in epochs:
            text = f"{file.path} is in no manifest: its rows are doubled or were never committed"
            advice = "move it out of the table, then run ANALYZE TABLE for that partition"
            yield error(Epoch(file.name.epoch), f"{text}; {advice}")


CHECKS: tuple[Callable[[Evidence], Iterator[Finding]], ...] = (
    *(whole, offsets, gaps, rows, segments),
    *(present, footers, registered, shared, doubled, newer),
)
