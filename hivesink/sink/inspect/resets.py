"""`hivesink reset` puts a log aside: what it would do, and what such a log still knows about the next batch.

The parts of a log that was put aside are the users' own. Nothing here changes anything.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from hivesink.core.log import reset_name
from hivesink.core.partfile import PartName
from hivesink.core.table import TableName
from hivesink.errors import BatchSetAside, LogShared, UnknownTable
from hivesink.sink.inspect.admission import others_of, parts_below, parts_elsewhere
from hivesink.sink.inspect.facts import list_files, read_log
from hivesink.sink.inspect.status import homes_elsewhere, locations_of, partitions_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from datetime import datetime

    from hivesink.core.epoch import BatchRef, Epoch
    from hivesink.ports import CommitLog, FileStore, Registrar
    from hivesink.sink.commit.context import CommitContext
    from hivesink.sink.inspect.facts import LogFacts


@dataclass(frozen=True, slots=True)
class Reset:
    """What a reset does to one writer. `tables` are those that it writes, with their locations.

    `aside` is the log's new folder. `unpublished` are rows that are decided but not visible yet: they never will be.
    `finished` is the number of its parts, which stay in the tables.
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
    waiting = {manifest.epoch for manifest in facts.unpublished}
    return Reset(
        writer=writer,
        uid=uid,
        log=facts.location,
        aside=f"{facts.location.rpartition('/')[0]}/{reset_name(writer, at)}",
        epoch=facts.view.head,
        rows=facts.totals.written,
        unpublished=sum(part.rows for manifest, part in facts.effective() if manifest.epoch in waiting),
        finished=sum(1 for _ in files.parts(uid)),
        tables=tables,
    )


@dataclass(frozen=True, slots=True)
class SetAside:
    """The logs of writers of `table` that `hivesink reset` has put aside; `own` is the log that a writer has begun."""

    logs: Callable[[], Iterable[CommitLog]]
    store: FileStore
    registrar: Registrar
    table: str
    own: str

    def has(self, batch: BatchRef) -> bool:
        """Whether one of the logs committed `batch`, and all of its files are still in the tables.

        Spark runs a batch again that it hasn't committed itself. Raises BatchSetAside if only a person can tell.
        """
        known = False
        for log in self.logs():
            facts = read_log(log)
            newest = facts.manifests[-1].last_batch if facts.manifests else None
            is_whole = facts.head is not None or not facts.view.head
            if newest and newest.ref == batch and is_whole:
                known, doubt = True, self._missing(facts, newest.epoch)
            elif newest and newest.ref.query != batch.query:
                doubt = None
            elif not is_whole and batch.batch:
                doubt = "its newest manifest can't be read"
            else:
                differs = newest and newest.ref.batch == batch.batch
                doubt = "it committed the batch with other offsets" if differs else None
            if doubt:
                raise BatchSetAside(self.table, batch.batch, log.location, str(facts.uid), own=self.own, doubt=doubt)
        return known

    def _missing(self, facts: LogFacts, epoch: Epoch) -> str | None:
        names = _names_of(facts, epoch)
        tables = {part.table for _, part in facts.effective()} if names else ()
        found = len(names & {name for table in tables for name in self._names_in(table)})
        return None if found == len(names) else f"{found} of the batch's {len(names)} files are in the table"

    def _names_in(self, table: str) -> Iterator[str]:
        with suppress(UnknownTable):
            live = self.registrar.table(TableName.parse(table))
            below = parts_below(self.store, live.location, staged=False)
            for parts in chain(below, parts_elsewhere(self.store, self.registrar, live)):
                yield from (str(part.name) for part in parts)


def _names_of(facts: LogFacts, epoch: Epoch) -> set[str]:
    """The parts of `epoch`, which later epochs may have moved; without those that a person has accepted as lost."""
    names = ((part.name, PartName.parse(part.name)) for _, part in facts.effective())
    return {text for text, name in names if name is not None and name.epoch == epoch}
