"""One table on HDFS, of Hive 4's, through each engine of `hivesink query`: the same values."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from hivesink.jvm.java import find_java
from tests.cli.site import hivesink

if TYPE_CHECKING:
    from jobs.cluster import Cluster
    from tests.cluster.conftest import Place
    from tests.cluster.ingest import Addresses, Hive

REPOSITORY = Path(__file__).parents[2]
NAN, INF = float("nan"), float("inf")
NOON = datetime(2024, 3, 31, 2, 30, 0, 500000)  # noqa: DTZ001  a Hive TIMESTAMP has no zone
WHO = {"userid": 7, "tags": ["a,b", None]}

# By column: Hive's type, Arrow's type, two values, the same in JSON.
ALL: dict[str, tuple[str, pa.DataType, list[Any], list[Any]]] = {
    "id": ("INT", pa.int32(), [1, 2], [1, 2]),
    "zero": ("DECIMAL(10,8)", pa.decimal128(10, 8), [Decimal("1E-8"), Decimal("-1.5")], ["0.00000001", "-1.50000000"]),
    "x": ("DOUBLE", pa.float64(), [NAN, INF], ["NaN", "Infinity"]),
    "f": ("FLOAT", pa.float32(), [0.1, -INF], [0.1, "-Infinity"]),
    "ok": ("BOOLEAN", pa.bool_(), [True, False], [True, False]),
    "name": ("STRING", pa.string(), ['é "q" \\', ""], ['é "q" \\', ""]),
    "raw": ("BINARY", pa.binary(), [b"\x00\xff", b""], ["AP8=", ""]),
    "born": ("DATE", pa.date32(), [date(2024, 2, 29), date(9999, 12, 31)], ["2024-02-29", "9999-12-31"]),
    "noon": ("TIMESTAMP", pa.timestamp("us"), [NOON, datetime(1970, 1, 1)],  # noqa: DTZ001
        ["2024-03-31T02:30:00.500000", "1970-01-01T00:00:00"]),
    "who": ("STRUCT<userid:INT,tags:ARRAY<STRING>>",
        pa.struct([("userid", pa.int32()), ("tags", pa.list_(pa.string()))]),
        [WHO, {"userid": None, "tags": None}], [WHO, {"userid": None, "tags": None}]),
    "many": ("ARRAY<ARRAY<FLOAT>>", pa.list_(pa.list_(pa.float32())), [[[NAN, -INF, 0.1], [], None], []],
        [[["NaN", "-Infinity", 0.1], [], None], []]),
    "seen": ("MAP<STRING,ARRAY<DATE>>", pa.map_(pa.string(), pa.list_(pa.date32())),
        [[("a b", [date(2024, 2, 29), None])], []], [{"a b": ["2024-02-29", None]}, {}]),
    "counts": ("MAP<INT,DECIMAL(10,8)>", pa.map_(pa.int32(), pa.decimal128(10, 8)),
        [[(1, Decimal(0)), (2, None)], []], [{"1": "0.00000000", "2": None}, {}]),
    "clocks": ("ARRAY<STRUCT<clock:TIMESTAMP>>", pa.list_(pa.struct([("clock", pa.timestamp("us"))])),
        [[{"clock": NOON}, None], []], [[{"clock": "2024-03-31T02:30:00.500000"}, None], []]),
}  # fmt: skip


def test_three_engines_answer_alike(
    place: Place, cluster: Cluster, addresses: Addresses, hive: Hive, capsys: pytest.CaptureFixture[str]
) -> None:
    hive.ask(place.ddl(", ".join(f"{name} {kind}" for name, (kind, *_) in ALL.items()), "dt DATE"))
    # The last row is null but for its number.
    rows = {name: pa.array([*values, 3 if name == "id" else None], kind) for name, (_, kind, values, _) in ALL.items()}
    addresses.ingest(place.table).put(pa.RecordBatch.from_pydict({**rows, "dt": pa.array([date(2024, 1, 2)] * 3)}))
    with pytest.MonkeyPatch.context() as patched:
        for name in ("HADOOP_CONF_DIR", "HIVE_CONF_DIR"):
            patched.setenv(name, str(cluster.conf))
        patched.setenv("HIVESINK_METASTORE", addresses.metastore)
        _check(place.table, addresses.hiveserver2, capsys)


def _check(table: str, hiveserver2: str, capsys: pytest.CaptureFixture[str]) -> None:
    # One file's rows come in its order, and Hive fetches them without its engine.
    statement = ["query", f"SELECT {', '.join(ALL)}, dt FROM {table}", "--json"]
    by_duckdb = hivesink(capsys, *statement)
    assert by_duckdb.err == "engine: duckdb\n"
    by_hive = hivesink(capsys, *statement, "--hiveserver2", hiveserver2, "--auth", "NOSASL")
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "JAVA_HOME": str(find_java().home)}
    command = [sys.executable, "-m", "hivesink.cli", *statement, "--engine", "spark"]
    by_spark = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert by_spark.returncode == 0, by_spark.stderr
    rows_of = [[*(values[at] for *_, values in ALL.values()), "2024-01-02"] for at in range(2)]
    expected = [*rows_of, [3, *[None] * (len(ALL) - 1), "2024-01-02"]]
    assert by_duckdb.data["rows"] == expected
    assert json.loads(by_spark.stdout)["rows"] == expected
    # HiveServer2 sends nested values as its own text.
    first_nested = [*ALL].index("who")
    assert [row[:first_nested] for row in by_hive.data["rows"]] == [row[:first_nested] for row in expected]
    assert by_hive.data["rows"][0][first_nested] == '{"userid":7,"tags":["a,b",null]}'

    joined = f"SELECT a.who.tags[0], count(*) FROM {table} a JOIN {table} b USING (id) WHERE a.who.userid = 7"
    grouped = hivesink(capsys, "query", f"{joined} AND a.dt = '2024-01-02' GROUP BY 1", "--engine", "duckdb", "--json")
    assert grouped.data["rows"] == [["a,b", 1]]
