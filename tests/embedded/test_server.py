from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from hivesink.embedded import metastore
from hivesink.embedded.server import HOST, RECORD, Launch, identity_of, port_is_free, wait_until
from hivesink.errors import NotWritable, ServerFailed
from jobs.cluster.server import EmbeddedServer

LISTEN = """
import os, socket, sys, time
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", int(sys.argv[1]))); s.listen()
print("pid", os.getpid()); print("ready", flush=True)
time.sleep(600)
"""
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + LISTEN
NEVER_READY = "import os, time; print('pid', os.getpid(), flush=True); time.sleep(600)"


class Listener(EmbeddedServer):
    """Runs a script with a port."""

    name = "the test server"
    script = LISTEN
    timeout = 60.0
    grace = 10.0

    def _launch(self, port: int) -> Launch:
        command, log = (sys.executable, "-c", self.script, str(port)), self.folder / "server.log"
        return Launch(command, log, "ready\n", timeout=self.timeout, grace=self.grace)


class Known(Listener):
    keeps_port = True


def made(folder: Path, script: str = LISTEN, *, detached: bool = False, **more: float) -> Listener:
    server = Listener(folder)
    server.script, server.detached = script, detached
    for name, value in more.items():
        setattr(server, name, value)
    return server


def pid_in(folder: Path) -> int:
    return int((folder / "server.log").read_text().split()[1])


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.socket() as other:
        yield other


def test_it_runs_in_its_block(tmp_path: Path) -> None:
    with Listener(tmp_path) as server:
        pid, port = server.pid, server.port
        assert (pid, server.address) == (pid_in(tmp_path), f"{HOST}:{port}")
        assert port is not None
        with socket.create_connection((HOST, port)):
            server.start()
        assert server.pid == pid, "a second start changes nothing"
    assert not server.alive
    assert identity_of(pid_in(tmp_path)) is None
    assert port_is_free(port)
    assert server.address == f"{HOST}:{port}", "who knew the address still does"
    server.stop()


@pytest.mark.parametrize("detached", [False, True])
def test_kill_is_sigkill_for_the_server_itself_which_comes_back_at_its_port(tmp_path: Path, detached: bool) -> None:
    server = made(tmp_path, STUBBORN, detached=detached)
    server.start()
    pid, port = server.pid, server.port
    assert pid == pid_in(tmp_path)
    server.kill()
    assert (server.pid, identity_of(pid_in(tmp_path))) == (None, None)
    server.start()
    assert (server.port, server.pid != pid) == (port, True)
    server.kill()


def test_one_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    with made(tmp_path, STUBBORN, grace=0.2):
        pid = pid_in(tmp_path)
    assert identity_of(pid) is None


@pytest.mark.parametrize("detached", [False, True])
def test_one_that_dies_at_start_is_an_error_with_the_end_of_its_log(tmp_path: Path, detached: bool) -> None:
    with pytest.raises(ServerFailed, match=r"the test server ended before it was ready.*: hello \| no such luck$") as e:
        made(tmp_path, "print('hello'); print('no such luck')", detached=detached).start()
    assert e.value.log == str(tmp_path / "server.log")


@pytest.mark.parametrize("detached", [False, True])
def test_one_that_is_never_ready_is_stopped(tmp_path: Path, detached: bool) -> None:
    with pytest.raises(ServerFailed, match="was not ready after 2 s"):
        made(tmp_path, NEVER_READY, detached=detached, timeout=2.0).start()
    assert identity_of(pid_in(tmp_path)) is None
    # Whoever starts it can die meanwhile.
    assert (tmp_path / RECORD).exists() is detached


@pytest.mark.parametrize("kind", [Listener, Known])
def test_a_port_that_is_taken_is_an_error_only_for_a_server_that_others_know_by_it(
    tmp_path: Path, listening: socket.socket, kind: type[Listener]
) -> None:
    listening.bind((HOST, 0))
    listening.listen()
    server = kind(tmp_path)
    server.first_port = port = listening.getsockname()[1]
    if kind is Known:
        server.port = port
        with pytest.raises(NotWritable, match=f"port {port} of the test server"):
            server.start()
    else:
        with server:
            assert server.port != port


def start_from_another_python(folder: Path, *, detached: bool) -> subprocess.Popen[str]:
    """A parent that starts the test server, says so, and waits."""
    parent = textwrap.dedent(
        f"""
        import pathlib, signal, sys, time
        from tests.embedded.test_server import made
        signal.signal(signal.SIGINT, signal.default_int_handler)  # Ignored in a background job of a shell.
        made(pathlib.Path(sys.argv[1]), detached={detached}).start()
        print("started", flush=True)
        time.sleep(600)
        """
    )
    command = [sys.executable, "-c", parent, str(folder)]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
    assert started.stdout is not None
    assert started.stdout.readline() == "started\n"
    return started


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_it_dies_with_its_parent(tmp_path: Path, number: signal.Signals) -> None:
    with start_from_another_python(tmp_path, detached=False) as parent:
        pid = pid_in(tmp_path)
        parent.send_signal(number)
    assert wait_until(lambda: identity_of(pid) is None, 60)


def test_a_detached_one_outlives_its_parent_and_is_taken_over_by_its_folder(tmp_path: Path) -> None:
    with start_from_another_python(tmp_path, detached=True) as parent:
        parent.kill()
    later = made(tmp_path, detached=True)
    later.resume()
    pid, port = later.pid, later.port
    assert pid == pid_in(tmp_path)
    later.kill()
    assert identity_of(pid_in(tmp_path)) is None
    last = Listener(tmp_path)
    last.resume()
    assert (last.pid, last.port) == (None, port), "the port is known, the process gone"


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


def test_the_remains_of_a_process_are_not_alive() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        # Nobody has taken its exit code yet, so it stays in the table of processes.
        assert wait_until(lambda: identity_of(child.pid) is None, 60)
        assert child.returncode is None


def test_a_home_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    home = tmp_path / "file" / "home"
    with pytest.raises(NotWritable, match=f"^{home} can't be used .*HIVESINK_HOME"):
        metastore.start(home)
    # What every command asks that needs a metastore. A user who may not look gets another OSError.
    with pytest.raises(NotWritable, match=f"^{home}/metastore/server.json can't be used .*HIVESINK_HOME"):
        metastore.detached(home)
