"""A metastore that goes away and comes back, replies that get lost, logins."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hive_metastore import ThriftHiveMetastore
from hive_metastore.ttypes import NoSuchObjectException
from thrift.protocol.TBinaryProtocol import TBinaryProtocolFactory
from thrift.server.TServer import TSimpleServer
from thrift.transport.TSocket import TServerSocket
from thrift.transport.TTransport import TBufferedTransportFactory

from hivesink import kerberos
from hivesink.config.site import Site
from hivesink.core.table import TableName
from hivesink.embedded.metastore import EmbeddedMetastore
from hivesink.embedded.server import free_port
from hivesink.errors import (
    HiveSinkError,
    InvalidOption,
    LoginFailed,
    MetastoreNotUnderstood,
    MetastoreUnreachable,
    RegistrationUnknown,
    Unsupported,
)
from hivesink.kerberos.tickets import Trouble
from hivesink.metastore import catalog, connect
from hivesink.metastore.thrift_calls import states
from hivesink.metastore.thrift_connection import Connection, login
from hivesink.ports import LiveTable, Metastore
from tests.metastore.live import DT, OverThrift, counted, declared, dt, metastore_of, new


class Listening:
    """A server at `port` that calls `serve` for each client."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.uri = f"thrift://localhost:{self.port}"
        self.clients: list[socket.socket] = []
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def die(self) -> None:
        """Take no new connections, and end those that are there."""
        # A mere close leaves the thread in accept() to take one more.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for client in self.clients:
            if client.fileno() >= 0:
                client.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.clients.append(client)
            threading.Thread(target=self._begin, args=(client,), daemon=True).start()

    def _begin(self, client: socket.socket) -> None:
        with client:
            self.serve(client)

    def serve(self, client: socket.socket) -> None:
        raise NotImplementedError


class Proxy(Listening):
    """Passes bytes on to a real metastore; `cut` ends the connection when a request with that text was passed.

    The metastore still gets the request and does it: the reply is what is lost.
    """

    def __init__(self, metastore: EmbeddedMetastore) -> None:
        self._target = metastore.port
        self.cut: bytes | None = None
        self.seen: list[bytes] = []
        super().__init__()

    def serve(self, client: socket.socket) -> None:
        with socket.create_connection(("127.0.0.1", self._target or 0)) as server:
            while request := client.recv(1 << 20):
                self.seen.append(request)
                server.sendall(request)
                reply = server.recv(1 << 20)
                if self.cut is not None and self.cut in request:
                    self.cut = None
                    return
                client.sendall(reply)


class Answering(Listening):
    """Sends `reply` to whoever says anything."""

    def __init__(self, reply: bytes) -> None:
        self._reply = reply
        super().__init__()

    def serve(self, client: socket.socket) -> None:
        client.recv(1 << 20)
        with suppress(OSError):  # Who has read enough may be gone.
            client.sendall(self._reply)


@pytest.fixture
def over(metastore: EmbeddedMetastore) -> Iterator[OverThrift]:
    server = OverThrift(metastore.uri)
    yield server
    server.close()


@pytest.fixture
def opened() -> Iterator[Callable[[str], Metastore]]:
    """Registrars, by their addresses."""
    made: list[Metastore] = []

    def make(uri: str) -> Metastore:
        made.append(connect("thrift", uri))
        return made[-1]

    yield make
    for registrar in made:
        registrar.close()


def test_addresses() -> None:
    assert Connection("thrift://a:1, thrift://b").address == "thrift://a:1,thrift://b:9083"
    assert Connection("thrift://me:secret@a:1").address == "thrift://a:1"
    assert Connection("thrift://[::1]:1").address == "thrift://[::1]:1"


@pytest.mark.parametrize("uri", ["", "a:1", "http://me:secret@a:1", "thrift://", "thrift://me:secret@a:x"])
def test_a_wrong_address_is_refused_without_its_text(uri: str) -> None:
    told = r"HIVESINK_METASTORE, or hive\.metastore\.uris .*write it as thrift://host:port"
    with pytest.raises(InvalidOption, match=told) as caught:
        connect("thrift", uri)
    assert "secret" not in str(caught.value)


