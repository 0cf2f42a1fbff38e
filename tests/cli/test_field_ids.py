"""The ids of a table's fields, in its files and in its properties, on a real metastore."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from hivesink.core.table import TableName, field_ids
from hivesink.metastore.thrift_connection import Connection
from tests.cli.site import Ingest

if TYPE_CHECKING:
    from pathlib import Path


def test_ids_stay_when_columns_change(ingest: Ingest) -> None:
    live = ingest.setup.spec.target.spec
    (name, *others), first = [column.name for column in live.columns], field_ids(live.columns, {})
    assert ids_in_files(ingest.location) == {column: first[column] for column in (name, *others)}
    ingest.close()

    # REPLACE COLUMNS: the first one goes, another comes.
    change_columns(ingest, name, "fresh")
    again = Ingest(ingest.table, ingest.metastore, batches=ingest.batches)
    after = again.setup.spec.target.spec
    assert field_ids(after.columns, after.options) == {**first, "fresh": len(first) + 1}
    assert {key: text for key, text in stored(ingest).items() if key.startswith("hivesink_field_ids")} == {
        "hivesink_field_ids": ",".join([*first, "fresh"])
    }
    again.close()


def ids_in_files(folder: Path) -> dict[str, int]:
    schema = pq.read_schema(next(folder.rglob("part-*")))
    return {field.name: int(field.metadata[b"PARQUET:field_id"]) for field in schema}


def stored(ingest: Ingest) -> dict[str, str]:
    name, connection = TableName.parse(ingest.table), Connection(ingest.metastore)
    found = connection.read(lambda client: client.get_table(name.database, name.table))
    connection.close()
    return dict(found.parameters)


def change_columns(ingest: Ingest, gone: str, new: str) -> None:
    name, connection = TableName.parse(ingest.table), Connection(ingest.metastore)
    found = connection.read(lambda client: client.get_table(name.database, name.table))
    for column in found.sd.cols:
        if column.name == gone:
            column.name = new
    connection.read(lambda client: client.alter_table(name.database, name.table, found))
    connection.close()
