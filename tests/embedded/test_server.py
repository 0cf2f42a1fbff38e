from __future__ import annotations

import json
import os
import socket
import sys
from typing import TYPE_CHECKING

import pytest

from hivesink.embedded.process import HOST, Launch, identity_of
from hivesink.embedded.server import RECORD, EmbeddedServer
from hivesink.errors import NotWritable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LISTEN = """
import socket, sys, time
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", int(sys.argv[1]))); s.listen()
print("ready", flush=True)
time.sleep(600)
"""


class Listener(EmbeddedServer):
    name = "the test server"

    def _launch(self, port: int) -> Launch:
        return Launch(self.name, (sys.executable, "-c", LISTEN, str(port)), self.folder / "server.log", "ready\n")


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
