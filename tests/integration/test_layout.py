"""How rows lie in part files, on real Spark, what Parquet's own metadata says of them, and the metastore's figures.

Hive never answers from those figures, nor from a user's own while a job runs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from hivesink.core.table import TableName
from hivesink.sink.commit.committed import Committed
from tests.integration.stage import ON_EPOCH, Stage, Topic
from tests.metastore.live import OverThrift

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = [pytest.mark.spark, pytest.mark.main_path]

ROLLED = {"sink.rolling-policy.on-epoch": "false"}
COLUMNS = "tags ARRAY<STRING>, id BIGINT, kind STRING, price DECIMAL(9,2), seen TIMESTAMP, flag BOOLEAN"
DAYS = ("2024-01-01", "2024-01-02")


def record(number: int) -> dict[str, Any]:
    return {
        "id": number,
        # Every seventh has none.
        "kind": f"k{number % 5}" if number % 7 else None,
        "price": number / 4,
        "seen": f"2024-01-01 00:00:{number % 60:02d}",
        "flag": number % 2 == 0,
        "tags": [str(number)] * (number % 3),
        "dt": DAYS[number % 2],
    }


def put(stage: Stage, *numbers: int) -> None:
    stage.put_text("".join(json.dumps(record(number)) + "\n" for number in numbers))


def files(stage: Stage) -> list[Path]:
    return sorted(stage.location().rglob("part-*"))


SHUFFLED = {"sink.shuffle-by-partition.enable": "true"}


def decoded(stage: Stage) -> DataFrame:
    from pyspark.sql import functions

    kinds = (
        "id DECIMAL(20,0), kind STRING, price DOUBLE, seen TIMESTAMP_NTZ, flag BOOLEAN, tags ARRAY<STRING>, dt STRING"
    )
    rows = stage.lines().select(functions.from_json("value", kinds).alias("row")).select("row.*")
    return rows.withColumn("price", functions.col("price").cast("DECIMAL(9,2)"))


@pytest.mark.parametrize(
    ("stream", "settings"),
    [pytest.param(Stage.lines, ROLLED, marks=pytest.mark.long), (decoded, ON_EPOCH)],
    ids=["raw", "decoded"],
)
def test_shuffled_rows_of_a_partition_are_in_one_task_and_all_are_counted(
    stage: Stage, stream: Callable[[Stage], DataFrame], settings: Mapping[str, str]
) -> None:
    stage.create(columns=COLUMNS, properties={"sink.on-bad-record": "dead-letter"})
    put(stage, *range(100))
    too_large = {**record(1), "id": 1 << 63}
    stage.put_text("".join(json.dumps(one) + "\n" for one in [*map(record, range(100, 180)), too_large, too_large]))
    done: list[Committed] = []
    stage.drain(
        stage.sink(options={**SHUFFLED, **settings}, on_commit=done.append),
        # Without the setting, each of four tasks would write both partitions.
        stream(stage).repartition(4),
    )
    assert stage.ids() == list(range(180))
    rows = stage.query(f"SELECT id, kind, seen, flag, tags, dt FROM {stage.table} ORDER BY id")
    assert [{**row.asDict(), "seen": str(row.seen)} for row in rows] == [
        {name: record(number)[name] for name in ("id", "kind", "seen", "flag", "tags", "dt")} for number in range(180)
    ]
    counted = [one.rows for one in done if one.rows.read]
    assert sorted((one.read, one.written, one.rejected) for one in counted) == [(82, 80, 2), (100, 100, 0)]
    assert len(files(stage)) == (2 if settings is ROLLED else 4)
    letters = stage.query(f"SELECT value, field, reason FROM {stage.table}__rejected")
    assert [(row.field, row.reason) for row in letters] == [("id", "out of range for bigint")] * 2
    assert {*json.loads(bytes(letters[0].value))} == {*record(1)}


@pytest.mark.kafka
def test_shuffled_records_of_kafka_keep_their_positions_and_times(stage: Stage, topic: Topic) -> None:
    stage.create(
        columns="id BIGINT",
        partitioned="PARTITIONED BY (day STRING)",
        properties={
            **SHUFFLED,
            "sink.bucket.assigner": "date-time",
            "sink.bucket.time-column": "timestamp",
            "sink.bucket.time-pattern": "yyyy-MM-dd",
            "sink.on-bad-record": "dead-letter",
        },
    )
    for day in (1, 2):
        at = datetime(2024, 1, day, 12, tzinfo=timezone.utc)
        topic.put_raw([(number % 2, b'{"id": %d}' % (10 * day + number)) for number in range(10)], at)
    topic.put_raw([(1, b'{"id": true}'), (0, None)])
    done: list[Committed] = []
    stage.drain(stage.sink(on_commit=done.append), topic.stream(stage.spark))
    assert [len(stage.ids(f"day = '2024-01-0{day}'")) for day in (1, 2)] == [10, 10]
    assert len(files(stage)) == 2
    assert (done[0].rows.read, done[0].rows.written, done[0].rows.rejected, done[0].rows.skipped) == (22, 20, 1, 1)
    (letter,) = stage.query(f"SELECT partition_id, record_offset FROM {stage.table}__rejected")
    assert (letter.partition_id, letter.record_offset) == (1, 10)


EXACT = """
SELECT {user} AS `userId`, TIMESTAMP'2050-07-01 12:00:00Z' AS at, TIMESTAMP_NTZ'2024-03-31 02:30:00' AS wall,
       CAST(1.5 AS DECIMAL(20,4)) AS PRICE, DATE'1582-10-15' AS day,
       map('k', array(named_struct('Y', 'é', 'X', 7L))) AS tags, 'ab' AS code, X'00FF' AS raw, '2026-11-21' AS dt
