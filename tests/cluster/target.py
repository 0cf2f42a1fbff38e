"""A topic of the cluster's Kafka, fed and a table of its, looked at past hivesink."""

from __future__ import annotations

import io
import json
import random
import secrets
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hivesink.hiveql.apply import apply
from hivesink.hiveql.parse import parse_ddl
from hivesink.metastore import catalog
from hivesink.metastore.thrift_connection import Connection
from jobs.cluster import Cluster
from jobs.cluster.hdfs import make_folders
from jobs.cluster.kafka import create_topic
from jobs.cluster.kdc import SERVICES
from tests.secure.site import kdc_of, site_of

ROWS_A_DAY = 400
SCHEMA = pa.schema([("id", pa.int64()), ("pad", pa.string()), ("dt", pa.string())])


def day(number: int) -> str:
    # Rows come for the newest day and for three older ones, so that epochs go on with partitions and begin some.
    newest, row = divmod(number, ROWS_A_DAY)
    return f"d{max(0, newest - row % 4):04d}"


def record(number: int, pad: int = 0) -> dict[str, Any]:
    # The pad doesn't compress, so that a part is more than one packet.
    return {"id": number, "pad": random.Random(number).randbytes(pad // 2).hex(), "dt": day(number)}  # noqa: S311


def rows(first: int, count: int) -> pa.RecordBatch:
    """The same rows without pads, for a sink that no Spark feeds."""
    numbers = range(first, first + count)
    return pa.RecordBatch.from_pylist([{"id": n, "pad": "", "dt": day(n)} for n in numbers], schema=SCHEMA)


@dataclass
class Feed:
    """A topic of three partitions that gets rows with the numbers 0, 1, 2…; `sent` is how many."""

    servers: str
    topic: str
    pad: int = 0
    sent: int = 0
    login: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        from confluent_kafka import Producer

        assert create_topic(self.servers, self.topic, 3, login=self.login)
        # Idempotent: a broker that dies before it has answered gets nothing twice.
        settings = {"bootstrap.servers": self.servers, "linger.ms": 5, "enable.idempotence": True, **self.login}
        # A broker that is down is what these tests are about.
        self._producer = Producer({**settings, "log_level": 0})

    def put(self, count: int) -> None:
        """`count` more rows, with the broker when this returns."""
        for number in range(self.sent, self.sent + count):
            self._producer.produce(self.topic, json.dumps(record(number, self.pad)), partition=number % 3)
            self._producer.poll(0)
        self.sent += count
        assert self._producer.flush(60) == 0


DATABASE = "underfire"


def open_database(cluster: Cluster) -> None:
    """On the secured cluster: everybody may make folders of tables in it."""
    kdc = kdc_of(cluster)
    with kdc.logged_in(SERVICES[0]):
        make_folders(cluster.filesystem, {f"/{DATABASE}": 0o1777}, kdc)


def own(name: str) -> str:
    """A name for a table and topic of one test's run."""
    return f"{name}_{secrets.token_hex(3)}"


@dataclass
class Target:
    """A table of the cluster, looked at past hivesink: by the metastore's own calls and by HDFS."""

    cluster: Cluster
    name: str
    _ids: dict[str, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        from hdfs_native import Client

        self.client = Client(self.cluster.filesystem, dict(site_of(self.cluster).hadoop))

    @classmethod
    def create(cls, cluster: Cluster, table: str, *, properties: Mapping[str, str] | None = None) -> Target:
        """`table` in the database for these tests, external, partitioned by day."""
        name = f"{DATABASE}.{table}"
        found = cls(cluster, name)
        place = f"{cluster.filesystem}/{DATABASE}/{table}"
        pairs = ", ".join(f"'{key}'='{value}'" for key, value in (properties or {}).items())
        ddl = (
            f"CREATE EXTERNAL TABLE {name} (id BIGINT, pad STRING) PARTITIONED BY (dt STRING) STORED AS PARQUET "
            f"LOCATION '{place}'" + (f" TBLPROPERTIES ({pairs})" if pairs else "")
        )
        apply([parse_ddl(ddl, "underfire.sql")], catalog(cluster.metastore_uri, site_of(cluster)))
        return found

    @property
    def folder(self) -> str:
        """Where the table is, without the file system."""
        return f"/{DATABASE}/{self.name.split('.')[1]}"

    def registered(self) -> dict[str, str]:
        """The locations of the partitions that the metastore knows, without the file system."""
        database, table = self.name.split(".")
        connection = Connection(self.cluster.metastore_uri, site_of(self.cluster).hive)
        found = connection.read(lambda client: client.get_partitions(database, table, -1))
        connection.close()
        return {one.values[0]: one.sd.location.removeprefix(self.cluster.filesystem) for one in found}

    def rows(self) -> Counter[int]:
        """How often each number can be read: visible files of registered partitions."""
        found: Counter[int] = Counter()
        for partition, location in self.registered().items():
            for path in self.files(location):
                for number in self._read(path):
                    assert day(number) == partition, (path, number)
                    found[number] += 1
        return found

    def count(self) -> int:
        return self.rows().total()

    def files(self, folder: str, *, hidden: bool = False) -> list[str]:
        """The visible files in `folder`, or the hidden ones below it; none where it is missing."""
        try:
            found = list(self.client.list_status(folder, recursive=hidden))
        except FileNotFoundError:
            return []
        names = [one.path for one in found if not one.isdir]
        return sorted(path for path in names if (path.rpartition("/")[2][0] in "._") == hidden)

    def staged(self) -> list[str]:
        """Files that no reader sees: orphans, where no job runs."""
        return self.files(self.folder, hidden=True)

    def _read(self, path: str) -> list[int]:
        # A finished part never changes.
        if path not in self._ids:
            content = io.BytesIO(self.client.read(path).read())
            self._ids[path] = pq.read_table(content, columns=["id"], partitioning=None).column("id").to_pylist()
        return self._ids[path]

    def check_once(self, rows: int) -> None:
        """Each of the numbers below `rows` once."""
        found = self.rows()
        lost = sorted(number for number in range(rows) if not found[number])
        doubled = sorted(number for number, times in found.items() if times > 1)
        assert not lost, f"lost {len(lost)}: {lost[:10]}"
        assert not doubled, f"doubled {len(doubled)}: {doubled[:10]}"
        assert found.total() == rows
