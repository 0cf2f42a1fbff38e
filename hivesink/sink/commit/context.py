"""What the committer works with: its adapters, time and randomness, and what it asks of them in several places."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial
from itertools import chain
from typing import TypeVar

from hivesink import errors
from hivesink.config.formats import FORMATS
from hivesink.core.epoch import Epoch
from hivesink.core.lifecycle import CommittedPartition, Stamp
from hivesink.core.log import LogView
from hivesink.core.manifest import PartEntry
from hivesink.core.partfile import Finished
from hivesink.core.partition import Estimate, LivePartition, PartitionKey, by_table
from hivesink.core.partition_commit import PolicyKind
from hivesink.core.plan import Policy
from hivesink.core.table import TableName, is_letters
from hivesink.ports import CommitLog, FileStore, LiveTable, Metastore
from hivesink.ports.rows import Measure

logger = logging.getLogger("hivesink")

_Listed = TypeVar("_Listed")


@dataclass(frozen=True, slots=True)
class CommitContext:
    """`now` is UTC, `tick` a monotonic clock in seconds, `token` random lower-case hex of 8 to 32 digits."""

    log: CommitLog
    store: FileStore
    registrar: Metastore
    now: Callable[[], datetime] = lambda: datetime.now(timezone.utc)
    tick: Callable[[], float] = time.monotonic
    token: Callable[[], str] = lambda: secrets.token_hex(5)
    remake: Callable[[TableName], bool] = lambda _: False
    """Create the sink's own table (dead letters) again after somebody dropped it; False for any other table."""
    confirm: Callable[[TableName], LiveTable] | None = None
    """Ask whether a table whose property has changed is still the log's, and read it again; by default it isn't."""
    today: str | None = None
    """The table's name; the log may know it by an older name. None: by the name that the log has."""
    former: tuple[str, ...] = ()
    """The table's locations from its first start on, the newest last. RENAME takes a managed table's files along."""
    _tables: dict[str, LiveTable] = field(default_factory=dict)

    def stamp(self) -> Stamp:
        return Stamp(self.now(), self.token())

    def table(self, name: str) -> LiveTable:
        """The table as first seen; partitions are always looked up afresh. Raises UnknownTable."""
        if name not in self._tables:
            parsed = TableName.parse(name)
            try:
                self._tables[name] = self.registrar.table(parsed)
            except errors.UnknownTable:
                if not self.remake(parsed):
                    raise
                self._tables[name] = self.registrar.table(parsed)
        return self._tables[name]

    def find(self, path: str) -> Finished | None:
        """The file at `path`; None too if this store can't look there: then it has written nothing there."""
        try:
            return self.store.find(path)
        except errors.Unsupported:
            return None

    def lookup(self, places: Iterable[PartitionKey]) -> Mapping[PartitionKey, LivePartition]:
        """The registered ones of `places`, by a call per table.

        Raises MetastoreUnreachable, UnknownTable; TableReplaced, and what `confirm` raises, for a table made again.
        """
        registered: dict[PartitionKey, LivePartition] = {}
        for table, partitions in by_table(places).items():
            try:
                try:
                    live = self.registrar.lookup(self.table(table), partitions)
                except errors.TableReplaced:
                    self.ask_again(table)
                    live = self.registrar.lookup(self.table(table), partitions)
            except errors.UnknownTable as error:
                # Only the sink's own table may be replaced.
                if not self.remake(TableName.parse(table)):
                    raise errors.UnknownTable(table, self.registrar.address, gone=True) from error
                self._tables.pop(table, None)
                live = self.registrar.lookup(self.table(table), partitions)
            registered.update({(table, partition): home for partition, home in live.items()})
        return registered

    def ask_again(self, table: str) -> None:
        """Read a table anew whose property has changed. Raises TableReplaced, and what `confirm` raises."""
        name = TableName.parse(table)
        if is_letters(table):
            self._tables[table] = self.registrar.table(name)
        elif self.confirm is None:
            raise errors.TableReplaced(table, "it names another log")
        else:
            before, now = self.table(table).spec, self.confirm(name)
            if (before.format, before.partition_columns) != (now.spec.format, now.spec.partition_columns):
                raise errors.TableReplaced(table, "it has another format or other partition columns")
            self._tables[table] = now

    def require_format(self, part: PartEntry) -> None:
        """Raise Unsupported for a part that waits, where its table is STORED AS another format by now."""
        ending = part.name.rpartition(".")[2].upper()
        if ending in FORMATS and not is_letters(part.table) and ending != self.table(part.table).spec.format:
            what, why = f"another format of {part.table} than {ending}", f"{part.target} waits to be published"
            way = f"take that back until the job has ended well: ALTER TABLE {part.table} SET FILEFORMAT {ending}"
            raise errors.Unsupported(what, why, way)

    def require_own_folders(self, table: str, used: Mapping[str, str]) -> None:
        """Raise FolderTaken if a partition of `used` (locations that hold files, by name) has another's folder.

        RENAME leaves an external table's partition where it was: the old name's folder would be read twice.
        """
        if not used:
            return
        owners: dict[str, set[str]] = {}
        for live in self.registrar.lookup(self.table(table), None).values():
            owners.setdefault(self.store.canonical(live.location), set()).add(live.partition)
        taken = {
            partition: (location, ", ".join(sorted(others)))
            for partition, location in used.items()
            if (others := owners.get(self.store.canonical(location), set()) - {partition})
        }
        if taken:
            raise errors.FolderTaken(table, taken, self.registrar.address)

    def require_head(self, epoch: Epoch) -> LogView:
        """The log now. Call it before anything that isn't idempotent.

        Raises FencedOut unless `epoch` is its newest; LogMissing where it ends before that, or was put aside.
        """
        view = self.log.view()
        if view.is_over or view.head < epoch:
            raise errors.LogMissing.gone(self.log.location)
        if view.head != epoch:
            raise errors.FencedOut(self.log.location, epoch, view.head)
        return view


