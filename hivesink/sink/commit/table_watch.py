"""Notices that a user has changed the table under a running query, which keeps what it began with."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hivesink.config.options import OPTIONS
from hivesink.errors import MetastoreUnreachable, UnknownTable, Unsupported

if TYPE_CHECKING:
    from collections.abc import Collection

    from hivesink.core.table import TableSpec
    from hivesink.sink.commit.context import CommitContext

logger = logging.getLogger("hivesink")


@dataclass(slots=True)
class TableWatch:
    """Compares the table with `known` every `interval` seconds at most; the job's `own` settings outrank it."""

    context: CommitContext
    known: TableSpec
    own: Collection[str]
    interval: float
    _next: float | None = None

    def log_changes(self) -> None:
        """Log what has changed since the last look. Others report a metastore that is down.

        Raises what `ask_again` raises where the table was made again: rows that come now would wait for a table
        that is gone.
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
            before, now = self._texts(self.known), self._texts(live.spec)
            for name in sorted(before.keys() | now.keys()):
                if before.get(name) != now.get(name):
                    text = "%s: %s is %s, and was %s; the running query goes on without that until its next start"
                    logger.warning(text, live.spec.name, name, now.get(name, "gone"), before.get(name, "not there"))
            self.known = live.spec

    def _texts(self, spec: TableSpec) -> dict[str, str]:
        own = (item for item in spec.options.items() if item[0] in OPTIONS or item[0].startswith("sink."))
        options = {name: repr(value) for name, value in own}
        columns = {f"column {column.name}": str(column.type) for column in spec.columns}
        return columns | {name: value for name, value in options.items() if name not in self.own}
