"""DuckDB's answers are Spark's, over the same tables of a real metastore; what DuckDB leaves to Spark, and why."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hivesink.cli.output import Grid, jsonable, plain
from hivesink.cli.query import _report
from hivesink.config.formats import FORMATS
from hivesink.config.options import SinkConfig
from hivesink.config.site import NO_SITE
from hivesink.embedded.metastore import EmbeddedMetastore
from hivesink.errors import NotCovered
from hivesink.formats import adapter
from hivesink.hive import Answer
from hivesink.spark.session import answer
from hivesink.tables import duck
from hivesink.tables.duck import ask
from tests.integration.everytype import CLOCKS, EVERYTHING, held

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SAME = """
SELECT count(*) FROM engines.facts
SELECT dt, count(*) AS n FROM engines.facts GROUP BY dt
SELECT * FROM engines.facts
SELECT f.* FROM engines.facts f WHERE dt IS NULL
SELECT ID, `Name`, f.Dt FROM engines.facts AS f ORDER BY id
SELECT x, id FROM engines.facts ORDER BY x DESC, id
SELECT name, id FROM engines.facts ORDER BY name NULLS LAST, id
SELECT id FROM engines.facts WHERE dt = '2024-01-01' AND x > 1.5 ORDER BY id
SELECT id FROM engines.facts WHERE (dt = 'a:b c' OR dt IS NULL) AND hour < 5 ORDER BY id
SELECT id FROM engines.facts WHERE dt LIKE '2024-%' AND id < 5 ORDER BY id
SELECT id FROM engines.facts WHERE dt <=> NULL ORDER BY id
SELECT id FROM engines.facts WHERE x = x AND x >= 0 ORDER BY id
SELECT id FROM engines.facts WHERE price BETWEEN 1 AND 12.5 AND NOT ok ORDER BY id
SELECT id FROM engines.facts WHERE name NOT IN ('a', 'b') ORDER BY id
SELECT id FROM engines.facts WHERE day >= '2024-02-29' ORDER BY id
SELECT id FROM engines.facts WHERE at >= TIMESTAMP '2024-01-02 03:04:05' AND at > day ORDER BY id
SELECT at, CAST(at AS DATE) AS d, hour(at) AS h, id FROM engines.facts ORDER BY id
SELECT sum(id) AS s, avg(id) AS a, min(x) AS m, max(name) AS n, count(DISTINCT name) AS d FROM engines.facts
SELECT dt, max(id) AS m FROM engines.facts GROUP BY dt HAVING count(*) > 1 ORDER BY m DESC
SELECT concat(name, '-', dt) AS c, coalesce(name, '-') AS n, if(ok, 1, 2), id / 2 AS h FROM engines.facts ORDER BY id
SELECT CASE WHEN id = 1 THEN 'one' WHEN id > 3 THEN name END AS c, -7 % 3 AS m FROM engines.facts ORDER BY id
SELECT row_number() OVER (PARTITION BY dt ORDER BY id DESC) AS n, id FROM engines.facts ORDER BY id
SELECT a.id, b.label FROM engines.facts a JOIN engines.names b ON a.id = b.id WHERE a.hour = 1 ORDER BY a.id
SELECT a.id, label FROM engines.facts a LEFT JOIN engines.names b ON a.id = b.id ORDER BY a.id, label
SELECT b.id FROM engines.names b LEFT JOIN engines.facts a ON a.id = b.id WHERE a.hour IS NULL ORDER BY b.id
SELECT id FROM engines.facts LEFT ANTI JOIN engines.names USING (id) WHERE hour = 1 ORDER BY id
SELECT count(*) FROM engines.facts a, engines.facts b WHERE a.dt = b.dt AND a.hour = 1 AND b.id > 0
WITH t AS (SELECT dt, count(*) n FROM engines.facts GROUP BY dt) SELECT dt FROM t JOIN engines.names ON n = id
SELECT id FROM engines.facts WHERE id IN (SELECT id FROM engines.names WHERE hour = 1) ORDER BY id
SELECT id, name FROM engines.facts UNION ALL SELECT id, label FROM engines.names ORDER BY id, name
SELECT id FROM engines.facts UNION SELECT id FROM engines.names ORDER BY id
SELECT added, id FROM engines.facts ORDER BY added, id
SELECT count(*) FROM engines.facts WHERE added IS NULL
SELECT author.name, author.tags, author FROM engines.posts ORDER BY id
SELECT id, author.tags[0] AS first, size(author.tags) AS n FROM engines.posts WHERE author.name = 'é'
SELECT id, tag FROM engines.posts LATERAL VIEW explode(author.tags) t AS tag ORDER BY id, tag
SELECT id, scores['a'] AS a, likes[0].by AS b FROM engines.posts WHERE id < 3 ORDER BY id
SELECT id, explode(likes) AS l FROM engines.posts ORDER BY id
SELECT author.city, likes FROM engines.posts ORDER BY id
SELECT 1 AS i, 'a' AS t, NULL AS n, true AS b, 1.50 AS d, 3000000000 AS l, array(1, 2) AS a, map('k', 1) AS m
SELECT count(*) FROM engines.one_value WHERE name IS NULL
SELECT * FROM engines.nothing
SELECT count(*) AS n, max(label) AS m FROM engines.nothing
SELECT n, dt FROM engines.typed_keys WHERE day >= DATE '2024-01-01' AND amount > 1 ORDER BY n
SELECT * FROM engines.typed_keys
""".strip().splitlines()

SPARKS = [
    ("SHOW TABLES", "isn't a SELECT"),
    ("WITH t AS (SELECT 1 AS id, 'a' AS label) INSERT INTO engines.names SELECT * FROM t", "isn't a single SELECT"),
    ("SELECT 1; SELECT 2", "isn't a single SELECT"),
    ("SELEC 1", "isn't a SELECT"),
    ("SELECT FROM WHERE", ""),
    ("SELECT id FROM engines.facts WHERE name = 'a''b'", "doubled quote"),
    ("SELECT id FROM engines.facts WHERE name LIKE 'a\\\\_'", "backslash"),
    ("SELECT input_file_name() FROM engines.facts", "input_file_name"),
    ("SELECT nothing FROM engines.facts", "nothing"),
    ("SELECT CAST(2147483647 AS INT) + CAST(1 AS INT)", "verflow"),
    ("SELECT * FROM range(3)", "no table of the metastore"),
    ("SELECT * FROM parquet.`/x`", "no table of the metastore"),
    ("SELECT a.id FROM engines.facts a NATURAL JOIN engines.names b", "NATURAL JOIN"),
    ("SELECT * FROM engines.other", "TextInputFormat"),
    ("SELECT * FROM engines.sparks", "another schema"),
    ("SELECT * FROM engines.padded", "the column code of engines.padded is a CHAR"),
    ("SELECT id FROM engines.wrong", "has id int64 for the column id int32"),
    ("SELECT name FROM engines.wrong", "has Name string for the column name string"),
    ("SELECT dt FROM engines.twice", "has dt string for the partition column dt string"),
    ("SELECT count(*) FROM engines.deep", "there are folders in"),
]


@pytest.fixture(scope="module")
def tables(spark: SparkSession, metastore: EmbeddedMetastore, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Files of pyarrow's, as the sink writes them, and of Spark's INSERT, in partitions of odd names."""
    base = tmp_path_factory.mktemp("engines")
    columns = """id INT, tiny TINYINT, small SMALLINT, big BIGINT, f FLOAT, x DOUBLE, price DECIMAL(9,2), ok BOOLEAN,
        name STRING, code VARCHAR(5), raw BINARY, day DATE, at TIMESTAMP"""
    author = "named_struct('name', 'é', 'tags', array('x', 'y'))"
    likes = "array(named_struct('by', 'me'), named_struct('by', NULL))"
    keys = "day DATE, amount DECIMAL(5,2), at TIMESTAMP, dt STRING"

    def at(name: str) -> str:
        return f"STORED AS PARQUET LOCATION '{(base / name).as_uri()}'"

    for statement in (
        "CREATE DATABASE IF NOT EXISTS engines",
        f"CREATE TABLE engines.facts ({columns}) PARTITIONED BY (dt STRING, hour INT) {at('facts')}",
        "ALTER TABLE engines.facts ADD PARTITION (dt = '2024-01-01', hour = 1)",
        _values("'2024-01-02', 2", 5, "'B'", "CAST('NaN' AS DOUBLE)", "'abc'"),
        _values("'a:b c', 7", 6, "' é~ '", "-0.0D", "'ab'"),
        _values("NULL, 3", 7, "''", "1.005D", "NULL"),
        "ALTER TABLE engines.facts ADD COLUMNS (added STRING)",
        "INSERT INTO engines.facts (id, added, dt, hour) VALUES (8, 'new', 'later', 2), (9, NULL, 'later', 2)",
        "CREATE TABLE engines.names (id INT, label STRING) STORED AS PARQUET",
        "INSERT INTO engines.names VALUES (1, 'one'), (2, 'x'), (NULL, 'none'), (99, 'none')",
        _posts("posts_then", "name: STRING, tags: ARRAY<STRING>", at("posts")),
        "INSERT INTO engines.posts_then VALUES (2, NULL, NULL, NULL)",
        f"INSERT INTO engines.posts_then VALUES (1, {author}, map('a', 1), {likes})",
        # The struct has a field more now, which these files lack.
        _posts("posts", "name: STRING, tags: ARRAY<STRING>, city: STRING", at("posts")),
        "INSERT INTO engines.posts VALUES (3, named_struct('name', 'b', 'tags', array(), 'city', 'c'), map(), array())",
        f"CREATE TABLE engines.typed_keys (n INT) PARTITIONED BY ({keys}) STORED AS PARQUET",
        "INSERT INTO engines.typed_keys VALUES (1, DATE '2024-01-01', 1.50, TIMESTAMP '2024-01-01 12:00:00.5', 'a')",
        "INSERT INTO engines.typed_keys VALUES (2, DATE '2023-01-01', 2.00, TIMESTAMP '2024-01-01 12:00:00', '')",
        "INSERT INTO engines.typed_keys VALUES (3, NULL, NULL, NULL, NULL)",
        "CREATE TABLE engines.nothing (id INT, label STRING) STORED AS PARQUET",
        "CREATE TABLE engines.other (id INT) STORED AS TEXTFILE",
        "CREATE TABLE engines.sparks (id INT) USING PARQUET",
        "CREATE TABLE engines.padded (code CHAR(3)) STORED AS PARQUET",
        f"CREATE TABLE engines.one_value (id INT, name STRING) {at('one')}",
        f"CREATE TABLE engines.wrong (id INT, name STRING) {at('wrong')}",
        f"CREATE TABLE engines.twice (id INT) PARTITIONED BY (dt STRING) {at('twice')}",
        "ALTER TABLE engines.twice ADD PARTITION (dt = 'a')",
        f"CREATE TABLE engines.deep (id INT) {at('deep')}",
    ):
        spark.sql(statement)
    _write_own(base / "facts" / "dt=2024-01-01" / "hour=1")
    # DuckDB 2.0.0 takes all of such a column for nulls.
    one_value = {"id": pa.array([1, 2, 3], pa.int32()), "name": [None, "a", None]}
    pq.write_table(pa.table(one_value), base / "one" / "a.parquet", use_dictionary=False)
    pq.write_table(pa.table({"id": [1], "Name": ["a"]}), base / "wrong" / "a.parquet")
    (base / "twice" / "dt=a").mkdir(exist_ok=True)
    pq.write_table(pa.table({"id": [1], "dt": ["b"]}), base / "twice" / "dt=a" / "a.parquet")
    (base / "deep" / "within").mkdir()
    spark.catalog.refreshTable("engines.facts")
    return metastore.uri


