"""The contenders' database and tables in the metastore: made before the first run, cleared away after each."""

from __future__ import annotations

import contextlib
from contextlib import closing
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any

from hive_metastore.ttypes import AlreadyExistsException, Database, NoSuchObjectException

from bench.ground import DATABASE
from hivesink.metastore.thrift_connection import Connection
from hivesink.storage.local import posix

if TYPE_CHECKING:
    from bench.ground import Ground


def prepare(ground: Ground) -> None:
    def create(client: Any) -> None:
        with contextlib.suppress(AlreadyExistsException):
            client.create_database(Database(name=DATABASE, locationUri=f"{ground.tables}/{DATABASE}.db"))

    with closing(_connection(ground)) as connection:
        connection.read(create)


def clear(ground: Ground, name: str) -> None:
    """Drop the table, with its dead letters, and what a local run leaves beside it."""

    def drop(client: Any) -> None:
        for table in (name, f"{name}__rejected"):
            # Not every contender makes them.
            with contextlib.suppress(NoSuchObjectException):
                client.drop_table(DATABASE, table, True)

    with closing(_connection(ground)) as connection:
        connection.read(drop)
    if ground.master is None:
        tables = Path(posix(ground.tables), f"{DATABASE}.db")
        logs = tables / ".hivesink" / f"{DATABASE}.{name}"
        for folder in (tables / name, tables / f"{name}__rejected", logs, Path(posix(ground.checkpoints), name)):
            rmtree(folder, ignore_errors=True)


def _connection(ground: Ground) -> Connection:
    return Connection(ground.metastore, ground.site().hive)
