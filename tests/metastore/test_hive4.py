"""Kinds of tables on a real Hive 4.0.1, where its metastore turns one kind into another: DDL, lookups, refusals."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hive_metastore import ttypes

from hivesink import hive
from hivesink.errors import HiveSinkError, Unsupported
from hivesink.hiveql.apply import Plan, apply
from hivesink.metastore.thrift import ThriftMetastore
from hivesink.metastore.thrift_calls import thrift_table
from hivesink.metastore.thrift_connection import Connection
from tests.metastore.live import DT, NOSASL, OverThrift, declared, dt, hiveserver2_of, metastore_of, new

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


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
def session(request: pytest.FixtureRequest) -> Iterator[hive.Hive]:
    host, port = hiveserver2_of("4.0.1", request)
    with hive.connect(f"{host}:{port}", NOSASL) as opened:
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
    # Hive 3 gives external tables true by itself; 4.0.1 says nothing. The sink's own tables say false.
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