def _posts(name: str, author: str, stored: str) -> str:
    types = f"author STRUCT<{author}>, scores MAP<STRING, INT>, likes ARRAY<STRUCT<by: STRING>>"
    return f"CREATE TABLE engines.{name} (id INT, {types}) {stored}"


def _values(partition: str, number: int, name: str, x: str, code: str) -> str:
    return (
        f"INSERT INTO engines.facts VALUES ({number}, 7Y, -3S, 9000000000000000000, CAST(0.1 AS FLOAT), {x}, 12.50, "
        f"true, {name}, {code}, X'00FF', DATE '2024-02-29', TIMESTAMP '2024-03-31 02:30:00.123456', "
        f"{partition})"
    )


def _write_own(folder: Path) -> None:
    """The columns in another order than the table's, one of them left out, and hidden files beside them."""
    rows = pa.table(
        {
            "name": pa.array(["a", "äé!", None, "a"]),
            "id": pa.array([1, 2, 3, None], pa.int32()),
            "big": pa.array([1, 2, 9000000000000, None], pa.int64()),
            "x": pa.array([0.0, 1e20, None, -1.5], pa.float64()),
            "price": pa.array([Decimal("1.10"), Decimal("-9999999.99"), None, Decimal(0)], pa.decimal128(9, 2)),
            "ok": pa.array([True, False, None, True]),
            "day": pa.array([date(1999, 12, 31), date(2024, 2, 29), None, date(9999, 12, 31)]),
            "at": pa.array(["2024-01-02T03:04:05", "1900-01-01", None, "9999-12-31T23:00:00"]).cast(pa.timestamp("us")),
        }
    )
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, folder / "part-0.parquet", use_deprecated_int96_timestamps=True)
    pq.write_table(rows, folder / ".hidden.parquet")
    pq.write_table(rows, folder / "_hidden.parquet")
    pq.write_table(rows, folder / "part-1.parquet._COPYING_")
    (folder / "empty.parquet").touch()


