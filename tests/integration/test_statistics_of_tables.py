"""Figures for planners, of Spark's too; Hive never answers from them, nor from a user's own while a job runs."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from hivesink.core.table import TableName
from tests.integration.stage import ON_EPOCH
from tests.metastore.live import OverThrift

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.stage import Stage

pytestmark = [pytest.mark.spark, pytest.mark.main_path]

DAYS = ("2024-01-01", "2024-01-02", "2024-01-03")
FLAG = "COLUMN_STATS_ACCURATE"


@pytest.fixture
def stage(stage: Stage) -> Stage:
    """Where every epoch publishes at once."""
    return replace(stage, options=ON_EPOCH)


@pytest.fixture
def over(stage: Stage) -> Iterator[OverThrift]:
    """The metastore itself: Spark's DESCRIBE hides some of what it holds."""
    with closing(OverThrift(stage.uri)) as server:
        yield server


def parameters(over: OverThrift, stage: Stage, day: str) -> dict[str, str]:
    live = over.connect().table(TableName.parse(stage.table))
    return over.parameters(live, f"dt={day}" if day else "")


def check_estimates(over: OverThrift, stage: Stage) -> None:
    for day in DAYS:
        figures = parameters(over, stage, day)
        files = list((stage.location() / f"dt={day}").glob("*.parquet"))
        assert int(figures["numRows"]) == len(stage.ids(f"dt = '{day}'"))
        assert int(figures["numFiles"]) == len(files)
        assert int(figures["totalSize"]) == sum(file.stat().st_size for file in files)
        assert FLAG not in figures


def test_estimates_are_right_after_available_now_and_again_after_the_next_run(stage: Stage, over: OverThrift) -> None:
    stage.create()
    for run in range(2):
        for number in (0, 1):
            first = (run * 2 + number) * 10
            stage.put(range(first, first + 10))
        stage.drain()
        check_estimates(over, stage)
    (described,) = [
        row.data_type
        for row in stage.query(f"DESCRIBE EXTENDED {stage.table} PARTITION (dt = '2024-01-01')")
        if row.col_name == "Partition Statistics"
    ]
    assert "14 rows" in described


def test_a_users_flag_goes_with_the_next_epoch_and_at_the_end(stage: Stage, over: OverThrift) -> None:
    stage.create()
    stage.put(range(10))
    query = stage.begin(stage.sink(), trigger={"processingTime": "0 seconds"})
    try:
        query.processAllAvailable()
        live = over.connect().table(TableName.parse(stage.table))
        for day in DAYS:
            over.analyze(live, f"dt={day}")
        stage.put(range(10, 20))
        query.processAllAvailable()
        assert all(FLAG not in parameters(over, stage, day) for day in DAYS)
        over.analyze(live, f"dt={DAYS[0]}")
    finally:
        query.stop()
    check_estimates(over, stage)


def test_raw_bytes_are_what_hive_2_3_finds(stage: Stage, over: OverThrift) -> None:
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
    figures = parameters(over, stage, DAYS[0])
    assert size > 0
    assert (figures["numRows"], figures["rawDataSize"]) == (str(rows), str(size))
