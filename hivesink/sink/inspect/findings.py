"""What `verify` finds, and its checks: pure functions of gathered evidence.

An error makes a reader's answer differ from the log: rows that are missing, doubled or out of sight. The rest are
notes: a settled epoch's files are the users' own, so even a missing one is only a note.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from posixpath import basename, dirname
from typing import Literal

from hivesink.core.epoch import Epoch
from hivesink.core.lifecycle import EpochState
from hivesink.core.log import stray_floor
from hivesink.core.manifest import Manifest, PartEntry, Rows
from hivesink.core.offsets import chain, span
from hivesink.core.progress import count
from hivesink.core.reads import segment_epoch
from hivesink.core.rolling import OpenRows
from hivesink.core.table import TableName, main_table
from hivesink.sink.commit.recovery import ALL
from hivesink.sink.inspect.evidence import Evidence, FoundPart


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that isn't as the log says; `epoch` is None if it isn't about a single epoch. Only errors fail."""

    level: Literal["error", "note"]
    epoch: Epoch | None
    text: str


error, note = partial(Finding, "error"), partial(Finding, "note")


def whole(evidence: Evidence) -> Iterator[Finding]:
    """Manifests follow each other from the floor to the head, and all belong to this log."""
    log = evidence.log
    for epoch, reason in sorted(log.unreadable.items()):
        yield error(epoch, str(reason))
    for epoch in log.view.missing:
        marked = ", while its mark is there" if epoch in log.view.marks else ""
        text = f"the manifest of epoch {epoch} is missing in {log.location}{marked}"
        yield error(epoch, f"{text}; restore it from a snapshot or a backup")
    if stray := stray_floor(log.location, log.view):
        yield error(log.view.floor, str(stray))
    for table in dict.fromkeys(evidence.names.values()):
        if table not in evidence.tables:
            yield note(None, f"table {table} is no longer in the metastore; its files were not checked")


def offsets(evidence: Evidence) -> Iterator[Finding]:
    """Each batch starts where the one before it ended; epochs without a batch carry the last one on.

    Offsets without a record are what compaction, transactions and `failOnDataLoss=false` leave out.
    """
    manifests = evidence.log.manifests
    for before, manifest in zip((None, *manifests), manifests, strict=False):
        epoch, carried = manifest.epoch, manifest.last_batch
        last = carried if carried is not None and carried.epoch == epoch else None
        kafka = span(last.ref.start, last.ref.end) if last else None
        if kafka is not None and kafka != manifest.rows.records:
            text = f"its batch spans {kafka} Kafka offsets and {manifest.rows.records} rows came out of it"
            why = "the job filters or adds rows, or the topic is compacted, transactional or had lost records"
            yield note(epoch, f"{text}: {why}")
        if before is None or before.epoch + 1 != epoch or (old := before.last_batch) is None:
            continue
        if last is None:
            if carried != old:
                yield error(epoch, f"it carries on a batch other than {old.ref.batch} of epoch {old.epoch}")
            continue
        gap = chain(old.ref.end, last.ref.start)
        if last.appended:
            yield note(epoch, f"query {last.ref.query} begins a new history by `append`" + (f": {gap}" if gap else ""))
            continue
        if last.ref.query == old.ref.query and last.ref.batch != old.ref.batch + 1:
            yield error(epoch, f"batch {last.ref.batch} comes after batch {old.ref.batch} of epoch {old.epoch}")
        if gap is not None:
            yield error(epoch, f"query {last.ref.query} doesn't start where epoch {old.epoch} ended: {gap}")


