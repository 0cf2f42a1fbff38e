"""Looks at a table for `hivesink show`. Nothing here changes anything."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from hivesink import wiring
from hivesink.config.options import SinkConfig
from hivesink.core.epoch import Epoch
from hivesink.core.partfile import PartName
from hivesink.core.partition_commit import newest, recorded
from hivesink.core.picture import EpochPicture, PartitionPicture, Picture, Rejects
from hivesink.core.timeline import timeline
from hivesink.core.watermark import latest
from hivesink.errors import FileSystemUnknown, HiveSinkError, InvalidOption, UnknownTable, Unsupported
from hivesink.formats import adapter
from hivesink.sink.inspect.facts import LogFacts, read_log
from hivesink.sink.task.commit_rule import time_reading
from hivesink.tables.rejects import Census, DeadLetters, Wanted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime, timedelta

    from hivesink.core.manifest import Manifest
    from hivesink.core.partfile import Finished
    from hivesink.core.partition import LivePartition
    from hivesink.core.partition_commit import Recorded
    from hivesink.ports import FileStore
    from hivesink.sink.inspect.partitions import PartitionState
    from hivesink.tables.opened import OpenedTable

_FOOTERS = 500
"""The most footers, or files of dead letters, that are read: a picture isn't to take minutes."""
_UNREADABLE = (HiveSinkError, OSError, ValueError)
"""What reading a file may raise."""
_T = TypeVar("_T")


def picture_of(opened: OpenedTable, now: datetime, limit: int | None, epochs: int) -> Picture:
    """The newest `limit` partitions, None for all, and each writer's last `epochs`.

    Only the folders of these partitions are listed. Raises LogDamaged, NewerFormat, StoreUnavailable,
    MetastoreUnreachable, OwnCodeFailed.
    """
    notes: list[str] = []
    logs = dict(_logs(opened))
    config = _settings(opened, logs, notes)
    waiting = _waiting(opened, logs, now, notes)
    live = opened.metastore.registrar.lookup(opened.live, None)
    known = live.keys() | {one for found in waiting.values() for one in found}
    line = timeline(known, time_reading(opened.live.spec, config))
    shown = line.order if limit is None else line.order[max(0, len(line.order) - limit) :]
    store = wiring.file_store(opened.live.location, opened.site)
    files = _files(store, {one: live[one] for one in shown if one in live}, notes)
    rows = _Rows(opened, logs, store).of(files)
    partitions = tuple(
        PartitionPicture(
            partition=one,
            at=line.times.get(one),
            is_registered=one in live,
            files=len(files[one]) if one in files else None,
            bytes=sum(file.length for file in files[one]) if one in files else None,
            rows=rows[one][0] if one in rows else None,
            rows_from=rows[one][1] if one in rows else None,
            gap=line.gaps.get(one),
            waiting_rows=sum(
                found[one].open_rows + found[one].decided_rows for found in waiting.values() if one in found
            ),
            waits_for=_waits_for(one, waiting, len(opened.writers)),
        )
        for one in shown
    )
    return Picture(
        table=opened.name,
        location=opened.live.location,
        at=now,
        file_size=config["sink.rolling-policy.file-size"],
        total=len(line.order),
        total_gaps=len(line.gaps),
        partitions=partitions,
        epochs=tuple(one for writer, log in logs.items() for one in _epochs(writer, log, epochs)),
        rejects=_rejects(opened, logs.values()),
        notes=tuple(notes),
    )


def _logs(opened: OpenedTable) -> Iterator[tuple[str, LogFacts]]:
    for writer, context in opened.writers.items():
        log = read_log(context.log)
        log.require_readable()
        yield writer, log


def _settings(opened: OpenedTable, logs: Mapping[str, LogFacts], notes: list[str]) -> SinkConfig:
    """Those of the run that wrote last, else the table's, else the defaults."""
    heads = [log.head for log in logs.values() if log.head]
    try:
        return opened.of_last_run(max(heads, key=lambda head: head.at, default=None))
    except InvalidOption as error:
        notes.append(f"gaps and small files are judged by the default settings: {error}")
        return SinkConfig.parse({})


def _waiting(
    opened: OpenedTable, logs: Mapping[str, LogFacts], now: datetime, notes: list[str]
) -> dict[str, dict[str, PartitionState]]:
    """By writer, the partitions that it has rows of. Writers that can't say are left out."""
    found: dict[str, dict[str, PartitionState]] = {}
    for writer in logs:
        try:
            states = opened.states(writer, now)
        except InvalidOption as error:
            notes.append(f"what the partitions of writer {writer} wait for isn't known: {error}")
            continue
        found[writer] = {one.partition: one for one in states if one.table == opened.name}
    return found


def _waits_for(
    partition: str, waiting: Mapping[str, Mapping[str, PartitionState]], writers: int
) -> tuple[str, ...] | None:
    reasons = ((writer, found[partition].waits_for) for writer, found in waiting.items() if partition in found)
    known = tuple(reason if writers == 1 else f"writer {writer}: {reason}" for writer, reason in reasons if reason)
    return known if known or len(waiting) == writers else None


