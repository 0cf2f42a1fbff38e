"""DuckDB's answers are Spark's: names, values and printed form, over the same tables of a real metastore."""

from __future__ import annotations

import json
import time
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hivesink.cli.cells import plain
from hivesink.cli.output import Grid, jsonable
from hivesink.cli.query import Engine, Found, _report
from hivesink.config.site import NO_SITE
from hivesink.errors import NotCovered
from hivesink.spark.answer import answer
from hivesink.tables.duck import ask

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from hivesink.embedded.metastore import EmbeddedMetastore

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(set(time.tzname) != {"UTC"}, reason="PySpark shows instants in this process's zone"),
]

CLOCKS = ["2024-01-02T03:04:05", "1900-01-01", None, "9999-12-31T23:00:00"]
COVERED = """
SELECT count(*) FROM engines.facts
SELECT dt, count(*) FROM engines.facts GROUP BY dt
SELECT * FROM engines.facts
SELECT f.* FROM engines.facts f WHERE dt IS NULL
SELECT ID, Name, f.Dt FROM engines.facts AS f ORDER BY id
SELECT `name` AS `Who is it` FROM engines.facts ORDER BY 1 DESC LIMIT 3
SELECT name FROM engines.facts ORDER BY name, id
SELECT x, id FROM engines.facts ORDER BY x DESC, id
SELECT x, id FROM engines.facts ORDER BY x NULLS LAST, id DESC
SELECT count(name), count(DISTINCT name), count(1), COUNT(DISTINCT Id) FROM engines.facts
SELECT sum(id), sum(small), sum(tiny), sum(price), sum(DISTINCT id) FROM engines.facts
SELECT avg(id), avg(small), min(x), max(x), min(f), max(name), min(day), max(at) FROM engines.facts
SELECT min(price), max(price), min(ok), max(ok) FROM engines.facts
SELECT sum(id) AS s, avg(id) AS a FROM engines.facts WHERE id > 1000
SELECT dt, sum(id) / count(*) AS mean FROM engines.facts GROUP BY dt HAVING count(*) > 1 ORDER BY mean DESC
SELECT dt, count(*) AS n FROM engines.facts GROUP BY 1 HAVING n >= 1 ORDER BY n DESC, dt
SELECT name AS who, count(*) AS n FROM engines.facts GROUP BY who ORDER BY n + 1 DESC, who
SELECT hour, dt, max(id) FROM engines.facts GROUP BY hour, dt ORDER BY hour, dt
SELECT DISTINCT dt FROM engines.facts
SELECT DISTINCT name, ok FROM engines.facts ORDER BY name, ok
SELECT id FROM engines.facts WHERE dt = '2024-01-01' ORDER BY id
SELECT count(*) FROM engines.one_value WHERE name IS NULL
SELECT sum(id) FROM engines.one_value WHERE NOT name <=> 'a'
SELECT id FROM engines.facts WHERE dt >= '2024-01-01' AND hour < 5 AND name <> 'a' ORDER BY id
SELECT id FROM engines.facts WHERE dt = 'a:b c' OR dt IS NULL ORDER BY id
SELECT id FROM engines.facts WHERE dt LIKE '2024-%' ORDER BY id
SELECT id, dt FROM engines.facts WHERE NOT (dt = '2024-01-01') ORDER BY id
SELECT id FROM engines.facts WHERE dt <=> NULL ORDER BY id
SELECT id + 1, id - small, id * 2, -id AS minus, -1 FROM engines.facts ORDER BY id
SELECT id / 2, x / 2, id / 4.0E0 AS q FROM engines.facts WHERE id IS NOT NULL ORDER BY id
SELECT id % 2, -7 % 3, abs(id), abs(x) FROM engines.facts ORDER BY id
SELECT big + small AS b, x + id AS y, f AS g FROM engines.facts WHERE big < 9000000000000 AND f IS NULL ORDER BY id
SELECT id = 1, id <> 1, id != 2, id < 2, id <= 2, id > 2, id >= 2, id <=> NULL FROM engines.facts ORDER BY id
SELECT id IS NULL, id IS NOT NULL, NOT ok, ok AND id = 1, id IN (1, 2, NULL) FROM engines.facts ORDER BY id
SELECT id FROM engines.facts WHERE x = x AND x >= 0 ORDER BY id
SELECT id FROM engines.facts WHERE x > 1.5 ORDER BY id
SELECT id FROM engines.facts WHERE x = 0 ORDER BY id
SELECT id FROM engines.facts WHERE price > 1 AND price <= 12.5 ORDER BY id
SELECT id FROM engines.facts WHERE price = 1.10 ORDER BY id
SELECT id, price FROM engines.facts WHERE price BETWEEN 0 AND 100 ORDER BY price DESC, id
SELECT id FROM engines.facts WHERE name > 'B' ORDER BY id
SELECT id FROM engines.facts WHERE name LIKE '%é_' OR name LIKE 'a%' ORDER BY id
SELECT id FROM engines.facts WHERE name NOT LIKE '%_%' ORDER BY id
SELECT id FROM engines.facts WHERE name NOT IN ('a', 'b') ORDER BY id
SELECT id FROM engines.facts WHERE day >= '2024-02-29' ORDER BY id
SELECT id FROM engines.facts WHERE day BETWEEN DATE '1999-12-31' AND DATE '2024-02-28' ORDER BY id
SELECT id FROM engines.facts WHERE at < '2024-03-31 02:30:00.5' ORDER BY id
SELECT id FROM engines.facts WHERE at >= TIMESTAMP '2024-01-02 03:04:05' AND at > day ORDER BY id
SELECT year(day), month(day), day(day), quarter(day) AS q FROM engines.facts ORDER BY id
SELECT year(at), month(at), hour(at), minute(at), second(at) FROM engines.facts ORDER BY id
SELECT CAST(at AS DATE) AS d, count(*) FROM engines.facts GROUP BY CAST(at AS DATE) ORDER BY d
SELECT CAST(Id AS BIGINT), CAST(hour AS DOUBLE), CAST(day AS STRING) FROM engines.facts
SELECT CAST(hour AS STRING) || '-' || dt AS at_hour FROM engines.facts ORDER BY at_hour, id
SELECT CAST('12' AS INT) AS i, CAST('2024-02-29' AS DATE) AS d, CAST('-7' AS BIGINT) AS b
SELECT coalesce(name, 'none'), coalesce(id, 0), length(name) FROM engines.facts ORDER BY id
SELECT upper(name), lower(name) FROM engines.facts WHERE name IN ('a', 'B', '') ORDER BY id
SELECT substr(name, 2, 2) AS s, trim(name) AS u, concat(name, '-', dt) AS c FROM engines.facts ORDER BY id
SELECT CASE WHEN id = 1 THEN 'one' WHEN id > 3 THEN name ELSE NULL END AS c FROM engines.facts ORDER BY id
SELECT CASE name WHEN 'a' THEN 1 WHEN 'B' THEN 2 END AS c, if(ok, id, big) AS i FROM engines.facts ORDER BY id
SELECT round(avg(id), 2), round(avg(id)) FROM engines.facts
SELECT round(x, 2) AS r, round(x) AS s FROM engines.facts WHERE x < 1000 ORDER BY id
SELECT row_number() OVER (PARTITION BY dt ORDER BY id DESC) AS n, id FROM engines.facts ORDER BY id
SELECT rank() OVER (ORDER BY name) AS r, dense_rank() OVER (ORDER BY name) AS d, id FROM engines.facts ORDER BY id
SELECT lag(id) OVER (ORDER BY id) AS l, lead(name, 2) OVER (ORDER BY id) AS m FROM engines.facts ORDER BY id
SELECT sum(id) OVER (PARTITION BY dt ORDER BY id) AS s, count(*) OVER () AS n, id FROM engines.facts ORDER BY id
SELECT a.id, b.label FROM engines.facts a JOIN engines.names b ON a.id = b.id ORDER BY a.id
SELECT a.id, label FROM engines.facts a LEFT JOIN engines.names b ON a.id = b.id AND label <> 'x' ORDER BY a.id, b.label
SELECT a.id, names.* FROM engines.facts a FULL OUTER JOIN engines.names ON a.id = names.id ORDER BY a.id, label
SELECT count(*) FROM engines.facts a LEFT JOIN engines.facts b ON a.id = b.id AND b.dt = '2024-01-01' WHERE b.dt IS NULL
SELECT count(*) FROM engines.facts, engines.names
SELECT a.x, b.x FROM engines.facts a JOIN engines.facts b ON a.x = b.x ORDER BY a.id, b.id
WITH t AS (SELECT dt, count(*) n FROM engines.facts GROUP BY dt) SELECT dt FROM t JOIN engines.names ON n = id
SELECT max(n) FROM (SELECT name, count(*) AS n FROM engines.facts GROUP BY name) s
SELECT id, name FROM engines.facts UNION ALL SELECT id, label FROM engines.names ORDER BY id, name
SELECT added, id FROM engines.facts ORDER BY added, id
SELECT count(*) FROM engines.facts WHERE added IS NULL
SELECT count(DISTINCT added), min(added) FROM engines.facts WHERE dt = 'later'
SELECT code, count(*) FROM engines.facts GROUP BY code ORDER BY code
SELECT raw, id FROM engines.facts ORDER BY id
SELECT f, x, tiny FROM engines.facts ORDER BY id
SELECT 1, 'a', NULL AS n, true, 1.50, 3000000000
SELECT /* two */ count(*) -- rows
SELECT -2147483647 - 1 AS least, -(2147483648) - 1 AS below, 5 -2147483648 AS c, -2147483649 AS d
SELECT sum(big) OVER (PARTITION BY dt) AS s, id FROM engines.facts WHERE id <> 9 ORDER BY id
SELECT sum(big), sum(DISTINCT big), sum(-big) AS minus FROM engines.facts WHERE id < 6
SELECT sum(if(id = 5, -big, big)) AS s FROM engines.facts WHERE id < 7
SELECT sum(big) FROM engines.facts WHERE big IS NULL
SELECT 3000000000 + 1 AS big, 2147483647 AS most, 0.05 AS small, 1e3 AS thousand
SELECT * FROM engines.nothing
SELECT count(*), sum(id), max(label) FROM engines.nothing
""".strip().splitlines()

