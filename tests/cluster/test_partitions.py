"""Tables of many partitions: what an epoch costs is decided by the partitions that it touches, not by the table's."""

from __future__ import annotations

import statistics
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from hivesink.core.partition import NewPartition
from tests.cluster.wire import Traffic, Wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hivesink.sink.commit.committed import Committed
    from tests.cluster.conftest import Place
    from tests.cluster.hive import Hive
    from tests.cluster.ingest import Addresses, Ingest

FEW, MANY = 20, 1_000
TOUCHED = 10
STORE = ("create", "publish", "discard", "staged", "visible", "find", "open", "mark", "walk", "prune")
LOG = ("view", "floor", "manifest", "create", "mark", "touch", "touched", "folders", "forget", "trim")


def create(hive: Hive, place: Place, name: str) -> str:
    table = f"{place.table}_{name}"
    hive.ask(f"DROP TABLE IF EXISTS {table}")
    hive.ask(
        f"CREATE EXTERNAL TABLE {table} (id BIGINT) PARTITIONED BY (p STRING) STORED AS PARQUET "
        f"LOCATION '{place.location}_{name}'"
    )
    return table


def fill(ingest: Ingest, first: int, last: int) -> None:
    """Register empty partitions, as years of ingest would have left full ones."""
    context = ingest.setup.context
    live = context.table(ingest.table)
    names = [f"p={number:05d}" for number in range(first, last)]
    context.registrar.add(live, [NewPartition(name, f"{live.location}/{name}", 0, 0) for name in names])


def rows(partitions: Iterable[int], count: int = 1) -> pa.RecordBatch:
    found = [f"{number:05d}" for number in partitions for _ in range(count)]
    return pa.RecordBatch.from_pydict({"id": pa.array(range(len(found)), pa.int64()), "p": pa.array(found)})


def counted(ingest: Ingest) -> dict[str, int]:
    """How often each method of store and log is called from now on."""
    calls: dict[str, int] = {}

    def method(name: str) -> Callable[..., Any]:
        def call(real: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            calls[name] = calls.get(name, 0) + 1
            return real(*args, **kwargs)

        return call

    ingest.wrap("store", **{name: method(f"store.{name}") for name in STORE})
    ingest.wrap("log", **{name: method(f"log.{name}") for name in LOG})
    return calls


def test_an_epochs_calls_do_not_grow_with_the_tables_partitions(addresses: Addresses, place: Place, hive: Hive) -> None:
    asked: dict[int, list[Traffic]] = {}
    called: dict[int, dict[str, int]] = {}
    for partitions in (FEW, MANY):
        table = create(hive, place, str(partitions))
        with closing(Wire(addresses.metastore)) as wire:
            ingest = addresses.ingest(table, uri=wire.uri)
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


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_ten_thousand_partitions(addresses: Addresses, place: Place, hive: Hive) -> None:
    """1,000 new ones in one epoch; and epochs that touch ten: as fast among 10,000 as among 100, within 1.3 times."""
    small, large = (addresses.ingest(create(hive, place, name)) for name in ("small", "large"))
    fill(small, 0, 100)
    for first in range(0, 9_000, 1_000):
        fill(large, first, first + 1_000)
    thousand = large.put(rows(range(9_000, 10_000)))
    print(f"1,000 new partitions in one epoch: {spent(thousand)} ms, {dict(thousand.milliseconds)}")
    assert len(hive.ask(f"SELECT p FROM {large.table} WHERE p >= '09000'")) == 1_000
    assert len(hive.ask(f"SHOW PARTITIONS {large.table}")) == 10_000
    for ingest in (small, large):
        ingest.put(rows(range(TOUCHED), count=100))
    figures: dict[str, list[Committed]] = {"100": [], "10,000": []}
    for turn in range(5):
        for name, ingest in (("100", small), ("10,000", large)):
            first = 20 + TOUCHED * turn
            figures[name].append(ingest.put(rows(range(first, first + TOUCHED), count=100)))
    for name, epochs in figures.items():
        print(f"among {name} partitions: {[spent(epoch) for epoch in epochs]} ms")
        for epoch in epochs:
            print(f"    {dict(epoch.milliseconds)}")
    few, many = (statistics.median(spent(epoch) for epoch in epochs) for epochs in figures.values())
    print(f"medians {few} and {many} ms: {many / few:.2f} times")
    for ingest in (small, large):
        ingest.finish()
        assert not ingest.verify().findings
    assert many <= 1.3 * few


def spent(epoch: Committed) -> int:
    return sum(epoch.milliseconds.values())