def rows(evidence: Evidence) -> Iterator[Finding]:
    """Rows read = written + rejected + dropped + late + skipped, and files hold what an epoch wrote, or rolled."""

    def figures(rows: Rows) -> str:
        return ", ".join(f"{name} {number}" for name, number in asdict(rows).items())

    floor = evidence.log.floor
    if floor is not None and not floor.totals.balanced:
        yield error(floor.epoch, f"the floor's totals don't add up: {figures(floor.totals)}")
    # What waited before a manifest that is gone is known to nobody.
    after = None if floor else OpenRows()
    for manifest in evidence.log.manifests:
        before = after
        after = OpenRows().after(manifest) if manifest.waiting is not None else before and before.after(manifest)
        if not manifest.rows.balanced:
            yield error(manifest.epoch, f"its rows don't add up: {figures(manifest.rows)}")
        if manifest.forgotten:
            yield note(manifest.epoch, f"a person has accepted that {manifest.forgotten} rows are lost")
        if manifest.rolled:
            held = sum(part.rows for part in manifest.created)
            # The table may have been renamed while they waited.
            closed = before.renamed(main_table(manifest.rolled[0][0])).closed(manifest) if before else {}
            waited = sum(part.rows for slices in closed.values() for part in slices)
            if before and waited != held:
                yield error(manifest.epoch, f"{waited} rows waited for it, but its parts hold {held}")
            continue
        files = [(part.table, part.rows) for part in manifest.created]
        files += [(opened.table, opened.slice.rows) for opened in manifest.opened]
        letters = {str(TableName.parse(table).rejected) for table in manifest.tables}
        for what, counted in (("written", manifest.rows.written), ("rejected", manifest.rows.rejected)):
            held = sum(rows for table, rows in files if (table in letters) is (what == "rejected"))
            if counted != held:
                yield error(manifest.epoch, f"{counted} rows {what}, but its files hold {held}")


def segments(evidence: Evidence) -> Iterator[Finding]:
    """Each segment that holds rows that wait is there, and whole."""
    if evidence.head != evidence.log.view.head:
        return  # A job that runs beside this may have rolled them meanwhile.
    # The first slice of each: those behind a torn file's end don't tell its length.
    lost = {opened.slice.segment: problem for opened, problem in [*evidence.lost.items()][::-1]}
    for name, problem in sorted(lost.items()):
        yield error(segment_epoch(name), str(problem))


def present(evidence: Evidence) -> Iterator[Finding]:
    """Each part is where readers find it, with its length, or waits to be published."""
    log, moved = evidence.log, {target for manifest in evidence.later for target in manifest.remove}
    for manifest, part in log.parts:
        path, target = evidence.places.get(part.name), evidence.canonical(part.target)
        if not log.is_published(manifest.epoch) and target in evidence.visible:
            path = target  # Where a start looks.
        length = part.length if path is None else evidence.visible[path]
        if length != part.length:
            text = f"{path} has {count(length, 'byte')} where {part.length} were written; something else changed it"
            yield error(manifest.epoch, text)
        elif not (target in evidence.visible or part.name in evidence.replaced or part.target in moved):
            yield _absent(evidence, manifest, part)
    forgotten = set(map(basename, log.forgotten))
    settled = {part.name for part in log.replaced.values()} if not log.open else set[str]()
    for path in sorted(evidence.visible):
        if basename(path) in settled:
            yield note(None, f"{path} is there though a replay has replaced it: delete it")
        if basename(path) in forgotten and dirname(path) in evidence.shown:
            yield note(None, f"{path} was given up as lost and is there; its rows are read again")


def _absent(evidence: Evidence, manifest: Manifest, part: PartEntry) -> Finding:
    epoch, rows = manifest.epoch, f"{part.target} ({count(part.rows, 'row')})"
    advice = f"restore it, or run `hivesink recover {main_table(part.table)} --forget {part.partition or ALL}`"
    state = evidence.log.view.state(epoch)
    if part.key in manifest.rolled and state is EpochState.DECIDED:
        advice = f"the next start encodes its rows again if their segments are all there; otherwise {advice}"
    if not evidence.log.is_published(epoch):
        paths = [path for name in (part.hidden, part.name) for path in evidence.by_name.get(name, ())]
        # A hidden one may have another length.
        paths = [path for path in paths if evidence.visible.get(path, part.length) == part.length]
        if evidence.canonical(part.staged) in paths:
            return note(epoch, f"{rows} waits to be published; `hivesink recover` does it")
        elsewhere = f", but it is at {paths[0]}" if paths else ""
        return error(epoch, f"{rows} is neither staged nor published{elsewhere}; {advice}")
    now = evidence.places.get(part.name)
    is_home = evidence.homes.get(evidence.key(part)) == evidence.canonical(part.folder)
    is_open = bool(evidence.log.head) and epoch > evidence.log.settled
    if is_open and state is EpochState.PUBLISHED and is_home and part.was_set_aside:
        elsewhere = f" and is at {now}" if now else ""
        return error(epoch, f"{rows} disappeared before its epoch was settled{elsewhere}; {advice}")
    gone = f"has been moved to {now}" if now else "is gone"
    return note(epoch, f"{rows} {gone} since it was published: somebody other than hivesink did that")


