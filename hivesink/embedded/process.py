"""Server processes: start one and wait until it is ready, stop it, recognise it later."""

from __future__ import annotations

import contextlib
import io
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hivesink.errors import ServerFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import BinaryIO

HOST = "127.0.0.1"
GUARD = Path(__file__).with_name("guard.py")
POLL_SECONDS = 0.05
STOP_SECONDS = 10
# Lower ports are those of well-known servers, which may be started later.
LOWEST_PORT = 20000
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
    grace: float = STOP_SECONDS


@dataclass(frozen=True, slots=True)
class Detached:
    """A process that outlives its starter; `identity` distinguishes it from a later one with the same id."""

    pid: int
    identity: str

    def alive(self) -> bool:
        return identity_of(self.pid) == self.identity

    def stop(self) -> None:
        """End the process and return when it is gone: SIGTERM first, SIGKILL after ten seconds."""
        self.kill(signal.SIGTERM)
        self.kill()

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End the process by this signal, SIGKILL as a crash would, and return when it is gone."""
        if self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)
            wait_until(lambda: not self.alive(), STOP_SECONDS)


@dataclass(slots=True)
class Attached:
    """A process that ends with this one, however this one ends; `pid` is its own, not its guard's."""

    pid: int
    guard: subprocess.Popen[bytes]
    grace: float

    def alive(self) -> bool:
        return self.guard.poll() is None

    def stop(self) -> None:
        """End the process and return when it is gone; the guard kills it when it doesn't go."""
        if self.guard.stdin is not None:
            self.guard.stdin.close()
        try:
            self.guard.wait(self.grace + STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self.guard.pid, signal.SIGKILL)
            self.guard.wait()

    def kill(self) -> None:
        """End the process by SIGKILL, as a crash would, and return when it is gone."""
        if self.alive():
            # The guard has not taken its exit code, so the number is still its own.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        self.stop()


def start_attached(launch: Launch) -> Attached:
    """Start a server that ends with this process; return when it is ready. Raises ServerFailed."""
    with _fresh_log(launch) as log:
        guard = subprocess.Popen(
            [sys.executable, "-I", "-S", GUARD, "attached", str(launch.grace), *launch.command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env={**os.environ, **launch.env},
            cwd=launch.log.parent,
            # Ctrl-C is for this process: it stops its servers itself.
            start_new_session=True,
        )
    with guard.stdout or io.BytesIO() as answer:
        # Nothing comes if the program can't be started; its log says why.
        pid = int(answer.readline() or guard.pid)
    server = Attached(pid, guard, launch.grace)
    _await_ready(launch, server)
    return server


def start_detached(launch: Launch, launched: Callable[[Detached], None] = lambda _: None) -> Detached:
    """Start a server that outlives this process; return when it is ready. Raises ServerFailed.

    `launched` is called as soon as the process exists: a caller that dies while it waits can have recorded it.
    """
    with _fresh_log(launch) as log:
        answer = subprocess.run(
            [sys.executable, "-I", "-S", GUARD, "detached", "0", *launch.command],
            stdout=subprocess.PIPE,
            stderr=log,
            env={**os.environ, **launch.env},
            cwd=launch.log.parent,
            check=False,
        )
    if answer.returncode:
        raise ServerFailed(launch.name, "could not be started", str(launch.log), tail(launch.log))
    pid = int(answer.stdout)
    server = Detached(pid, identity_of(pid) or "")
    launched(server)
    _await_ready(launch, server)
    return server


def _fresh_log(launch: Launch) -> BinaryIO:
    launch.log.parent.mkdir(parents=True, exist_ok=True)
    return launch.log.open("wb")


def on_free_port(start: Callable[[int], None], *, first: int | None = None, tries: int = 4) -> int:
    """Call `start` with free ports until one isn't taken by another program meanwhile; return that port.

    `first` is tried first if it is free. Raises what else `start` raises.
    """
    port = first if first is not None and port_is_free(first) else free_port()
    try:
        start(port)
    except ServerFailed as e:
        if tries == 1 or not PORT_TAKEN.search(Path(e.log).read_text(errors="replace")):
            raise
    else:
        return port
    return on_free_port(start, tries=tries - 1)


def free_port() -> int:
    """Return a TCP port of the loopback on which nobody listens now.

    If possible it isn't one that the kernel gives to outgoing connections: a client that keeps connecting to a
    server that is down would get the server's own port one day.
    """
    candidates = range(LOWEST_PORT, _lowest_outgoing_port())
    for port in random.sample(candidates, min(len(candidates), 100)):  # no secret
        if port_is_free(port):
            return port
    with socket.socket() as s:
        s.bind((HOST, 0))
        return int(s.getsockname()[1])


def _lowest_outgoing_port() -> int:
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="utf-8").split()[0])
    except OSError:
        # The lowest by IANA.
        return 49152


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
    """Return what distinguishes process `pid` from a later one with its id; None if at most its exit code is left."""
    try:
        # proc(5): after the name, in parentheses, come the state and, as 22nd field, the start time.
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return None
    return None if fields[0] in "ZX" and not _has_other_threads(pid) else f"{boot} {fields[19]}"


def _has_other_threads(pid: int) -> bool:
    """Whether threads outlive the first one: they still hold the process's ports and files."""
    try:
        return len(list(Path(f"/proc/{pid}/task").iterdir())) > 1
    except OSError:
        return False


def _await_ready(launch: Launch, server: Attached | Detached) -> None:
    """Wait for the log's line, not for the port, which another program may have opened."""
    problem = ""

    def settled() -> bool:
        nonlocal problem
        # In this order, the last look at the log comes after the end of the process.
        alive = server.alive()
        if launch.ready in launch.log.read_text(errors="replace"):
            return True
        problem = "" if alive else "ended before it was ready"
        return not alive

    try:
        in_time = wait_until(settled, launch.timeout)
    except BaseException:
        server.stop()
        raise
    if in_time and not problem:
        return
    server.stop()
    problem = problem or f"was not ready after {launch.timeout:.0f} s"
    raise ServerFailed(launch.name, problem, str(launch.log), tail(launch.log))


def tail(log: Path) -> str:
    """Return the log's last eight lines as one line, without frames of stack traces."""
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
