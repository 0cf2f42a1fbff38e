"""Whether a table and a log belong together: asked at each start, and when a running job's table names no log."""

from __future__ import annotations

import secrets
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING

from hivesink import errors
from hivesink.core.log import PROPERTY, Evidence, LogAddress, Parts, RootRecord, Verdict, reset_writer, same_table
from hivesink.core.manifest import live_parts
from hivesink.core.partition import is_hidden, normal
from hivesink.core.table import TableName
from hivesink.sink.inspect.facts import FoundPart, LogFacts, outside, read_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from hivesink.core.epoch import BatchRef
    from hivesink.core.manifest import PartEntry
    from hivesink.core.partfile import Finished
    from hivesink.core.partition import LivePartition
    from hivesink.ports import CommitLog, FileStore, LiveTable, LogRoot, Metastore

_AT_ONCE = 256
"""Folders that are listed before the parts in them are handed out."""
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
        NewerFormat, StoreUnavailable, NotWritable, MetastoreUnreachable.
        """
        stated = self._stated(live)
        table_id = stated.table_id if stated else self.token()
        record = self.root.claim(self._record(live, table_id))
        if self.verdict(live, record) is Verdict.SET_AGAIN:
            live = self._set(live, record)
        now = self._record(live, record.table_id)
        if (now.table, now.location) != (record.table, record.location):
            self.root.update(now)
        return live

    def confirm(self, name: TableName) -> LiveTable:
        """The table of a running job, whose property isn't what it was. It is set again if the table is the same.

        Raises TableReplaced if the table names another log, and what `require` raises.
        """
        live = self.registrar.table(name)
        if live.log is not None and self._stated(live) is None:
            raise errors.TableReplaced.other_log(str(name))
        return self.require(live)

    def verdict(self, live: LiveTable, record: RootRecord) -> Verdict:
        """Changes nothing. Raises LogOfAnotherTable, TableMadeAgain."""
        stated, name = self._stated(live), str(live.spec.name)
        location = self.store.canonical(live.location)
        as_known = replace(record, location=self.store.canonical(record.location))
        evidence = partial(self._evidence, live, record)
        verdict = same_table(stated.table_id if stated else None, as_known, name, location, evidence)
        if verdict is Verdict.COPY:
            raise errors.LogOfAnotherTable(name, self.root.location, record.table, record.location)
        if verdict is Verdict.MADE_AGAIN:
            address = LogAddress(self.root.location, record.table_id)
            raise errors.TableMadeAgain(name, self.root.location, _statement(live.spec.name, address))
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
        naming = (name for name, text in stating.items() if self._names(text) and name != live.spec.name)
        # A table's dead letters are another target of its log.
        return tuple(sorted(str(name) for name in naming if not name.table.endswith("__rejected")))

    def former(self) -> tuple[str, ...]:
        """Where the table was before, as its log may still have it, the newest last. Raises LogDamaged, NewerFormat."""
        records = self.root.records()
        return tuple(record.location for record in records if record.table_id == records[-1].table_id)

    def require_folders(self, live: LiveTable, facts: LogFacts) -> None:
        """Raises NotWritable for a disk that isn't mounted: the job would write into the mount point."""
        parts = [part for _, part in facts.effective() if not part.table.endswith("__rejected")]
        folders = [live.location] if parts or (facts.floor and facts.floor.files) else []
        if far := outside(self.store, {part.folder for part in parts}, [live.location]):
            names = sorted({part.partition for part in parts if part.folder in far})
            homes, written = self.registrar.lookup(live, names).values(), set(map(self.store.canonical, far))
            folders += [home.location for home in homes if self.store.canonical(home.location) in written]
        for folder in folders:
            if next(iter(self.store.walk(folder)), None) is None:
                raise errors.folder_gone(str(live.spec.name), folder, facts.location)

    def require_known_files(self, live: LiveTable, log: CommitLog, writer: str) -> None:
        """Raises FilesUnknown, before a writer's first epoch, if no log in the root has written a file of the table.

        Its rows would be there twice: this writer begins anew.
        """
        if log.view().head:
            return
        first = next(self.unknown_parts(live, besides=log.uid(None)), None)
        # Another run of this writer may have decided an epoch meanwhile.
        if first is not None and not log.view().head:
            raise errors.FilesUnknown(str(live.spec.name), writer, self.root.location, first.path, first.name.uid)

    def unknown_parts(
        self, live: LiveTable, *, staged: bool = False, besides: str | None = None
    ) -> Iterator[FoundPart]:
        """The table's parts whose uid is of no log in the root, archived or not, or is `besides`. Raises LogDamaged."""
        known: frozenset[str] = frozenset()
        for parts in _parts_of(self.store, self.registrar, live, staged=staged):
            if not known.issuperset(part.name.uid for part in parts):
                # Asked after the look at the parts: a writer may have begun meanwhile.
                logs: Mapping[str, CommitLog] = {**self.root.logs(), **self.root.archived()}
                known = frozenset(uid for log in logs.values() if (uid := log.uid(None)) and uid != besides)
            yield from (part for part in parts if part.name.uid not in known)

    def _record(self, live: LiveTable, table_id: str) -> RootRecord:
        return RootRecord(table_id, self.registrar.address, str(live.spec.name), normal(live.location))

    def _stated(self, live: LiveTable) -> LogAddress | None:
        """What the table says, if that is this log."""
        return LogAddress.parse(live.log) if live.log and self._names(live.log) else None

    def _names(self, text: str) -> bool:
        stated = LogAddress.parse(text)
        return stated is not None and self.store.canonical(stated.root) == self.store.canonical(self.root.location)

    def _set(self, live: LiveTable, record: RootRecord) -> LiveTable:
        name, address = live.spec.name, LogAddress(self.root.location, record.table_id)
        for _ in range(_TRIES):
            try:
                self.registrar.set_property(name, PROPERTY, str(address))
            except errors.RegistrationFailed as error:
                raise errors.property_refused(str(name), error.reason, _statement(name, address)) from error
            live = self.registrar.table(name)
            if live.log == str(address):
                return live
        raise errors.property_refused(str(name), "it doesn't stay", _statement(name, address))

    def _is_folder(self, location: str) -> bool:
        try:
            return next(iter(self.store.walk(location)), None) is not None
        except (errors.Unsupported, errors.FileSystemUnknown):
            return True

    def _evidence(self, live: LiveTable, record: RootRecord) -> Evidence:
        logs = [read_log(log) for log in self.root.logs().values()]
        for facts in logs:
            facts.require_readable()
        newest = [parts for facts in logs if (parts := newest_parts(facts))]
        has_published = newest or any(facts.floor and facts.floor.files for facts in logs)
        state = Parts.GONE if has_published else Parts.NONE
        if newest and all(parts_are_here(self.store, self.registrar, live, parts) for parts in newest):
            state = Parts.IN_PLACE
        return Evidence(
            parts=state,
            pending=any(unpublished_rows(facts) for facts in logs),
            left_behind=self._is_folder(record.location),
            named_by=self.others(live, record),
        )


