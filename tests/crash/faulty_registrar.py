"""A metastore that fails at a chosen call, in every mode of the file system that does. See `faults.Mode`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from hivesink.errors import MetastoreUnreachable, RegistrationUnknown
from tests.crash.faults import Faulty, Mode, Plan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hivesink.core.partition import Estimate, LivePartition, NewPartition
    from hivesink.core.table import TableName
    from hivesink.ports import LiveTable, Metastore


class FaultyMetastore(Faulty):
    """Implements `ports.Metastore` over `inner`.

    Reads know BEFORE, AFTER and LOST (MetastoreUnreachable). TORN applies the first half of the partitions, then dies:
    calls are made in chunks.
    """

    def __init__(self, inner: Metastore, plan: Plan | None = None) -> None:
        super().__init__(plan)
        self.inner = inner

    @property
    def address(self) -> str:
        return self.inner.address

    def table(self, name: TableName) -> LiveTable:
        found: LiveTable = self._look("table", str(name), partial(self.inner.table, name))
        return found

    def names(self, table: LiveTable) -> Sequence[str]:
        found: Sequence[str] = self._look("names", str(table.spec.name), partial(self.inner.names, table))
        return found

    def lookup(self, table: LiveTable, partitions: Sequence[str] | None) -> Mapping[str, LivePartition]:
        subject = f"{table.spec.name} {'all' if partitions is None else ','.join(partitions)}"
        found: Mapping[str, LivePartition] = self._look(
            "lookup", subject, partial(self.inner.lookup, table, partitions)
        )
        return found

    def add(self, table: LiveTable, partitions: Sequence[NewPartition]) -> None:
        self._do("add", table, self.inner.add, partitions)

    def set_property(self, name: TableName, key: str, value: str) -> None:
        # One call that is made whole or not at all.
        self._call("set_property", str(name), partial(self.inner.set_property, name, key, value))

    def tables_with(self, key: str) -> Mapping[TableName, str]:
        found: Mapping[TableName, str] = self._look("tables_with", key, partial(self.inner.tables_with, key))
        return found

    def clear_accurate(self, table: LiveTable, partitions: Sequence[str]) -> None:
        self._do("clear_accurate", table, self.inner.clear_accurate, partitions)

    def estimate(self, table: LiveTable, estimates: Sequence[Estimate]) -> None:
        self._do("estimate", table, self.inner.estimate, estimates)

    def announce(self, table: LiveTable, files: Mapping[str, Sequence[str]]) -> None:
        self._do("announce", table, lambda name, some: self.inner.announce(name, dict(some)), list(files.items()))

    def close(self) -> None:
        self.inner.close()

    def _look(self, name: str, subject: str, call: Callable[[], Any]) -> Any:
        mode = self._begin(name, subject, changes=False)
        if mode in {Mode.BEFORE, Mode.AFTER}:
            self._die()
        if mode is Mode.LOST:
            raise MetastoreUnreachable(self.address, "the reply is lost")
        return call()

    def _do(self, name: str, table: LiveTable, call: Callable[[LiveTable, Any], Any], items: Sequence[Any]) -> None:
        torn = partial(call, table, items[: len(items) // 2])
        self._call(name, str(table.spec.name), partial(call, table, items), torn)

    def _call(self, name: str, subject: str, call: Callable[[], Any], torn: Callable[[], Any] = lambda: None) -> None:
        match self._begin(name, subject, changes=True):
            case Mode.BEFORE:
                self._die()
            case Mode.AFTER:
                call()
                self._die()
            case Mode.TORN:
                torn()
                self._die()
            case Mode.LOST:
                call()
                raise RegistrationUnknown(subject, name, "the reply is lost", "memory")
            case Mode.LATE:
                self._late.append(call)
                raise RegistrationUnknown(subject, name, "no reply yet", "memory")
        call()
