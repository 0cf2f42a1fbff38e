"""One table of Hive 4's through each engine of `hivesink query`: the same values, as JSON and as text."""

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
from tests.cluster.conftest import DATABASE, Place

if TYPE_CHECKING:
    from tests.cluster.hive import Hive
    from tests.cluster.ingest import Addresses

REPOSITORY = Path(__file__).parents[2]
NAN, INF = float("nan"), float("inf")
NOON = datetime(2024, 3, 31, 2, 30, 0, 500000)  # noqa: DTZ001  a Hive TIMESTAMP has no zone

# By column: Hive's type, Arrow's type, two values, the same in JSON, and in text where that differs.
FLAT: dict[str, tuple[str, pa.DataType, list[Any], list[Any], list[str] | None]] = {
    "id": ("INT", pa.int32(), [1, 2], [1, 2], None),
    "zero": ("DECIMAL(10,8)", pa.decimal128(10, 8), [Decimal("1E-8"), Decimal("-1.5")],
        ["0.00000001", "-1.50000000"], None,
    ),
    "whole": ("DECIMAL(9,0)", pa.decimal128(9, 0), [Decimal(0), Decimal(1000)], ["0", "1000"], None),
    "x": ("DOUBLE", pa.float64(), [NAN, INF], ["NaN", "Infinity"], None),
    "f": ("FLOAT", pa.float32(), [0.1, -INF], [0.1, "-Infinity"], None),
    "least": ("FLOAT", pa.float32(), [1e-45, 3.4028235e38], [1e-45, 3.4028235e38], None),
    "ok": ("BOOLEAN", pa.bool_(), [True, False], [True, False], None),
    "name": ("STRING", pa.string(), ['é "q" \\', ""], ['é "q" \\', ""], ['é "q" \\', '""']),
    "raw": ("BINARY", pa.binary(), [b"\x00\xff", b""], ["AP8=", ""], None),
    "born": ("DATE", pa.date32(), [date(2024, 2, 29), date(9999, 12, 31)], ["2024-02-29", "9999-12-31"], None),
    "noon": (
        "TIMESTAMP", pa.timestamp("us"), [NOON, datetime(1970, 1, 1)],  # noqa: DTZ001
        ["2024-03-31T02:30:00.500000", "1970-01-01T00:00:00"], ["2024-03-31 02:30:00.500000", "1970-01-01 00:00:00"],
    ),
}  # fmt: skip
NESTED: dict[str, tuple[str, pa.DataType, list[Any], list[Any], None]] = {
    "who": (
        "STRUCT<userId:INT,tags:ARRAY<STRING>>",
        pa.struct([("userId", pa.int32()), ("tags", pa.list_(pa.string()))]),
        [{"userId": 7, "tags": ["a,b", None]}, {"userId": None, "tags": None}],
        [{"userId": 7, "tags": ["a,b", None]}, {"userId": None, "tags": None}], None,
    ),
    "many": (
        "ARRAY<ARRAY<FLOAT>>", pa.list_(pa.list_(pa.float32())), [[[NAN, -INF, 0.1], [], None], []],
        [[["NaN", "-Infinity", 0.1], [], None], []], None,
    ),
    "seen": (
        "MAP<STRING,ARRAY<DATE>>", pa.map_(pa.string(), pa.list_(pa.date32())),
        [[("a b", [date(2024, 2, 29), None])], []], [{"a b": ["2024-02-29", None]}, {}], None,
    ),
    "counts": (
        "MAP<INT,DECIMAL(10,8)>", pa.map_(pa.int32(), pa.decimal128(10, 8)), [[(1, Decimal(0)), (2, None)], []],
        [{"1": "0.00000000", "2": None}, {}], None,
    ),
    "clocks": (
        "ARRAY<STRUCT<clock:TIMESTAMP>>", pa.list_(pa.struct([("clock", pa.timestamp("us"))])),
        [[{"clock": NOON}, None], []], [[{"clock": "2024-03-31T02:30:00.500000"}, None], []], None,
    ),
}  # fmt: skip
ALL = {**FLAT, **NESTED}
SEVERAL = """
import sys
from hivesink.cli import main
for sql in sys.argv[1:]:
    for form in ([], ["--json"]):
        try:
            main(["query", sql, "--engine", "spark", *form])
        except SystemExit as ended:
            assert ended.code == 0
        print("----", flush=True)
"""
"""One start of a JVM for all answers."""


@pytest.fixture
def table(addresses: Addresses, hive: Hive, tmp_path: Path) -> str:
    """On this machine's disk, where all three can read it; the last row is null but for its number."""
    place = Place(f"{DATABASE}.query_engines", (tmp_path / "table").as_uri())
    hive.ask(f"DROP TABLE IF EXISTS {place.table}")
    hive.ask(place.ddl(", ".join(f"{name} {kind}" for name, (kind, *_) in ALL.items()), "dt DATE"))
    rows = {name: pa.array([*values, 3 if name == "id" else None], kind) for name, (_, kind, values, *_) in ALL.items()}
    days = pa.array([date(2024, 1, 2)] * 3)
    addresses.ingest(place.table).put(pa.RecordBatch.from_pydict({**rows, "dt": days}))
    return place.table


def test_three_engines_answer_alike(
    table: str, addresses: Addresses, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # One file's rows come in its order, and Hive fetches them without its engine.
    flat, nested = (f"SELECT id, dt, {', '.join(some)} FROM {table}" for some in (list(FLAT)[1:], NESTED))
    monkeypatch.setenv("HIVESINK_METASTORE", addresses.metastore)
    server = ["--hiveserver2", addresses.hiveserver2, "--auth", "NOSASL"]
    _check(*_said(capsys, flat, "--engine", "duckdb"))
    _check(*_said(capsys, flat, *server))
    # HiveServer2 sends nested values as its own text.
    _, document = _said(capsys, nested, *server)
    assert document["rows"][0][2] == '{"userid":7,"tags":["a,b",null]}'
    for text, document in _by_spark(flat, nested):
        _check(text, document)
    refused = hivesink(capsys, "query", nested, "--engine", "duckdb")
    assert "duckdb doesn't answer this: the column who of type struct<" in refused.error


def _said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, Any]:
    return hivesink(capsys, "query", *arguments).out, hivesink(capsys, "query", *arguments, "--json").data


def _by_spark(*statements: str) -> list[tuple[str, Any]]:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "JAVA_HOME": str(find_java().home)}
    command = [sys.executable, "-c", SEVERAL, *statements]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Hive Session ID" not in done.stderr
    *answers, _ = done.stdout.split("----\n")
    return [(text, json.loads(document)) for text, document in zip(answers[::2], answers[1::2], strict=True)]


def _check(text: str, document: Any) -> None:
    _, _, *columns = document["columns"]
    expected = [[at + 1, "2024-01-02", *(ALL[name][3][at] for name in columns)] for at in range(2)]
    assert document["rows"] == [*expected, [3, "2024-01-02", *[None] * len(columns)]]
    lines = [line.strip("│").split("│") for line in text.splitlines() if line.startswith("│")]
    shown = [[str(at + 1), "2024-01-02", *(_text(name, at) for name in columns)] for at in range(2)]
    assert [[cell.strip() for cell in line] for line in lines] == [
        *shown,
        ["3", "2024-01-02", *["NULL"] * len(columns)],
    ]


def _text(name: str, at: int) -> str:
    *_, plain, other = ALL[name]
    value = (other or plain)[at]
    return value if isinstance(value, str) else json.dumps(value)
