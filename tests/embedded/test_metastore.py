from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from hive_metastore import ThriftHiveMetastore, ttypes
from thrift.protocol import TBinaryProtocol
from thrift.transport import TSocket, TTransport

from hivesink.embedded import metastore as detached
from hivesink.embedded.metastore import EmbeddedMetastore
from hivesink.embedded.process import HOST, identity_of, wait_until
from hivesink.errors import NotWritable, ServerFailed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.main_path


@contextmanager
def client(uri: str) -> Iterator[Any]:
    transport = TTransport.TBufferedTransport(TSocket.TSocket(HOST, int(uri.rpartition(":")[2])))
    transport.open()
    try:
        yield ThriftHiveMetastore.Client(TBinaryProtocol.TBinaryProtocol(transport))
    finally:
        transport.close()


def storage(location: str) -> ttypes.StorageDescriptor:
    return ttypes.StorageDescriptor(
        cols=[ttypes.FieldSchema(name="id", type="int", comment="")],
        location=location,
        inputFormat="org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat",
        outputFormat="org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat",
        serdeInfo=ttypes.SerDeInfo(
            serializationLib="org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe", parameters={}
        ),
        parameters={},
        bucketCols=[],
        sortCols=[],
        numBuckets=-1,
    )


def create_table(server: Any, database: str, location: str) -> None:
    server.create_database(ttypes.Database(name=database, locationUri=location, parameters={}))
    server.create_table(
        ttypes.Table(
            dbName=database,
            tableName="t",
            sd=storage(f"{location}/t"),
            partitionKeys=[ttypes.FieldSchema(name="dt", type="string", comment="")],
            parameters={},
            tableType="MANAGED_TABLE",
        )
    )


def test_a_damaged_database_is_an_error_that_names_the_log(tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    (tmp_path / "server" / "db").write_text("no database")
    with pytest.raises(ServerFailed, match="the embedded Hive Metastore ended before it was ready") as e:
        EmbeddedMetastore(tmp_path / "server", tmp_path / "warehouse").start()
    assert e.value.log == str(tmp_path / "server" / "metastore.log")
    assert "\n" not in str(e.value)


def test_a_home_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    home = tmp_path / "file" / "home"
    with pytest.raises(NotWritable, match=f"^{home} can't be used .*HIVESINK_HOME"):
        detached.start(home)
    # What every command asks that needs a metastore. A user who may not look gets another OSError.
    with pytest.raises(NotWritable, match=f"^{home}/metastore/server.json can't be used .*HIVESINK_HOME"):
        detached.status(home)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "a home ä"
    detached.stop(tmp_path / "a home ä")


def test_detached_it_starts_once_survives_a_kill_and_stops(home: Path) -> None:
    assert not detached.status(home).running
    assert not home.exists(), "asking leaves no traces"

    first = detached.start(home)
    assert first == detached.status(home)
    assert first.running
    assert first.warehouse == str(home / "warehouse")
    assert detached.start(home) == first, "a second start changes nothing"
    assert first.uri is not None
    assert first.pid is not None
    with client(first.uri) as c:
        assert c.get_database("default").locationUri == f"file:{home}/warehouse"
        create_table(c, "kept", f"file://{home}")

    os.kill(first.pid, signal.SIGKILL)
    assert wait_until(lambda: not detached.status(home).running, 60)

    second = detached.start(home)
    assert second.uri == first.uri
    assert second.warehouse == first.warehouse
    assert second.pid != first.pid
    with client(first.uri) as c:
        assert c.get_all_tables("kept") == ["t"]

    assert not detached.stop(home).running
    assert second.pid is not None
    assert identity_of(second.pid) is None
    assert not detached.stop(home).running, "stopping twice is harmless"