"""


def rows_of(folder: Path) -> list[dict[str, Any]]:
    parts = sorted(folder.glob("dt=*/part-*"))
    return [row for part in parts for row in pq.ParquetFile(part, coerce_int96_timestamp_unit="us").read().to_pylist()]


def test_decoded_rows_reach_the_table_exactly(stage: Stage) -> None:
    columns = """userid INT, at TIMESTAMP, wall TIMESTAMP, price DECIMAL(9,2), day DATE,
        tags MAP<STRING,ARRAY<STRUCT<x:INT,y:STRING>>>, code CHAR(4), raw BINARY"""
    settings = {"sink.timestamp-zone": "Europe/Berlin", "sink.on-bad-record": "dead-letter"}
    location = stage.create(columns=columns, properties=settings).location()
    for user in ("7L", "3000000000L"):
        stage.spark.sql(EXACT.format(user=user)).write.mode("append").parquet(str(stage.source))
    schema = stage.spark.sql(EXACT.format(user="7L")).schema
    stage.drain(events=stage.spark.readStream.schema(schema).parquet(str(stage.source)))
    assert rows_of(location) == [
        {
            "userid": 7,
            # The instant in the table's zone, whatever the session's is; summer time also beyond 2037.
            "at": datetime(2050, 7, 1, 14),  # noqa: DTZ001  a wall clock
            "wall": datetime(2024, 3, 31, 2, 30),  # noqa: DTZ001
            "price": Decimal("1.50"),
            "day": date(1582, 10, 15),
            "tags": [("k", [{"x": 7, "y": "é"}])],
            "code": "ab",
            "raw": b"\x00\xff",
        }
    ]
    (letter,) = rows_of(location.with_name(f"{location.name}__rejected"))
    assert (letter["field"], letter["reason"]) == ("userid", "out of range for int")
    assert json.loads(letter["value"])["userId"] == 3_000_000_000


@contextmanager
def _set(stage: Stage, name: str, value: str) -> Iterator[None]:
    before = str(stage.spark.conf.get(name))
    stage.spark.conf.set(name, value)
    try:
        yield
    finally:
        stage.spark.conf.set(name, before)


def test_what_spark_cant_read_at_once_it_reads_with_the_setting_that_the_docs_name(stage: Stage) -> None:
    """`docs/ddl.md`: nulls in a partition column of type DATE, and a backslash in a partition's value."""
    stage.create(partitioned="PARTITIONED BY (day DATE, p STRING)")
    stage.put_text('{"id": 1, "day": "2024-01-01", "p": "a"}\n{"id": 2, "p": "a\\\\"}\n')
    stage.drain()
    days = f"SELECT id, day FROM {stage.table} ORDER BY id"
    with _set(stage, "spark.sql.ansi.enabled", "true"), pytest.raises(Exception, match="CAST_INVALID_INPUT"):
        stage.query(days)
    with _set(stage, "spark.sql.ansi.enabled", "false"):
        assert [tuple(row) for row in stage.query(days)] == [(1, date(2024, 1, 1)), (2, None)]
    ends = f"SELECT id FROM {stage.table} WHERE p = 'a\\\\'"
    with pytest.raises(Exception, match=r"PARTITION_FILTER|partition metadata by filter"):
        stage.spark.sql(ends).collect()
    with _set(stage, "spark.sql.hive.metastorePartitionPruning", "false"):
        assert [row.id for row in stage.spark.sql(ends).collect()] == [2]


