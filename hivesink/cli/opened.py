"""A table and its writers, opened read-only: opening a table never creates a log."""

from __future__ import annotations

import os
import secrets
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from hivesink import wiring
from hivesink.config.site import Site
from hivesink.core.log import require_writer_name
from hivesink.core.table import TableName
from hivesink.embedded import metastore as embedded
from hivesink.errors import InvalidOption
from hivesink.logs import TableLogs
from hivesink.sink.commit.context import CommitContext
from hivesink.sink.inspect.clean import Stranger, strangers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hivesink.ports import CommitLog, LiveTable, Registrar
    from hivesink.sink.inspect.admission import Admission


@dataclass(frozen=True, slots=True)
class OpenedTable:
    """A table of the metastore. `writers` are all that have a pointer beside the table, sorted by name."""

    name: str
    live: LiveTable
    writers: Mapping[str, CommitContext]
    site: Site
    metastore: wiring.Metastore
    logs: TableLogs

    def chosen(self, writer: str | None) -> Mapping[str, CommitContext]:
        """The writer of that name, or all writers for None. Raises InvalidOption if there is no such writer."""
        if writer is None:
            return self.writers
        if writer not in self.writers:
            # Checked only now: a log with an invalid name that an older version allowed can still be chosen.
            require_writer_name(writer)
            known = ", ".join(self.writers) or "none"
            raise InvalidOption((f"no writer {writer!r} has written to {self.name}; known: {known}",))
        return {writer: self.writers[writer]}

    def admission(self, writer: str) -> Admission:
        """What decides whether `writer` may start."""
        context = self.writers[writer]
        return wiring.admission(self.live, context.log, context.store, writer, context.registrar, site=self.site)

    def strangers(self) -> tuple[Stranger, ...]:
        """The parts in the table whose uid has no log here, including those that were accepted."""
        store = wiring.file_store(self.live.location, self.site)
        return strangers(store, self.live.location, self.logs.uids)


def load_site() -> Site:
    """The site configuration in HADOOP_CONF_DIR and HIVE_CONF_DIR. Raises SiteInvalid."""
    return Site.load(os.environ)


def metastore_address(given: str | None, site: Site) -> str:
    """The given address, else the site's, else the embedded metastore's. Raises InvalidOption if there is none."""
    uri = given or site.metastore_uris or embedded.status().uri
    if uri is None:
        problem = (
            "no metastore: give --metastore thrift://HOST:PORT, set HIVESINK_METASTORE, set HIVE_CONF_DIR to the "
            "folder of hive-site.xml, or start the embedded one with `hivesink metastore start`"
        )
        raise InvalidOption((problem,))
    return uri


@contextmanager
def open_table(table: str, metastore: str | None) -> Iterator[OpenedTable]:
    """Open `table`. Raises InvalidOption, SiteInvalid, UnknownTable, Unsupported, MetastoreUnreachable."""
    try:
        name = TableName.parse(table)
    except ValueError as error:
        raise InvalidOption((str(error),)) from error
    site = load_site()
    connected = wiring.Metastore.at("thrift", metastore_address(metastore, site), site)
    registrar = connected.registrar
    try:
        live = registrar.table(name)
        logs = TableLogs(name, live.location, site)
        writers = {
            writer: _context(registrar, live, wiring.commit_log(folder, writer, site), site)
            for writer, folder in sorted(logs.writers().items())
        }
        yield OpenedTable(str(name), live, writers, site, connected, logs)
    finally:
        registrar.close()


def _context(registrar: Registrar, live: LiveTable, log: CommitLog, site: Site) -> CommitContext:
    return CommitContext(
        log=log,
        store=wiring.file_store(live.location, site),
        registrar=registrar,
        now=lambda: datetime.now(timezone.utc),
        tick=time.monotonic,
        token=lambda: secrets.token_hex(5),
    )
