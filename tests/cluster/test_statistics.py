"""Hive's answers from a user's own column statistics are right at every moment beside a job."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tests.cluster.hive import BY_SCAN, FROM_STATISTICS, Hive

if TYPE_CHECKING:
    from tests.cluster.conftest import Place
    from tests.cluster.ingest import Addresses


@pytest.mark.parametrize("partitioned", ["dt STRING", ""], ids=["partition", "table"])
def test_bounds_and_counts_are_right_at_every_moment(
    addresses: Addresses, hive: Hive, place: Place, partitioned: str
) -> None:
    hive.ask(place.ddl("id BIGINT, v DOUBLE, s STRING, d DATE", partitioned, kind="TABLE"))
    hive.ask(f"ALTER TABLE {place.table} SET TBLPROPERTIES ('EXTERNAL'='FALSE')")
    where, clause = ("WHERE dt='x'", "PARTITION (dt='x')") if partitioned else ("", "")
    asked = "min(id), max(id), min(v), max(v), min(d), max(d), count(s), count(id), count(*)"
    query = f"SELECT {asked} FROM {place.table} {where}"
    # A filter that the bounds of before make always false.
    beyond = f"SELECT count(*) FROM {place.table} WHERE id > 5000"
    with Hive(addresses.hiveserver2, FROM_STATISTICS) as trusting, Hive(addresses.hiveserver2, BY_SCAN) as scanning:

        def trusts() -> bool:
            for text in (query, beyond):
                assert trusting.ask(text) == scanning.ask(text)
            return "TableScan" not in trusting.explain(query)

        ingest = addresses.ingest(place.table)
        for number in (0, 10, -20):
            ingest = ingest.again()
            ingest.put(some(number, partitioned=bool(partitioned)))
            assert not trusts()
            ingest.finish()
            assert not trusts()
            hive.ask(f"ANALYZE TABLE {place.table} {clause} COMPUTE STATISTICS")
            hive.ask(f"ANALYZE TABLE {place.table} {clause} COMPUTE STATISTICS FOR COLUMNS")
            assert trusts()
        hive.ask(f"INSERT INTO {place.table} {clause} VALUES (1000, -1000.5, 'z', DATE '2100-01-01')")
        trusts()
        ingest = ingest.again()
        ingest.put(some(6000, partitioned=bool(partitioned)))
        assert not trusts()
        ingest.finish()
        assert not trusts()


def some(first: int, *, partitioned: bool) -> pa.RecordBatch:
    columns = {
        "id": pa.array([first, first + 1, None]),
        "v": pa.array([first / 4, None, -1.0]),
        "s": pa.array(["a", None, str(first)]),
        "d": pa.array([date(2024, 1, 1 + abs(first) % 28), None, date(2024, 2, 1)]),
    }
    return pa.RecordBatch.from_pydict(columns | ({"dt": pa.array(["x"] * 3)} if partitioned else {}))
