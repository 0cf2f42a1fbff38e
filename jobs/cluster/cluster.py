"""The cluster for the length of a `with` block: its servers, and the order in which they start."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, TypeAlias

from hivesink.jvm.java import write_sites
from jobs.cluster import kdc, settings
from jobs.cluster.hdfs import DataNode, NameNode, client_sites, make_folders, make_homes
from jobs.cluster.hive import HiveMetastore, HiveServer2
from jobs.cluster.kafka import EmbeddedKafka
from jobs.cluster.kdc import Kdc
from jobs.cluster.s3 import S3Server
from jobs.cluster.server import EmbeddedServer
from jobs.cluster.spark import SparkMaster, SparkWorker

if TYPE_CHECKING:
    from typing_extensions import Self

PARTS: Mapping[str, frozenset[str]] = {
    "hdfs": frozenset({"hdfs"}),
    "metastore": frozenset({"hdfs", "metastore"}),
    "hiveserver2": frozenset({"hdfs", "metastore", "hiveserver2"}),
    "kafka": frozenset({"kafka"}),
    "spark": frozenset({"spark"}),
    "s3": frozenset({"s3", "hdfs", "metastore"}),
}
"""Each part that can be started, with what it needs."""


Start: TypeAlias = "Callable[[EmbeddedServer], None]"


@dataclass(frozen=True, slots=True)
class Servers:
    """Every server of a cluster, running or not."""

    namenode: NameNode
    datanodes: tuple[DataNode, ...]
    metastore: HiveMetastore
    hiveserver2: HiveServer2
    broker: EmbeddedKafka
    master: SparkMaster
    workers: tuple[SparkWorker, ...]
    s3: S3Server
    kdc: Kdc | None = None

    def by_name(self) -> dict[str, EmbeddedServer]:
        """Return each server by its name for people; servers come after those that they need."""
        return {
            **({"kdc": self.kdc} if self.kdc else {}),
            "namenode": self.namenode,
            **{f"datanode-{n}": node for n, node in enumerate(self.datanodes, 1)},
            "metastore": self.metastore,
            "hiveserver2": self.hiveserver2,
            "kafka": self.broker,
            "spark-master": self.master,
            **{f"spark-worker-{n}": worker for n, worker in enumerate(self.workers, 1)},
            **({"s3": self.s3} if self.s3.folder.is_dir() else {}),
        }

    def addressed(self) -> tuple[EmbeddedServer, ...]:
        """Return the servers whose addresses clients need."""
        return self.namenode, self.metastore, self.hiveserver2, self.broker, self.master


@dataclass(frozen=True, slots=True)
class Addresses:
    """Addresses of a whole cluster's servers; `conf` is fit for HADOOP_CONF_DIR and HIVE_CONF_DIR."""

    filesystem: str
    warehouse: str
    metastore_uri: str
    hiveserver2: str
    kafka: str
    spark_master: str
    conf: Path
    s3: str | None = None


