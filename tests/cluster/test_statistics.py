"""What the sink sets is what Hive's own ANALYZE computes, and what Hive answers from it is right at every moment."""

from __future__ import annotations

from contextlib import closing
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from hivesink.core.table import TableName
from tests.cluster.hive import BY_SCAN, FROM_STATISTICS, Hive
from tests.metastore.live import OverThrift

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.conftest import Place
    from tests.cluster.ingest import Addresses

ALL = {"sink.statistics.columns": "all"}
WHEN = datetime(2024, 1, 2, 3, 4, 5, 678000)  # noqa: DTZ001  a wall clock
BEFORE = WHEN.replace(year=1950)
TYPES: dict[str, tuple[str, pa.DataType, list[Any]]] = {
    "flag": ("BOOLEAN", pa.bool_(), [True, False, None]),
    "tiny": ("TINYINT", pa.int8(), [1, -1, None]),
    "small": ("SMALLINT", pa.int16(), [300, -300, None]),
    "medium": ("INT", pa.int32(), [2, -2, None]),
    "large": ("BIGINT", pa.int64(), [2**60, -(2**60), None]),
    "short": ("FLOAT", pa.float32(), [0.1, 0.5, None]),
    "precise": ("DOUBLE", pa.float64(), [0.2, -0.2, None]),
    "text": ("STRING", pa.string(), ["aüb", None, "😀😀😀😀"]),
    "atmost": ("VARCHAR(10)", pa.string(), ["abc", "a", None]),
    "padded": ("CHAR(10)", pa.string(), ["ab", "abcd", None]),
    "raw": ("BINARY", pa.binary(), [b"x", b"xyz", None]),
    "money": ("DECIMAL(20,4)", pa.decimal128(20, 4), [Decimal("1.5"), Decimal("-22.25"), Decimal(100)]),
    "day": ("DATE", pa.date32(), [date(2024, 1, 2), date(1990, 1, 2), None]),
    "moment": ("TIMESTAMP", pa.timestamp("us"), [WHEN, BEFORE, None]),
    "empty": ("INT", pa.int32(), [None, None, None]),
}
FIGURES = ("numFiles", "totalSize", "numRows", "rawDataSize", "COLUMN_STATS_ACCURATE")


@pytest.fixture(params=["dt STRING", ""], ids=["partition", "table"])
def partitioned(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def metastore(addresses: Addresses) -> Iterator[OverThrift]:
    with closing(OverThrift(addresses.metastore)) as server:
        yield server


def told(metastore: OverThrift, table: str, partition: str) -> tuple[dict[str, str], dict[str, Any]]:
    """The parameters that are figures, and each column's statistics."""
    live = metastore.connect().table(TableName.parse(table))
    parameters = metastore.parameters(live, partition)
    return {key: parameters[key] for key in FIGURES}, metastore.column_statistics(live, partition)


def test_figures_are_those_of_analyze(
    addresses: Addresses, hive: Hive, place: Place, metastore: OverThrift, partitioned: str
) -> None:
    hive.ask(place.ddl(", ".join(f"{name} {kind}" for name, (kind, _, _) in TYPES.items()), partitioned))
    ingest = addresses.ingest(place.table, options=ALL)
    columns = {name: pa.array(values, arrow) for name, (_, arrow, values) in TYPES.items()}
    for _ in range(2):
        ingest.put(pa.RecordBatch.from_pydict(columns | ({"dt": pa.array(["x"] * 3)} if partitioned else {})))
    ingest.finish()
    partition, clause = ("dt=x", "PARTITION (dt='x')") if partitioned else ("", "")
    own = told(metastore, place.table, partition)
    assert sorted(own[1]) == sorted(TYPES)
    hive.ask(f"ANALYZE TABLE {place.table} {clause} COMPUTE STATISTICS")
    assert told(metastore, place.table, partition) == own
    hive.ask(f"ANALYZE TABLE {place.table} {clause} COMPUTE STATISTICS FOR COLUMNS")
    assert told(metastore, place.table, partition) == own
    shown = hive.ask(f"DESCRIBE FORMATTED {place.table} {clause} money")
    described = {str(row[0]).strip(): str(row[1]).strip() for row in shown}
    assert (described["min"], described["max"], described["distinct_count"]) == ("-22.25", "100", "3")


def test_bounds_and_counts_are_right_at_every_moment(
    addresses: Addresses, hive: Hive, place: Place, partitioned: str
) -> None:
    hive.ask(place.ddl("id BIGINT, v DOUBLE, s STRING, d DATE", partitioned, kind="TABLE"))
    hive.ask(f"ALTER TABLE {place.table} SET TBLPROPERTIES ('EXTERNAL'='FALSE')")
    where, clause = ("WHERE dt='x'", "PARTITION (dt='x')") if partitioned else ("", "")
    asked = "min(id), max(id), min(v), max(v), min(d), max(d), count(s), count(id), count(*)"
    query = f"SELECT {asked} FROM {place.table} {where}"
    with Hive(addresses.hiveserver2, FROM_STATISTICS) as trusting, Hive(addresses.hiveserver2, BY_SCAN) as scanning:

        def trusts() -> bool:
            assert trusting.ask(query) == scanning.ask(query)
            return "TableScan" not in trusting.explain(query)

        ingest = addresses.ingest(place.table, options=ALL)
        for number in (0, 10, -20):
            ingest = ingest.again()
            ingest.put(some(number, partitioned=bool(partitioned)))
            assert not trusts()
            ingest.finish()
            assert trusts()
        hive.ask(f"INSERT INTO {place.table} {clause} VALUES (1000, -1000.5, 'z', DATE '2100-01-01')")
        trusts()
        ((_, most, *_),) = trusting.ask(query)
        assert most == 1000
        ingest = ingest.again(options={})
        ingest.put(some(2000, partitioned=bool(partitioned)))
        assert not trusts()
        ingest.finish()
        # No column's old figures come back with the basic ones.
        assert not trusts()
        hive.ask(f"INSERT INTO {place.table} {clause} VALUES (3000, 0.5, 'z', DATE '2000-01-01')")
        trusts()
        ((_, most, *_),) = trusting.ask(query)
        assert most == 3000


def some(first: int, *, partitioned: bool) -> pa.RecordBatch:
    columns = {
        "id": pa.array([first, first + 1, None]),
        "v": pa.array([first / 4, None, -1.0]),
        "s": pa.array(["a", None, str(first)]),
        "d": pa.array([date(2024, 1, 1 + abs(first) % 28), None, date(2024, 2, 1)]),
    }
    return pa.RecordBatch.from_pydict(columns | ({"dt": pa.array(["x"] * 3)} if partitioned else {}))
