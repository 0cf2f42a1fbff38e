"""Hive never answers a wrong count: what registrars that can set statistics do with them."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal as Number
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from hive_metastore import ttypes

from hivesink.core.partition import Statistics
from hivesink.core.statistics import ColumnFigures
from hivesink.core.table import Column, Primitive
from hivesink.core.typetext import parse_type
from hivesink.errors import RegistrationFailed
from hivesink.metastore.thrift_calls import set_column_statistics
from hivesink.metastore.thrift_statistics import column_statistics
from tests.metastore.live import KINDS, LiveMetastore, OverThrift, declared, dt, new, world_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from hivesink.embedded.metastore import EmbeddedMetastore
    from hivesink.ports import LiveTable

DT = Column("dt", Primitive.STRING)
FLAG = "COLUMN_STATS_ACCURATE"


@pytest.fixture(params=[kind for kind in KINDS if not kind.startswith("hiveserver2")])
def server(request: pytest.FixtureRequest) -> Iterator[LiveMetastore]:
    with world_of(request.param, request) as found:
        yield found


@pytest.fixture(params=[dt(1), ""], ids=["partition", "table"])
def place(request: pytest.FixtureRequest, server: LiveMetastore, tmp_path: Path) -> tuple[LiveTable, str]:
    """A partition with one file, or a table without partitions."""
    partition: str = request.param
    spec = declared(tmp_path, *([DT] if partition else []))
    server.create(spec)
    live = server.connect().table(spec.name)
    folder = Path(urlsplit(live.location).path) / partition
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "part-1.parquet").write_bytes(b"ten bytes.")
    if partition:
        server.connect().add(live, [new(live, partition)])
    return live, partition


def test_what_is_new_claims_nothing(server: LiveMetastore, place: tuple[LiveTable, str]) -> None:
    live, partition = place
    assert FLAG not in server.parameters(live, partition)
    assert not server.connect().lookup(live, [partition])[partition].accurate
    if partition:
        figures = server.parameters(live, partition)
        assert (figures["numFiles"], figures["totalSize"]) == ("1", "10")


def test_distrust_takes_the_flag_and_nothing_else(server: LiveMetastore, place: tuple[LiveTable, str]) -> None:
    live, partition = place
    registrar = server.connect()
    server.analyze(live, partition)
    before = server.parameters(live, partition)
    assert registrar.lookup(live, [partition])[partition].accurate
    registrar.clear_accurate(live, [partition])
    assert server.parameters(live, partition) == {key: before[key] for key in before if key != FLAG}
    registrar.clear_accurate(live, [partition])
    assert not server.connect().lookup(live, [partition])[partition].accurate


def test_distrust_leaves_others_and_the_missing_alone(server: LiveMetastore, tmp_path: Path) -> None:
    spec = declared(tmp_path, DT)
    server.create(spec)
    registrar = server.connect()
    live = registrar.table(spec.name)
    registrar.add(live, [new(live, dt(1)), new(live, dt(2))])
    server.analyze(live, dt(1))
    server.analyze(live, dt(2))
    registrar.clear_accurate(live, [dt(1), dt(9)])
    found = registrar.lookup(live, [dt(1), dt(2), dt(9)])
    assert {name: place.accurate for name, place in found.items()} == {dt(1): False, dt(2): True}


def test_exact_figures_read_back(server: LiveMetastore, place: tuple[LiveTable, str]) -> None:
    live, partition = place
    registrar = server.connect()
    server.analyze(live, partition)
    assert registrar.set_statistics(live, [Statistics(partition, 3, 300, 42, 500)])
    found = server.parameters(live, partition)
    assert {key: found[key] for key in ("numFiles", "totalSize", "numRows", "rawDataSize")} == {
        "numFiles": "3",
        "totalSize": "300",
        "numRows": "42",
        "rawDataSize": "500",
    }
    assert found[FLAG] == '{"BASIC_STATS":"true"}'  # no column's old statistics are trusted
    assert registrar.lookup(live, [partition])[partition].accurate
    registrar.clear_accurate(live, [partition])
    assert not registrar.lookup(live, [partition])[partition].accurate


def test_the_flag_names_the_columns_that_have_statistics(server: LiveMetastore, place: tuple[LiveTable, str]) -> None:
    live, partition = place
    registrar = server.connect()
    for number, columns in enumerate((live.spec.columns, live.spec.columns[1:], ())):
        figures = tuple((column, ColumnFigures(number, -1, 2, sketch=bytes(4096))) for column in columns)
        assert registrar.set_statistics(live, [Statistics(partition, 3, 300, 42, 500, figures)])
        named = json.loads(server.parameters(live, partition)[FLAG])
        assert named == {"BASIC_STATS": "true"} | (
            {"COLUMN_STATS": {column.name: "true" for column in columns}} if columns else {}
        )
        if isinstance(server, OverThrift):
            told = server.column_statistics(live, partition)
            data = [told[column.name].longStats or told[column.name].doubleStats for column in columns]
            assert [(one.lowValue, one.highValue, one.numNulls) for one in data] == [(-1, 2, number)] * len(columns)
    registrar.clear_accurate(live, [partition])
    assert FLAG not in server.parameters(live, partition)


def test_a_flag_of_columns_alone_is_cleared(server: LiveMetastore, place: tuple[LiveTable, str]) -> None:
    """What a process leaves that dies after the columns' statistics, before the other figures."""
    live, partition = place
    if not isinstance(server, OverThrift):
        pytest.skip("it sets both at once")
    registrar = server.connect()
    figures = ((live.spec.columns[0], ColumnFigures(0, 1, 2)),)
    told = column_statistics(live.spec.name, Statistics(partition, 1, 1, 1, 1, figures), has_timestamps=False)
    server.raw.read(lambda client: set_column_statistics(client, [told]))
    assert FLAG in server.parameters(live, partition)
    registrar.clear_accurate(live, [partition])
    assert FLAG not in server.parameters(live, partition)