def footers(evidence: Evidence) -> Iterator[Finding]:
    """Each part holds the rows that its epoch counted."""
    for manifest, part in evidence.log.parts:
        path = evidence.places.get(part.name)
        rows = evidence.rows(part, path) if path else part.rows
        if isinstance(rows, str):
            yield error(manifest.epoch, f"{path} can't be read: {rows}")
        elif rows != part.rows:
            yield error(manifest.epoch, f"{path} holds {count(rows, 'row')} where {part.rows} were written")


def registered(evidence: Evidence) -> Iterator[Finding]:
    """Each partition that holds published parts is in the metastore, at their folder, where no other is."""
    waiting = {evidence.key(part) for part in evidence.log.waiting}
    newest = {
        (evidence.key(part), dirname(path)): manifest.epoch
        for manifest, part in evidence.log.parts
        if evidence.key(part)[0] in evidence.tables and (path := evidence.places.get(part.name))
    }
    readers: dict[tuple[str, str], list[str]] = {}
    for (table, partition), home in sorted(evidence.homes.items()):
        readers.setdefault((table, home), []).append(partition)
    for (key, folder), epoch in newest.items():
        table, name = key[0], " ".join(key).strip()
        if evidence.homes.get(key) == folder:
            continue
        if others := readers.get((table, folder)):
            reader = f"{table} {others[0]}".strip()
            yield note(epoch, f"readers find the rows of {name} in {folder} as {reader}: somebody has renamed it")
        elif key in evidence.live:
            text = f"{name} is registered at {evidence.live[key].location}, but its parts are in {folder}"
            yield error(epoch, f"{text}: no reader finds them; move them there, or alter the partition's location")
        elif key in waiting or not evidence.log.is_published(epoch):
            yield note(epoch, f"{name} waits for its registration; `hivesink recover` does it")
        else:
            text = f"{name} is not in the metastore, but its parts are in {folder}: no reader finds them"
            advice = "add it again (MSCK REPAIR TABLE, or ADD PARTITION … LOCATION), or move the folder away"
            yield error(epoch, f"{text}; {advice}")
    for (table, folder), partitions in readers.items():
        if len(partitions) > 1:
            text = f"{' and '.join(partitions)} of {table} are registered at one folder, {folder}"
            advice = "drop the one that has no files of its own, or move its files and alter its location"
            yield error(None, f"{text}: readers find its rows under each name; {advice}")


def doubled(evidence: Evidence) -> Iterator[Finding]:
    """Every visible file of this writer belongs to an epoch: the rows of any other would be read twice."""
    log, shown, canonical = evidence.log, evidence.shown, evidence.canonical
    targets = {canonical(target) for manifest in log.manifests for target in manifest.remove}
    targets |= {canonical(part.target) for _, part in log.parts}
    # What was copied with its partition is read at one place only.
    known = {path for path in targets if dirname(path) not in shown} | set(map(canonical, log.forgotten))
    # Whoever moved a part may have left copies.
    known |= {evidence.places.get(part.name) or canonical(part.target) for _, part in log.parts}
    # A forgotten part may have been moved by a user while readers had it. A move epoch finds its parts wherever an
    # earlier epoch put them.
    anywhere = {*map(basename, log.forgotten), *(part.name for part in log.waiting)}
    anywhere |= {part.name for manifest in evidence.later for part in manifest.add}
    epochs = {manifest.epoch for manifest in log.manifests}
    bases = tuple(f"{canonical(location)}/" for location in evidence.tables.values())
    newer = []
    for file in FoundPart.among(evidence.visible):
        if file.name.uid != log.uid:
            continue
        if file.name.epoch > evidence.head:
            newer.append(file.path)
        # A running job may have decided and published more since the log was read; no manifest is above the head.
        is_known = file.path in known or basename(file.path) in anywhere or file.name.epoch not in epochs
        # Where no reader looks, nothing is doubled.
        if not is_known and (dirname(file.path) in shown or file.path.startswith(bases)):
            text = f"{file.path} is in no manifest: its rows are doubled or were never committed"
            advice = "move it out of the table, then run ANALYZE TABLE for that partition"
            yield error(Epoch(file.name.epoch), f"{text}; {advice}")
    if newer:
        head = f"epochs after {evidence.head}, where this log ends: it is too old"
        text = f"{len(newer)} files, such as {min(newer)}, are of {head}"
        # Its rows may be right.
        yield error(None, f"{text}; restore the log's newest copy, and leave the files alone")


CHECKS: tuple[Callable[[Evidence], Iterator[Finding]], ...] = (
    *(whole, offsets, rows, segments, present, footers, registered, doubled),
)
