"""A server as a process at a port, started and stopped as often as wanted."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from hivesink.config.cache import using, write_atomically
from hivesink.errors import ServerFailed
from hivesink.jvm.java import OPENS, find_java, log4j2, write_sites

HOST = "127.0.0.1"
POLL_SECONDS, MOST_POLL_SECONDS = 0.05, 0.5
FREE_PORTS = range(20000, 32768)
"""Above well-known servers', and below what Linux gives to outgoing connections: a client that keeps connecting to a
server that is down would get the server's port some day."""
RECORD = "server.json"
HOME = "HIVESINK_HOME"


@dataclass(frozen=True, slots=True)
class Launch:
    """A server to start: its log says `ready` within `timeout` seconds. `grace`: those from SIGTERM to SIGKILL."""

    command: tuple[str, ...]
    log: Path
    ready: str
    env: Mapping[str, str] = field(default_factory=dict)
    timeout: float = 180.0
    grace: float = 10.0


def free_port() -> int:
    """One of FREE_PORTS of the loopback on which nobody listens now."""
    return next(port for port in random.sample(FREE_PORTS, len(FREE_PORTS)) if port_is_free(port))


def port_is_free(port: int) -> bool:
    """Say whether a server could listen on this port of the loopback."""
    with socket.socket() as s:
        # As the JVM does: lingering connections of the last server don't count.
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind((HOST, port))
        except OSError:
            return False
    return True


def identity_of(pid: int) -> str | None:
    """What tells process `pid` from a later process with its id; None if at most its exit code is left."""
    process = Path(f"/proc/{pid}")
    try:
        # proc(5): after the name, in parentheses, come the state and, as 22nd field, the start time.
        fields = (process / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        # Threads that outlive the first still hold the process's ports and files.
        is_over = fields[0] in "ZX" and len([*(process / "task").iterdir()]) < 2  # noqa: PLR2004
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return None
    return None if is_over else f"{boot} {fields[19]}"


def tail(log: Path) -> str:
    """Return the log's last eight lines as a single line, without frames of stack traces."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    return " | ".join([line for line in lines if line and not re.match(r"at \S+\(|\.\.\. \d+ ", line)][-8:])


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Return True soon after the condition holds, False if it doesn't within that time.

    The longer it waits, the less often it asks: on a busy machine the asking would slow down what it waits for.
    """
    begin = time.monotonic()
    while not condition():
        waited = time.monotonic() - begin
        if waited >= seconds:
            return False
        time.sleep(min(max(POLL_SECONDS, waited / 20), MOST_POLL_SECONDS))
    return True


class DetachedServer(ABC):
    """A server that outlives whoever starts it; what it holds stays in `folder`, with a record for `resume`.

    `first_port` is what the first start tries before any free port. Raises ServerFailed, JavaFailed.
    """

    host = HOST
    name: str
    detached = True
    first_port: int | None = None

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.port: int | None = None
        self._number: int | None = None
        self._identity = ""
        self._grace = 10.0

    @property
    def address(self) -> str:
        """Its `host:port`, which the first start chooses."""
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int | None:
        """The id of the server's own process, None if it doesn't run."""
        is_own = self._number is not None and identity_of(self._number) == self._identity
        return self._number if is_own else None

    @property
    def alive(self) -> bool:
        return self.pid is not None

    def start(self) -> None:
        """Start the server and return when it takes connections; harmless if it runs."""
        if self.alive:
            return
        port = self.port or self.first_port
        if port is None or not port_is_free(port):
            port = self._another_port()
        self._start_at(port)
        self.port = port

    def _another_port(self) -> int:
        return free_port()

    def _start_at(self, port: int) -> None:
        launch = self._launch(port)
        launch.log.parent.mkdir(parents=True, exist_ok=True)
        with launch.log.open("wb") as log:
            try:
                pid = self._run(launch, log)
            except OSError as error:
                raise ServerFailed(self.name, "could not be started", str(launch.log), str(error)) from error
        self._number, self._identity, self._grace = pid, identity_of(pid) or "", launch.grace

        def is_ready() -> bool:
            # The log's line counts, not the port, which another program may have opened.
            return launch.ready in launch.log.read_text(errors="replace")

        try:
            if self.detached:
                # Before it is ready, since this process may die while it waits.
                record = {"identity": self._identity, "pid": pid, "port": port}
                write_atomically(self.folder / RECORD, json.dumps(record) + "\n")
            problem = "ended before it was ready"
            if not wait_until(lambda: not self.alive or is_ready(), launch.timeout):
                problem = f"was not ready after {launch.timeout:.0f} s"
        except BaseException:
            self.stop()
            raise
        # So the last look at the log comes after the end of the process.
        if not is_ready():
            self.stop()
            raise ServerFailed(self.name, problem, str(launch.log), tail(launch.log))

    def _run(self, launch: Launch, log: IO[bytes]) -> int:
        """Begin its process; return the id."""
        child = subprocess.Popen(
            launch.command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, **launch.env},
            cwd=launch.log.parent,
            # Ctrl-C is for this process: it stops its servers itself.
            start_new_session=True,
        )
        child.returncode = 0  # Nobody waits for it.
        return child.pid

    def resume(self) -> None:
        """Take over the server of this folder: its port, and its process if that still runs.

        A record that makes no sense counts as none. Another process that has its number now is left alone.
        Raises NotWritable if this user may not look.
        """
        path = self.folder / RECORD
        with using(path, HOME), contextlib.suppress(FileNotFoundError, ValueError, KeyError, TypeError):
            record = json.loads(path.read_text(encoding="utf-8"))
            number, identity, port = int(record["pid"]), str(record["identity"]), int(record["port"])
            self._number, self._identity, self.port = number, identity, port

    def stop(self) -> None:
        """Stop the server and return when it is gone, by SIGKILL after its grace; harmless if it doesn't run."""
        self._end(signal.SIGTERM, signal.SIGKILL)

    def _end(self, *signals: signal.Signals) -> None:
        for number in signals:
            if (pid := self.pid) is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
                wait_until(lambda: not self.alive, self._grace)
        self._number = None

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
    """Hold the folder's lock: a single process starts or stops the detached servers in it. Raises NotWritable."""
    import fcntl

    with using(folder, HOME):
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("a")
    with lock as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield
