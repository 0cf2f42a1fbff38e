"""What the committer works with: its adapters, and time and randomness as arguments."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hivesink.core.partition import by_table, is_partition
from hivesink.core.table import TableName
from hivesink.errors import FencedOut, FileSystemUnknown, UnknownTable, Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime

    from hivesink.core.epoch import Epoch
    from hivesink.core.partfile import Finished
    from hivesink.core.partition import LivePartition, PartitionKey
    from hivesink.ports import CommitLog, FileStore, LiveTable, Registrar


@dataclass(frozen=True, slots=True)
class CommitContext:
    """`now` is UTC, `tick` a monotonic clock in seconds, `token` random lower-case hex of 8 to 32 digits."""

    log: CommitLog
    store: FileStore
    registrar: Registrar
    now: Callable[[], datetime]
    tick: Callable[[], float]
    token: Callable[[], str]
    remake: Callable[[TableName], bool] = lambda _: False
    """Create a table of the sink's own (dead letters) that somebody has dropped; False for any other table."""
    _tables: dict[str, LiveTable] = field(default_factory=dict)

    def table(self, name: str) -> LiveTable:
        """The table as first seen; partitions are always asked for afresh. Raises UnknownTable."""
        if name not in self._tables:
            parsed = TableName.parse(name)
            try:
                self._tables[name] = self.registrar.table(parsed)
            except UnknownTable:
                if not self.remake(parsed):
                    raise
                self._tables[name] = self.registrar.table(parsed)
        return self._tables[name]

    def owner(self, folder: str) -> str | None:
        """The table, of those seen, in whose own folder `folder` lies."""
        for name, table in self._tables.items():
            if folder.startswith(table.location.rstrip("/") + "/"):
                return name
        return None

    def is_partition(self, table: str, path: str) -> bool:
        """Whether a folder at `path` in the table's own is a partition's by its name."""
        return is_partition(path, [column.name for column in self.table(table).spec.partition_columns])

    def unreachable(self, location: str) -> str | None:
        """Why this store can't look at a partition's location, as in another file system; None where it can."""
        try:
            self.store.staged(location)
        except (Unsupported, FileSystemUnknown) as error:
            return str(error)
        return None

    def find(self, path: str) -> Finished | None:
        """The file at `path`; None too where this store can't look: it has put nothing there."""
        try:
            return self.store.find(path)
        except (Unsupported, FileSystemUnknown):
            return None

    def lookup(self, places: Iterable[PartitionKey]) -> Mapping[PartitionKey, LivePartition]:
        """Those of `places` that are registered, by one call a table. Raises MetastoreUnreachable."""
        found: dict[PartitionKey, LivePartition] = {}
        for table, partitions in by_table(places).items():
            try:
                live = self.registrar.lookup(self.table(table), partitions)
            except UnknownTable:
                # Only a table of the sink's own may be another one from now on.
                if not self.remake(TableName.parse(table)):
                    raise
                self._tables.pop(table, None)
                live = self.registrar.lookup(self.table(table), partitions)
            found.update({(table, partition): place for partition, place in live.items()})
        return found

    def require_head(self, epoch: Epoch) -> None:
        """Raise FencedOut unless `epoch` is still the log's newest: asked before what isn't idempotent."""
        head = self.log.view().head
        if head != epoch:
            raise FencedOut(self.log.location, epoch, head)