def _rows(answer: Answer, *, ordered: bool) -> list[str]:
    """As JSON, which tells 1 from 1.0 and "1"; a NaN is equal to itself."""
    rows = [[plain(cell, kind) for cell, kind in zip(row, answer.types, strict=True)] for row in answer.rows]
    texts = [json.dumps(row, default=jsonable, sort_keys=True) for row in rows]
    return texts if ordered else sorted(texts)


def _by_spark(spark: SparkSession, sql: str) -> Answer:
    frame = spark.sql(sql)
    return Answer(frame.columns, *answer(frame, 10_000))


@pytest.mark.parametrize("sql", SAME)
def test_both_engines_answer_alike(sql: str, tables: str, spark: SparkSession) -> None:
    ordered = "ORDER BY" in sql
    by_duckdb = Answer(*ask(sql, lambda: tables, NO_SITE, 10_000))
    assert _rows(by_duckdb, ordered=ordered) == _rows(_by_spark(spark, sql), ordered=ordered)


# pyarrow reads ORC's times as nanoseconds, and fails beyond them: then Spark answers.
NANOS = ("1678", "2262")


@pytest.mark.parametrize("form", FORMATS)
def test_every_type_and_clock_reads_alike(
    form: str, spark: SparkSession, metastore: EmbeddedMetastore, tmp_path: Path
) -> None:
    """Files as the sink writes them: from the year 1 to 9999, also in an ARRAY."""
    table, texts = f"engines.every_type_{form}", [text for text in CLOCKS if held(text, form)]
    columns = {name: typed for name, typed in EVERYTHING.items() if typed.hive != "char(5)"}
    spark.sql("CREATE DATABASE IF NOT EXISTS engines")
    kinds = ", ".join(f"{name} {typed.hive}" for name, typed in columns.items())
    location = (tmp_path / "all").as_uri()
    spark.sql(
        f"CREATE TABLE {table} ({kinds}, clock TIMESTAMP, clocks ARRAY<TIMESTAMP>)"
        f" STORED AS {form} LOCATION '{location}'"
    )
    beyond = [text for text in texts if form == "ORC" and not NANOS[0] <= text < NANOS[1]]
    near = [text for text in texts if text not in beyond]
    clocks = pa.array([text.replace(" ", "T") for text in near]).cast(pa.timestamp("us"))
    arrays = {
        name: pa.array([typed.values[at % len(typed.values)][0] for at in range(len(near))], typed.source)
        for name, typed in columns.items()
    }
    arrays["a_struct"] = arrays["a_struct"].cast(pa.struct([("x", pa.int32()), ("y", pa.string())]))
    arrays["clock"] = clocks
    arrays["clocks"] = pa.array([[clock, None] for clock in clocks.to_pylist()], pa.list_(clocks.type))
    _write(form, pa.table(arrays), tmp_path / "all" / "a")
    sql = f"SELECT * FROM {table}"
    by_duckdb = Answer(*ask(sql, lambda: metastore.uri, NO_SITE, 10_000))
    assert _rows(by_duckdb, ordered=True) == _rows(_by_spark(spark, sql), ordered=True)
    if beyond:
        arrays["clock"] = pa.array([datetime.fromisoformat(beyond[0])] * len(near), clocks.type)
        _write(form, pa.table(arrays), tmp_path / "all" / "b")
        with pytest.raises(NotCovered, match="out of range for nanosecond resolution"):
            ask(sql, lambda: metastore.uri, NO_SITE, 10_000)