def test_nobody_there_is_one_line_without_secrets(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    registrar = connect("thrift", f"thrift://me:secret@127.0.0.1:{free_port()}")
    with pytest.raises(MetastoreUnreachable, match=r"127\.0\.0\.1") as caught:
        registrar.table(declared(tmp_path, DT).name)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "Traceback" not in caplog.text


def test_the_first_that_answers_is_taken(
    metastore: EmbeddedMetastore, live: LiveTable, opened: Callable[[str], Metastore]
) -> None:
    registrar = opened(f"thrift://127.0.0.1:{free_port()},{metastore.uri}")
    registrar.add(live, [new(live, dt(1))])
    for _ in range(2):
        assert list(registrar.lookup(live, [dt(1)])) == [dt(1)]
        registrar.close()


def test_one_that_dies_between_calls_is_replaced_by_the_next(
    metastore: EmbeddedMetastore, live: LiveTable, opened: Callable[[str], Metastore]
) -> None:
    first, second = Proxy(metastore), Proxy(metastore)
    registrar = opened(f"{first.uri},{second.uri}")
    registrar.table(live.spec.name)
    assert not second.seen
    first.die()
    registrar.add(live, [new(live, dt(1))])  # a change: the death is seen before anything is sent
    assert second.seen
    second.die()
    with pytest.raises(MetastoreUnreachable, match=rf"{first.port}.*{second.port}"):
        registrar.lookup(live, [dt(1)])


def test_a_lost_reply(
    metastore: EmbeddedMetastore, over: OverThrift, live: LiveTable, opened: Callable[[str], Metastore]
) -> None:
    proxy = Proxy(metastore)
    registrar = opened(proxy.uri)
    registrar.table(live.spec.name)

    proxy.cut = b"get_partitions_by_names"
    assert registrar.lookup(live, [dt(1)]) == {}  # a read is asked again

    proxy.cut = b"add_partitions_req"
    with pytest.raises(RegistrationUnknown, match=r"register 1 partition of contracts\.t") as caught:
        registrar.add(live, [new(live, dt(1))])
    assert "\n" not in str(caught.value)
    assert sum(b"add_partitions_req" in request for request in proxy.seen) == 1  # and a change is not
    assert list(registrar.lookup(live, [dt(1)])) == [dt(1)]

    over.analyze(live, dt(1))
    proxy.cut = b"alter_partitions_with"
    with pytest.raises(RegistrationUnknown):
        registrar.clear_accurate(live, [dt(1)])
    assert not registrar.lookup(live, [dt(1)])[dt(1)].accurate
    proxy.die()


def test_an_interrupted_question_leaves_no_reply_behind(over: OverThrift) -> None:
    def interrupted(client: Any) -> None:
        client.send_get_all_databases()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        over.raw.read(interrupted)
    assert over.raw.read(lambda client: client.get_database("default").name) == "default"


def test_a_server_that_hangs_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"thrift://127.0.0.1:{silent.getsockname()[1]}"
        connection = Connection(uri, {"metastore.client.socket.timeout": "50ms"})
        with pytest.raises(MetastoreUnreachable, match=r"(?i)time"):
            connection.read(lambda client: client.get_all_databases())
        connection.close()


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(b"HTTP/1.1 400 Bad Request\r\n\r\n", id="HTTP"),
        pytest.param(b"\x15\x03\x03\x00\x02\x02\x0a", id="TLS"),
        pytest.param(b"\x04\x00\x00\x00\x13Invalid status -128", id="SASL"),
        pytest.param(b"garbage that is no Thrift", id="garbage"),
    ],
)
def test_what_is_no_metastore_is_said_to_be_none(reply: bytes, tmp_path: Path) -> None:
    server = Answering(reply)
    name = declared(tmp_path, DT).name
    with pytest.raises(MetastoreNotUnderstood, match=rf"{server.uri}.*sasl\.enabled") as caught:
        connect("thrift", server.uri).table(name)
    assert not caught.value.retryable
    # Another address may answer later.
    with pytest.raises(MetastoreUnreachable) as unreachable:
        connect("thrift", f"thrift://127.0.0.1:{free_port()},{server.uri}").table(name)
    assert unreachable.value.retryable
    server.die()


def test_a_metastore_of_an_unknown_version(tmp_path: Path) -> None:
    """One that knows set_ugi and nothing else."""
    processor = ThriftHiveMetastore.Processor(SimpleNamespace(set_ugi=lambda _user, _groups: []))
    processor._processMap = {"set_ugi": processor._processMap["set_ugi"]}
    socket_ = TServerSocket("127.0.0.1", 0)
    socket_.listen()
    socket_.listen = lambda: None  # or serve() would take another port
    port = socket_.handle.getsockname()[1]
    server = TSimpleServer(processor, socket_, TBufferedTransportFactory(), TBinaryProtocolFactory())
    threading.Thread(target=server.serve, daemon=True).start()
    spec = declared(tmp_path, DT)
    registrar, tables = connect("thrift", f"thrift://127.0.0.1:{port}"), catalog(f"thrift://127.0.0.1:{port}")
    with pytest.raises(MetastoreNotUnderstood, match=rf":{port} .*get_table.*2\.3 to 4\.0"):
        registrar.table(spec.name)
    registrar.close()
    with pytest.raises(MetastoreNotUnderstood, match="create_table"):
        tables.create(spec)
    tables.close()


