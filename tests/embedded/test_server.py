from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hivesink.embedded.server import (
    HOST,
    RECORD,
    EmbeddedServer,
    Launch,
    ServerProcess,
    free_port,
    identity_of,
    on_free_port,
    port_is_free,
    start,
    wait_until,
)
from hivesink.errors import NotWritable, ServerFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

AGAIN = """
import socket, sys, time
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", int(sys.argv[1]))); s.listen()
print("ready", flush=True)
time.sleep(600)
"""


class Listener(EmbeddedServer):
    name = "the test server"

    def _launch(self, port: int) -> Launch:
        return Launch(self.name, (sys.executable, "-c", AGAIN, str(port)), self.folder / "server.log", "ready\n")


class Known(Listener):
    keeps_port = True


def test_it_runs_in_its_block(tmp_path: Path) -> None:
    with Listener(tmp_path) as server:
        pid, port = server.pid, server.port
        assert pid is not None
        assert port is not None
        with socket.create_connection((HOST, port)):
            assert server.address == f"{HOST}:{port}"
        server.start()
        assert server.pid == pid, "a second start changes nothing"
    assert not server.alive
    assert identity_of(pid) is None
    assert server.address == f"{HOST}:{port}", "who knew the address still does"


def test_killed_it_comes_back_at_its_port(tmp_path: Path) -> None:
    with Listener(tmp_path) as server:
        pid, port = server.pid, server.port
        server.kill()
        assert server.pid is None
        server.start()
        assert server.port == port
        assert server.pid != pid


@pytest.mark.parametrize("kind", [Listener, Known])
def test_a_port_that_was_taken_meanwhile_is_an_error_for_a_server_that_others_know_by_it(
    tmp_path: Path, kind: type[Listener]
) -> None:
    server = kind(tmp_path)
    with server:
        port = server.port
    with socket.socket() as other:
        other.bind((HOST, port))
        other.listen()
        if kind is Known:
            with pytest.raises(NotWritable, match=f"port {port} of the test server"):
                server.start()
        else:
            with server:
                assert server.port != port


@pytest.fixture
def detached(tmp_path: Path) -> Iterator[Listener]:
    server = Listener(tmp_path)
    server.detached = True
    yield server
    server.stop()


def test_a_detached_one_is_taken_over_by_its_folder(detached: Listener) -> None:
    detached.start()
    later = Listener(detached.folder)
    later.detached = True
    later.resume()
    assert (later.pid, later.port) == (detached.pid, detached.port)
    later.kill()
    assert not detached.alive

    last = Listener(detached.folder)
    last.resume()
    assert (last.pid, last.port) == (None, detached.port), "the port is known, the process gone"


def test_a_process_that_only_inherited_the_number_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / RECORD).write_text(json.dumps({"pid": os.getpid(), "identity": "another boot 1", "port": 1}))
    server = Listener(tmp_path)
    server.resume()
    assert (server.pid, server.port) == (None, 1)
    server.stop()  # This very test would die of it.


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}', '{"pid": "x"}'])
def test_a_damaged_record_counts_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / RECORD).write_text(text)
    server = Listener(tmp_path)
    server.resume()
    assert (server.pid, server.port) == (None, None)


LISTEN = """
import os, socket, sys, time
s = socket.socket(); s.bind(("127.0.0.1", int(sys.argv[1]))); s.listen()
print("pid", os.getpid()); print("ready", flush=True)
time.sleep(600)
"""
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + LISTEN


def launch(folder: Path, script: str, *arguments: object, timeout: float = 60, grace: float = 10) -> Launch:
    command = (sys.executable, "-c", script, *map(str, arguments))
    return Launch("the test server", command, folder / "server.log", "ready\n", timeout=timeout, grace=grace)


def pid_in(log: Path) -> int:
    return int(log.read_text().split()[1])


def test_it_listens_from_ready_to_stop(tmp_path: Path) -> None:
    port = free_port()
    server = start(launch(tmp_path, LISTEN, port))
    try:
        with socket.create_connection((HOST, port)):
            assert server.alive()
    finally:
        server.stop()
    server.stop()
    assert port_is_free(port)
    assert identity_of(pid_in(tmp_path / "server.log")) is None


