"""Notices that a user has changed the table under a running query, which keeps what it began with."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hivesink.errors import MetastoreUnreachable, UnknownTable, Unsupported

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from hivesink.config.options import SinkConfig
    from hivesink.core.table import TableSpec
    from hivesink.sink.commit.context import CommitContext

logger = logging.getLogger("hivesink")

_OWN = ("sink.", "partition.time-extractor.", "parquet.")


@dataclass(slots=True)
class TableWatch:
    """Compares the table with `known` every `interval` seconds at most.

    `config` is what the query began with; the job's `own` settings outrank the table's.
    """

    context: CommitContext
    known: TableSpec
    config: SinkConfig
    own: Collection[str]
    interval: float
    _next: float | None = None

    def log_changes(self) -> None:
        """Log what has changed since the last look. Others report a metastore that is down.

        Raises what `ask_again` raises where the table was made again: rows that come now would wait for one that is
        gone.
        """
        tick, due = self.context.tick(), self._next
        if due is not None and tick < due:
            return
        self._next = tick + self.interval
        with suppress(MetastoreUnreachable, UnknownTable, Unsupported):
            first = self.context.table(str(self.known.name))
            if due is None:
                return  # It was read just now.
            live = self.context.registrar.table(self.known.name)
            if live.log != first.log:
                self.context.ask_again(str(self.known.name))
            for change, kept in self._changes(self.known, live.spec):
                text = "%s: %s; the running query keeps %s until its next start"
                logger.warning(text, live.spec.name, change, kept)
            self.known = live.spec

    def _changes(self, before: TableSpec, now: TableSpec) -> Iterator[tuple[str, str]]:
        """Each change, and what the query keeps."""
        old, new = ({column.name: str(column.type) for column in spec.columns} for spec in (before, now))
        for name in sorted(old.keys() | new.keys()):
            if old.get(name) != new.get(name):
                yield f"column {name} is {new.get(name, 'gone')}, and was {old.get(name, 'not there')}", "its columns"
        for name in sorted((before.options.keys() | now.options.keys()) - set(self.own)):
            if name.startswith(_OWN) and before.options.get(name) != now.options.get(name):
                was, value = (repr(spec.options[name]) if name in spec.options else "unset" for spec in (before, now))
                kept = self.config.text(name)
                yield f"{name} is {value}, and was {was}", "it unset" if kept is None else repr(kept)