SPARKS = [
    ("SHOW TABLES", "SHOW statements"),
    ("SELECT sum(x) FROM engines.facts", "order of its rows"),
    ("SELECT avg(price) FROM engines.facts", "an average of decimal"),
    ("SELECT price * 2 FROM engines.facts", "together"),
    ("SELECT x, count(*) FROM engines.facts GROUP BY x", "GROUP BY x of type double"),
    ("SELECT tags FROM engines.nested", "tags of type array<int>"),
    ("SELECT tags[0] FROM engines.nested", "tags"),
    ("SELECT nest.a FROM engines.nested", "a field of the column nest"),
    ("SELECT padded FROM engines.nested", "padded of type char(3)"),
    ("SELECT id FROM engines.facts WHERE name = 1", "together"),
    ("SELECT id FROM engines.facts WHERE day > '2024'", "write it as yyyy-MM-dd"),
    ("SELECT 1 / 0", "division by zero"),
    ("SELECT 2147483647 + 1", "Overflow"),
    ("SELECT sum(big) FROM engines.facts", "a sum that no BIGINT holds"),
    ("SELECT sum(if(id = 5, -big, big)) AS s FROM engines.facts WHERE id IN (5, 6, 7)", "a sum that no BIGINT holds"),
    ("SELECT sum(big) OVER () AS s FROM engines.facts", "a sum that no BIGINT holds"),
    ("SELECT sum(price) FROM engines.wide", "of decimal(30,2)"),
    ("SELECT price FROM engines.wide WHERE price > 1e3", "decimal(30,2) as a double"),
    ("SELECT -2147483648 - 1", "the number -2147483648"),
    ("SELECT abs(-2147483648)", "the number -2147483648"),
    ("SELECT -(-2147483648)", "the number -2147483648"),
    ("SELECT - -2147483648", "the number -2147483648"),
    ("SELECT - 02147483648 * 2", "the number -2147483648"),
    ("SELECT id + -2147483648 - 5 FROM engines.facts", "the number -2147483648"),
    ("SELECT CASE WHEN NULL THEN 1 ELSE 2 END", "`NULL` as a condition"),
    ("SELECT if(NULL, 1, 2)", "`NULL` as a condition"),
    ("SELECT upper(name) FROM engines.facts", "beyond ASCII"),
    ("SELECT CAST(name AS INT) AS i FROM engines.facts", "a text that Spark may cast"),
    ("SELECT id FROM engines.facts TABLESAMPLE (10 ROWS)", ""),
    ("SELECT id FROM engines.facts LATERAL VIEW explode(tags) t AS tag", "LATERALS"),
    ("SELECT dt, count(*) FROM engines.facts GROUP BY dt WITH ROLLUP", ""),
    ("SELECT id FROM engines.facts WHERE id IN (SELECT id FROM engines.names)", ""),
    ("SELECT id FROM engines.facts UNION SELECT id FROM engines.names", "UNION without ALL"),
    ("SELECT name FROM engines.facts WHERE name LIKE 'a\\\\_'", "a backslash"),
    ("SELECT CAST(name AS CHAR(3)) FROM engines.facts", "CHAR"),
    ("SELECT current_date", ""),
    ("SELECT rand() AS r", ""),
    ("SELECT sum(id) OVER (ORDER BY id ROWS 1 PRECEDING) AS s FROM engines.facts", "SPEC"),
    ("SELECT upper('a') || 1", ""),
    ("SELECT id + 1 AS a, a + 1 AS b FROM engines.facts", "no column of a table"),
    ("SELECT stamp FROM engines.long_stamps", "for timestamp"),
    ("SELECT id FROM engines.facts WHERE name = 'a''b'", "right after another"),
    ("SELECT * FROM engines.other", "plain Parquet"),
    ("SELECT * FROM parquet.`/x`", "files without a table"),
    ("SELECT id FROM engines.old WHERE day < '2000-01-01'", "before 1900 or after 9999"),
    ("SELECT day FROM engines.late", "before 1900 or after 9999"),
]


