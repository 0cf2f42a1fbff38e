"""The checks of `verify` that look at the log itself: manifests, offsets, rows, and segments with rows that wait."""

from __future__ import annotations

from dataclasses import asdict
from itertools import pairwise
from typing import TYPE_CHECKING

from hivesink.core.log import stray_floor
from hivesink.core.offsets import chain, span
from hivesink.core.rolling import OpenRows, segment_epoch
from hivesink.core.table import TableName
from hivesink.sink.inspect.findings import error, note

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hivesink.core.epoch import LastBatch
    from hivesink.core.manifest import Manifest, Rows
    from hivesink.sink.inspect.facts import Evidence
    from hivesink.sink.inspect.findings import Finding


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
