"""One test's own world on the shared servers: its table, its source, its checkpoint, and what Hive's reader sees."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from py4j.protocol import Py4JJavaError

from hivesink import HiveSink, sources
from hivesink.core.table import TableName
from hivesink.embedded import server
from hivesink.formats import measure
from hivesink.hiveql.apply import apply
from hivesink.hiveql.parse import parse_ddl
from hivesink.metastore import catalog, connect
from hivesink.sink.inspect.verify import verify
from hivesink.spark.query import HiveQuery
from jobs.cluster.kafka import admin_client, create_topic, end_offsets
from tests.ingest import Wrapped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

AVAILABLE_NOW = {"availableNow": True}
HIVE_READER = "spark.sql.hive.convertMetastoreParquet"
COLUMNS = "id BIGINT, name STRING"
ON_EPOCH = {"sink.rolling-policy.on-epoch": "true"}
BY_DAY = "PARTITIONED BY (dt STRING)"
Raw: TypeAlias = "tuple[Any, ...]"
"""A record's partition, its value and perhaps its key and its headers."""


def event(number: int) -> dict[str, Any]:
    """Three days, in turn."""
    return {"ID": number, "Name": f"n{number}", "dt": f"2024-01-0{1 + number % 3}"}


def table_ddl(
    table: str,
    columns: str = COLUMNS,
    partitioned: str = BY_DAY,
    location: Path | str | None = None,
    properties: Mapping[str, str] | None = None,
) -> str:
    place = f"LOCATION '{location}'" if location else ""
    pairs = ", ".join(f"'{name}'='{value}'" for name, value in (properties or {}).items())
    settings = f"TBLPROPERTIES ({pairs})" if pairs else ""
    kind = "EXTERNAL TABLE" if location else "TABLE"
    return f"CREATE {kind} {table} ({columns}) {partitioned} STORED AS PARQUET {place} {settings}"


@dataclass(frozen=True)
class Stage:
    """`folder` is the test's own; `table` is `database.name`; `uri` is the sink's metastore."""

    spark: SparkSession
    uri: str
    folder: Path
    table: str
    options: Mapping[str, str] = field(default_factory=dict)

    def create(self, ddl: str | None = None, **parts: Any) -> Stage:
        text = ddl or table_ddl(self.table, **parts)
        apply([parse_ddl(text, "stage.sql")], catalog(self.uri))
        return self

    def sink(self, **settings: Any) -> HiveSink:
        options = settings.pop("options", {})
        # A test may pass what is no mapping.
        chosen = {**self.options, **options} if hasattr(options, "items") else options
        own = {"writer": "stage", "metastore": self.uri, "options": chosen}
        return HiveSink.for_table(self.spark, self.table, **{**own, **settings})

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    @property
    def source(self) -> Path:
        return self.folder / "source"

    def put(self, numbers: Iterable[int], name: str | None = None) -> Path:
        """A file of events, whole at once."""
        events = [event(number) for number in numbers]
        return self.put_text("".join(json.dumps(found) + "\n" for found in events), name)

    def put_text(self, text: str | bytes, name: str | None = None) -> Path:
        self.source.mkdir(exist_ok=True)
        path = self.source / (name or f"{len(list(self.source.iterdir())):04d}.json")
        hidden = path.with_name(f"_{path.name}")
        hidden.write_bytes(text.encode() if isinstance(text, str) else text)
        return hidden.rename(path)

    def lines(self) -> DataFrame:
        """The files as a stream, one in each batch."""
        self.source.mkdir(exist_ok=True)
        return sources.lines(self.spark, str(self.source), options={"maxFilesPerTrigger": "1"})

    def begin(self, sink: HiveSink, events: DataFrame | None = None, **settings: Any) -> HiveQuery:
        stream = self.lines() if events is None else events
        return sink.start(stream, **{"checkpoint": str(self.checkpoint), "trigger": AVAILABLE_NOW, **settings})

    @contextmanager
    def running(
        self, sink: HiveSink | None = None, events: DataFrame | None = None, every: str = "0 seconds"
    ) -> Iterator[HiveQuery]:
        """A query while the block runs."""
        query = self.begin(sink or self.sink(), events, trigger={"processingTime": every})
        try:
            yield query
        finally:
            query.stop()

    def plain(self, function: Any, events: DataFrame | None = None, checkpoint: str | None = None) -> None:
        """A query of the job's own, `foreachBatch(function)`, until nothing is left."""
        writer = (self.lines() if events is None else events).writeStream.foreachBatch(function)
        place = checkpoint or str(self.checkpoint)
        writer.option("checkpointLocation", place).trigger(**AVAILABLE_NOW).start().awaitTermination()

    def killed(self, events: DataFrame | None = None, when: Any = None, **settings: Any) -> None:
        """A run that ends before its first batch is decided, or, by `when=once_after`, right after that."""
        sink = self.sink(**settings)
        wrap(sink, "log", create=(when or once)(die))
        with pytest.raises(Exception, match="it dies here"):
            self.drain(sink, events)

    def drain(self, sink: HiveSink | None = None, events: DataFrame | None = None, **settings: Any) -> HiveSink:
        """Run a query until nothing is left."""
        sink = sink or self.sink()
        assert self.begin(sink, events, **settings).awaitTermination()
        return sink

    def ids(self, where: str = "true") -> list[int]:
        """The rows' keys, in order, by Hive's reader: one that is there twice shows twice."""
        # Sorted here, since an ORDER BY is one job more, for its ranges.
        return sorted(row.id for row in self.query(f"SELECT id FROM {self.table} WHERE {where}"))

    def query(self, sql: str, tries: int = 3) -> list[Any]:
        """The rows of `sql`, read by Hive's reader."""
        try:
            with hive_reader(self.spark):
                return list(self.spark.sql(sql).collect())
        except Py4JJavaError as error:
            # Hadoop's local file system asks again about a file that it has listed, and a job has renamed since.
            if tries == 1 or "get file permissions" not in str(error):
                raise
        return self.query(sql, tries - 1)

    def location(self) -> Path:
        live = connect("thrift", self.uri).table(TableName.parse(self.table))
        return Path(live.location.removeprefix("file:"))

    def staged(self) -> list[str]:
        """Files that are not part of the table: orphans, where no query runs."""
        return [path.name for path in self.location().rglob(".part-*")]

    def log(self, writer: str = "stage") -> Path:
        place = self.location()
        return place.parent / ".hivesink" / self.table / writer / "1"

    def verify(self) -> None:
        """`hivesink verify` finds nothing wrong, but for files that a SET LOCATION leaves behind."""
        findings = verify(self.sink().setup.context, "stage", self.table, measure).findings
        told = [finding.text for finding in findings if finding.level == "error"]
        assert [text for text in told if "no reader finds them" not in text] == []

    def forget_checkpoint(self) -> None:
        shutil.rmtree(self.checkpoint)

    def lose(self, name: str) -> None:
        """A file of the checkpoint vanishes, with Hadoop's checksum beside it."""
        path = self.checkpoint / name
        path.unlink()
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)

    def copy_checkpoint(self) -> Path:
        return shutil.copytree(self.checkpoint, self.folder / "checkpoint-copy")

    def restore_checkpoint(self, copy: Path) -> None:
        self.forget_checkpoint()
        copy.rename(self.checkpoint)


