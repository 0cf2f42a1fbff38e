"""Tables of many partitions: what an epoch costs is decided by the partitions that it touches, not by the table's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from hivesink.core.partition import NewPartition
from tests.cluster.conftest import Place
from tests.cluster.ingest import BY_SCAN, FROM_STATISTICS, Addresses, Hive
from tests.cluster.wire import Traffic, Wire
from tests.ingest import Ingest
from tests.integration.stage import once

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


@dataclass
class Reader:
    """Two sessions of one reader: one lets Hive answer from statistics, the other makes it look at the files."""

    table: str
    trusting: Hive
    scanning: Hive
    where: str

    def trusts(self) -> bool:
        """Fails where the two differ. Without statistics to answer from, both must have the same plan."""
        count = f"SELECT count(*), min(id), max(id), count(id) FROM {self.table} {self.where}"
        plan = self.trusting.explain(count)
        if "TableScan" in plan:
            assert plan == self.scanning.explain(count)
            return False
        # A fetch reads the files themselves, without an engine's start.
        numbers = [number for (number,) in self.scanning.ask(f"SELECT id FROM {self.table} {self.where}")]
        assert "Fetch Operator" in plan
        assert self.trusting.ask(count) == [(len(numbers), min(numbers), max(numbers), len(numbers))]
        return True

    def scan(self) -> int:
        """The engine's own count."""
        found = self.scanning.one(f"SELECT count(*) FROM {self.table} {self.where}")
        assert found == self.trusting.one(f"SELECT count(*) FROM {self.table} {self.where}")
        return int(found)


@pytest.fixture(scope="module")
def sessions(addresses: Addresses) -> Iterator[tuple[Hive, Hive]]:
    trusting, scanning = (Hive(addresses.hiveserver2, settings) for settings in (FROM_STATISTICS, BY_SCAN))
    with closing(trusting), closing(scanning):
        yield trusting, scanning


@pytest.fixture(
    params=[pytest.param("dt STRING", id="partition"), pytest.param("", id="table", marks=pytest.mark.long)]
)
def reader(request: pytest.FixtureRequest, place: Place, hive: Hive, sessions: tuple[Hive, Hive]) -> Reader:
    """A managed table, and a reader of one partition of it; or of all of it, where it has none."""
    hive.ask(place.ddl("id BIGINT", request.param, kind="TABLE"))
    hive.ask(f"ALTER TABLE {place.table} SET TBLPROPERTIES ('EXTERNAL'='FALSE')")
    kind = [row[1].strip() for row in hive.ask(f"DESCRIBE FORMATTED {place.table}") if row[0].startswith("Table Type")]
    assert kind == ["MANAGED_TABLE"]
    return Reader(place.table, *sessions, where=f"WHERE dt = '{DAY}'" if request.param else "")


def of_day(count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": pa.array(range(count), pa.int64()), "dt": pa.array([DAY] * count)})


def analyze(reader: Reader) -> None:
    partition = f"PARTITION (dt = '{DAY}')" if reader.where else ""
    if partition:
        # Only a look at them makes the metastore create their table (apache/hive#2376).
        reader.scanning.ask(f"DESCRIBE FORMATTED {reader.table} {partition} id")
    for what in ("", "FOR COLUMNS"):
        reader.scanning.ask(f"ANALYZE TABLE {reader.table} {partition} COMPUTE STATISTICS {what}")


def test_an_analyze_within_a_commit_is_found_by_its_second_look(addresses: Addresses, reader: Reader) -> None:
    """The moments from the publish to that look are documented: no metastore can compare and set."""
    ingest = addresses.ingest(reader.table)
    ingest.put(of_day(3))
    assert not reader.trusts()
    for step in ("create", "mark"):
        ingest = ingest.again()
        ingest.wrap("log", **{step: once(lambda: analyze(reader))})
        ingest.put(of_day(4))
        assert not reader.trusts()
    assert reader.scan() == 11
    ingest.finish()
    # Hive does answer from a user's figures, until the next commit: otherwise this test would prove nothing.
    analyze(reader)
    assert reader.trusts()
    ingest.again().put(of_day(5))
    assert not reader.trusts()
    assert reader.scan() == 16
