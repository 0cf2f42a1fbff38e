"""Notices that a user has changed the table under a running query, which goes on as it began."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hivesink.errors import MetastoreUnreachable, TableReplaced, UnknownTable, Unsupported

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hivesink.core.table import TableSpec
    from hivesink.sink.commit.context import CommitContext

logger = logging.getLogger("hivesink")

_OWN = ("sink.", "partition.time-extractor.", "parquet.")


@dataclass(slots=True)
class TableChanges:
    """Compares the table with `known` every `interval` seconds at most."""

    context: CommitContext
    known: TableSpec
    interval: float
    _next: float | None = None

    def tell(self) -> None:
        """Log what has changed since the last look. A metastore that is down is told of elsewhere.

        Raises TableReplaced where the table was made anew: rows that come now would wait for one that is gone.
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
            if live.created != first.created:
                raise TableReplaced(str(self.known.name), self.context.registrar.address)
            found = live.spec
            for change in _changes(self.known, found):
                logger.warning("%s: %s; the running query goes on without, until it starts again", found.name, change)
            self.known = found


def _changes(before: TableSpec, now: TableSpec) -> Iterator[str]:
    old, new = ({column.name: str(column.type) for column in spec.columns} for spec in (before, now))
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            yield f"column {name} is {new.get(name, 'gone')}, and was {old.get(name, 'not there')}"
    for name in sorted(before.options.keys() | now.options.keys()):
        if name.startswith(_OWN) and before.options.get(name) != now.options.get(name):
            was, value = (repr(spec.options[name]) if name in spec.options else "unset" for spec in (before, now))
            yield f"{name} is {value}, and was {was}"
