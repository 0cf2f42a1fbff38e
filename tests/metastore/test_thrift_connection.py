"""A metastore that goes away and comes back, and replies that get lost."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING, Any

import pytest

from hivesink.core.table import Column, Primitive
from hivesink.embedded.metastore import EmbeddedMetastore
from hivesink.errors import InvalidOption, MetastoreUnreachable, RegistrationUnknown
from hivesink.metastore import connect
from hivesink.metastore.thrift import ThriftRegistrar
from hivesink.metastore.thrift_connection import Connection, FirstKnown, endpoints
from tests.metastore.live import OverThrift, declared, dt, new

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DT = Column("dt", Primitive.STRING)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_addresses() -> None:
    assert list(map(str, endpoints("thrift://a:1, thrift://b"))) == ["thrift://a:1", "thrift://b:9083"]
    assert Connection("thrift://me:secret@a:1").address == "thrift://a:1"
    assert Connection("thrift://[::1]:1").address == "thrift://[::1]:1"


@pytest.mark.parametrize("uri", ["", "a:1", "http://me:secret@a:1", "thrift://", "thrift://me:secret@a:x"])
def test_a_wrong_address_is_refused_without_its_text(uri: str) -> None:
    with pytest.raises(InvalidOption, match="thrift://host:port") as caught:
        connect("thrift", uri)
    assert "secret" not in str(caught.value)


def test_nobody_there_is_one_line_without_secrets(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    registrar = connect("thrift", f"thrift://me:secret@127.0.0.1:{free_port()}")
    with pytest.raises(MetastoreUnreachable, match=r"127\.0\.0\.1") as caught:
        registrar.table(declared(tmp_path, DT).name)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "Traceback" not in caplog.text


def test_the_first_that_answers_is_taken(metastore: EmbeddedMetastore, tmp_path: Path) -> None:
    over = OverThrift(metastore.uri)
    spec = declared(tmp_path, DT)
    over.create(spec)
    registrar = connect("thrift", f"thrift://127.0.0.1:{free_port()},{metastore.uri}")
    live = registrar.table(spec.name)
    registrar.add(live, [new(live, dt(1))])
    assert list(registrar.lookup(live, [dt(1)])) == [dt(1)]
    registrar.close()
    assert list(registrar.lookup(live, [dt(1)])) == [dt(1)]
    registrar.close()
    over.close()


def test_killed_and_started_again(tmp_path: Path) -> None:
    server = EmbeddedMetastore(tmp_path / "server", tmp_path / "warehouse", durable=False)
    server.start()
    try:
        over = OverThrift(server.uri)
        spec = declared(tmp_path, DT)
        over.create(spec)
        registrar = ThriftRegistrar(Connection(server.uri))
        live = registrar.table(spec.name)
        registrar.add(live, [new(live, dt(1))])
        server.stop()
        for _ in range(2):
            with pytest.raises(MetastoreUnreachable):
                registrar.add(live, [new(live, dt(2))])
            with pytest.raises(MetastoreUnreachable):
                registrar.lookup(live, [dt(1)])
        server.start()
        assert registrar.address == server.uri
        # A changing call comes first: that the old connection is dead is seen before anything is sent.
        registrar.distrust(live, [dt(1)])
        registrar.add(live, [new(live, dt(2))])
        assert sorted(registrar.lookup(live, [dt(1), dt(2)])) == [dt(1), dt(2)]
        registrar.close()
        over.close()
    finally:
        server.stop()


class Proxy:
    """Passes bytes on to a real metastore; `cut` ends the connection when a request with that text was passed.

    The metastore still gets the request and does it: the reply is what is lost.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.cut: bytes | None = None
        self.seen: list[bytes] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._target))
            threading.Thread(target=self._serve, args=(client, server), daemon=True).start()

    def _serve(self, client: socket.socket, server: socket.socket) -> None:
        with client, server:
            while request := client.recv(1 << 20):
                self.seen.append(request)
                server.sendall(request)
                reply = server.recv(1 << 20)
                if self.cut is not None and self.cut in request:
                    self.cut = None
                    return
                client.sendall(reply)


@pytest.fixture
def proxy(metastore: EmbeddedMetastore) -> Iterator[Proxy]:
    assert metastore.port is not None
    between = Proxy(metastore.port)
    yield between
    between.close()


def test_a_lost_reply(metastore: EmbeddedMetastore, proxy: Proxy, tmp_path: Path) -> None:
    over = OverThrift(metastore.uri)
    spec = declared(tmp_path, DT)
    over.create(spec)
    registrar = ThriftRegistrar(Connection(f"thrift://127.0.0.1:{proxy.port}"))
    live = registrar.table(spec.name)

    proxy.cut = b"get_partitions_by_names"
    assert registrar.lookup(live, [dt(1)]) == {}  # a read is asked again

    proxy.cut = b"add_partitions_req"
    with pytest.raises(RegistrationUnknown, match=r"register 1 partitions of contracts\.t") as caught:
        registrar.add(live, [new(live, dt(1))])
    assert "\n" not in str(caught.value)
    assert sum(b"add_partitions_req" in request for request in proxy.seen) == 1  # and a change is not
    assert list(registrar.lookup(live, [dt(1)])) == [dt(1)]

    over.analyze(live, dt(1))
    proxy.cut = b"alter_partitions_with"
    with pytest.raises(RegistrationUnknown):
        registrar.distrust(live, [dt(1)])
    assert not registrar.lookup(live, [dt(1)])[dt(1)].accurate
    registrar.close()
    over.close()


def test_an_interrupted_question_leaves_no_reply_behind(metastore: EmbeddedMetastore) -> None:
    connection = Connection(metastore.uri)

    def interrupted(client: Any) -> None:
        client.send_get_all_databases()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        connection.read(interrupted)
    assert connection.read(lambda client: client.get_database("default").name) == "default"
    connection.close()


def test_a_server_that_hangs_is_given_up(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        connection = Connection(f"thrift://127.0.0.1:{silent.getsockname()[1]}", timeout=0.05)
        with pytest.raises(MetastoreUnreachable, match=r"(?i)time"):
            ThriftRegistrar(connection).table(declared(tmp_path, DT).name)
        with pytest.raises(RegistrationUnknown):
            connection.change("d.t", "alter", lambda client: client.get_all_databases())
        connection.close()


def test_an_older_server_is_asked_in_its_own_words(metastore: EmbeddedMetastore) -> None:
    asked: list[str] = []

    def newer(client: Any) -> Any:
        asked.append("newer")
        return client.get_all_resource_plans(None)  # Hive 3's; 2.3 knows no such call

    def older(client: Any) -> Any:
        asked.append("older")
        return client.get_all_databases()

    connection, call = Connection(metastore.uri), FirstKnown(newer, older)
    assert "default" in connection.read(call)
    assert "default" in connection.read(call)
    assert asked == ["newer", "older", "older"]
    connection.close()
