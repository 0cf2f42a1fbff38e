"""What a site says of its metastores' login, and what Kerberos sends over the wire."""

from __future__ import annotations

import base64
import socket
import struct
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hive_metastore import ThriftHiveMetastore
from puresasl import mechanisms
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TMessageType
from thrift.transport.TTransport import TMemoryBuffer

from hivesink.config.site import Site
from hivesink.errors import InvalidOption, MetastoreUnreachable, Unsupported
from hivesink.metastore import connect
from hivesink.metastore.login import MetastoreLogin
from hivesink.metastore.thrift_connection import Connection

if TYPE_CHECKING:
    from collections.abc import Mapping

KERBEROS = {"hive.metastore.sasl.enabled": "true", "hive.metastore.kerberos.principal": "hms/_HOST@EXAMPLE.COM"}
START, OK, BAD, COMPLETE = 1, 2, 3, 5


@pytest.mark.parametrize(
    ("hive", "login"),
    [
        ({}, MetastoreLogin()),
        ({"hive.metastore.sasl.enabled": "false", "metastore.client.auth.mode": "NOSASL"}, MetastoreLogin()),
        ({"hive.metastore.client.socket.timeout": "90"}, MetastoreLogin(timeout=90)),
        ({"metastore.client.socket.timeout": "5 min"}, MetastoreLogin(timeout=300)),
        ({"hive.metastore.client.socket.timeout": "1500ms"}, MetastoreLogin(timeout=1.5)),
        (KERBEROS, MetastoreLogin(kerberos=True, principal="hms/_HOST@EXAMPLE.COM")),
        ({name.removeprefix("hive."): value for name, value in KERBEROS.items()}, MetastoreLogin.of(KERBEROS)),
    ],
)
def test_the_sites_words(hive: Mapping[str, str], login: MetastoreLogin) -> None:
    assert MetastoreLogin.of(hive) == login


@pytest.mark.parametrize(
    ("hive", "error"),
    [
        ({"hive.metastore.client.socket.timeout": "soon"}, InvalidOption),
        ({"hive.metastore.client.socket.timeout": "0"}, InvalidOption),
        ({"hive.metastore.sasl.enabled": "true"}, InvalidOption),
        (KERBEROS | {"hive.metastore.kerberos.principal": "hive@EXAMPLE.COM"}, InvalidOption),
        ({"hive.metastore.use.SSL": "true"}, Unsupported),
        ({"metastore.client.thrift.transport.mode": "http"}, Unsupported),
        ({"metastore.client.auth.mode": "JWT"}, Unsupported),
    ],
)
def test_what_cannot_be_is_refused_by_its_name(hive: Mapping[str, str], error: type[Exception]) -> None:
    with pytest.raises(error, match=r"hive\.metastore\."):
        connect("thrift", "thrift://127.0.0.1:1", Site(hive=hive))


def test_kerberos_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mechanisms, "have_kerberos", False)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        registrar = Connection(f"thrift://127.0.0.1:{listening.getsockname()[1]}", KERBEROS)
        with pytest.raises(InvalidOption, match="pip install kerberos"):
            registrar.read(lambda client: client.get_all_databases())


class Tickets:
    """Stands for the C library that asks the key server: its tokens are words, and it seals nothing."""

    AUTH_GSS_COMPLETE = 1

    def __init__(self) -> None:
        self.service = ""

    def authGSSClientInit(self, service: str, principal: str | None = None) -> tuple[int, Any]:  # noqa: N802
        assert principal is None
        self.service = service
        return 1, SimpleNamespace(said=base64.b64encode(b"ticket").decode())

    def authGSSClientStep(self, _: Any, challenge: str) -> int:  # noqa: N802
        return int(bool(challenge))

    def authGSSClientResponse(self, context: Any) -> str:  # noqa: N802
        return str(context.said)

    def authGSSClientUserName(self, _: Any) -> str:  # noqa: N802
        return "me@EXAMPLE.COM"

    def authGSSClientUnwrap(self, context: Any, challenge: str) -> None:  # noqa: N802
        context.said = challenge

    authGSSClientWrap = authGSSClientUnwrap  # noqa: N815


@pytest.fixture
def tickets(monkeypatch: pytest.MonkeyPatch) -> Tickets:
    library = Tickets()
    monkeypatch.setattr(mechanisms, "have_kerberos", True)
    monkeypatch.setattr(mechanisms, "kerberos", library, raising=False)
    monkeypatch.setitem(mechanisms.mechanisms, "GSSAPI", mechanisms.GSSAPIMechanism)
    return library


class Negotiating:
    """The server's side of Thrift's SASL: it answers each message by the next of `replies`, then one call."""

    def __init__(self, *replies: tuple[int, bytes]) -> None:
        self.heard: list[tuple[int, bytes]] = []
        self.call = b""
        self._replies = replies
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.uri = f"thrift://localhost:{self._listener.getsockname()[1]}"
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        client, _ = self._listener.accept()
        with client, self._listener, client.makefile("rb") as stream:

            def hear() -> None:
                status, length = struct.unpack(">BI", stream.read(5))
                self.heard.append((status, stream.read(length)))

            hear()
            for status, payload in self._replies:
                hear()
                client.sendall(struct.pack(">BI", status, len(payload)) + payload)
            if self._replies[-1][0] == COMPLETE:
                (length,) = struct.unpack(">I", stream.read(4))
                self.call = stream.read(length)
                reply = _databases()
                client.sendall(struct.pack(">I", len(reply)) + reply)


def _databases() -> bytes:
    buffer = TMemoryBuffer()
    protocol = TBinaryProtocol(buffer)
    protocol.writeMessageBegin("get_all_databases", TMessageType.REPLY, 0)
    ThriftHiveMetastore.get_all_databases_result(success=["default"]).write(protocol)
    protocol.writeMessageEnd()
    return bytes(buffer.getvalue())


def test_the_negotiation(tickets: Tickets) -> None:
    no_layer = struct.pack(">I", 1 << 24)
    server = Negotiating((OK, b"server's token"), (OK, no_layer), (COMPLETE, b""))
    connection = Connection(server.uri, KERBEROS)
    assert connection.read(lambda client: client.get_all_databases()) == ["default"]
    connection.close()
    server.thread.join()
    assert tickets.service == "hms@localhost"
    assert server.heard == [
        (START, b"GSSAPI"),
        (OK, b"ticket"),
        (OK, b""),
        (OK, no_layer + b"me@EXAMPLE.COM"),
    ]
    # Framed, and the first call: set_ugi is for those without Kerberos.
    assert server.call.startswith(b"\x80\x01\x00\x01\x00\x00\x00\x11get_all_databases")


def test_a_login_that_is_refused(tickets: Tickets) -> None:
    server = Negotiating((BAD, b"GSS initiate failed"))
    connection = Connection(server.uri, KERBEROS | {"hive.metastore.kerberos.principal": "hms/h2"})
    with pytest.raises(MetastoreUnreachable, match=rf"{server.uri}.*GSS initiate failed"):
        connection.read(lambda client: client.get_all_databases())
    assert tickets.service == "hms@h2"
    server.thread.join()
