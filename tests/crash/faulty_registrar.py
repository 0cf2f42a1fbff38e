"""A metastore that fails at a chosen call, in every mode of the file system that does. See `faults.Mode`."""

from __future__ import annotations

import contextlib
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

from hivesink.errors import HiveSinkError, MetastoreUnreachable, RegistrationUnknown
from tests.crash.faults import Call, Kill, Mode, Plan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hivesink.core.partition import Estimate, LivePartition, NewPartition
    from hivesink.core.table import TableName
    from hivesink.ports import LiveTable, Metastore


class FaultyMetastore:
    """Implements `ports.Metastore` over `inner`; `calls` records each call that was begun, numbered from 1.

    Reads know BEFORE, AFTER and LOST (MetastoreUnreachable). TORN applies the first half of the partitions,
    then dies: calls are made in chunks. Once killed it stays dead.
    """

    def __init__(self, inner: Metastore, plan: Plan | None = None) -> None:
        self.inner = inner
        self.plan = plan
        self.calls: list[Call] = []
        self.dead = False
        self._late: list[Callable[[], Any]] = []
        self._lock = threading.Lock()

    @property
    def address(self) -> str:
        return self.inner.address

    def apply_late(self) -> int:
        """Let what was held back take place now, or fail unheard. Returns how many calls were held back."""
        held, self._late = self._late, []
        for effect in held:
            with contextlib.suppress(HiveSinkError):
                effect()
        return len(held)

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
        match self._begin("set_property", str(name), changes=True):
            case Mode.BEFORE | Mode.TORN:
                self._die()
            case Mode.AFTER:
                self.inner.set_property(name, key, value)
                self._die()
            case Mode.LOST:
                self.inner.set_property(name, key, value)
                raise RegistrationUnknown(str(name), "set_property", "the reply is lost")
            case Mode.LATE:
                self._late.append(partial(self.inner.set_property, name, key, value))
                raise RegistrationUnknown(str(name), "set_property", "no reply yet")
        self.inner.set_property(name, key, value)

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

    def _do(self, name: str, table: LiveTable, call: Callable[[LiveTable, Any], Any], items: Sequence[Any]) -> Any:
        subject = str(table.spec.name)
        match self._begin(name, subject, changes=True):
            case Mode.BEFORE:
                self._die()
            case Mode.AFTER:
                call(table, items)
                self._die()
            case Mode.TORN:
                call(table, items[: len(items) // 2])
                self._die()
            case Mode.LOST:
                call(table, items)
                raise RegistrationUnknown(subject, name, "the reply is lost")
            case Mode.LATE:
                self._late.append(partial(call, table, items))
                raise RegistrationUnknown(subject, name, "no reply yet")
        return call(table, items)

    def _begin(self, name: str, subject: str, *, changes: bool) -> Mode | None:
        with self._lock:
            if self.dead:
                raise Kill
            self.calls.append(Call(len(self.calls) + 1, name, subject, changes))
            return self.plan.mode if self.plan and self.plan.step == len(self.calls) else None

    def _die(self) -> None:
        self.dead = True
        raise Kill
