"""Whether a table and a log belong together: asked at each start, and when a running job's table names no log."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, cast

from hivesink import errors
from hivesink.core.epoch import BatchRef, Epoch
from hivesink.core.log import PROPERTY, Evidence, LogAddress, RootRecord, Verdict, same_table
from hivesink.core.manifest import PartEntry
from hivesink.core.partition import normal
from hivesink.core.table import TableName, is_letters
from hivesink.ports import CommitLog, FileStore, LiveTable, LogRoot, Metastore
from hivesink.sink.commit.context import listings
from hivesink.sink.inspect.evidence import FoundPart, files_in
from hivesink.sink.inspect.facts import LogFacts, read_log

_TRIES = 3
"""How often the property is set while somebody writes back what he read before."""


@dataclass(frozen=True, slots=True)
class Ownership:
    """A table's claim to the log in `root`. `token` draws the random id of a table."""

    root: LogRoot
    registrar: Metastore
    store: FileStore
    token: Callable[[], str] = lambda: secrets.token_hex(8)

    def require(self, live: LiveTable) -> LiveTable:
        """The table with its property set, which the root knows from now on.

        Raises LogOfAnotherTable, TableMadeAgain; NotWritable where this user may not set the property; LogDamaged,
        StoreUnavailable, NotWritable, MetastoreUnreachable.
        """
        stated = self._stated(live.log)
        table_id = stated.table_id if stated else self.token()
        record = self.root.claim(self.record(live, table_id))
        if self.verdict(live, record) is Verdict.SET_AGAIN:
            live = self._set(live, record)
        now = self.record(live, record.table_id)
        if (now.table, now.location) != (record.table, record.location):
            self.root.update(now)
        return live

    def record(self, live: LiveTable, table_id: str) -> RootRecord:
        return RootRecord(table_id, self.registrar.address, str(live.spec.name), normal(live.location))

    def confirm(self, name: TableName) -> LiveTable:
        """The table of a running job, whose property isn't what it was. It is set again if the table is the same.

        Raises TableReplaced if the table names another log, and what `require` raises.
        """
        live = self.registrar.table(name)
        if live.log is not None and self._stated(live.log) is None:
            raise errors.TableReplaced(str(name), "it names another log")
        return self.require(live)

    def verdict(self, live: LiveTable, record: RootRecord) -> Verdict:
        """Changes nothing. Raises LogOfAnotherTable, TableMadeAgain."""
        stated, name = self._stated(live.log), str(live.spec.name)
        location = self.store.canonical(live.location)
        as_known = replace(record, location=self.store.canonical(record.location))
        evidence = partial(self._evidence, live, record)
        verdict = same_table(stated.table_id if stated else None, as_known, name, location, evidence)
        if verdict is Verdict.COPY:
            raise errors.LogOfAnotherTable(name, self.root.location, record.table, record.location)
        if verdict is Verdict.MADE_AGAIN:
            raise errors.TableMadeAgain(name, self.root.location, self._statement(live, record))
        return verdict

    def others(self, live: LiveTable, record: RootRecord) -> tuple[str, ...]:
        """Other tables that name this log; where HiveServer2 can't be asked, only the one that the root remembers."""
        stating: Mapping[TableName, str] = {}
        try:
            stating = self.registrar.tables_with(PROPERTY)
        except errors.Unsupported:
            with suppress(errors.UnknownTable, errors.Unsupported, ValueError):
                known = self.registrar.table(TableName.parse(record.table))
                stating = {known.spec.name: known.log or ""}
        naming = (name for name, text in stating.items() if self._stated(text) and name != live.spec.name)
        return tuple(sorted(str(name) for name in naming if not is_letters(name.table)))

    def former(self, live: LiveTable) -> tuple[str, ...]:
        """Where the table was before, as its log may still have it, and last where it is. Raises LogDamaged.

        `live` may be that of its dead letters.
        """
        records = self.root.records()
        before = (record.location for record in records if record.table_id == records[-1].table_id)
        # Nobody may have told the root of a RENAME yet.
        return (*before, *(() if is_letters(live.spec.name.table) else (normal(live.location),)))

    def begin(self, live: LiveTable, log: CommitLog, writer: str) -> str:
        """The uid of the writer's log, which has it from now on.

        Raises what `require_current` raises; FilesUnknown, before a writer's first epoch, if no log in the root has
        written a file of the table: its rows would be there twice, since this writer begins anew.
        """
        self.require_current(live, log)
        own = log.uid(None)
        if not log.view().head:
            unknown = self.unknown_parts(live, besides=own).values()
            first = next((parts[0] for parts in unknown if parts[0].stage is None), None)
            # Another run of this writer may have decided an epoch meanwhile.
            if first is not None and not log.view().head:
                raise errors.FilesUnknown(str(live.spec.name), writer, self.root.location, first.path, first.name.uid)
        uid = cast("str", log.uid(secrets.token_hex(6)))
        # Each would take the other's files for its own.
        for other in self.root.logs().values():
            if other.location != log.location and other.uid(None) == uid:
                reason = f"its uid {uid} is also that of {other.location}: one is a copy of the other"
                raise errors.LogDamaged(log.location, reason, "move the copy away")
        return uid

    def require_current(self, live: LiveTable, log: CommitLog) -> None:
        """Raise what stops a start of the log's writer: NotWritable, LogDamaged.

        A disk may not be mounted: the job would write into the mount point. Or the table holds a file of this log of
        an epoch after its newest: the log is an old copy. Looks where the newest epoch published, and where rows that
        wait would be published.
        """
        facts = read_log(log)
        parts = [part for _, part in facts.parts if not is_letters(part.table)]
        homes = [live.location] if parts or (facts.floor and facts.floor.files) else []
        base = f"{self.store.canonical(live.location)}/"
        if far := {part.folder for part in parts if not f"{self.store.canonical(part.folder)}/".startswith(base)}:
            names = sorted({part.partition for part in parts if part.folder in far})
            written = set(map(self.store.canonical, far))
            elsewhere = (home.location for home in self.registrar.lookup(live, names).values())
            homes += [home for home in elsewhere if self.store.canonical(home) in written]
        for folder in homes:
            if next(iter(self.store.walk(folder)), None) is None:
                raise errors.folder_gone(str(live.spec.name), folder, facts.location)
        places = {part.partition: part.folder for part in facts.newest_parts}
        names = sorted({*places, *(name for table, name in facts.open_rows.buckets if not is_letters(table))})
        folders = {*places.values(), *(f"{live.location}/{name}".rstrip("/") for name in names)}
        folders |= {home.location for home in self.registrar.lookup(live, names).values()}
        files = listings(self.store, self.store.visible, sorted(folders))
        for part in FoundPart.among(file.path for file in files):
            # A run that works beside this one has decided it before it was visible.
            if part.name.uid == facts.uid and part.name.epoch > facts.view.head and part.name.epoch > log.view().head:
                reason = f"it ends at epoch {facts.view.head}, and {part.path} is of epoch {part.name.epoch}"
                advice = "restore its newest copy; if there is none, start over with `hivesink reset TABLE`"
                raise errors.LogDamaged(facts.location, reason, advice)

    def unknown_parts(self, live: LiveTable, *, besides: str | None = None) -> dict[str, list[FoundPart]]:
        """By uid, the table's parts that no log in the root has written, put aside or not, but `besides` may have.

        Finished ones come first. Raises LogDamaged.
        """
        homes = [partition.location for partition in self.registrar.lookup(live, None).values()]
        staged, visible = files_in(self.store, [live.location], homes)
        parts = [*FoundPart.among(visible), *staged]
        # Asked after the look at the parts: a writer may have begun meanwhile.
        logs: Mapping[str, CommitLog] = {**self.root.logs(), **self.root.ended()} if parts else {}
        known = (set(map(_uid_of, logs.values())) | set(self.root.accepted())) - {besides}
        unknown: dict[str, list[FoundPart]] = {}
        for part in (part for part in parts if part.name.uid not in known):
            unknown.setdefault(part.name.uid, []).append(part)
        return unknown

    def was_written(self, live: LiveTable, writer: str, batch: BatchRef) -> bool:
        """Whether a log of `writer` that was reset has committed `batch`, which Spark runs again, into this table."""
        for name, log in self.root.ended().items():
            if name.startswith(f"{writer}/"):
                facts = read_log(log)
                newest = facts.manifests[-1].last_batch if facts.manifests else None
                if newest and newest.ref == batch and self._shows(live, facts, newest.epoch):
                    return True
        return False

    def _shows(self, live: LiveTable, facts: LogFacts, epoch: Epoch) -> bool:
        """Whether the rows of an ended log's `epoch` are in the table, but for those that the reset gave up."""
        if facts.is_readable(epoch):
            return self._has(live, facts.newest_parts)
        # A dead run may decide it after the reset, in the old log, where nobody publishes it; or it died with some of
        # the parts published, and without the mark.
        parts = [part for manifest, part in facts.parts if manifest.epoch == epoch and not is_letters(part.table)]
        return any(self._has(live, [part]) for part in parts)

    def _stated(self, text: str | None) -> LogAddress | None:
        """What a table says, if that is this log."""
        stated = LogAddress.parse(text)
        is_this = stated and self.store.canonical(stated.root) == self.store.canonical(self.root.location)
        return stated if is_this else None

    def _set(self, live: LiveTable, record: RootRecord) -> LiveTable:
        name, address = live.spec.name, str(LogAddress(self.root.location, record.table_id))
        for _ in range(_TRIES):
            try:
                self.registrar.set_property(name, PROPERTY, address)
            except errors.RegistrationFailed as error:
                raise errors.property_refused(str(name), error.reason, self._statement(live, record)) from error
            live = self.registrar.table(name)
            if live.log == address:
                return live
        raise errors.property_refused(str(name), "it doesn't stay", self._statement(live, record))

    def _statement(self, live: LiveTable, record: RootRecord) -> str:
        address = LogAddress(self.root.location, record.table_id)
        return f"ALTER TABLE {live.spec.name} SET TBLPROPERTIES ('{PROPERTY}'='{address}')"

    def _evidence(self, live: LiveTable, record: RootRecord) -> Evidence:
        logs = [read_log(log) for log in self.root.logs().values()]
        for facts in logs:
            facts.require_readable()
        newest = [parts for facts in logs if (parts := facts.newest_parts)]
        has_published = newest or any(facts.floor and facts.floor.files for facts in logs)
        state: Literal["none", "in place", "gone"] = "gone" if has_published else "none"
        if newest and all(self._has(live, parts) for parts in newest):
            state = "in place"
        is_left_behind = True
        # A folder on a file system that isn't reached may be there.
        with suppress(errors.Unsupported):
            is_left_behind = next(iter(self.store.walk(record.location)), None) is not None
        return Evidence(
            parts=state,
            pending=any(facts.unpublished_rows for facts in logs),
            left_behind=is_left_behind,
            named_by=self.others(live, record),
        )

    def _has(self, live: LiveTable, parts: Sequence[PartEntry]) -> bool:
        """Whether all of these published `parts` lie in the table's folders, or in its partitions'."""
        names, base = [column.name for column in live.spec.partition_columns], live.location.rstrip("/")
        if any([pair.partition("=")[0] for pair in part.partition.split("/") if pair] != names for part in parts):
            return False
        homes = self.registrar.lookup(live, sorted({part.partition for part in parts}))

        def is_here(part: PartEntry) -> bool:
            paths = [f"{base}/{part.partition}".rstrip("/") + f"/{part.name}"]
            if home := homes.get(part.partition):
                paths.append(f"{home.location}/{part.name}")
            if self.store.canonical(part.target).startswith(f"{self.store.canonical(base)}/"):
                paths.append(part.target)
            return any((file := self.store.find(path)) is not None and file.length == part.length for path in paths)

        return all(self.store.run_parallel(partial(is_here, part) for part in parts))


def _uid_of(log: CommitLog) -> str | None:
    """None for what a deletion has left of a log: a reset puts it aside. Raises LogDamaged."""
    try:
        return log.uid(None)
    except errors.LogDamaged:
        if log.view().manifests:
            raise
        return None