THREE_DAYS = (*DAYS, "2024-01-03")
FLAG = "COLUMN_STATS_ACCURATE"


@pytest.fixture
def over(stage: Stage) -> Iterator[OverThrift]:
    """The metastore itself: Spark's DESCRIBE hides some of what it holds."""
    with closing(OverThrift(stage.uri)) as server:
        yield server


def parameters(over: OverThrift, stage: Stage, day: str) -> dict[str, str]:
    live = over.connect().table(TableName.parse(stage.table))
    return over.parameters(live, f"dt={day}" if day else "")


def check_estimates(over: OverThrift, stage: Stage) -> None:
    for day in THREE_DAYS:
        figures = parameters(over, stage, day)
        files = list((stage.location() / f"dt={day}").glob("*.parquet"))
        assert int(figures["numRows"]) == len(stage.ids(f"dt = '{day}'"))
        assert int(figures["numFiles"]) == len(files)
        assert int(figures["totalSize"]) == sum(file.stat().st_size for file in files)
        assert FLAG not in figures


def read_by_hive(stage: Stage, day: str) -> dict[str, str]:
    """As ANALYZE sums up what each file's reader says (StatsNoJobTask): the task's jars aren't here, that reader is."""
    jvm: Any = stage.spark._jvm
    conf = jvm.org.apache.hadoop.mapred.JobConf()
    conf.set("columns", "id,name")
    conf.set("columns.types", "bigint,string")
    gateway: Any = stage.spark.sparkContext._gateway
    hosts = gateway.new_array(jvm.java.lang.String, 0)
    source = jvm.org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat()
    rows = size = 0
    for file in (stage.location() / f"dt={day}").glob("*.parquet"):
        path, length = jvm.org.apache.hadoop.fs.Path(str(file)), file.stat().st_size
        split = jvm.org.apache.hadoop.mapred.FileSplit(path, 0, length, hosts)
        found = source.getRecordReader(split, conf, jvm.org.apache.hadoop.mapred.Reporter.NULL).getStats()
        rows, size = rows + found.getRowCount(), size + found.getRawDataSize()
    assert size > 0
    return {"numRows": str(rows), "rawDataSize": str(size)}


def test_estimates_are_right_after_available_now_and_again_after_the_next_run(stage: Stage, over: OverThrift) -> None:
    stage = replace(stage, options=ON_EPOCH).create()
    for run in range(2):
        for number in (0, 1):
            first = (run * 2 + number) * 10
            stage.put(range(first, first + 10))
        stage.drain()
        check_estimates(over, stage)
    figures = parameters(over, stage, THREE_DAYS[0])
    by_hive = read_by_hive(stage, THREE_DAYS[0])
    assert {name: figures[name] for name in by_hive} == by_hive
    (described,) = [
        row.data_type
        for row in stage.query(f"DESCRIBE EXTENDED {stage.table} PARTITION (dt = '2024-01-01')")
        if row.col_name == "Partition Statistics"
    ]
    assert "14 rows" in described