def test_an_error_of_the_metastores_own_is_worth_a_retry(over: OverThrift) -> None:
    with pytest.raises(MetastoreUnreachable, match=over.uri) as caught:
        over.raw.read(lambda client: client.get_partitions_by_names(None, None, []))
    assert caught.value.retryable
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("version", ["2.3", "4.0.1"])
def test_each_server_is_asked_in_its_own_words(
    version: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, newer, older = metastore_of(version, request), "get_partitions_with_specs", "get_partitions_by_names"
    asked = counted(monkeypatch, threading.get_ident())
    with closing(Connection(uri)) as connection:
        for _ in range(2):
            with pytest.raises((NoSuchObjectException, HiveSinkError)):
                connection.read(states, TableName("default", "nowhere"), ["dt=1"])
    assert (asked[newer], asked[older]) == ((2, 0) if version == "4.0.1" else (1, 2))


KERBEROS = {"hive.metastore.sasl.enabled": "true", "hive.metastore.kerberos.principal": "hms/_HOST@EXAMPLE.COM"}


@pytest.mark.parametrize(
    ("hive", "expected"),
    [
        ({}, (None, 600)),
        ({"hive.metastore.sasl.enabled": "false", "metastore.client.auth.mode": "NOSASL"}, (None, 600)),
        ({"hive.metastore.client.socket.timeout": "90"}, (None, 90)),
        ({"metastore.client.socket.timeout": "5 min"}, (None, 300)),
        ({"hive.metastore.client.socket.timeout": "1500ms"}, (None, 1.5)),
        (KERBEROS, ("hms/_HOST@EXAMPLE.COM", 600)),
        ({name.removeprefix("hive."): value for name, value in KERBEROS.items()}, ("hms/_HOST@EXAMPLE.COM", 600)),
        ({"hive.metastore.client.socket.timeout": "250000usec"}, (None, 0.25)),
        ({"hive.metastore.client.socket.timeout": "soon"}, InvalidOption),
        ({"hive.metastore.client.socket.timeout": "5 months"}, InvalidOption),
        ({"hive.metastore.client.socket.timeout": "10 millis"}, InvalidOption),
        ({"hive.metastore.client.socket.timeout": "0"}, InvalidOption),
        ({"hive.metastore.sasl.enabled": "true"}, InvalidOption),
        (KERBEROS | {"hive.metastore.kerberos.principal": "hive@EXAMPLE.COM"}, InvalidOption),
        ({"metastore.client.thrift.transport.mode": "http"}, Unsupported),
        ({"metastore.client.auth.mode": "JWT"}, Unsupported),
    ],
)
def test_the_sites_words(hive: Mapping[str, str], expected: tuple[str | None, float] | type[Exception]) -> None:
    if isinstance(expected, tuple):
        assert login(hive) == expected
    else:
        with pytest.raises(expected, match=r"hive\.metastore\."):
            connect("thrift", "thrift://127.0.0.1:1", Site(hive=hive))


def test_kerberos_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    server = Answering(b"")
    with pytest.raises(InvalidOption, match=r"hivesink\[kerberos\]"):
        Connection(server.uri, KERBEROS).read(lambda client: client.get_all_databases())
    server.die()


@pytest.mark.parametrize(("well", "answers"), [("second", True), ("none", False)])
def test_a_metastore_that_refuses_a_login(monkeypatch: pytest.MonkeyPatch, well: str, answers: bool) -> None:
    """The others are asked, too; if none answers, the refusal is told."""
    asked = list[str]()

    def opened(_: Connection, host: str, port: int) -> Any:
        asked.append(host)
        if host == well:
            return SimpleNamespace(ask=lambda: port)
        raise kerberos.failure(host, "no", Trouble.BAD_KEYTAB if host == "first" else Trouble.NO_KDC, "alice")

    monkeypatch.setenv("KRB5CCNAME", "MEMORY:none")
    monkeypatch.setattr(Connection, "_open", opened)
    connection = Connection("thrift://first:1,thrift://second:2")
    if answers:
        assert connection.read(lambda client: client.ask()) == 2
    else:
        with pytest.raises(LoginFailed, match="first"):
            connection.read(lambda client: client.ask())
    assert asked == ["first", "second"]
