"""Queries with state that fail before and after the decision: what Spark runs again, and the state that it keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hivesink.core.manifest import Manifest
from hivesink.errors import SourceFilesMissing
from hivesink.sink.commit.committed import Committed
from tests.integration.stage import Stage, die, wrap

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_PACKAGE = "org.apache.spark.sql.execution.streaming.state"
_CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
_ROCKSDB = {_PROVIDER: f"{_PACKAGE}.RocksDBStateStoreProvider", _CHANGELOG: "false"}
_FORMAT_2 = {"spark.sql.streaming.stateStore.checkpointFormatVersion": "2"}

# Spark 4 has format 2, for RocksDB only; Spark 3.5 passes over the setting.
STORES: Mapping[str, Mapping[str, str]] = {
    "files": {_PROVIDER: f"{_PACKAGE}.HDFSBackedStateStoreProvider"},
    "rocksdb": _ROCKSDB,
    "rocksdb-changelog": {**_ROCKSDB, _CHANGELOG: "true"},
    "rocksdb-format-2": {**_ROCKSDB, **_FORMAT_2},
    "rocksdb-changelog-format-2": {**_ROCKSDB, _CHANGELOG: "true", **_FORMAT_2},
}

LAST = 100
"""The last feed, late enough to close the windows before it."""
MAIN = ("rows that come again", "rocksdb-changelog-format-2")


def left(number: int) -> range:
    return range(number * 10, number * 10 + 10)


def right(number: int) -> range:
    """Half of them are of the feed before."""
    return range(max(0, number * 10 - 5), number * 10 + 5)


def feed(stage: Stage, number: int) -> None:
    stage.put(left(number))
    stage.put(right(number)).rename(other(stage) / f"{number}.json")


def other(stage: Stage) -> Path:
    folder = stage.folder / "other"
    folder.mkdir(exist_ok=True)
    return folder


def both(stage: Stage) -> tuple[DataFrame, DataFrame]:
    stage.source.mkdir(exist_ok=True)
    reader = stage.spark.readStream.schema("ID BIGINT, Name STRING, dt STRING").option("maxFilesPerTrigger", "1")
    return reader.json(str(stage.source)), reader.json(str(other(stage)))


def distinct(stage: Stage) -> DataFrame:
    one, two = both(stage)
    return one.union(two).dropDuplicates(["id"])


def windows(stage: Stage) -> DataFrame:
    """The sum of the ids of 15 seconds, one of which has one id."""
    from pyspark.sql import functions as sql

    timed = both(stage)[0].withColumn("at", sql.expr("timestamp_seconds(1704067200 + id)"))
    sums = timed.withWatermark("at", "0 seconds").groupBy(sql.window("at", "15 seconds")).agg(sql.sum("id").alias("id"))
    return sums.selectExpr("id", "'w' AS name", "'d' AS dt")


def joined(stage: Stage) -> DataFrame:
    one, two = both(stage)
    return one.join(two.select("id"), "id")


def ids_of(side: Callable[[int], range], feeds: Iterable[int]) -> list[int]:
    return [found for number in feeds for found in side(number)]


def sums(feeds: Iterable[int]) -> list[int]:
    """Of the windows that the last id closes."""
    found: dict[int, int] = {}
    for number in ids_of(left, feeds):
        found[number // 15] = found.get(number // 15, 0) + number
    return sorted(total for window, total in found.items() if window * 15 + 15 <= max(left(LAST)))


QUERIES: dict[str, tuple[Callable[[Stage], DataFrame], Callable[[Iterable[int]], list[int]]]] = {
    "rows that come again": (distinct, lambda feeds: sorted({*ids_of(left, feeds), *ids_of(right, feeds)})),
    "windows": (windows, sums),
    "joined streams": (joined, lambda feeds: sorted({*ids_of(left, feeds)} & {*ids_of(right, feeds)})),
}


def cases() -> Iterator[Any]:
    for query in QUERIES:
        for store in STORES:
            marks = [pytest.mark.main_path] if (query, store) == MAIN else [pytest.mark.long]
            yield pytest.param(query, store, marks=marks, id=f"{query}-{store}".replace(" ", "-"))


@pytest.fixture
def keeping(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[None]:
    """The session's queries keep their state in the store that the test is for."""
    settings = STORES[request.node.callspec.params["store"]]
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield
    for name in settings:
        spark.conf.unset(name)


def before(real: Callable[[Manifest], None], manifest: Manifest) -> None:
    # Recovery decides its fences by the same call.
    if manifest.kind == "batch":
        die()
    real(manifest)


def after(real: Callable[[Manifest], None], manifest: Manifest) -> None:
    real(manifest)
    if manifest.kind == "batch":
        die()


def fail(stage: Stage, events: DataFrame, create: Callable[..., None]) -> None:
    """A run that ends just before or after it decides a batch."""
    sink = stage.sink()
    wrap(sink, "log", create=create)
    with pytest.raises(Exception, match="it dies here"):
        stage.drain(sink, events)


@pytest.mark.usefixtures("keeping")
@pytest.mark.parametrize(("query", "store"), list(cases()))
def test_a_query_with_state_fails_before_and_after_the_decision(stage: Stage, query: str, store: str) -> None:
    assert store in STORES
    stage.create()
    stream, expected = QUERIES[query]
    events = stream(stage)
    feed(stage, 0)
    stage.drain(events=events)
    feed(stage, 1)
    fail(stage, events, before)
    fail(stage, events, after)
    # The rows are in the table, but the state needs them too.
    newest = max(stage.source.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
    gone, files = (newest, 1) if query == "windows" else (other(stage) / "1.json", 2)
    gone.rename(stage.folder / "1.json")
    with pytest.raises(SourceFilesMissing, match=rf"1 of the {files} files .*/{gone.name}"):
        stage.drain(events=events)
    (stage.folder / "1.json").rename(gone)
    # The replay fails to end well too, as if the process were killed once more before Spark's own commit.
    replayed: list[bool] = []

    def die_after(done: Committed) -> None:
        replayed.append(done.replayed)
        die()

    with pytest.raises(Exception, match="it dies here"):
        stage.drain(stage.sink(on_commit=die_after), events)
    assert replayed == [True]
    for number in (2, LAST):
        feed(stage, number)
        stage.drain(events=events)
    assert stage.ids() == expected((0, 1, 2, LAST))


def test_a_kill_while_the_first_batch_was_planned_leaves_nothing_in_the_way(stage: Stage) -> None:
    stage.create()
    stage.put(range(10))
    offsets = stage.checkpoint / "offsets"
    offsets.mkdir(parents=True)
    (offsets / ".0.3b1f.tmp").touch()
    (offsets / "..0.3b1f.tmp.crc").touch()
    stage.drain(events=both(stage)[0].dropDuplicates(["id"]))
    assert stage.ids() == list(range(10))
    assert {path.name for path in offsets.iterdir() if path.suffix == ".tmp"} == set()
    # Of a query that has begun they are Spark's own business.
    (offsets / ".1.3b1f.tmp").touch()
    stage.put(range(10, 20))
    stage.drain(events=both(stage)[0].dropDuplicates(["id"]))
    assert (offsets / ".1.3b1f.tmp").exists()


def test_a_replay_without_state_reads_nothing(stage: Stage) -> None:
    """What it has read may be gone by then."""
    stage.create()
    first = stage.put(range(10))
    fail(stage, stage.lines(), after)
    first.unlink()
    stage.put(range(10, 20), "new.json")
    stage.drain()
    assert stage.ids() == list(range(20))
