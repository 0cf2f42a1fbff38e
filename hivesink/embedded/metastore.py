"""A real Hive Metastore 2.3 on Derby, from the jars that PySpark ships, on the loopback."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from hivesink.config.cache import cache_folder, state_folder, write_atomically
from hivesink.embedded.lock import locked
from hivesink.embedded.process import HOST, Detached, Launch, on_free_port, start_detached
from hivesink.embedded.server import EmbeddedServer
from hivesink.jvm.conf import log4j2, write_conf
from hivesink.jvm.jars import all_jars, jar
from hivesink.jvm.java import OPENS, find_java

LOOPBACK_SOURCE = Path(__file__).with_name("java") / "HiveAuthUtils.java"
STATE_FILE = "server.json"


class EmbeddedMetastore(EmbeddedServer):
    """A metastore for the length of a `with` block; what it holds stays in `folder` for the next one.

    `folder` takes the database, the settings and the log; `warehouse` is where databases and managed tables
    go. Without `durable` a power cut may lose the last commits, which tests don't mind; the death of the
    process never does. Raises ServerFailed, JavaNotFound.
    """

    name = "the embedded Hive Metastore"

    def __init__(self, folder: Path, warehouse: Path, *, durable: bool = True) -> None:
        super().__init__(folder)
        self.warehouse = warehouse.absolute()
        self._durable = durable

    @property
    def uri(self) -> str:
        """The `thrift://` address; it stays the same over a restart unless the port was taken meanwhile."""
        return f"thrift://{self.address}"

    def _launch(self, port: int) -> Launch:
        return _launch(self.folder, self.warehouse, port, durable=self._durable)


@dataclass(frozen=True, slots=True)
class MetastoreStatus:
    """The detached metastore of a state folder: where it is, and whether it runs."""

    running: bool
    home: str
    uri: str | None = None
    pid: int | None = None
    warehouse: str | None = None


def status(home: Path | None = None) -> MetastoreStatus:
    """Say whether the metastore of this state folder runs, and where."""
    home = (home or state_folder()).absolute()
    state = _read_state(home)
    if state is None:
        return MetastoreStatus(running=False, home=str(home))
    running = Detached(state.pid, state.identity).alive()
    return MetastoreStatus(
        running=running,
        home=str(home),
        uri=f"thrift://{HOST}:{state.port}" if running else None,
        pid=state.pid if running else None,
        warehouse=state.warehouse,
    )


def start(home: Path | None = None, warehouse: Path | None = None) -> MetastoreStatus:
    """Start the metastore of this state folder, to go on when this process ends; if it runs, leave it so.

    It keeps the port and warehouse of its last run where it can; the first run's default warehouse is
    `<home>/warehouse`. Raises ServerFailed, JavaNotFound.
    """
    home = (home or state_folder()).absolute()
    with locked(home):
        now = status(home)
        if now.running:
            return now
        last = _read_state(home)
        place = str((warehouse or Path(now.warehouse or home / "warehouse")).absolute())
        servers: list[Detached] = []

        def launch(port: int) -> None:
            servers.append(start_detached(_launch(home / "metastore", Path(place), port, durable=True)))

        port = on_free_port(launch, first=last.port if last else None)
        (server,) = servers
        _write_state(home, _State(server.pid, server.identity, port, place))
        return status(home)


def stop(home: Path | None = None) -> MetastoreStatus:
    """Stop the metastore of this state folder and return when it is gone; harmless if it doesn't run."""
    home = (home or state_folder()).absolute()
    if not home.exists():
        return status(home)
    with locked(home):
        state = _read_state(home)
        if state is not None:
            # A process that only inherited the number after a reboot is not touched.
            Detached(state.pid, state.identity).stop()
        return status(home)


@dataclass(frozen=True, slots=True)
class _State:
    pid: int
    identity: str
    port: int
    warehouse: str


def _read_state(home: Path) -> _State | None:
    """Return the last run's state; a file that can't be read counts as none, for it only helps to find it."""
    try:
        fields: dict[str, Any] = json.loads((home / "metastore" / STATE_FILE).read_text(encoding="utf-8"))
        return _State(int(fields["pid"]), fields["identity"], int(fields["port"]), fields["warehouse"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def _write_state(home: Path, state: _State) -> None:
    text = json.dumps(asdict(state), indent=2, sort_keys=True)
    write_atomically(home / "metastore" / STATE_FILE, text + "\n")


def _launch(folder: Path, warehouse: Path, port: int, *, durable: bool) -> Launch:
    warehouse.mkdir(parents=True, exist_ok=True)
    conf = folder / "conf"
    write_conf(
        conf,
        {
            "hive.metastore.warehouse.dir": warehouse.as_uri(),
            "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder / 'db'};create=true",
            "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
            "datanucleus.schema.autoCreateAll": "true",
            "datanucleus.connectionPoolingType": "HikariCP",
            "hive.metastore.schema.verification": "false",
            # Two hundred by default, each with a stack of 16 MB to reserve.
            "hive.metastore.server.min.threads": "8",
            # Two seconds by default: a database that can't be opened would take twenty to say so.
            "hive.hmshandler.retry.interval": "200ms",
            # The asynchronous logger needs a library that PySpark does not ship.
            "hive.async.log.enabled": "false",
        },
        log4j2("warn"),
    )
    java = find_java()
    return Launch(
        name=EmbeddedMetastore.name,
        command=(
            java.program,
            *OPENS,
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Xmx512m",
            # Derby parses a bulk add of partitions recursively.
            "-Xss16m",
            "-Djava.net.preferIPv4Stack=true",
            f"-Dderby.stream.error.file={folder / 'derby.log'}",
            *(() if durable else ("-Dderby.system.durability=test",)),
            f"-Dlog4j2.configurationFile={conf / 'log4j2.properties'}",
            "-cp",
            f"{conf}:{_loopback_classes(java.program)}:{all_jars()}",
            "org.apache.hadoop.hive.metastore.HiveMetaStore",
            "-p",
            str(port),
        ),
        log=folder / "metastore.log",
        ready=f"hivesink: listening on {HOST}:{port}\n",
    )


def _loopback_classes(java: str) -> Path:
    """Compile the class that keeps the server on the loopback, once, with the Janino that Spark ships."""
    thrift = jar("libthrift")
    key = sha256(LOOPBACK_SOURCE.read_bytes() + thrift.name.encode()).hexdigest()[:16]
    classes = cache_folder() / "classes" / key
    if not classes.exists():
        classes.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(dir=classes.parent, prefix=".new-"))
        compiler = ("-cp", all_jars(), "org.codehaus.commons.compiler.samples.CompilerDemo")
        subprocess.run(
            [java, *compiler, "-d", fresh, "-classpath", thrift, LOOPBACK_SOURCE],
            capture_output=True,
            check=True,
        )
        try:
            fresh.rename(classes)
        except OSError:
            # Another process was first, with the same bytes.
            shutil.rmtree(fresh)
    return classes
