"""Tables of many partitions: what an epoch costs is decided by the partitions that it touches, not by the table's."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hivesink.core.partition import NewPartition
from tests.cluster.wire import Traffic, Wire
from tests.integration.stage import once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.cluster.conftest import Place
    from tests.cluster.ingest import Addresses, Hive
    from tests.ingest import Ingest

FEW, MANY = 20, 200
TOUCHED = 10
STORE = ("create", "publish", "discard", "staged", "visible", "find", "open", "mark", "walk", "prune")
LOG = ("view", "floor", "manifest", "create", "mark", "touch", "touched", "folders", "forget", "trim")


def create(hive: Hive, place: Place, name: str) -> str:
    own = replace(place, table=f"{place.table}_{name}", location=f"{place.location}_{name}")
    hive.ask(f"DROP TABLE IF EXISTS {own.table}")
    hive.ask(own.ddl("id BIGINT", "p STRING"))
    return own.table


def fill(ingest: Ingest, first: int, last: int) -> None:
    """Register empty partitions, as years of ingest would have left full ones."""
    context = ingest.setup.context
    live = context.table(ingest.table)
    names = [f"p={number:05d}" for number in range(first, last)]
    context.registrar.add(live, [NewPartition(name, f"{live.location}/{name}", 0, 0) for name in names])


def rows(partitions: Iterable[int]) -> pa.RecordBatch:
    found = [f"{number:05d}" for number in partitions]
    return pa.RecordBatch.from_pydict({"id": pa.array(range(len(found)), pa.int64()), "p": pa.array(found)})


def counted(ingest: Ingest) -> dict[str, int]:
    """How often each method of store and log is called from now on."""
    calls: dict[str, int] = {}

    def counted_as(name: str, real: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        calls[name] = calls.get(name, 0) + 1
        return real(*args, **kwargs)

    for port, names in (("store", STORE), ("log", LOG)):
        ingest.wrap(port, **{name: partial(counted_as, f"{port}.{name}") for name in names})
    return calls


def test_an_epochs_calls_do_not_grow_with_the_tables_partitions(addresses: Addresses, place: Place, hive: Hive) -> None:
    asked: dict[int, list[Traffic]] = {}
    called: dict[int, dict[str, int]] = {}
    for partitions in (FEW, MANY):
        table = create(hive, place, str(partitions))
        with closing(Wire(addresses.metastore)) as wire:
            ingest = addresses.ingest(table, metastore=wire.uri)
            fill(ingest, 0, partitions)
            called[partitions] = counted(ingest)
            asked[partitions] = []
            touched = range(partitions - TOUCHED, partitions)
            # Into old partitions, into one new and nine old, and the end with its exact figures.
            acts: list[Callable[[], object]] = [
                partial(ingest.put, rows(touched)),
                partial(ingest.put, rows([*touched[1:], MANY])),
                ingest.finish,
            ]
            for act in acts:
                before = wire.traffic
                act()
                asked[partitions].append(wire.traffic.since(before))
        found = hive.ask(f"SELECT p FROM {table} WHERE p >= '{touched[0]:05d}'")
        assert len(found) == 2 * TOUCHED
    assert called[FEW] == called[MANY]
    for few, many in zip(asked[FEW], asked[MANY], strict=True):
        assert few.questions == many.questions
        # A few bytes are the lengths of numbers and of times.
        assert abs(few.sent - many.sent) + abs(few.received - many.received) < 64 * TOUCHED


DAY = "2024-01-01"
OF_DAY = f"WHERE dt = '{DAY}'"


def trusts(hive: Hive, table: str) -> bool:
    """Whether Hive answers from statistics. Fails where it answers otherwise than the files."""
    count = f"SELECT count(*), min(id), max(id), count(id) FROM {table} {OF_DAY}"
    if "TableScan" in hive.explain(count):
        return False
    # A fetch reads the files themselves, without an engine's start.
    numbers = [number for (number,) in hive.ask(f"SELECT id FROM {table} {OF_DAY}")]
    assert hive.ask(count) == [(len(numbers), min(numbers), max(numbers), len(numbers))]
    return True


def of_day(count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": pa.array(range(count), pa.int64()), "dt": pa.array([DAY] * count)})


def analyze(hive: Hive, table: str) -> None:
    partition = f"PARTITION (dt = '{DAY}')"
    # Only a look at them makes the metastore create their table (apache/hive#2376).
    hive.ask(f"DESCRIBE FORMATTED {table} {partition} id")
    for what in ("", "FOR COLUMNS"):
        hive.ask(f"ANALYZE TABLE {table} {partition} COMPUTE STATISTICS {what}")


def test_an_analyze_within_a_commit_is_found_by_its_second_look(addresses: Addresses, place: Place, hive: Hive) -> None:
    """The moments from the publish to that look are documented: no metastore can compare and set."""
    table, counted = place.table, f"SELECT count(*) FROM {place.table} {OF_DAY}"
    hive.ask(place.ddl("id BIGINT", "dt STRING", kind="TABLE"))
    hive.ask(f"ALTER TABLE {table} SET TBLPROPERTIES ('EXTERNAL'='FALSE')")
    hive.ask("SET hive.compute.query.using.stats=true")
    ingest = addresses.ingest(table)
    ingest.put(of_day(3))
    assert not trusts(hive, table)
    for step in ("create", "mark"):
        ingest = ingest.again()
        ingest.wrap("log", **{step: once(lambda: analyze(hive, table))})
        ingest.put(of_day(4))
        assert not trusts(hive, table)
    assert hive.one(counted) == 11
    ingest.finish()
    # Hive does answer from a user's figures, until the next commit: otherwise this test would prove nothing.
    analyze(hive, table)
    assert trusts(hive, table)
    ingest.again().put(of_day(5))
    assert not trusts(hive, table)
    assert hive.one(counted) == 16