def was_written(owner: Ownership, live: LiveTable, writer: str, batch: BatchRef) -> bool:
    """Whether a log of `writer` that was reset has committed `batch`, which Spark runs again, into this table."""
    for name, log in owner.root.archived().items():
        if reset_writer(name) == writer:
            facts = read_log(log)
            newest = facts.manifests[-1].last_batch if facts.manifests else None
            parts = newest_parts(facts)
            if newest and newest.ref == batch and parts_are_here(owner.store, owner.registrar, live, parts):
                return True
    return False


def _statement(name: TableName, address: LogAddress) -> str:
    return f"ALTER TABLE {name} SET TBLPROPERTIES ('{PROPERTY}'='{address}')"


def unpublished_rows(facts: LogFacts) -> int:
    """Rows that wait, and those of parts that aren't published."""
    return facts.open_rows.rows + sum(part.rows for part in facts.waiting())


def newest_parts(facts: LogFacts) -> tuple[PartEntry, ...]:
    """The table's parts of the newest published epoch that has any."""
    parts = [
        (manifest.epoch, part)
        for manifest, part in live_parts(facts.manifests)
        if facts.is_published(manifest.epoch) and not part.table.endswith("__rejected")
    ]
    last = max((epoch for epoch, _ in parts), default=None)
    return tuple(part for epoch, part in parts if epoch == last)


