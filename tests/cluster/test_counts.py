"""What Hive answers from statistics, of columns too, is right at every moment of several commits to one partition.

Hive answers from statistics only for managed tables. The metastore makes an external table of any non-ACID one
that is created; `'EXTERNAL'='FALSE'` makes it managed again.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tests.cluster.ingest import BY_SCAN, FROM_STATISTICS, Hive
from tests.integration.stage import once

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.conftest import Place
    from tests.cluster.ingest import Addresses

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


def rows(count: int) -> pa.RecordBatch:
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
    ingest.put(rows(3))
    assert not reader.trusts()
    for step in ("create", "mark"):
        ingest = ingest.again()
        ingest.wrap("log", **{step: once(lambda: analyze(reader))})
        ingest.put(rows(4))
        assert not reader.trusts()
    assert reader.scan() == 11
    ingest.finish()
    # Hive does answer from a user's figures, until the next commit: otherwise this test would prove nothing.
    analyze(reader)
    assert reader.trusts()
    ingest.again().put(rows(5))
    assert not reader.trusts()
    assert reader.scan() == 16
