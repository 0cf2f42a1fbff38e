"""Bring live tables to what their DDL says: idempotent, and harmless when two people do it at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from hivesink.errors import DdlDiffers, TableExists
from hivesink.hiveql.plan import Alter, Create, Differs, Nothing, Plan, plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hivesink.core.table import TableName, TableSpec


class Catalog(Protocol):
    """Tables of a metastore. Each method raises HiveSinkError where the metastore can't answer."""

    def table(self, name: TableName) -> TableSpec | None:
        """The table as the metastore holds it, or None. `location` is always given."""
        ...

    def create_database_if_absent(self, database: str) -> None:
        """Leave a database that is there as it is, also if somebody creates it meanwhile."""
        ...

    def create(self, spec: TableSpec) -> None:
        """Create the table, whole or not at all. Raises TableExists."""
        ...

    def set_properties(self, name: TableName, properties: Mapping[str, str], removed: Sequence[str] = ()) -> None:
        """Set and unset TBLPROPERTIES; others stay. The key `comment` is the table's comment."""
        ...


def plan_all(wanted: Iterable[TableSpec], catalog: Catalog) -> tuple[Plan, ...]:
    """What `apply` would do, table by table."""
    return tuple(plan(spec, catalog.table(spec.name)) for spec in wanted)


def apply(wanted: Sequence[TableSpec], catalog: Catalog) -> tuple[Plan, ...]:
    """Apply all of `wanted`, and say what was done; doing it again does nothing.

    Raises DdlDiffers with the differences of all tables, before anything is changed.
    """
    plans = plan_all(wanted, catalog)
    _refuse(plans)
    return tuple(_apply(spec, step, catalog) for spec, step in zip(wanted, plans, strict=True))


def _apply(wanted: TableSpec, step: Plan, catalog: Catalog) -> Plan:
    match step:
        case Create(spec):
            catalog.create_database_if_absent(spec.name.database)
            try:
                catalog.create(spec)
            except TableExists:
                return _apply_to_existing(wanted, catalog)
        case Alter(name, properties, removed):
            catalog.set_properties(name, dict(properties), removed)
        case Nothing():
            pass
        case Differs():
            _refuse((step,))
    return step


def _apply_to_existing(wanted: TableSpec, catalog: Catalog) -> Plan:
    """Somebody else created the table first: what they made is compared like any live table.

    A table that is gone again by now raises TableExists, which a caller may retry.
    """
    step = plan(wanted, catalog.table(wanted.name))
    if isinstance(step, Create):
        raise TableExists(str(wanted.name))
    return _apply(wanted, step, catalog)


def _refuse(plans: Iterable[Plan]) -> None:
    differences = [line for step in plans if isinstance(step, Differs) for line in str(step).splitlines()]
    if differences:
        raise DdlDiffers(tuple(differences))
