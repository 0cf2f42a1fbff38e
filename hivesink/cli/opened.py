"""A table and its writers, opened without leaving a trace: no log is begun by looking at it."""

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
    from collections.abc import Iterator

    from hivesink.ports import CommitLog, FileStore, LiveTable, Registrar


@dataclass(frozen=True, slots=True)
class OpenedWriter:
    """One writer of a table, its log reached through the pointer beside the table."""

    name: str
    context: CommitContext


@dataclass(frozen=True, slots=True)
class OpenedTable:
    """A table of the metastore, with every writer that has left a pointer; sorted by name."""

    name: str
    live: LiveTable
    writers: tuple[OpenedWriter, ...]
    site: Site
    metastore: wiring.Metastore
    logs: TableLogs

    @property
    def store(self) -> FileStore:
        return wiring.file_store(self.live.location, self.site)

    def chosen(self, writer: str | None) -> tuple[OpenedWriter, ...]:
        """The one named `writer`, or all. Raises InvalidOption where there is none of that name."""
        found = tuple(opened for opened in self.writers if writer in {None, opened.name})
        if writer is not None and not found:
            # A log that is found under an odd name can still be looked after: it is older than the rule.
            require_writer_name(writer)
            known = ", ".join(opened.name for opened in self.writers) or "none"
            raise InvalidOption((f"no writer {writer!r} has written to {self.name}; known: {known}",))
        return found

    def strangers(self) -> tuple[Stranger, ...]:
        """The parts in the table whose uid has no log here; those that were accepted are among them."""
        return strangers(self.store, self.live.location, self.logs.uids)


def site_here() -> Site:
    """What the files say that HADOOP_CONF_DIR and HIVE_CONF_DIR name. Raises SiteInvalid."""
    return Site.load(os.environ)


def metastore_address(given: str | None, site: Site) -> str:
    """The address to use: the one given, else the site's, else the embedded metastore's. Raises InvalidOption."""
    uri = given or site.metastore_uris or embedded.status().uri
    if uri is None:
        problem = (
            "no metastore: give --metastore thrift://HOST:PORT, set HIVESINK_METASTORE, or HIVE_CONF_DIR to the folder "
            "of hive-site.xml, or start the embedded one with `hivesink metastore start`"
        )
        raise InvalidOption((problem,))
    return uri


@contextmanager
def opened(table: str, metastore: str | None) -> Iterator[OpenedTable]:
    """Open `table`. Raises InvalidOption, SiteInvalid, UnknownTable, Unsupported, MetastoreUnreachable."""
    name = _table_name(table)
    site = site_here()
    found = wiring.Metastore.at("thrift", metastore_address(metastore, site), site)
    registrar = found.registrar
    try:
        live = registrar.table(name)
        logs = TableLogs(name, live.location, site)
        writers = tuple(
            OpenedWriter(writer, _world(registrar, live, wiring.commit_log(folder, writer, site), site))
            for writer, folder in sorted(logs.writers().items())
        )
        yield OpenedTable(str(name), live, writers, site, found, logs)
    finally:
        registrar.close()


def _table_name(text: str) -> TableName:
    try:
        return TableName.parse(text)
    except ValueError as error:
        raise InvalidOption((str(error),)) from error


def _world(registrar: Registrar, live: LiveTable, log: CommitLog, site: Site) -> CommitContext:
    return CommitContext(
        log=log,
        store=wiring.file_store(live.location, site),
        registrar=registrar,
        now=lambda: datetime.now(timezone.utc),
        tick=time.monotonic,
        token=lambda: secrets.token_hex(5),
    )