@pytest.mark.parametrize("attached", [True, False])
def test_kill_is_sigkill_for_the_server_itself(tmp_path: Path, attached: bool) -> None:
    server = start(launch(tmp_path, STUBBORN, free_port()), attached=attached)
    assert server.pid == pid_in(tmp_path / "server.log")
    server.kill()
    assert not server.alive()
    assert identity_of(server.pid) is None
    server.kill()


def test_a_detached_one_is_told_of_before_it_is_ready(tmp_path: Path) -> None:
    told: list[ServerProcess] = []
    with pytest.raises(ServerFailed, match="was not ready"):
        start(launch(tmp_path, "import time; time.sleep(600)", timeout=0.2), attached=False, launched=told.append)
    assert [server.alive() for server in told] == [False]


def test_one_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    server = start(launch(tmp_path, STUBBORN, free_port(), grace=0.2))
    pid = pid_in(tmp_path / "server.log")
    server.stop()
    assert identity_of(pid) is None


@pytest.mark.parametrize("attached", [True, False])
def test_one_that_dies_at_start_is_an_error_with_the_end_of_its_log(tmp_path: Path, attached: bool) -> None:
    with pytest.raises(ServerFailed, match=r"the test server ended before it was ready.*: hello \| no such luck$") as e:
        start(launch(tmp_path, "print('hello'); print('no such luck')"), attached=attached)
    assert e.value.log == str(tmp_path / "server.log")


def test_one_that_is_never_ready_is_stopped(tmp_path: Path) -> None:
    script = "import os, time; print('pid', os.getpid(), flush=True); time.sleep(600)"
    with pytest.raises(ServerFailed, match="was not ready after 2 s"):
        start(launch(tmp_path, script, timeout=2))
    assert identity_of(pid_in(tmp_path / "server.log")) is None


def test_a_port_that_another_program_takes_meanwhile_is_tried_anew(tmp_path: Path) -> None:
    tried: list[int] = []
    with socket.socket() as other:

        def listen(port: int) -> None:
            if not tried:
                other.bind((HOST, port))
                other.listen()
            tried.append(port)
            start(launch(tmp_path, LISTEN, port)).stop()

        port = on_free_port(listen)
    assert len(tried) == 2
    assert port == tried[1] != tried[0]


def test_a_first_port_that_is_taken_is_passed_over() -> None:
    with socket.socket() as other:
        other.bind((HOST, 0))
        other.listen()
        taken = other.getsockname()[1]
        assert on_free_port(lambda _: None, first=taken) != taken


def start_from_another_python(folder: Path, *, attached: bool) -> subprocess.Popen[str]:
    """A parent that starts the test server, says so, and waits."""
    parent = textwrap.dedent(
        f"""
        import sys, time, pathlib
        from hivesink.embedded.server import Launch, free_port, start
        log = pathlib.Path(sys.argv[1]) / "server.log"
        command = (sys.executable, "-c", sys.argv[2], str(free_port()))
        server = start(Launch("the test server", command, log, "ready"), attached={attached})
        print("started", flush=True)
        time.sleep(600)
        """
    )
    return subprocess.Popen(
        [sys.executable, "-c", parent, folder, LISTEN],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_it_dies_with_its_parent(tmp_path: Path, number: signal.Signals) -> None:
    with start_from_another_python(tmp_path, attached=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "started\n"
        pid = pid_in(tmp_path / "server.log")
        parent.send_signal(number)
    assert wait_until(lambda: identity_of(pid) is None, 60)


def test_a_detached_one_outlives_its_parent(tmp_path: Path) -> None:
    with start_from_another_python(tmp_path, attached=False) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "started\n"
        parent.kill()
    pid = pid_in(tmp_path / "server.log")
    identity = identity_of(pid)
    assert identity is not None
    ServerProcess(pid, identity).stop()
    assert identity_of(pid) is None


def test_a_process_with_a_used_number_is_not_taken_for_ours() -> None:
    ours = identity_of(os.getpid())
    assert ours is not None
    stranger = ServerProcess(os.getpid(), ours + "0")
    assert not stranger.alive()
    stranger.stop()  # This very test would die of it.


def test_the_remains_of_a_process_are_not_alive() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        # Nobody has taken its exit code yet, so it stays in the table of processes.
        assert wait_until(lambda: identity_of(child.pid) is None, 60)
        assert child.returncode is None
