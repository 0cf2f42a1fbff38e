"""Hive's own classes, from the jars that PySpark ships, against what is written here of their rules."""

from __future__ import annotations

import secrets
import struct
from dataclasses import replace
from decimal import Decimal as Number
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hivesink import hive
from hivesink.core.partition import escape, partition_path, unescape
from hivesink.core.partition_value import canonical
from hivesink.core.table import Decimal, Primitive, TableName, TableSpec
from hivesink.hiveql.apply import Plan, plan
from hivesink.hiveql.parse import parse_ddl, parse_path
from hivesink.hiveql.render import literal, render, stored
from hivesink.metastore import catalog
from tests.hiveql.test_parse import ACCEPTED
from tests.metastore.live import NOSASL, hiveserver2_of, metastore_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ODD = "a'b\\c\n\t\r;%_ä\x01\x7f\U0001f600 \\u0041 \\% 'x"
SPECS = [
    *(parse_ddl(sql, "accepted.sql") for sql, _ in ACCEPTED.values()),
    *parse_path(Path(__file__).parents[2] / "ddl"),
]


@pytest.fixture(scope="module")
def jvm(spark: SparkSession) -> Any:
    return spark._jvm


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: str(spec.name))
def test_hives_grammar_takes_what_is_rendered(spec: TableSpec, jvm: Any) -> None:
    assert jvm.org.apache.hadoop.hive.ql.parse.ParseDriver().parse(render(stored(spec))) is not None


def test_hive_4_makes_the_table_that_was_rendered(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Through HiveServer2 4.0.1; what its metastore holds then is what the DDL says."""
    host, port = hiveserver2_of("4.0.1", request)
    tables = catalog(metastore_of("4.0.1", request))
    database = f"rendered_{secrets.token_hex(3)}"
    with hive.Hive(f"{host}:{port}", NOSASL) as session:
        session.query(f"CREATE DATABASE {database}")
        for number, spec in enumerate(SPECS):
            location = None if spec.location is None else f"file:{tmp_path}/{number}"
            name = TableName(database, f"t{number}")
            own = replace(spec, name=name, location=location, external=location is not None)
            session.query(render(stored(own)))
            assert plan(own, tables.find(name)) == Plan(name), spec.name
        session.query(f"DROP DATABASE {database} CASCADE")
    tables.close()


def test_hive_reads_literals_back(jvm: Any) -> None:
    assert jvm.org.apache.hadoop.hive.ql.parse.BaseSemanticAnalyzer.unescapeSQLString(literal(ODD)) == ODD


def test_hive_escapes_the_same_characters(jvm: Any) -> None:
    file_utils = jvm.org.apache.hadoop.hive.common.FileUtils
    text = "".join(map(chr, range(0xD800)))
    assert file_utils.escapePathName(text) == escape(text)
    assert file_utils.unescapePathName(escape(ODD)) == unescape(escape(ODD)) == ODD


def test_hive_makes_the_same_partition_name(jvm: Any) -> None:
    names, values = ["A", "b", "c"], [ODD, "", "2024-01-02 03:04:05"]
    lists = [jvm.java.util.ArrayList() for _ in range(2)]
    for java, texts in zip(lists, (names, values), strict=True):
        for text in texts:
            java.add(text)
    assert jvm.org.apache.hadoop.hive.common.FileUtils.makePartName(*lists) == partition_path(names, values)


@pytest.mark.parametrize("text", ["1.50", "100.00", "-0.00", "0.0000001", "12345678901234567890.10", "1e2", "-7.7700"])
def test_hive_writes_decimals_so(text: str, jvm: Any) -> None:
    hives = jvm.org.apache.hadoop.hive.common.type.HiveDecimal.create(text).toString()
    assert canonical(Number(text), Decimal(38, 10)) == hives


@pytest.mark.parametrize("text", ["2024-01-02 03:04:05", "2024-01-02 03:04:05.12", "0007-01-02 00:00:00.000000001"])
def test_hive_writes_timestamps_so(text: str, jvm: Any) -> None:
    java = jvm.java.sql.Timestamp.valueOf(text)
    hives = jvm.org.apache.hadoop.hive.serde2.io.TimestampWritable(java).toString()
    assert canonical(text, Primitive.TIMESTAMP) == hives


@pytest.mark.parametrize(
    "value", [0.1, 1.0, -0.0, 0.001, 0.000999, 9999999.0, 1e7, 123456789.5, 1.7976931348623157e308, 1e-5]
)
def test_java_writes_doubles_so(value: float, jvm: Any) -> None:
    (bits,) = struct.unpack("<q", struct.pack("<d", value))
    java = jvm.java.lang.Double.toString(jvm.java.lang.Double.longBitsToDouble(bits))
    assert canonical(value, Primitive.DOUBLE) == java
