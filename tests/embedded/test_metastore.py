from __future__ import annotations

import os
import signal
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from hivesink.core.table import TableName
from hivesink.embedded import metastore as detached
from hivesink.embedded.metastore import EmbeddedMetastore
from hivesink.embedded.server import identity_of, wait_until
from hivesink.errors import NotWritable, ServerFailed
from hivesink.metastore.thrift import ThriftCatalog
from hivesink.metastore.thrift_connection import Connection
from tests.metastore.live import declared

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.main_path


def tables(uri: str) -> list[str]:
    """The tables of the database `kept`."""
    connection = Connection(uri)
    names: list[str] = connection.read(lambda client: client.get_all_tables("kept"))
    connection.close()
    return names


def create_table(uri: str, folder: Path) -> None:
    catalog = ThriftCatalog(Connection(uri))
    catalog.create_database_if_absent("kept")
    catalog.create(replace(declared(folder), name=TableName("kept", "t")))
    catalog.close()


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
    connection = Connection(first.uri)
    assert connection.read(lambda client: client.get_database("default")).locationUri == f"file:{home}/warehouse"
    connection.close()
    create_table(first.uri, home)

    os.kill(first.pid, signal.SIGKILL)
    assert wait_until(lambda: not detached.status(home).running, 60)

    second = detached.start(home)
    assert second.uri == first.uri
    assert second.warehouse == first.warehouse
    assert second.pid != first.pid
    assert tables(first.uri) == ["t"]

    assert not detached.stop(home).running
    assert second.pid is not None
    assert identity_of(second.pid) is None
    assert not detached.stop(home).running, "stopping twice is harmless"