class Cluster:
    """HDFS, Hive Metastore 4, HiveServer2, Kafka and Spark standalone, on the loopback.

    What the servers hold stays in `folder` for the next block; every process ends with this one. `only` names
    the parts to start, by default all, but S3 only where the folder has had one; what a part needs comes along.
    `secure`: HDFS, Hive and Kafka ask for logins, by a key server of their own; so does a folder that has had one.
    `metastore_extra` and `hiveserver2_extra` are properties that win over the cluster's own. Without `durable`
    a power cut may lose the last changes, which tests don't mind; the death of a process never does.
    Raises ServerFailed, SourceUnreachable, JavaFailed.
    """

    def __init__(
        self,
        folder: Path,
        *,
        durable: bool = False,
        secure: bool = False,
        only: Collection[str] | None = None,
        metastore_extra: Mapping[str, str] | None = None,
        hiveserver2_extra: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder.absolute()
        usual = set(PARTS) - (set() if (self.folder / "s3").is_dir() else {"s3"})
        self.parts = frozenset[str]().union(*(PARTS[part] for part in only or usual))
        self.servers = _servers(self.folder, durable, metastore_extra or {}, hiveserver2_extra or {})
        if secure or (self.folder / "kdc").is_dir():
            self.servers = _secured(self.servers, Kdc(self.folder / "kdc"))

    @classmethod
    def detached(cls, folder: Path, *, only: Collection[str] | None = None, secure: bool = False) -> Self:
        """Return the cluster of this folder, running or not, whose servers outlive this process.

        At the first start its servers take their well-known ports, if those are free.
        """
        cluster = cls(folder, durable=True, only=only, secure=secure)
        for name, server in {**cluster.servers.by_name(), "s3": cluster.servers.s3}.items():
            server.detached = True
            server.first_port = settings.PORTS.get(name)
            server.resume()
        return cluster

    @classmethod
    def running(cls, folder: Path) -> Addresses | None:
        """Return where the detached cluster of this folder is; None if a server that has an address is down."""
        cluster = cls.detached(folder)
        return cluster.addresses if all(server.alive for server in cluster.servers.addressed()) else None

    @property
    def addresses(self) -> Addresses:
        """Where its servers are, once all have been started."""
        return Addresses(**{field.name: getattr(self, field.name) for field in fields(Addresses)})

    @property
    def filesystem(self) -> str:
        """The `hdfs://` address, for `fs.defaultFS`."""
        return self.servers.namenode.filesystem

    @property
    def warehouse(self) -> str:
        """Where managed tables go; external ones go to the same with `-ext` behind."""
        return self.filesystem + settings.WAREHOUSE

    @property
    def metastore_uri(self) -> str:
        """The `thrift://` address."""
        return self.servers.metastore.uri

    @property
    def hiveserver2(self) -> str:
        """The `host:port`, for auth NOSASL."""
        return self.servers.hiveserver2.address

    @property
    def kafka(self) -> str:
        """The `host:port` for `bootstrap.servers`."""
        return self.servers.broker.bootstrap

    @property
    def spark_master(self) -> str:
        """The `spark://` address."""
        return self.servers.master.uri

    @property
    def s3(self) -> str | None:
        """The endpoint of the S3 server, where one runs."""
        return self.servers.s3.endpoint if self.servers.s3.alive else None

    @property
    def conf(self) -> Path:
        """The folder of core-site.xml, hdfs-site.xml and hive-site.xml, for clients."""
        return self.folder / "conf"

    def dfsadmin(self, *arguments: str) -> str:
        """Run `hdfs dfsadmin` and return what it prints. Raises ServerFailed if it fails."""
        return self.servers.namenode.dfsadmin(*arguments)

    def start(self, started: Callable[[str, EmbeddedServer], None] = lambda _, __: None) -> None:
        """Start the parts that don't run; return when all are ready.

        `started` is called with each server's name when it is ready, by the thread that started it.
        If a server fails, the others are left as they are.
        """

        def start(server: EmbeddedServer) -> None:
            server.start()
            started(next(name for name, other in self.servers.by_name().items() if other is server), server)

        chains = {
            "hdfs": partial(self._start_hadoop, start),
            "kafka": partial(start, self.servers.broker),
            "spark": partial(self._start_spark, start),
        }
        if self.servers.kdc and self.parts & {"hdfs", "kafka"}:
            start(self.servers.kdc)
        _together([chain for part, chain in chains.items() if part in self.parts])

    def _start_hadoop(self, start: Start) -> None:
        servers = self.servers
        if "s3" in self.parts:
            if not servers.s3.alive:
                # Those that run lack its jars and its address.
                for server in (servers.hiveserver2, servers.metastore):
                    server.stop()
            start(servers.s3)
        with nullcontext() if servers.kdc is None else servers.kdc.logged_in(kdc.SERVICES[0]):
            start(servers.namenode)
            make_folders(self.filesystem, settings.FOLDERS, servers.kdc)
            if servers.kdc:
                make_homes(self.filesystem, servers.kdc)
        # Neither the metastore nor HiveServer2 reads or writes a file when it starts, so no DataNode is needed.
        _together([*(partial(start, node) for node in servers.datanodes), partial(self._start_hive, start)])
        sites = client_sites(self.filesystem, servers.kdc)
        if servers.s3.alive:
            sites["core-site"] |= servers.s3.properties
        write_sites(self.conf, sites)
        if "metastore" in self.parts:
            hive = settings.hive_site(self.metastore_uri, self.filesystem)
            write_sites(self.conf, {"hive-site": hive | (kdc.hive_site() if servers.kdc else {})})

    def _start_hive(self, start: Start) -> None:
        if "metastore" in self.parts:
            start(self.servers.metastore)
        if "hiveserver2" in self.parts:
            start(self.servers.hiveserver2)

    def _start_spark(self, start: Start) -> None:
        start(self.servers.master)
        _together([partial(start, worker) for worker in self.servers.workers])

    def stop(self) -> None:
        """Stop every server and return when all are gone; harmless if none runs."""
        s = self.servers
        # Clients stop before their servers: a client that can't reach its server takes long to end.
        for wave in (
            (s.hiveserver2, s.broker, *s.workers),
            (s.metastore, s.master),
            (s.namenode, *s.datanodes, s.s3),
            filter(None, (s.kdc,)),
        ):
            if stops := [server.stop for server in wave]:
                _together(stops)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _servers(
    folder: Path, durable: bool, metastore_extra: Mapping[str, str], hiveserver2_extra: Mapping[str, str]
) -> Servers:
    namenode = NameNode(folder / "namenode", durable=durable)
    metastore = HiveMetastore(folder / "metastore", lambda: namenode.filesystem, durable=durable, extra=metastore_extra)
    master = SparkMaster(folder / "spark-master")
    broker = EmbeddedKafka(folder / "kafka")
    broker.keeps_port = True
    s3 = metastore.s3 = S3Server(folder / "s3")
    namenode.datanodes = tuple(
        DataNode(folder / f"datanode-{n}", n, lambda: namenode.filesystem) for n in range(1, settings.DATANODES + 1)
    )
    hiveserver2 = HiveServer2(
        folder / "hiveserver2", lambda: namenode.filesystem, lambda: metastore.uri, extra=hiveserver2_extra
    )
    hiveserver2.s3 = s3
    return Servers(
        namenode=namenode,
        datanodes=namenode.datanodes,
        metastore=metastore,
        hiveserver2=hiveserver2,
        broker=broker,
        master=master,
        workers=tuple(
            SparkWorker(folder / f"spark-worker-{n}", n, lambda: master.uri) for n in range(1, settings.WORKERS + 1)
        ),
        s3=s3,
    )


def _secured(servers: Servers, keys: Kdc) -> Servers:
    """The same ones, at names instead of numbers, with keys of `keys`."""
    hive: tuple[EmbeddedServer, ...] = (servers.metastore, servers.hiveserver2)
    for server in (servers.namenode, *servers.datanodes, *hive, servers.broker):
        server.kdc, server.host = keys, kdc.HOST
    return replace(servers, kdc=keys)


def _together(tasks: Sequence[Callable[[], None]]) -> None:
    """Run these at the same time; return when all are done. Raises the first error."""
    with ThreadPoolExecutor(len(tasks)) as pool:
        for running in [pool.submit(task) for task in tasks]:
            running.result()