TYPES = {
    "flag": ("boolean", ColumnFigures(1, trues=2)),
    "tiny": ("tinyint", ColumnFigures(0, -1, 1)),
    "large": ("bigint", ColumnFigures(0, -(2**63), 2**63 - 1)),
    "short": ("float", ColumnFigures(0, -0.5, 0.1)),
    "precise": ("double", ColumnFigures(0, -1.5e300, 1.7e300)),
    "text": ("string", ColumnFigures(1, longest=7, length=21)),
    "atmost": ("varchar(9)", ColumnFigures(1, longest=7, length=21)),
    "padded": ("char(9)", ColumnFigures(1, longest=7, length=21)),
    "raw": ("binary", ColumnFigures(1, longest=7, length=21)),
    "money": ("decimal(38,4)", ColumnFigures(0, Number("-" + "1" * 19), Number("9" * 34 + ".25"))),
    "day": ("date", ColumnFigures(0, -1, 20000)),
    "moment": ("timestamp", ColumnFigures(0, -631054555, 253402300799)),
    "empty": ("date", ColumnFigures(42)),
}


def test_every_type_reads_back(server: LiveMetastore, tmp_path: Path) -> None:
    if not isinstance(server, OverThrift):
        pytest.skip("it keeps no columns' statistics")
    spec = declared(tmp_path, DT)
    columns = tuple(Column(name, parse_type(kind)) for name, (kind, _) in TYPES.items())
    server.create(replace(spec, columns=columns))
    registrar = server.connect()
    live = registrar.table(spec.name)
    registrar.add(live, [new(live, dt(1)), new(live, dt(2))])
    figures = tuple((column, TYPES[column.name][1]) for column in columns)
    other = Column("money", Primitive.INT)
    missing = Statistics(dt(9), 1, 1, 42, 1, figures)
    changed = Statistics(dt(2), 1, 1, 42, 1, ((other, ColumnFigures(0, 1, 1)),))
    registrar.set_statistics(live, [Statistics(dt(1), 1, 1, 42, 1, figures), changed, missing])
    assert server.parameters(live, dt(2))[FLAG] == '{"BASIC_STATS":"true"}'
    told = server.column_statistics(live, dt(1))
    assert sorted(told) == sorted(TYPES)
    assert (told["flag"].booleanStats.numTrues, told["flag"].booleanStats.numFalses) == (2, 39)
    for name in ("text", "atmost", "padded"):
        assert (told[name].stringStats.maxColLen, told[name].stringStats.avgColLen) == (7, 0.5)
    assert (told["raw"].binaryStats.maxColLen, told["raw"].binaryStats.avgColLen) == (7, 0.5)
    assert (told["large"].longStats.lowValue, told["large"].longStats.highValue) == (-(2**63), 2**63 - 1)
    assert (told["precise"].doubleStats.lowValue, told["precise"].doubleStats.highValue) == (-1.5e300, 1.7e300)
    money = told["money"].decimalStats
    assert (int.from_bytes(money.highValue.unscaled, "big"), money.highValue.scale) == (int("9" * 34 + "25"), 2)
    assert (told["day"].dateStats.lowValue, told["empty"].dateStats.lowValue) == (ttypes.Date(-1), None)
    if server.kind == "thrift-4.0.1":
        assert told["moment"].timestampStats.highValue == ttypes.Timestamp(253402300799)
    else:
        assert told["moment"].longStats.highValue == 253402300799