def listings(store: FileStore, look: Callable[[str], Collection[_Listed]], folders: Iterable[str]) -> Iterator[_Listed]:
    """What `look` of the store lists in `folders`. It has written nothing on a file system that it can't reach."""

    def listed(folder: str) -> Collection[_Listed]:
        with suppress(errors.Unsupported):
            return look(folder)
        return ()

    return chain.from_iterable(store.run_parallel(partial(listed, folder) for folder in folders))


def announce(
    context: CommitContext, policy: Policy, kind: PolicyKind, partitions: Sequence[CommittedPartition]
) -> None:
    """Make known that `partitions` are committed. May be repeated: a process may die right after it.

    Raises StoreUnavailable, NotWritable; the metastore's errors; whatever the user's own policy raises.
    """
    match kind:
        case PolicyKind.SUCCESS_FILE:
            paths = [f"{partition.location}/{policy.success_file}" for partition in partitions]
            context.store.run_parallel(partial(context.store.mark, path) for path in paths)
        case PolicyKind.INSERT_EVENT:
            for table in sorted({partition.table for partition in partitions}):
                files = {partition.partition: partition.files for partition in partitions if partition.table == table}
                context.registrar.announce(context.table(table), files)
        case PolicyKind.CUSTOM:
            if policy.own is not None:
                for partition in partitions:
                    policy.own(partition)


def write_estimates(context: CommitContext, places: Iterable[PartitionKey], measure: Measure) -> None:
    """Clear the flag of `places`, then write what their files hold, as far as these can be read.

    Hive itself counts rows: the flag is only ever cleared, since a metastore without compare-and-set can't keep it
    true. An epoch clears it before its publish and after it (`core.plan`). A user's ANALYZE may set it in between, so
    it is cleared once more where a partition is at rest. Raises the metastore's errors.
    """

    def estimate(table: str, home: LivePartition) -> Estimate | None:
        form = context.table(table).spec.format
        rows = raw_bytes = 0
        try:
            files = context.store.visible(home.location)
            for file in files:
                with context.store.open(file.path) as stream:
                    content = measure(form, stream)
                rows, raw_bytes = rows + content.rows, raw_bytes + content.raw_bytes
        except (errors.HiveSinkError, ValueError) as error:
            logger.warning("no estimate of the rows in %s: %s", home.location, error)
            return None
        return Estimate(home.partition, len(files), sum(file.length for file in files), rows, raw_bytes)

    live = context.lookup(places)
    for table, partitions in by_table(key for key, home in live.items() if home.accurate).items():
        context.registrar.clear_accurate(context.table(table), partitions)
    counted = context.store.run_parallel(partial(estimate, table, home) for (table, _), home in live.items())
    estimates = {key: counts for key, counts in zip(live, counted, strict=True) if counts}
    for table, partitions in by_table(estimates).items():
        context.registrar.estimate(context.table(table), [estimates[table, name] for name in partitions])
