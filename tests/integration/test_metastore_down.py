"""A metastore that stops in the middle: epochs go on, parts wait, and an end with something open is no good end."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from hivesink import errors
from hivesink.core.table import TableName
from hivesink.embedded.metastore import EmbeddedMetastore
from hivesink.metastore.thrift_connection import Connection
from tests.integration.stage import ON_EPOCH, Stage, table_ddl, wait_until, wrap

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.spark

ALWAYS = {"processingTime": "0 seconds"}
NEW_DAY = json.dumps({"id": 100, "name": "new", "dt": "2024-02-01"}) + "\n"


@pytest.fixture
def stage(stage: Stage) -> Stage:
    """Where every epoch publishes at once."""
    return replace(stage, options=ON_EPOCH)


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedMetastore]:
    """A metastore to be stopped and started, beside the one that Spark reads by."""
    folder = tmp_path_factory.mktemp("mortal")
    with EmbeddedMetastore(folder / "server", folder / "warehouse", durable=False) as server:
        yield server


@pytest.fixture
def apart(stage: Stage, mortal: EmbeddedMetastore) -> Iterator[Stage]:
    """A stage whose table the sink knows by the mortal metastore."""
    alone = replace(stage, uri=mortal.uri)
    alone.create(location=stage.folder / "table")
    yield alone
    mortal.start()


def readable(apart: Stage, stage: Stage) -> list[int]:
    """The rows that Hive's reader finds by what the mortal metastore lists, and nothing else."""
    stage.spark.sql(f"DROP TABLE IF EXISTS {stage.table}")
    stage.create(table_ddl(stage.table, location=stage.folder / "table"))
    name = TableName.parse(apart.table)
    partitions = Connection(apart.uri).read(lambda client: client.get_partitions(name.database, name.table, -1))
    for partition in partitions:
        stage.spark.sql(
            f"ALTER TABLE {stage.table} ADD PARTITION (dt='{partition.values[0]}') LOCATION '{partition.sd.location}'"
        )
    return stage.ids()


def test_epochs_go_on_without_the_metastore_and_all_is_readable_after(
    apart: Stage, stage: Stage, mortal: EmbeddedMetastore
) -> None:
    apart.put(range(10))
    sink = apart.sink(options={"sink.rolling-policy.check-interval": "200ms"})
    query = apart.begin(sink, trigger=ALWAYS)
    try:
        query.processAllAvailable()
        mortal.stop()
        apart.put(range(10, 20))
        apart.put_text(NEW_DAY)
        query.processAllAvailable()
        assert sink._run.committer.head == 3
        assert "can't answer" in str(sink._run.committer.waiting)
        assert apart.checkpoint.joinpath("commits/2").exists()
        assert not list((stage.folder / "table").rglob("dt=2024-02-01/part-*"))
        mortal.start()
        # No data comes: the timer finishes what waits.
        wait_until(lambda: sink._run.committer.waiting is None)
        assert readable(apart, stage) == [*range(20), 100]
    finally:
        query.stop()
    assert readable(apart, stage) == [*range(20), 100]
    assert apart.staged() == []


@pytest.mark.parametrize(
    ("port", "method"),
    [
        ("log", "create"),
        pytest.param("log", "mark", marks=pytest.mark.long),
        pytest.param("registrar", "clear_accurate", marks=pytest.mark.long),
    ],
)
def test_a_metastore_that_stops_in_the_last_epoch_makes_the_run_fail_and_the_next_one_finish(
    apart: Stage, stage: Stage, mortal: EmbeddedMetastore, port: str, method: str
) -> None:
    apart.put(range(10))
    apart.drain()
    apart.put_text("".join(json.dumps({"id": number, "dt": f"2024-02-0{number}"}) + "\n" for number in (1, 2)))
    apart.put(range(10, 20))
    sink = apart.sink()

    def stop_after(real: Any, *args: Any) -> Any:
        done = real(*args)
        mortal.stop()
        return done

    wrap(sink, port, **{method: stop_after})
    with pytest.raises(errors.MetastoreUnreachable) as told:
        apart.drain(sink)
    assert "\n" not in str(told.value)
    assert sink._run.committer.head == 3
    mortal.start()
    # A run without any news.
    apart.drain()
    assert readable(apart, stage) == sorted([*range(20), 1, 2])
    assert apart.staged() == []


def refuse(_real: Any, table: Any, *_: Any) -> None:
    what, why = "register partitions", "refused by the test"
    raise errors.RegistrationFailed(str(table.spec.name), what, why, "memory")


@pytest.mark.parametrize("end", ["awaitTermination", pytest.param("stop", marks=pytest.mark.long)])
def test_a_registration_that_fails_in_the_last_epoch_is_raised_at_the_end(stage: Stage, end: str) -> None:
    stage.create()
    stage.put(range(10))
    sink = stage.sink()
    wrap(sink, "registrar", add=refuse)
    trigger = ALWAYS if end == "stop" else {"availableNow": True}
    query = stage.begin(sink, trigger=trigger)
    if end == "stop":
        query.processAllAvailable()
    with pytest.raises(errors.RegistrationFailed, match="refused by the test"):
        getattr(query, end)()
    assert stage.ids() == []
    stage.drain()
    assert stage.ids() == list(range(10))


@pytest.mark.parametrize("plain", [False, pytest.param(True, marks=pytest.mark.long)], ids=["start", "plain"])
def test_a_publish_that_fails_in_the_last_epoch_is_raised_and_finished_by_the_next_run(
    stage: Stage, plain: bool
) -> None:
    stage.create()
    stage.put(range(10))
    sink = stage.sink()

    def fail(_real: Any, part: Any) -> None:
        raise errors.StoreUnavailable(action="rename", path=part.staged, reason="the disk is gone")

    wrap(sink, "store", publish=fail)
    if plain:
        writer = stage.lines().writeStream.foreachBatch(sink).option("checkpointLocation", str(stage.checkpoint))
        with pytest.raises(Exception, match=r"hivesink\.errors\.StoreUnavailable: could not rename"):
            writer.trigger(availableNow=True).start().awaitTermination()
    else:
        with pytest.raises(errors.StoreUnavailable):
            stage.drain(sink)
    assert stage.ids() == []
    stage.drain()
    assert stage.ids() == list(range(10))
    assert stage.staged() == []