def _files(store: FileStore, live: Mapping[str, LivePartition], notes: list[str]) -> dict[str, Sequence[Finished]]:
    """The visible files of each partition; none of one whose folder this store can't look at."""
    found = store.run_parallel(partial(_or_none, partial(store.visible, one.location)) for one in live.values())
    listed = {partition: files for partition, files in zip(live, found, strict=True) if files is not None}
    if len(listed) < len(live):
        notes.append(f"{len(live) - len(listed)} partitions are on file systems that can't be looked at from here")
    return listed


def _or_none(call: Callable[[], _T]) -> _T | None:
    try:
        return call()
    except (Unsupported, FileSystemUnknown):
        return None


class _Rows:
    """The rows in partitions' files, as the logs have them, else as the footers do where the files are local."""

    def __init__(self, opened: OpenedTable, logs: Mapping[str, LogFacts], store: FileStore) -> None:
        self._store = store
        self._measure = adapter(opened.live.spec.format).measure
        # A part's name is unique, whichever partition a person has moved it to.
        parts = (part for log in logs.values() for _, part in log.effective())
        self._parts = {part.name: (part.length, part.rows) for part in parts}
        self._records: list[tuple[str, dict[str, Recorded]]] = []
        for writer, log in logs.items():
            if log.uid is not None:
                kept = (one for one in opened.writers[writer].log.records() if one.epoch <= log.view.floor)
                above = (one for manifest in log.manifests for one in recorded(manifest))
                records = newest([*kept, *above])
                mine = {partition: one for (table, partition), one in records.items() if table == opened.name}
                self._records.append((log.uid, mine))

    def of(self, files: Mapping[str, Sequence[Finished]]) -> dict[str, tuple[int, str]]:
        """By partition, the rows and where they are from. Those that nothing cheap tells are left out."""
        known: dict[str, tuple[int, str]] = {}
        left = _FOOTERS
        # The newest first, as the footers of all would take long.
        for partition, some in reversed([*files.items()]):
            rows, unknown = self._of_parts(some)
            if unknown and (recorded_rows := self._of_records(partition, some)) is not None:
                rows, unknown = recorded_rows, []
            if not unknown:
                known[partition] = rows, "log"
            elif self._store.parallelism == 1 and len(unknown) <= left:
                left -= len(unknown)
                # Not Parquet, or deleted meanwhile: then nobody knows the partition's rows.
                with suppress(*_UNREADABLE):
                    known[partition] = rows + sum(map(self._footer, unknown)), "footers"
        return known

    def _of_parts(self, files: Sequence[Finished]) -> tuple[int, list[Finished]]:
        """The rows of the files that manifests list, and the other files."""
        found = [(file, self._parts.get(file.path.rpartition("/")[2])) for file in files]
        rows = sum(part[1] for file, part in found if part and part[0] == file.length)
        return rows, [file for file, part in found if part is None or part[0] != file.length]

    def _of_records(self, partition: str, files: Sequence[Finished]) -> int | None:
        """The sum of the commits' rows, if the files are those of the writers, as many as their commits count."""
        names = [PartName.parse(file.path.rpartition("/")[2]) for file in files]
        counts = Counter(name.uid if name else None for name in names)
        commits = {uid: found[partition].commit for uid, found in self._records if partition in found}
        if counts != Counter({uid: commit.files for uid, commit in commits.items() if commit.files}):
            return None
        return sum(commit.rows for commit in commits.values())

    def _footer(self, file: Finished) -> int:
        with self._store.open(file.path) as stream:
            return self._measure(stream).rows


def _epochs(writer: str, log: LogFacts, last: int) -> Iterator[EpochPicture]:
    before: Manifest | None = None
    for manifest in log.manifests:
        if manifest.epoch > log.view.head - last:
            yield EpochPicture(
                writer=writer,
                epoch=manifest.epoch,
                kind=manifest.kind,
                at=manifest.at,
                rows=manifest.rows,
                files=len(manifest.created),
                published_rows=sum(part.rows for part in manifest.created),
                is_published=manifest.is_bare or log.is_published(manifest.epoch),
                is_settled=manifest.epoch <= log.settled,
                lag=_lag(manifest),
                since_last=manifest.at - before.at if before and before.epoch == Epoch(manifest.epoch - 1) else None,
            )
        before = manifest


def _lag(manifest: Manifest) -> timedelta | None:
    known = latest(*manifest.watermark.newest.values()) if manifest.watermark and manifest.rows.read else None
    return None if known is None else manifest.at - known


def _rejects(opened: OpenedTable, logs: Iterable[LogFacts]) -> Rejects:
    table = opened.live.spec.name.rejected
    counted = sum(log.totals.rejected for log in logs)
    try:
        letters = DeadLetters(opened)
        way = f"`hivesink rejects {opened.name}` counts them"
        if not letters.is_local:
            return Rejects(counted, str(table), None, f"they are counted here only in local files; {way}")
        if (files := letters.files()) > _FOOTERS:
            return Rejects(counted, str(table), None, f"{files} files of dead letters are too many to read here; {way}")
        found = Counter[str]()
        for one in letters.reasons(Wanted(), Census()):
            found[one.reason] += one.count
        return Rejects(counted, str(table), dict(found.most_common()))
    except UnknownTable:
        if counted:
            return Rejects(counted, str(table), None, "the table isn't there any more")
        return Rejects(counted, str(table), {})
    except _UNREADABLE as error:
        # Whatever is wrong with the dead letters, the table can be drawn.
        return Rejects(counted, str(table), None, str(error).partition("\n")[0])
