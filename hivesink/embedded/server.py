"""What all embedded servers share: a process at a port, started and stopped as often as wanted."""

from __future__ import annotations

import contextlib
import json
import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from hivesink.config.cache import write_atomically
from hivesink.embedded.process import HOST, Launch, ServerProcess, on_free_port, port_is_free
from hivesink.embedded.process import start as start_process
from hivesink.errors import NotWritable
from hivesink.jvm.java import OPENS, find_java, log4j2, write_sites

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from typing_extensions import Self


RECORD = "server.json"


class EmbeddedServer(ABC):
    """A server for the length of a `with` block; what it holds stays in `folder` for the next start.

    It ends with this process, or, `detached`, goes on without it. Raises ServerFailed, JavaFailed.
    """

    host = HOST
    name: str
    """For errors."""
    keeps_port = False
    """Whether others know it by its port: then a restart takes this port or fails."""
    detached = False
    """Whether it goes on without this process; then it leaves a record in its folder for `resume`."""
    first_port: int | None = None
    """What the first start tries before any free port."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.port: int | None = None
        self._process: ServerProcess | None = None

    @property
    def address(self) -> str:
        """Its `host:port`, which the first start chooses."""
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int | None:
        """The id of the server's own process, None if it doesn't run."""
        return self._process.pid if self._process is not None and self._process.alive() else None

    @property
    def alive(self) -> bool:
        return self.pid is not None

    def start(self) -> None:
        """Start the server and return when it takes connections; harmless if it runs."""
        if self.alive:
            return
        if self.keeps_port and self.port is not None:
            if not port_is_free(self.port):
                msg = f"port {self.port} of {self.name}"
                raise NotWritable(msg, "another program uses it", "stop it, then start again")
            self._start_at(self.port)
        else:
            self.port = on_free_port(self._start_at, first=self.port or self.first_port)

    def _start_at(self, port: int) -> None:
        def launched(process: ServerProcess) -> None:
            if self.detached:
                record = {"identity": process.identity, "pid": process.pid, "port": port}
                write_atomically(self.folder / RECORD, json.dumps(record) + "\n")

        self._process = start_process(self._launch(port), attached=not self.detached, launched=launched)

    def resume(self) -> None:
        """Take over a detached server of this folder: its port, and its process if that still runs.

        A record that makes no sense counts as none. Another process that has its number now is left alone.
        Raises NotWritable if this user may not look.
        """
        path = self.folder / RECORD
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            process, self.port = ServerProcess(int(record["pid"]), str(record["identity"])), int(record["port"])
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return
        except OSError as error:
            raise _unusable(path, error) from error
        self._process = process if process.alive() else None

    def stop(self) -> None:
        """Stop the server and return when it is gone; harmless if it doesn't run."""
        if self._process is not None:
            self._process.stop()
            self._process = None

    def kill(self) -> None:
        """Kill the server by SIGKILL, as a crash would, and return when it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self.stop()

    @abstractmethod
    def _launch(self, port: int) -> Launch:
        """Prepare the folder for a start at this port, and return how to start."""

    def _java(
        self,
        jars: str,
        heap: str,
        *options: str,
        sites: Mapping[str, Mapping[str, str]] | None = None,
        levels: Mapping[str, str] | None = None,
        opens: Iterable[str] = OPENS,
    ) -> tuple[str, ...]:
        """Write its `conf` folder, with log levels by logger; return its command line, up to the main class."""
        conf, tmp = self.folder / "conf", self.folder / "tmp"
        tmp.mkdir(parents=True, exist_ok=True)
        write_sites(conf, sites or {})
        # Hive looks for its own names first, everything else for log4j's.
        for name in ("log4j2.properties", "hive-log4j2.properties", "metastore-log4j2.properties"):
            write_atomically(conf / name, log4j2("warn", levels))
        logs = (f"-Djava.io.tmpdir={tmp}", f"-Dlog4j2.configurationFile={(conf / 'log4j2.properties').as_uri()}")
        return java_command(os.pathsep.join([str(conf), jars]), heap, *logs, *options, opens=opens)


def java_command(class_path: str, heap: str, *options: str, opens: Iterable[str] = OPENS) -> tuple[str, ...]:
    """Return the command line of a Java server that starts fast, up to its main class. Raises JavaFailed."""
    fast = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Xmx{heap}", "-Djava.net.preferIPv4Stack=true")
    return find_java().program, *opens, *fast, *options, "-cp", class_path


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock: a single process at a time starts or stops the detached servers in it.

    Raises NotWritable.
    """
    import fcntl

    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("a")
    except OSError as error:
        raise _unusable(folder, error) from error
    with lock as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield


def _unusable(path: Path, error: OSError) -> NotWritable:
    return NotWritable(str(path), f"{error.strerror}; HIVESINK_HOME names another")
