"""`hivesink reset` puts a log aside: what it would do, and what such a log still knows about the next batch.

The parts of a log that was put aside are the users' own. Nothing here changes anything.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hivesink.core.log import reset_name
from hivesink.core.partfile import PartName
from hivesink.core.table import TableName
from hivesink.errors import BatchSetAside, FileSystemUnknown, LogShared, UnknownTable
from hivesink.sink.inspect.admission import others_of, parts_of
from hivesink.sink.inspect.facts import LogFacts, list_files, read_log
from hivesink.sink.inspect.status import homes_elsewhere, locations_of, partitions_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime

    from hivesink.core.epoch import BatchRef, Epoch, LastBatch
    from hivesink.ports import CommitLog, FileStore, Registrar
    from hivesink.sink.commit.context import CommitContext


@dataclass(frozen=True, slots=True)
class Reset:
    """What a reset does to one writer. `tables` are those that it writes, with their locations.

    `aside` is the log's new folder. `unpublished` are rows that are decided but not visible yet: they never will be.
    `finished` is the number of its parts, which stay in the tables. `unreadable` are the epochs whose manifests can't
    be read or are missing: what they hold isn't counted.
    """

    writer: str
    uid: str | None
    log: str
    aside: str
    epoch: Epoch
    rows: int
    unpublished: int
    finished: int
    tables: Mapping[str, str]
    unreadable: tuple[Epoch, ...] = ()


def plan_reset(context: CommitContext, writer: str, table: str, at: datetime) -> Reset:
    """The reset of `writer` of `table`. Skips damaged manifests: a reset is a way out of them too.

    Raises StoreUnavailable, MetastoreUnreachable; LogDamaged, NewerFormat for the uid and the floor; LogShared.
    """
    others = others_of(context.log, context.registrar, table)
    if others:
        raise LogShared(context.log.location, writer, table, others)
    facts = read_log(context.log)
    uid = facts.uid or next((manifest.uid for manifest in reversed(facts.manifests)), None)
    tables = locations_of(context, tuple({table: None, **dict.fromkeys(facts.tables)}))
    elsewhere = homes_elsewhere(context, tables, partitions_of(context, tables))
    files = list_files(context.store, tables.values(), elsewhere)
    return Reset(
        writer=writer,
        uid=uid,
        log=facts.location,
        aside=f"{facts.location.rpartition('/')[0]}/{reset_name(writer, at)}",
        epoch=facts.view.head,
        rows=facts.totals.written,
        unpublished=facts.open_rows.rows + sum(part.rows for part in facts.waiting()),
        finished=sum(1 for _ in files.parts(uid)),
        tables=tables,
        unreadable=tuple(sorted({*facts.unreadable, *facts.missing})),
    )


@dataclass(frozen=True, slots=True)
class SetAside:
    """The logs of one writer of `table` that `hivesink reset` has put aside.

    Each comes with its uid and what a person has answered for it: the batch, as QUERY/BATCH, that is in the table, or
    `""` if none that comes again is.
    """

    logs: Callable[[], Iterable[tuple[CommitLog, str, str | None]]]
    store: FileStore
    registrar: Registrar
    table: str

    def has(self, batch: BatchRef) -> bool:
        """Whether one of the logs committed `batch`, and all of its files are still in the tables.

        Spark runs a batch again that it hasn't committed itself. Raises BatchSetAside if only a person can tell.
        """
        known, name = False, f"{batch.query}/{batch.batch}"
        for log, uid, written in self.logs():
            # An answer about another batch says nothing of this one.
            if written in ("", name):
                known |= written == name
                continue
            try:
                is_in, doubt = self._judge(read_log(log), batch)
            except FileSystemUnknown as error:
                is_in, doubt = False, str(error)
            if doubt:
                raise BatchSetAside(self.table, name, log.location, uid, doubt)
            known |= is_in
        return known

    def _judge(self, facts: LogFacts, batch: BatchRef) -> tuple[bool, str | None]:
        """Whether the log committed the batch, and why nobody can tell."""
        newest = facts.manifests[-1].last_batch if facts.manifests else None
        if newest and newest.ref.query != batch.query:
            return False, None
        if facts.uid is None or (facts.view.head and facts.head is None):
            return False, "it is gone, or its newest manifest can't be read"
        found = self._found(facts)
        if any(name.epoch > facts.view.head for name in found):
            return False, "the table has files of later epochs"
        if newest is None or newest.ref.batch != batch.batch:
            return False, None
        return self._compare(facts, newest, batch, found)

    def _compare(
        self, facts: LogFacts, newest: LastBatch, batch: BatchRef, found: Mapping[PartName, str]
    ) -> tuple[bool, str | None]:
        if newest.epoch not in {manifest.epoch for manifest in facts.manifests}:
            return False, f"the manifest of its epoch {newest.epoch} is trimmed or can't be read"
        if any(manifest.opened for manifest in facts.manifests if manifest.epoch == newest.epoch):
            return False, "its rows waited to be rolled: those that still did are in no file of the table"
        parts = [part for _, part in facts.effective()]
        wanted = {name: part.length for part in parts if (name := PartName.parse(part.name))}
        wanted = {name: length for name, length in wanted.items() if name.epoch == newest.epoch}
        files = {name: self.store.find(found[name]) for name in wanted.keys() & found.keys()}
        here = sum(file is not None and file.length == wanted[name] for name, file in files.items())
        doubt = None if here == len(wanted) else f"{here} of the batch's {len(wanted)} files are in the table"
        # Without a file, it has no row in the table by this log; written again, an empty batch has none either.
        return bool(wanted), doubt if newest.ref == batch else "it committed the batch with other offsets"

    def _found(self, facts: LogFacts) -> dict[PartName, str]:
        """The log's parts in its tables, with their paths. Later epochs may have moved them."""
        found: dict[PartName, str] = {}
        for table in {self.table, *facts.tables}:
            with suppress(UnknownTable):
                live = self.registrar.table(TableName.parse(table))
                for parts in parts_of(self.store, self.registrar, live, staged=False):
                    found |= {part.name: part.path for part in parts if part.name.uid == facts.uid}
        return found
