"""A user's INSERT INTO, by Hive's own loader, while decided rows wait for their partition (HIVE-29744)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from hivesink import wiring
from hivesink.errors import MetastoreUnreachable
from hivesink.formats.parquet import ParquetFormat
from hivesink.sink.inspect.findings import Level
from hivesink.sink.inspect.verify import verify
from tests.integration.stage import hive_reader

if TYPE_CHECKING:
    from tests.integration.stage import Stage

pytestmark = pytest.mark.spark

STATIC = "INSERT INTO {table} PARTITION (dt = '2024-01-01') SELECT 1000L, 'theirs'"
DYNAMIC = "INSERT INTO {table} PARTITION (dt) SELECT 1000L, 'theirs', '2024-01-01'"
HIVE_LOADER = "spark.sql.hive.convertInsertingPartitionedTable"


def insert(stage: Stage, statement: str) -> None:
    conf = stage.spark.conf
    conf.set(HIVE_LOADER, "false")
    try:
        with hive_reader(stage.spark):
            stage.spark.sql(statement.format(table=stage.table))
    finally:
        conf.unset(HIVE_LOADER)


def wait_without_the_metastore(stage: Stage) -> None:
    """Epochs are decided while the sink's metastore is away; the run ends, since nothing can be registered."""
    sink = stage.sink()
    away = wiring.MetastoreAddress.at("thrift", "thrift://127.0.0.1:1").registrar
    sink.setup = replace(sink.setup, context=replace(sink.setup.context, registrar=away))
    with pytest.raises(MetastoreUnreachable):
        stage.drain(sink)
    assert stage.staged()


@pytest.mark.parametrize("statement", [STATIC, DYNAMIC], ids=["static", "dynamic"])
def test_rows_that_wait_for_their_partition_survive_an_insert_into_it(stage: Stage, statement: str) -> None:
    stage.create()
    # That the loader does delete what is in an unlisted partition's folder is what makes the test one.
    folder = stage.location() / "dt=2024-01-01"
    folder.mkdir(parents=True)
    (folder / ".hidden").write_bytes(b"")
    stage.put(range(9))
    wait_without_the_metastore(stage)
    insert(stage, statement)
    assert not (folder / ".hidden").exists()
    assert stage.ids() == [1000]
    sink = stage.drain()
    assert stage.ids() == [*range(9), 1000]
    found = verify(sink.setup.context, "stage", stage.table, ParquetFormat.measure).findings
    assert [finding.text for finding in found if finding.level is Level.ERROR] == []
    insert(stage, statement)
    assert stage.ids() == [*range(9), 1000, 1000]