@pytest.fixture(scope="module")
def tables(spark: SparkSession, metastore: EmbeddedMetastore, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Files of pyarrow's, as the sink writes them, and of Spark's INSERT, in partitions of odd names."""
    base = tmp_path_factory.mktemp("engines")
    columns = """id INT, tiny TINYINT, small SMALLINT, big BIGINT, f FLOAT, x DOUBLE, price DECIMAL(9,2), ok BOOLEAN,
        name STRING, code VARCHAR(5), raw BINARY, day DATE, at TIMESTAMP"""
    facts = f"STORED AS PARQUET LOCATION '{(base / 'facts').as_uri()}'"
    for statement in (
        "CREATE DATABASE engines",
        f"CREATE TABLE engines.facts ({columns}) PARTITIONED BY (dt STRING, hour INT) {facts}",
        "ALTER TABLE engines.facts ADD PARTITION (dt = '2024-01-01', hour = 1)",
        _values("'2024-01-02', 2", 5, "'B'", "CAST('NaN' AS DOUBLE)", "'abc'"),
        _values("'a:b c', 7", 6, "' é~ '", "-0.0D", "'ab'"),
        _values("NULL, 3", 7, "''", "1.005D", "NULL"),
        "ALTER TABLE engines.facts ADD COLUMNS (added STRING)",
        "INSERT INTO engines.facts (id, added, dt, hour) VALUES (8, 'new', 'later', 2), (9, NULL, 'later', 2)",
        "CREATE TABLE engines.names (id INT, label STRING) STORED AS PARQUET",
        "INSERT INTO engines.names VALUES (1, 'one'), (2, 'x'), (NULL, 'none'), (99, 'none')",
        "CREATE TABLE engines.nested (tags ARRAY<INT>, nest STRUCT<a: INT>, padded CHAR(3)) STORED AS PARQUET",
        "CREATE TABLE engines.wide (price DECIMAL(30,2)) STORED AS PARQUET",
        "CREATE TABLE engines.nothing (id INT, label STRING) STORED AS PARQUET",
        "CREATE TABLE engines.other (id INT) STORED AS ORC",
        f"CREATE TABLE engines.one_value (id INT, name STRING) STORED AS PARQUET LOCATION '{(base / 'one').as_uri()}'",
        f"CREATE TABLE engines.long_stamps (stamp TIMESTAMP) STORED AS PARQUET LOCATION '{(base / 'long').as_uri()}'",
        "CREATE TABLE engines.old (id INT, day DATE) STORED AS PARQUET",
        "CREATE TABLE engines.late (day DATE) STORED AS PARQUET",
        "INSERT INTO engines.late VALUES (DATE '+10000-01-01')",
        "INSERT INTO engines.old VALUES (1, DATE '1500-01-01'), (2, DATE '2024-01-01')",
    ):
        spark.sql(statement)
    _write_own(base / "facts" / "dt=2024-01-01" / "hour=1")
    pq.write_table(pa.table({"stamp": pa.array([0], pa.timestamp("us"))}), base / "long" / "a.parquet")
    # DuckDB 2.0.0 takes all of such a column for nulls.
    one_value = {"id": pa.array([1, 2, 3], pa.int32()), "name": [None, "a", None]}
    pq.write_table(pa.table(one_value), base / "one" / "a.parquet", use_dictionary=False)
    spark.catalog.refreshTable("engines.facts")
    return metastore.uri


def _values(partition: str, number: int, name: str, x: str, code: str) -> str:
    return (
        f"INSERT INTO engines.facts VALUES ({number}, 7Y, -3S, 9000000000000000000, CAST(0.1 AS FLOAT), {x}, 12.50, "
        f"true, {name}, {code}, X'00FF', DATE '2024-02-29', TIMESTAMP '2024-03-31 02:30:00.123456', "
        f"{partition})"
    )


def _write_own(folder: Path) -> None:
    """The columns in another order and case than the table's, one of them left out, and a hidden file beside them."""
    rows = pa.table(
        {
            "Name": pa.array(["a", "äé!", None, "a"]),
            "ID": pa.array([1, 2, 3, None], pa.int32()),
            "small": pa.array([1, None, 3, 4], pa.int16()),
            "big": pa.array([1, 2, 9000000000000, None], pa.int64()),
            "x": pa.array([0.0, 1e20, None, -1.5], pa.float64()),
            "price": pa.array([Decimal("1.10"), Decimal("-9999999.99"), None, Decimal(0)], pa.decimal128(9, 2)),
            "ok": pa.array([True, False, None, True]),
            "day": pa.array([date(1999, 12, 31), date(2024, 2, 29), None, date(9999, 12, 31)]),
            "at": pa.array(CLOCKS).cast(pa.timestamp("us")),
            "raw": pa.array([b"\x00", b"", None, b"abc"]),
        }
    )
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, folder / "part-0.parquet", use_deprecated_int96_timestamps=True)
    (folder / ".hidden.parquet").write_bytes(b"not one")
    (folder / "empty.parquet").touch()