def parts_are_here(store: FileStore, registrar: Metastore, live: LiveTable, parts: Sequence[PartEntry]) -> bool:
    """Whether all of these published `parts` lie in the table's folders, or in its partitions'."""
    names = [column.name for column in live.spec.partition_columns]
    if any([pair.partition("=")[0] for pair in part.partition.split("/") if pair] != names for part in parts):
        return False
    homes = registrar.lookup(live, sorted({part.partition for part in parts}))
    return all(store.run_parallel(partial(_is_here, store, live, part, homes.get(part.partition)) for part in parts))


def _is_here(store: FileStore, live: LiveTable, part: PartEntry, home: LivePartition | None) -> bool:
    base = live.location.rstrip("/")
    folders = [f"{base}/{part.partition}".rstrip("/"), *([home.location] if home else [])]
    paths = [f"{folder}/{part.name}" for folder in folders]
    if store.canonical(part.target).startswith(f"{store.canonical(base)}/"):
        paths.append(part.target)
    return any((file := store.find(path)) is not None and file.length == part.length for path in paths)


def require_current(store: FileStore, registrar: Metastore, live: LiveTable, facts: LogFacts, log: CommitLog) -> None:
    """Raise LogDamaged if the table holds a file of this log of an epoch after its newest: the log is an old copy.

    It looks where the newest epoch published, and where rows that wait would be published.
    """
    last = newest_parts(facts)
    names = {part.partition for part in last}
    names |= {name for table, name in facts.open_rows.buckets if not table.endswith("__rejected")}
    folders = {part.folder for part in last} | {f"{live.location}/{name}".rstrip("/") for name in names}
    folders |= {home.location for home in registrar.lookup(live, sorted(names)).values()}
    for part in _visible(store, sorted(folders)):
        # A run that works beside this one has decided it before it was visible.
        if part.name.uid == facts.uid and part.name.epoch > facts.view.head and part.name.epoch > log.view().head:
            reason = f"it ends at epoch {facts.view.head}, and {part.path} is of epoch {part.name.epoch}"
            advice = "restore its newest copy; if there is none, start over with `hivesink reset TABLE`"
            raise errors.LogDamaged(facts.location, reason, advice)


def require_sole(root: LogRoot, log: CommitLog, uid: str) -> None:
    """Raise LogDamaged if another writer's log has the same uid: each would take the other's files for its own."""
    for other in root.logs().values():
        if other.location != log.location and other.uid(None) == uid:
            reason = f"its uid {uid} is also that of {other.location}: one is a copy of the other"
            raise errors.LogDamaged(log.location, reason, "move the copy away")


def _parts_of(
    store: FileStore, registrar: Metastore, live: LiveTable, *, staged: bool
) -> Iterator[tuple[FoundPart, ...]]:
    """Every part below the table's location, then the visible ones of partitions elsewhere, if this store can look.

    A few folders at a time, so that the caller can stop early.
    """
    folders, base = iter(store.walk(live.location)), live.location.rstrip("/")
    while chunk := list(islice(folders, _AT_ONCE)):
        hidden = store.run_parallel(partial(store.staged, folder) for folder in chunk if staged)
        shown = [folder for folder in chunk if not is_hidden(folder[len(base) :])]
        yield (*FoundPart.among(chain.from_iterable(hidden)), *_visible(store, shown))
    homes = (partition.location for partition in registrar.lookup(live, None).values())
    yield tuple(_visible(store, outside(store, homes, [live.location])))


def _visible(store: FileStore, folders: Iterable[str]) -> Iterator[FoundPart]:
    def listed(folder: str) -> Sequence[Finished]:
        # It has written nothing on a file system that it can't reach.
        with suppress(errors.Unsupported, errors.FileSystemUnknown):
            return store.visible(folder)
        return ()

    files = store.run_parallel(partial(listed, folder) for folder in folders)
    return FoundPart.among(file.path for file in chain.from_iterable(files))
