"""Applying DDL to a catalog, alone and against others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest

from hivesink.core.log import PROPERTY, LogAddress, default_root
from hivesink.core.partition import normal
from hivesink.core.table import Column, Primitive, TableName, TableSpec
from hivesink.errors import DdlInvalid, TableReplaced
from hivesink.hiveql.apply import Plan, apply, plan_all

A = TableSpec(
    TableName("demo", "a"),
    (Column("x", Primitive.INT, nullable=False),),
    comment="first",
    properties=(("sink.on-bad-record", "drop"),),
)
B = replace(A, name=TableName("other", "b"), comment=None)


@dataclass
class Memory:
    """A catalog in memory that keeps the port's promises; `before_create` is where others come in between."""

    tables: dict[TableName, TableSpec] = field(default_factory=dict)
    databases: set[str] = field(default_factory=lambda: {"default"})
    before_create: Callable[[TableSpec], None] = lambda _: None
    changes: int = 0

    def find(self, name: TableName) -> TableSpec | None:
        return self.tables.get(name)

    def create_database_if_absent(self, database: str) -> None:
        self.databases.add(database)

    def create(self, spec: TableSpec) -> None:
        self.before_create(spec)
        assert spec.name.database in self.databases
        if spec.name in self.tables:
            raise TableReplaced(str(spec.name), "somebody has created it")
        location = spec.location or f"file:/warehouse/{spec.name.database}.db/{spec.name.table}"
        self.tables[spec.name] = replace(spec, location=location)
        self.set_properties(spec.name, {"transient_lastDdlTime": "1"})

    def set_properties(self, name: TableName, properties: Mapping[str, str], removed: Sequence[str] = ()) -> None:
        self.changes += 1
        after = {**self.tables[name].options, **properties}
        comment = after.pop("comment", self.tables[name].comment)
        kept = tuple(sorted((key, value) for key, value in after.items() if key not in removed))
        self.tables[name] = replace(self.tables[name], comment=comment, properties=kept)


def test_apply_creates_databases_and_tables_once() -> None:
    catalog = Memory()
    assert [step.action for step in apply([A, B], catalog)] == ["create", "create"]
    assert catalog.databases == {"default", "demo", "other"}
    assert catalog.tables[A.name].options["discover.partitions"] == "false"
    assert apply([A, B], catalog) == (Plan(A.name), Plan(B.name))
    # Each is created, and names its log.
    assert catalog.changes == 4
    stated = [LogAddress.parse(table.options[PROPERTY]) for table in catalog.tables.values()]
    names = {address.root for address in stated if address}
    assert names == {default_root(normal(str(table.location)), name) for name, table in catalog.tables.items()}


def test_apply_alters_properties_once() -> None:
    catalog = Memory()
    apply([A], catalog)
    wanted = replace(A, comment="second", properties=(("sink.on-tombstone", "bad-record"),))
    (step,) = apply([wanted], catalog)
    assert step == Plan(
        A.name, None, (("comment", "second"), ("sink.on-tombstone", "bad-record")), ("sink.on-bad-record",)
    )
    assert apply([wanted], catalog) == (Plan(A.name),)
    assert catalog.tables[A.name].comment == "second"
    assert "transient_lastDdlTime" in catalog.tables[A.name].options


def test_plan_changes_nothing() -> None:
    catalog = Memory()
    assert [step.action for step in plan_all([A, B], catalog)] == ["create", "create"]
    assert (catalog.changes, catalog.databases) == (0, {"default"})


def test_a_difference_stops_everything_before_the_first_change() -> None:
    catalog = Memory()
    apply([A], catalog)
    changed = replace(A, columns=(Column("x", Primitive.STRING),), partition_columns=(Column("dt", Primitive.STRING),))
    with pytest.raises(DdlInvalid) as caught:
        apply([B, changed], catalog)
    assert [line.partition(": ")[0] for line in str(caught.value).splitlines()] == ["demo.a", "demo.a"]
    assert list(catalog.tables) == [A.name]


def between(act: Callable[[Memory, TableSpec], object]) -> Memory:
    """A catalog where `act` is done once, between the look at a table and its creation."""
    catalog = Memory()

    def once(spec: TableSpec) -> None:
        catalog.before_create = lambda _: None
        act(catalog, spec)

    catalog.before_create = once
    return catalog


def test_two_people_at_once_both_succeed() -> None:
    catalog = between(lambda catalog, _: apply([A], catalog))
    assert apply([A], catalog) == (Plan(A.name),)
    assert catalog.changes == 2


def test_the_second_of_two_sets_its_own_properties_or_refuses_another_table() -> None:
    catalog = between(lambda catalog, _: apply([replace(A, properties=())], catalog))
    assert apply([A], catalog) == (Plan(A.name, None, A.properties),)
    catalog = between(lambda catalog, spec: catalog.create(replace(spec, columns=(Column("y", Primitive.INT),))))
    with pytest.raises(DdlInvalid, match="column x is not in the live table"):
        apply([A], catalog)


def test_a_table_that_appears_and_goes_is_left_to_a_retry() -> None:
    def gone(_: Memory, spec: TableSpec) -> None:
        raise TableReplaced(str(spec.name), "somebody has created it")

    catalog = between(gone)
    with pytest.raises(TableReplaced) as caught:
        apply([A], catalog)
    assert caught.value.retryable
    assert len(apply([A], catalog)) == 1