def _shape(columns: list[str], rows: list[Any], types: Sequence[Any], *, ordered: bool) -> tuple[str, Any]:
    """Names, values and printed form; `repr` tells a NaN, and 1 from 1.0."""
    plained = [[plain(cell, kind) for cell, kind in zip(row, types, strict=True)] for row in rows]
    report = _report(Found(Engine.DUCKDB, columns, sorted(plained, key=repr) if not ordered else plained), 1000)
    return repr(report.data), repr(report.blocks)


@pytest.mark.parametrize("sql", COVERED)
def test_both_engines_answer_alike(sql: str, tables: str, spark: SparkSession) -> None:
    frame = spark.sql(sql)
    types, rows = answer(frame, 1001)
    ducks = ask(sql, lambda: tables, NO_SITE, most=1001, in_utc=True)
    ordered = "ORDER BY" in sql
    expected = _shape(frame.columns, [tuple(row) for row in rows], types, ordered=ordered)
    assert _shape(ducks.columns, ducks.rows, ducks.types, ordered=ordered) == expected


ODD: list[tuple[str, Any, str]] = [
    ("TIMESTAMP'0001-01-01 00:00:00'", "0001-01-01T00:00:00", "0001-01-01 00:00:00"),
    ("TIMESTAMP_NTZ'9999-12-31 23:59:59.5'", "9999-12-31T23:59:59.500000", "9999-12-31 23:59:59.500000"),
    ("TIMESTAMP'+10000-01-01 00:00:00.5'", "+10000-01-01 00:00:00.5", "+10000-01-01 00:00:00.5"),
    ("TIMESTAMP'-0044-03-15'", "-0044-03-15 00:00:00", "-0044-03-15 00:00:00"),
    ("DATE'0000-12-31'", "0000-12-31", "0000-12-31"),
    ("DATE'9999-12-31'", "9999-12-31", "9999-12-31"),
    ("map(DATE'+10000-01-01', array(TIMESTAMP'0000-01-01'))", {"+10000-01-01": ["0000-01-01 00:00:00"]},
     '{"+10000-01-01": ["0000-01-01 00:00:00"]}'),
    ("-0.00000001BD", "-0.00000001", "-0.00000001"),
    ("CAST(0 AS DECIMAL(38,18))", "0.000000000000000000", "0.000000000000000000"),
    ("named_struct('d', array(CAST(1 AS DECIMAL(20,10)), NULL))", {"d": ["1.0000000000", None]},
     '{"d": ["1.0000000000", null]}'),
    ("CAST(1.4E-45 AS FLOAT)", 1e-45, "1e-45"),
]  # fmt: skip
"""Of Spark's: the statement, the value in JSON, the text."""


