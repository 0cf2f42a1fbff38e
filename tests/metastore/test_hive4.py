"""A real Hive 4.0.1: its metastore turns one kind of table into another; what comes back through HiveServer2."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hive_metastore import ttypes

from hivesink import hive
from hivesink.core.typetext import known_type
from hivesink.errors import HiveSinkError, QueryFailed, Unsupported
from hivesink.hiveql.apply import Plan, apply
from hivesink.jvm.java import write_sites
from hivesink.metastore.thrift import ThriftMetastore
from hivesink.metastore.thrift_calls import thrift_table
from hivesink.metastore.thrift_connection import Connection
from tests.cli.site import Capsys, Said, hivesink
from tests.metastore.live import DT, NOSASL, OverThrift, declared, dt, hiveserver2_of, metastore_of, new

ACID = ["HIVEFULLACIDREAD", "HIVEFULLACIDWRITE", "HIVEMANAGEDINSERTREAD", "HIVEMANAGEDINSERTWRITE"]


@pytest.fixture(scope="module")
def uri(request: pytest.FixtureRequest) -> str:
    return metastore_of("4.0.1", request)


@pytest.fixture
def over(uri: str) -> Iterator[OverThrift]:
    server = OverThrift(uri)
    yield server
    server.close()


@pytest.fixture
def tables(uri: str) -> Iterator[ThriftMetastore]:
    catalog = ThriftMetastore(Connection(uri))
    yield catalog
    catalog.close()


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest) -> str:
    host, port = hiveserver2_of("4.0.1", request)
    return f"{host}:{port}"


@pytest.fixture(scope="module")
def session(server: str) -> Iterator[hive.Hive]:
    with hive.Hive(server, NOSASL) as opened:
        opened.query("CREATE DATABASE IF NOT EXISTS contracts")
        yield opened


@pytest.mark.parametrize("kind", ["managed", "managed, elsewhere", "external", "external, at a location"])
def test_ddl_is_applied_once(kind: str, tables: ThriftMetastore, over: OverThrift, tmp_path: Path) -> None:
    spec = replace(declared(tmp_path, DT), external=kind.startswith("external"), comment="one")
    if not kind.endswith(("elsewhere", "location")):
        spec = replace(spec, location=None)
    assert [step.action for step in apply([spec], tables)] == ["create"]
    assert apply([spec], tables) == (Plan(spec.name),)
    changed = replace(spec, comment="two", properties=(("sink.on-bad-record", "drop"),))
    assert [step.action for step in apply([changed], tables)] == ["alter"]
    assert apply([changed], tables) == (Plan(spec.name),)
    live = over.connect().table(spec.name)
    assert live.spec.external  # of every plain managed table Hive 4's metastore makes an external one
    assert live.spec.options.get("TRANSLATED_TO_EXTERNAL") == ("TRUE" if kind.startswith("managed") else None)
    assert live.spec.options["discover.partitions"] == "false"


@pytest.mark.parametrize(
    "head", ["CREATE TABLE {} (id BIGINT, v DOUBLE)", "CREATE EXTERNAL TABLE {} (id BIGINT, v DOUBLE)"]
)
def test_a_table_that_hive_made_is_what_its_ddl_says(
    head: str, session: hive.Hive, tables: ThriftMetastore, over: OverThrift, tmp_path: Path
) -> None:
    spec = replace(declared(tmp_path, DT), location=None, external="EXTERNAL" in head)
    session.query(f"{head.format(spec.name)} PARTITIONED BY (dt STRING) STORED AS PARQUET")
    spec = replace(spec, columns=tuple(replace(column, comment=None) for column in spec.columns))
    (step,) = apply([spec], tables)
    # CDP gives external tables true by itself; 3.1.3 and 4.0.1 say nothing. The sink's own tables say false.
    assert step == Plan(spec.name, None, (("discover.partitions", "false"),))
    assert apply([spec], tables) == (Plan(spec.name),)
    registrar = over.connect()
    live = registrar.table(spec.name)
    registrar.add(live, [new(live, dt(1))])
    session.query(f"ALTER TABLE {spec.name} PARTITION (dt='2024-01-01') SET LOCATION 'file:{tmp_path}/moved'")
    assert registrar.lookup(live, [dt(1)])[dt(1)].location == f"file:{tmp_path}/moved"


def test_discovery_of_partitions_is_turned_off(
    session: hive.Hive, tables: ThriftMetastore, over: OverThrift, tmp_path: Path
) -> None:
    spec = replace(declared(tmp_path, DT), location=None)
    tables.create_database_if_absent(spec.name.database)
    tables.create(replace(spec, properties=(("discover.partitions", "true"),)))
    with pytest.raises(Unsupported, match=r"ALTER TABLE contracts\.\w+ SET TBLPROPERTIES") as caught:
        over.connect().table(spec.name)
    session.query(str(caught.value).rpartition("run: ")[2])
    assert over.connect().table(spec.name).spec.options["discover.partitions"] == "false"
    tables.set_properties(spec.name, {"discover.partitions": "true"})
    apply([spec], tables)
    over.connect().table(spec.name)


@pytest.mark.parametrize("kind", ["insert_only", "default"])
def test_acid_tables_are_refused(kind: str, over: OverThrift, tables: ThriftMetastore, tmp_path: Path) -> None:
    """Also insert-only ones, which the metastore doesn't even show to clients that don't know them."""
    spec = replace(declared(tmp_path), location=None, external=False)
    properties = {"transactional": "true", "transactional_properties": kind}
    struct = thrift_table(replace(spec, properties=tuple(properties.items())), "tests")
    if kind == "default":
        for name, suffix in [("inputFormat", "OrcInputFormat"), ("outputFormat", "OrcOutputFormat")]:
            setattr(struct.sd, name, f"org.apache.hadoop.hive.ql.io.orc.{suffix}")
        struct.sd.serdeInfo.serializationLib = "org.apache.hadoop.hive.ql.io.orc.OrcSerde"
    tables.create_database_if_absent(spec.name.database)
    request = ttypes.CreateTableRequest(table=struct, processorCapabilities=ACID, processorIdentifier="tests")
    over.raw.change(str(spec.name), "create", lambda client: client.create_table_req(request))
    with pytest.raises(Unsupported, match=rf"{spec.name}, a transactional table.*external table"):
        over.connect().table(spec.name)
    with pytest.raises(HiveSinkError, match="ACID"):
        apply([spec], tables)


SCALARS: list[tuple[str, str, Any]] = [
    ("true", "boolean", True),
    ("CAST(-128 AS TINYINT)", "tinyint", -128),
    ("CAST(32767 AS SMALLINT)", "smallint", 32767),
    ("CAST(-2147483648 AS INT)", "int", -2147483648),
    ("CAST(9223372036854775807 AS BIGINT)", "bigint", 9223372036854775807),
    ("CAST(0.1 AS FLOAT)", "float", 0.1),
    ("CAST('Infinity' AS FLOAT)", "float", math.inf),
    ("CAST('-Infinity' AS DOUBLE)", "double", -math.inf),
    ("CAST(1e308 AS DOUBLE)", "double", 1e308),
    ("CAST(1.5 AS DECIMAL(38,18))", "decimal", Decimal("1.500000000000000000")),
    ("CAST(12345678901234567890.10 AS DECIMAL(38,10))", "decimal", Decimal("12345678901234567890.1000000000")),
    ("'it is \"ü😀\"'", "string", 'it is "ü😀"'),
    ("''", "string", ""),
    ("unhex('00FF2C5D')", "binary", b"\x00\xff,]"),
    ("DATE '2024-02-29'", "date", date(2024, 2, 29)),
    ("DATE '0001-01-01'", "date", date(1, 1, 1)),
    ("DATE '9999-12-31'", "date", date(9999, 12, 31)),
    ("TIMESTAMP '1582-10-15 00:00:00'", "timestamp", datetime(1582, 10, 15)),  # noqa: DTZ001  as Hive's, without zone
    ("TIMESTAMP '2024-01-02 03:04:05.1'", "timestamp", datetime(2024, 1, 2, 3, 4, 5, 100000)),  # noqa: DTZ001
    ("TIMESTAMP '9999-12-31 23:59:59.999999'", "timestamp", datetime(9999, 12, 31, 23, 59, 59, 999999)),  # noqa: DTZ001
    ("date_add(DATE '9999-12-31', 1)", "date", "+10000-01-01"),
    ("CAST(NULL AS DATE)", "date", None),
]


def test_every_type(session: hive.Hive) -> None:
    found = session.query("SELECT " + ", ".join(f"{text} AS c{index}" for index, (text, _, _) in enumerate(SCALARS)))
    (row,) = found.rows
    for type_, value, (text, kind, wanted) in zip(found.types, row, SCALARS, strict=True):
        assert (type_, type(value)) == (known_type(kind), type(wanted)), text
        assert repr(value) == repr(wanted), text  # NaN isn't equal to itself, and 1.50 equals 1.5
    assert found.columns == [f"c{index}" for index in range(len(SCALARS))]


def test_what_python_has_no_value_for_is_the_servers_text(session: hive.Hive) -> None:
    found = session.query("SELECT array(1, 2), map('a', 1), named_struct('d', 1.5), CAST(NULL AS ARRAY<INT>);")
    assert found.types == [None] * 4
    assert found.rows == [("[1,2]", '{"a":1}', '{"d":1.5}', None)]


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        # Python has no such year.
        ("SELECT CAST(date_add(DATE '9999-12-31', 1) AS TIMESTAMP)", r"10000|year"),
        ("SELECT * FROM no_such_table", r"(?is)no_such_table.*HiveServer2 at 127\.0\.0\.1:\d+"),
    ],
)
def test_what_fails_says_so_in_a_line_and_the_session_goes_on(session: hive.Hive, sql: str, told: str) -> None:
    with pytest.raises(QueryFailed, match=told) as caught:
        session.query(sql)
    assert "\n" not in str(caught.value)
    assert session.query("SELECT 1 AS one").rows == [(1,)]


def test_a_query_of_the_command_line(
    server: str, capsys: Capsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_sites(tmp_path, {"hive-site": NOSASL})
    monkeypatch.setenv("HIVE_CONF_DIR", str(tmp_path))

    def ask(sql: str, *options: str) -> Said:
        return hivesink(capsys, "query", sql, "--hiveserver2", server, *options)

    said = ask("SELECT 1 AS n, map(1, array(DATE '2024-01-02')) AS m", "--json")
    rows = [[1, '{1:["2024-01-02"]}']]
    assert said.data == {"columns": ["n", "m"], "rows": rows, "more": False, "engine": "hiveserver2"}
    assert "only the first 2 rows" in ask("SELECT explode(array(1, 2, 3)) AS n", "--limit", "2").out
    said = ask("SELEC 1")
    assert (said.code, "SELEC" in said.error) == (65, True)