def test_figures_of_a_dropped_partition_bring_nothing_back(server: LiveMetastore, tmp_path: Path) -> None:
    spec = declared(tmp_path, DT)
    server.create(spec)
    registrar = server.connect()
    live = registrar.table(spec.name)
    registrar.set_statistics(live, [Statistics(dt(1), 1, 10, 1, 0)])
    assert registrar.lookup(live, [dt(1)]) == {}


def test_a_namesake_is_left_alone(server: LiveMetastore, tmp_path: Path) -> None:
    spec = declared(tmp_path, DT)
    server.create(spec)
    registrar = server.connect()
    live = registrar.table(spec.name)
    registrar.add(live, [new(live, "dt=a")])
    registrar.set_statistics(live, [Statistics("dt=a ", 3, 300, 42, 0)])
    assert FLAG not in server.parameters(live, "dt=a")
    server.analyze(live, "dt=a")
    registrar.clear_accurate(live, ["dt=a "])
    assert FLAG in server.parameters(live, "dt=a")


@pytest.mark.spark
def test_an_analyze_by_spark_in_between(metastore: EmbeddedMetastore, spark: SparkSession, tmp_path: Path) -> None:
    over = OverThrift(metastore.uri)
    spec = declared(tmp_path, DT)
    over.create(spec)
    registrar = over.connect()
    live = registrar.table(spec.name)
    spark.sql(f"INSERT INTO {spec.name} PARTITION (dt='2024-01-01') VALUES (1, 1.0), (2, 2.0)")
    spark.sql(f"ANALYZE TABLE {spec.name} PARTITION (dt='2024-01-01') COMPUTE STATISTICS")
    registrar.clear_accurate(live, [dt(1)])
    assert not registrar.lookup(live, [dt(1)])[dt(1)].accurate
    figures = over.parameters(live, dt(1))
    registrar.set_statistics(live, [Statistics(dt(1), 1, int(figures["totalSize"]), 2, 0)])
    spark.sql(f"REFRESH TABLE {spec.name}")
    assert spark.table(str(spec.name)).count() == 2
    spark.sql(f"ANALYZE TABLE {spec.name} PARTITION (dt='2024-01-01') COMPUTE STATISTICS")
    registrar.clear_accurate(live, [dt(1)])
    assert FLAG not in over.parameters(live, dt(1))
    over.close()


@pytest.mark.parametrize("server", ["hiveserver2-spark", "hiveserver2-4.0.1"])
def test_hiveserver2_refuses_where_hive_trusts(server: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    spec = declared(tmp_path, DT)
    with world_of(server, request) as over:
        over.create(spec)
        registrar = over.connect()
        live = registrar.table(spec.name)
        registrar.add(live, [new(live, dt(1)), new(live, dt(2))])
        assert not registrar.set_statistics(live, [Statistics(dt(1), 1, 10, 1, 0)])
        registrar.clear_accurate(live, [dt(1)])
        over.analyze(live, dt(1))
        assert registrar.lookup(live, [dt(1), dt(2)])[dt(1)].accurate
        with pytest.raises(RegistrationFailed, match=r"dt=2024-01-01.*registrar thrift"):
            registrar.clear_accurate(live, [dt(1), dt(2)])
        registrar.clear_accurate(live, [dt(2)])