def _write(form: str, rows: pa.Table, path: Path) -> None:
    with path.open("wb") as stream:
        writer = adapter(form).of(rows.schema, SinkConfig.parse({})).open(stream)
        writer.write(rows)
        writer.close()


@pytest.mark.parametrize(("sql", "reason"), SPARKS)
def test_the_rest_is_left_to_spark(sql: str, reason: str, tables: str) -> None:
    with pytest.raises(NotCovered) as refused:
        ask(sql, lambda: tables, NO_SITE, 1000)
    assert reason in refused.value.reason


def test_only_needed_partitions_are_looked_up(tables: str, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []

    def live_files(table: Any, partitions: dict[str, Any], store: Any) -> Any:
        looked.extend(partitions)
        return read(table, partitions, store)

    read = duck.live_files
    monkeypatch.setattr(duck, "live_files", live_files)
    joined = "SELECT count(*) FROM engines.facts f JOIN engines.facts g ON f.id = g.id"
    sql = f"{joined} WHERE f.dt >= '2024-01-02' AND f.hour = 2 AND f.id > 0 AND g.dt IS NULL"
    ask(sql, lambda: tables, NO_SITE, 1)
    assert sorted(looked) == ["dt=2024-01-02/hour=2", "dt=__HIVE_DEFAULT_PARTITION__/hour=3", "dt=later/hour=2"]


ODD: list[tuple[str, Any, str]] = [
    ("TIMESTAMP'0001-01-01 00:00:00'", "0001-01-01T00:00:00", "0001-01-01 00:00:00"),
    ("TIMESTAMP_NTZ'9999-12-31 23:59:59.5'", "9999-12-31T23:59:59.500000", "9999-12-31 23:59:59.500000"),
    ("TIMESTAMP'+10000-01-01 00:00:00.5'", "+10000-01-01 00:00:00.5", "+10000-01-01 00:00:00.5"),
    ("DATE'0000-12-31'", "0000-12-31", "0000-12-31"),
    ("map(DATE'+10000-01-01', array(TIMESTAMP'0000-01-01'))", {"+10000-01-01": ["0000-01-01 00:00:00"]},
     '{"+10000-01-01": ["0000-01-01 00:00:00"]}'),
    ("-0.00000001BD", "-0.00000001", "-0.00000001"),
    ("named_struct('d', array(CAST(0 AS DECIMAL(38,18)), NULL))", {"d": ["0.000000000000000000", None]},
     '{"d": ["0.000000000000000000", null]}'),
    ("CAST(1.4E-45 AS FLOAT)", 1e-45, "1e-45"),
]  # fmt: skip
"""Of Spark's: the statement, the value in JSON, the text."""


def test_spark_prints_what_python_has_no_value_for(spark: SparkSession) -> None:
    by_spark = _by_spark(spark, f"SELECT {', '.join(text for text, *_ in ODD)}")
    data, (grid, _) = _report("spark", by_spark, 1)
    (row,) = json.loads(json.dumps(data["rows"], default=jsonable))
    assert row == [value for _, value, _ in ODD]
    assert isinstance(grid, Grid)
    assert grid.rows == [[text for *_, text in ODD]]
    assert _by_spark(spark, "CREATE DATABASE IF NOT EXISTS engines").rows == []
