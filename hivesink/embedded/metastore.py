"""A real Hive Metastore 2.3 on Derby, from the jars that PySpark ships, on the loopback."""

from __future__ import annotations

import os
import subprocess
from hashlib import sha256
from pathlib import Path

from hivesink.config.cache import local_location, made_once, state_folder
from hivesink.config.site import Site
from hivesink.embedded.server import HOST, DetachedServer, Launch, locked
from hivesink.errors import InvalidOption, MetastoreUnreachable
from hivesink.jvm.jars import all_jars, fetch, jar, s3a
from hivesink.jvm.java import find_java

LOOPBACK_SOURCE = Path(__file__).with_name("java") / "HiveAuthUtils.java"


class EmbeddedMetastore(DetachedServer):
    """A server whose `folder` holds the database, `warehouse` the databases' folders and managed tables.

    `options` are more options of its Java. Tables may lie on S3 where the environment's site names it.
    """

    name = "the embedded Hive Metastore"
    options: tuple[str, ...] = ()

    def __init__(self, folder: Path, warehouse: Path) -> None:
        super().__init__(folder)
        self.warehouse = warehouse.absolute()

    @property
    def uri(self) -> str:
        """The `thrift://` address; a restart keeps it unless another program has the port."""
        return f"thrift://{self.address}"

    def _launch(self, port: int) -> Launch:
        self.warehouse.mkdir(parents=True, exist_ok=True)
        site = {
            **derby_site(self.folder),
            "hive.metastore.warehouse.dir": local_location(self.warehouse),
            "datanucleus.schema.autoCreateAll": "true",
            "datanucleus.connectionPoolingType": "HikariCP",
            "hive.metastore.schema.verification": "false",
            # Two hundred by default, each with a stack of 16 MB to reserve.
            "hive.metastore.server.min.threads": "8",
            # Ten attempts, two seconds apart, by default: so long would a call take that the database refuses.
            "hive.hmshandler.retry.attempts": "2",
            "hive.hmshandler.retry.interval": "50ms",
            # The asynchronous logger needs a library that PySpark does not ship.
            "hive.async.log.enabled": "false",
        }
        of_s3a = Site.load(os.environ).s3a
        java = self._java(
            os.pathsep.join([str(loopback_classes()), all_jars(), *map(str, fetch(s3a()) if of_s3a else ())]),
            "512m",
            *derby_options(self.folder),
            *self.options,
            sites={"hive-site": site, "core-site": {"fs.defaultFS": "file:///", **of_s3a}},
        )
        return Launch(
            command=(*java, "org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(port)),
            log=self.folder / "metastore.log",
            ready=f"hivesink: listening on {HOST}:{port}\n",
        )


def derby_site(folder: Path) -> dict[str, str]:
    """The properties of a metastore whose database is in `folder`."""
    return {
        "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder / 'db'};create=true",
    }


def derby_options(folder: Path) -> tuple[str, ...]:
    """The Java options of such a metastore."""
    return (
        # Derby parses a bulk add of partitions recursively.
        "-Xss16m",
        f"-Dderby.stream.error.file={folder / 'derby.log'}",
        # The metastore has more statements than the 100 that Derby keeps; it compiles each of the others at each call.
        "-Dderby.language.statementCacheSize=1000",
    )


def detached(home: Path | None = None) -> EmbeddedMetastore:
    """The metastore of this state folder, which runs, is stopped, or never ran and has no port yet."""
    home = home or state_folder()
    server = EmbeddedMetastore(home / "metastore", home / "warehouse")
    server.resume()
    return server


def running() -> tuple[str, str]:
    """Its URI and its warehouse. Raises MetastoreUnreachable if it is stopped, InvalidOption if it never ran."""
    server = detached()
    if server.alive:
        return server.uri, local_location(server.warehouse)
    if server.port is not None:
        raise MetastoreUnreachable(str(server.folder.parent), "it is stopped: run `hivesink metastore start`")
    way = "Start it with `hivesink metastore start`, or set HIVESINK_HOME, HIVE_CONF_DIR or HIVESINK_METASTORE"
    raise InvalidOption((f"no metastore: no embedded one runs in {server.folder.parent}. {way}",))


def start(home: Path | None = None) -> EmbeddedMetastore:
    """Start it unless it runs; it outlives this process. Raises ServerFailed, JavaFailed."""
    with locked(home or state_folder()):
        server = detached(home)
        server.start()
    return server


def stop(home: Path | None = None) -> EmbeddedMetastore:
    """Stop it and return when it is gone; harmless if it doesn't run."""
    home = home or state_folder()
    if home.exists():
        with locked(home):
            detached(home).stop()
    return detached(home)


def loopback_classes() -> Path:
    """Compile, once, what keeps the server on the loopback, with Spark's Janino. Raises JavaFailed, NotWritable."""
    thrift = jar("libthrift")
    key = sha256(LOOPBACK_SOURCE.read_bytes() + thrift.name.encode()).hexdigest()[:16]

    def compiled(scratch: Path) -> Path:
        classes = scratch / "classes"
        classes.mkdir()
        compiler = ("-cp", all_jars(), "org.codehaus.commons.compiler.samples.CompilerDemo")
        options = ("-d", classes, "-classpath", thrift, LOOPBACK_SOURCE)
        subprocess.run([find_java().program, *compiler, *options], capture_output=True, check=True)
        return classes

    return made_once(f"classes/{key}", compiled)