@contextmanager
def hive_reader(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(HIVE_READER, "false")
    try:
        yield
    finally:
        spark.conf.unset(HIVE_READER)


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Fails where the condition doesn't come true in that time."""
    assert server.wait_until(condition, seconds), "it never came"


def wrap(sink: HiveSink, port: str, **methods: Any) -> None:
    """Put `methods` before those of a port; each gets the real one first."""
    context = sink.setup.context
    object.__setattr__(context, port, Wrapped(getattr(context, port), **methods))


def die(*_: object) -> None:
    message = "it dies here"
    raise ConnectionError(message)


def once(act: Callable[[], Any], *, after: bool = False) -> Callable[..., Any]:
    """Before a port's method, or after it: act, at its first call only."""
    calls: list[None] = []

    def method(real: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        is_first = not calls
        calls.append(None)
        if is_first and not after:
            act()
        done = real(*args, **kwargs)
        if is_first and after:
            act()
        return done

    return method


once_after = partial(once, after=True)


@dataclass(frozen=True)
class Topic:
    """A topic of the real broker. Records go to the partition `number % partitions` of `event(number)`."""

    servers: str
    name: str

    @classmethod
    def create(cls, servers: str, name: str, partitions: int = 2) -> Topic:
        assert create_topic(servers, name, partitions)
        return cls(servers, name)

    def grow(self, partitions: int) -> None:
        from confluent_kafka.admin import NewPartitions

        with admin_client(self.servers) as admin:
            [answer] = admin.create_partitions([NewPartitions(self.name, partitions)]).values()
            answer.result()
        end_offsets(self.servers, self.name, partitions)

    def remake(self, partitions: int = 2) -> None:
        """Delete the topic, and create it again under its name."""
        with admin_client(self.servers) as admin:
            admin.delete_topics([self.name])[self.name].result()
        wait_until(lambda: create_topic(self.servers, self.name, partitions))

    def put(self, numbers: Iterable[int], partitions: int = 2) -> None:
        self.put_raw([(number % partitions, json.dumps(event(number)).encode()) for number in numbers])

    def put_raw(self, records: Iterable[Raw], at: datetime | None = None) -> None:
        from confluent_kafka import Producer

        moment = at or datetime.now(timezone.utc)
        producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 5})
        timestamp = int(moment.timestamp() * 1000)
        for partition, value, *rest in records:
            more = dict(zip(("key", "headers"), rest, strict=False))
            producer.produce(self.name, value, partition=partition, timestamp=timestamp, **more)
        assert producer.flush(30) == 0

    def abort(self, numbers: Iterable[int]) -> None:
        """Records of a transaction that doesn't take place."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.servers, "transactional.id": self.name})
        producer.init_transactions(30)
        producer.begin_transaction()
        for number in numbers:
            producer.produce(self.name, json.dumps(event(number)).encode(), partition=0)
        producer.flush(30)
        producer.abort_transaction(30)

    def stream(self, spark: SparkSession, **options: str) -> DataFrame:
        return sources.kafka(spark, self.servers, self.name, options=options)
