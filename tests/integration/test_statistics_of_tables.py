"""Counts that Hive may answer without reading: exact at rest, not claimed while epochs run."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from hivesink.core.partition import Statistics
from hivesink.core.table import TableName
from hivesink.errors import InvalidOption
from hivesink.metastore import connect
from hivesink.metastore.common import FLAG
from hivesink.metastore.thrift_connection import Connection
from tests.integration.stage import ON_EPOCH

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.integration.stage import Stage

pytestmark = [pytest.mark.spark, pytest.mark.main_path]

DAYS = ("2024-01-01", "2024-01-02", "2024-01-03")


@pytest.fixture
def stage(stage: Stage) -> Stage:
    """Where every epoch publishes at once."""
    return replace(stage, options=ON_EPOCH)


def parameters(stage: Stage, day: str) -> Mapping[str, str]:
    """What the metastore holds: Spark's DESCRIBE hides some of it."""
    name = TableName.parse(stage.table)
    partition = Connection(stage.uri).read(
        lambda client: client.get_partition_by_name(name.database, name.table, f"dt={day}")
    )
    found: Mapping[str, str] = partition.parameters
    return found


def accurate(stage: Stage) -> list[bool]:
    registrar = connect("thrift", stage.uri)
    table = registrar.table(TableName.parse(stage.table))
    found = registrar.lookup(table, [f"dt={day}" for day in DAYS])
    return [found[f"dt={day}"].accurate for day in DAYS]


def check_exact(stage: Stage) -> None:
    assert accurate(stage) == [True] * len(DAYS)
    for day in DAYS:
        told = parameters(stage, day)
        files = list((stage.location() / f"dt={day}").glob("*.parquet"))
        assert int(told["numRows"]) == len(stage.ids(f"dt = '{day}'"))
        assert int(told["numFiles"]) == len(files)
        assert int(told["totalSize"]) == sum(file.stat().st_size for file in files)


def test_figures_are_exact_after_available_now_and_again_after_the_next_run(stage: Stage) -> None:
    stage.create()
    for run in range(2):
        for number in (0, 1):
            first = (run * 2 + number) * 10
            stage.put(range(first, first + 10))
        stage.drain()
        check_exact(stage)
    (described,) = [
        row.data_type
        for row in stage.query(f"DESCRIBE EXTENDED {stage.table} PARTITION (dt = '2024-01-01')")
        if row.col_name == "Partition Statistics"
    ]
    assert "14 rows" in described


def test_no_flag_stands_while_epochs_run_not_even_a_users_own(stage: Stage) -> None:
    stage.create()
    stage.put(range(10))
    query = stage.begin(stage.sink(), trigger={"processingTime": "0 seconds"})
    try:
        query.processAllAvailable()
        assert accurate(stage) == [False] * len(DAYS)
        claim(stage)
        assert accurate(stage) == [True] * len(DAYS)
        stage.put(range(10, 20))
        query.processAllAvailable()
        assert accurate(stage) == [False] * len(DAYS)
    finally:
        query.stop()
    check_exact(stage)


def claim(stage: Stage) -> None:
    """What Hive's ANALYZE TABLE leaves: figures and the flag, which Spark's own ANALYZE doesn't set."""
    stage.spark.sql(f"ANALYZE TABLE {stage.table} PARTITION (dt) COMPUTE STATISTICS")
    registrar = connect("thrift", stage.uri)
    table = registrar.table(TableName.parse(stage.table))
    registrar.set_statistics(table, [Statistics(f"dt={day}", files=1, bytes=1, rows=3, raw_bytes=1) for day in DAYS])


def test_an_unpartitioned_table_has_exact_figures_too(stage: Stage) -> None:
    stage.create(columns="id BIGINT", partitioned="")
    for number in range(2):
        stage.put(range(number * 10, number * 10 + 10))
    stage.drain()
    registrar = connect("thrift", stage.uri)
    assert registrar.table(TableName.parse(stage.table)).accurate
    (described,) = [
        row.data_type for row in stage.query(f"DESCRIBE EXTENDED {stage.table}") if row.col_name == "Statistics"
    ]
    assert "20 rows" in described


def test_raw_bytes_are_what_hive_2_3_finds(stage: Stage) -> None:
    """ANALYZE sums up what the reader of each file says (StatsNoJobTask); that one is here, the task's jars aren't."""
    stage.create()
    for number in range(2):
        stage.put(range(number * 10, number * 10 + 10))
    stage.drain()
    jvm: Any = stage.spark._jvm
    conf = jvm.org.apache.hadoop.mapred.JobConf()
    conf.set("columns", "id,name")
    conf.set("columns.types", "bigint,string")
    gateway: Any = stage.spark.sparkContext._gateway
    hosts = gateway.new_array(jvm.java.lang.String, 0)
    source = jvm.org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat()
    rows = size = 0
    for file in (stage.location() / f"dt={DAYS[0]}").glob("*.parquet"):
        split = jvm.org.apache.hadoop.mapred.FileSplit(
            jvm.org.apache.hadoop.fs.Path(str(file)), 0, file.stat().st_size, hosts
        )
        found = source.getRecordReader(split, conf, jvm.org.apache.hadoop.mapred.Reporter.NULL).getStats()
        rows, size = rows + found.getRowCount(), size + found.getRawDataSize()
    told = parameters(stage, DAYS[0])
    assert size > 0
    assert (told["numRows"], told["rawDataSize"]) == (str(rows), str(size))


def test_column_statistics_if_they_are_wanted(stage: Stage) -> None:
    stage.create(properties={"sink.statistics.columns": "id"})
    stage.put(range(10))
    stage.drain()
    assert json.loads(parameters(stage, DAYS[0])[FLAG])["COLUMN_STATS"] == {"id": "true"}
    database, _, table = stage.table.partition(".")
    (found,) = (
        Connection(stage.uri)
        .read(lambda client: client.get_partition_column_statistics(database, table, f"dt={DAYS[0]}", "id"))
        .statsObj
    )
    told = found.statsData.longStats
    assert (told.lowValue, told.highValue, told.numNulls, told.numDVs) == (0, 9, 0, 4)
    stage.put(range(10, 20))
    stage.drain(stage.sink(options={"sink.statistics.columns": "none"}))
    assert parameters(stage, DAYS[0])[FLAG] == '{"BASIC_STATS":"true"}'
    with pytest.raises(InvalidOption, match=r"names 'dt', no column in the files"):
        stage.sink(options={"sink.statistics.columns": "id,dt"})
