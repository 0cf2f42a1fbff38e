"""A table and its writers, opened without leaving a trace: no log is begun by looking at it."""

from __future__ import annotations

import secrets
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from hivesink import wiring
from hivesink.core.table import TableName
from hivesink.embedded import metastore as embedded
from hivesink.errors import InvalidOption
from hivesink.sink.world import World

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hivesink.ports import LiveTable, Registrar


@dataclass(frozen=True, slots=True)
class OpenedWriter:
    """One writer of a table, its log reached through the pointer beside the table."""

    name: str
    world: World


@dataclass(frozen=True, slots=True)
class OpenedTable:
    """A table of the metastore, with every writer that has left a pointer; sorted by name."""

    name: str
    live: LiveTable
    writers: tuple[OpenedWriter, ...]

    def chosen(self, writer: str | None) -> tuple[OpenedWriter, ...]:
        """The one named `writer`, or all. Raises InvalidOption where there is none of that name."""
        found = tuple(opened for opened in self.writers if writer in {None, opened.name})
        if writer is not None and not found:
            known = ", ".join(opened.name for opened in self.writers) or "none"
            raise InvalidOption((f"no writer {writer!r} has written to {self.name}; known: {known}",))
        return found


def metastore_address(given: str | None) -> str:
    """The address to use: the one given, else the embedded metastore that runs. Raises InvalidOption."""
    if given:
        return given
    state = embedded.status()
    if state.uri is None:
        problem = (
            "no metastore: give --metastore thrift://HOST:PORT, set HIVESINK_METASTORE, or start the embedded one "
            "with `hivesink metastore start`"
        )
        raise InvalidOption((problem,))
    return state.uri


@contextmanager
def opened(table: str, metastore: str | None) -> Iterator[OpenedTable]:
    """Open `table`. Raises InvalidOption, UnknownTable, Unsupported, MetastoreUnreachable."""
    name = _table_name(table)
    registrar = wiring.registrar("thrift", metastore_address(metastore))
    try:
        live = registrar.table(name)
        logs = wiring.writers_of(name, live.location)
        writers = tuple(
            OpenedWriter(writer, _world(registrar, live, folder, writer)) for writer, folder in sorted(logs.items())
        )
        yield OpenedTable(str(name), live, writers)
    finally:
        registrar.close()


def _table_name(text: str) -> TableName:
    try:
        return TableName.parse(text)
    except ValueError as error:
        raise InvalidOption((str(error),)) from error


def _world(registrar: Registrar, live: LiveTable, folder: str, writer: str) -> World:
    return World(
        log=wiring.commit_log(folder, writer),
        store=wiring.file_store(live.location),
        registrar=registrar,
        now=lambda: datetime.now(timezone.utc),
        tick=time.monotonic,
        token=lambda: secrets.token_hex(5),
    )