def test_spark_prints_what_python_has_no_value_for(spark: SparkSession) -> None:
    frame = spark.sql(f"SELECT {', '.join(text for text, *_ in ODD)} FROM VALUES (1), (2)")
    types, rows = answer(frame, 1)
    report = _report(Found(Engine.SPARK, frame.columns, rows, types), 1)
    (row,) = json.loads(json.dumps(report.data["rows"], default=jsonable))
    assert row == [value for _, value, _ in ODD]
    assert isinstance(report.blocks[0], Grid)
    assert report.blocks[0].rows == [[text for *_, text in ODD]]
    assert answer(spark.sql("CREATE DATABASE IF NOT EXISTS engines"), 1)[1] == []


@pytest.mark.parametrize(("sql", "reason"), SPARKS)
def test_what_may_differ_is_left_to_spark(sql: str, reason: str, tables: str) -> None:
    with pytest.raises(NotCovered) as refused:
        ask(sql, lambda: tables, NO_SITE, most=1001, in_utc=True)
    assert reason in refused.value.reason


def test_timestamps_are_sparks_in_other_zones(tables: str) -> None:
    with pytest.raises(NotCovered, match="the TIMESTAMP column at"):
        ask("SELECT max(at) FROM engines.facts", lambda: tables, NO_SITE, most=1, in_utc=False)
    found = ask("SELECT count(*) FROM engines.facts", lambda: tables, NO_SITE, most=1, in_utc=False)
    assert found.rows == [(9,)]
