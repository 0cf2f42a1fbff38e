"""Logs to which nothing beside their table leads any more, since it was moved or renamed, or a pointer was deleted."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from posixpath import basename
from typing import TYPE_CHECKING

from hivesink import wiring
from hivesink.core.bucket import normal
from hivesink.errors import UnknownTable, Unsupported
from hivesink.logs import TableLogs, commit_log
from hivesink.sink.commit.context import CommitContext
from hivesink.sink.inspect.clean import strangers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hivesink.ports import LiveTable
    from hivesink.tables.opened import OpenedTable


@dataclass(frozen=True, slots=True)
class LostLog:
    """A log in the folder of the table's logs. `home`, the table or its dead letters, holds files of its uid."""

    opened: OpenedTable
    writer: str
    context: CommitContext
    home: LiveTable

    def make_known(self) -> None:
        """Write the pointers that the writer's next start would write, after the same checks.

        Raises what `Admission.require_same_table` raises; PointerTaken, PointerCopied, NotWritable, StoreUnavailable.
        """
        live, log, store, registrar = self.opened.live, self.context.log, self.context.store, self.context.registrar
        wiring.admission(live, log, store, self.writer, registrar, site=self.opened.site).require_same_table()
        for table in (live, self.home):
            log.point(table.spec.name, normal(table.location))
        log.admit(live.spec.name, live.created)


def lost_logs(opened: OpenedTable) -> Iterator[LostLog]:
    """The lost logs of a table and of its dead letters; none that serves another living table.

    Raises LogDamaged, NewerFormat for a pointer; InvalidOption, StoreUnavailable, MetastoreUnreachable.
    """
    registrar, site, folder = opened.metastore.registrar, opened.site, opened.log_folder
    store = wiring.file_store(opened.live.location, site)
    for home in _homes(opened):
        logs = TableLogs(home.spec.name, home.location, site)
        # A look at every folder of the table, which most tables are spared.
        if unpointed := logs.unpointed(folder):
            found, accepted = strangers(store, registrar, home, logs.uids), logs.accepted()
            uids = (one.uid for one in found if one.uid not in accepted)
            lost = {wiring.log_of(uid, logs, folder, registrar) for uid in uids}
            for log in filter(lost.__contains__, unpointed):
                context = CommitContext(commit_log(log, basename(log), site), store, registrar)
                yield LostLog(opened, basename(log), context, home)


def _homes(opened: OpenedTable) -> Iterator[LiveTable]:
    yield opened.live
    with suppress(UnknownTable, Unsupported):
        yield opened.metastore.registrar.table(opened.live.spec.name.rejected)
