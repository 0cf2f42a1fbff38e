"""What all embedded servers share: a process at a port, started and stopped as often as wanted."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hivesink.config.cache import write_atomically
from hivesink.errors import NotWritable, ServerFailed
from hivesink.jvm.java import OPENS, find_java, log4j2, write_sites

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from typing_extensions import Self

HOST = "127.0.0.1"
GUARD = Path(__file__).with_name("guard.py")
POLL_SECONDS = 0.05
FREE_PORTS = range(20000, 32768)
"""Above well-known servers', and below what Linux gives to outgoing connections: a client that keeps connecting to a
server that is down would get the server's port some day."""
PORT_TAKEN = re.compile(r"Address already in use|BindException|Could not create ServerSocket|Failed to bind")


@dataclass(frozen=True, slots=True)
class Launch:
    """A server to start: its log says `ready` within `timeout` seconds. `grace`: those from SIGTERM to SIGKILL."""

    name: str
    command: tuple[str, ...]
    log: Path
    ready: str
    env: Mapping[str, str] = field(default_factory=dict)
    timeout: float = 180.0
    grace: float = 10.0


@dataclass(slots=True)
class ServerProcess:
    """A running server: `identity` tells it from a later process with its `pid`.

    With a `guard` it ends with this process, however that ends.
    """

    pid: int
    identity: str
    guard: subprocess.Popen[bytes] | None = None
    grace: float = 10.0

    def alive(self) -> bool:
        return identity_of(self.pid) == self.identity

    def stop(self) -> None:
        """End the process and return when it is gone: SIGTERM first, SIGKILL after the grace."""
        self.kill(signal.SIGTERM)
        self.kill()

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End the process by this signal, SIGKILL as a crash would, and return when it is gone."""
        if self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)
            wait_until(lambda: not self.alive(), self.grace)
        if self.guard is not None and not self.alive():
            with self.guard:  # Its end also closes the pipe to it.
                pass


def start(
    launch: Launch, *, attached: bool = True, launched: Callable[[ServerProcess], None] = lambda _: None
) -> ServerProcess:
    """Start a server and return when it is ready. It ends with this process if it is `attached`. Raises ServerFailed.

    `launched` is called as soon as the process exists: a caller that dies while it waits can have recorded it.
    """
    launch.log.parent.mkdir(parents=True, exist_ok=True)
    guard = (sys.executable, "-I", "-S", GUARD, str(launch.grace)) if attached else ()
    with launch.log.open("wb") as log:
        try:
            child = subprocess.Popen(
                [*guard, *launch.command],
                stdin=subprocess.PIPE if attached else subprocess.DEVNULL,
                stdout=subprocess.PIPE if attached else log,
                stderr=log,
                env={**os.environ, **launch.env},
                cwd=launch.log.parent,
                # Ctrl-C is for this process: it stops its servers itself.
                start_new_session=True,
            )
        except OSError as error:
            raise ServerFailed(launch.name, "could not be started", str(launch.log), str(error)) from error
    pid = child.pid
    if child.stdout is not None:
        with child.stdout as answer:
            # Nothing comes if the program can't be started; its log says why.
            pid = int(answer.readline() or pid)
    else:
        child.returncode = 0  # Nobody waits for it.
    server = ServerProcess(pid, identity_of(pid) or "", child if attached else None, launch.grace)
    launched(server)
    try:
        _await_ready(launch, server)
    except BaseException:
        server.stop()
        raise
    return server


def _await_ready(launch: Launch, server: ServerProcess) -> None:
    """Return when it is ready. The log's line counts, not the port, which another program may have opened."""
    end, problem = time.monotonic() + launch.timeout, f"was not ready after {launch.timeout:.0f} s"
    while time.monotonic() < end:
        # In this order, the last look at the log comes after the end of the process.
        alive = server.alive()
        if launch.ready in launch.log.read_text(errors="replace"):
            return
        if not alive:
            problem = "ended before it was ready"
            break
        time.sleep(POLL_SECONDS)
    raise ServerFailed(launch.name, problem, str(launch.log), tail(launch.log))


def on_free_port(start: Callable[[int], None], *, first: int | None = None, tries: int = 4) -> int:
    """Call `start` with free ports until no other program takes the port meanwhile; return it.

    `first` is tried first if it is free. Raises what else `start` raises.
    """
    port = first if first is not None and port_is_free(first) else free_port()
    try:
        start(port)
    except ServerFailed as e:
        if tries == 1 or not PORT_TAKEN.search(Path(e.log).read_text(errors="replace")):
            raise
        return on_free_port(start, tries=tries - 1)
    return port


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
    """Return True as soon as the condition holds, False if it doesn't within that time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= end:
            return False
        time.sleep(POLL_SECONDS)
    return True


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

        self._process = start(self._launch(port), attached=not self.detached, launched=launched)

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
