"""One connection to a metastore: tried address by address, shared under a lock, made anew when it broke.

Reads are asked once more on a fresh connection. A changing call is never sent twice: where its answer got
lost, nobody but the metastore knows whether it was done.
"""

from __future__ import annotations

import logging
import select
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

from hive_metastore import ThriftHiveMetastore
from hive_metastore.ttypes import NoSuchObjectException
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.protocol.TProtocol import TProtocolException
from thrift.Thrift import TApplicationException, TException
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

from hivesink.errors import InvalidOption, MetastoreUnreachable, RegistrationFailed, RegistrationUnknown

log = logging.getLogger(__name__)

T = TypeVar("T")
Client = Any
TransportFactory = Callable[[Any, str], Any]
"""Makes the transport over an open socket to a host: plain, or SASL where the metastore wants Kerberos."""

DEFAULT_PORT = 9083
CONNECT_SECONDS = 10.0
_BROKEN = (TTransportException, TProtocolException, OSError, EOFError)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One metastore's host and port."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"thrift://{host}:{self.port}"


def endpoints(uris: str) -> tuple[Endpoint, ...]:
    """`thrift://host:port[,thrift://host2:port2]`, as in `hive.metastore.uris`. Raises InvalidOption."""
    return tuple(_endpoint(uri.strip()) for uri in uris.split(",") if uri.strip()) or (_endpoint(uris),)


def _endpoint(uri: str) -> Endpoint:
    try:
        parts = urlsplit(uri)
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = urlsplit(""), None, None
    if parts.scheme != "thrift" or not host:
        # The text isn't repeated: it may hold a password.
        raise InvalidOption(("metastore: write it as thrift://host:port[,thrift://host2:port2]",))
    return Endpoint(host, port or DEFAULT_PORT)


def plain(socket_: Any, _host: str) -> Any:
    """Buffered, for a metastore without SASL."""
    return TBufferedTransport(socket_)


class Connection:
    """`timeout` is for each wait on the socket, in seconds; `user` is whom the metastore creates folders as."""

    def __init__(
        self, uris: str, *, timeout: float = 300.0, user: str | None = None, transport: TransportFactory = plain
    ) -> None:
        self._endpoints = list(endpoints(uris))
        self.address = ",".join(map(str, self._endpoints))
        self._timeout = timeout
        self._user = user
        self._transport = transport
        self._lock = threading.RLock()
        self._client: Client | None = None
        self._socket: socket.socket | None = None

    def read(self, ask: Callable[[Client], T]) -> T:
        """Raises NoSuchObjectException as the metastore said it; MetastoreUnreachable otherwise."""
        with self._lock:
            try:
                return self._ask_twice(ask)
            except NoSuchObjectException:
                raise
            except (*_BROKEN, TException) as error:
                raise MetastoreUnreachable(self.address, reason(error)) from error

    def change(self, table: str, action: str, ask: Callable[[Client], T]) -> T:
        """Raises MetastoreUnreachable (nothing was sent), RegistrationFailed, RegistrationUnknown."""
        with self._lock:
            try:
                return self._ask(ask)
            except _BROKEN as error:
                raise RegistrationUnknown(table, action, reason(error)) from error
            except TException as error:
                raise RegistrationFailed(table, action, reason(error)) from error

    def close(self) -> None:
        """Close the connection; a later call opens another."""
        with self._lock:
            if self._socket is not None:
                self._socket.close()
            self._client = self._socket = None

    def _ask_twice(self, ask: Callable[[Client], T]) -> T:
        try:
            return self._ask(ask)
        except _BROKEN as error:
            log.info("asking %s again on a fresh connection: %s", self.address, reason(error))
            return self._ask(ask)

    def _ask(self, ask: Callable[[Client], T]) -> T:
        client = self._connected()
        try:
            return ask(client)
        except _BROKEN:
            self.close()
            raise
        except TException:
            # An answer: the connection is as good as before.
            raise
        except BaseException:
            # Interrupted between question and answer: the next call would read this one's answer.
            self.close()
            raise

    def _connected(self) -> Client:
        if self._socket is not None and _hung_up(self._socket):
            self.close()
        if self._client is None:
            self._client = self._connect()
        return self._client

    def _connect(self) -> Client:
        reasons: list[str] = []
        for endpoint in tuple(self._endpoints):
            try:
                client = self._open(endpoint)
            except (*_BROKEN, TException) as error:
                self.close()
                reasons.append(reason(error))
                continue
            # The one that answers is asked first the next time.
            self._endpoints.remove(endpoint)
            self._endpoints.insert(0, endpoint)
            return client
        raise MetastoreUnreachable(self.address, "; ".join(dict.fromkeys(reasons)))

    def _open(self, endpoint: Endpoint) -> Client:
        # TSocket.open() logs a stack trace for every refused connection, so the socket is opened here.
        self._socket = socket.create_connection(
            (endpoint.host, endpoint.port), timeout=min(CONNECT_SECONDS, self._timeout)
        )
        self._socket.settimeout(self._timeout)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        handle = TSocket(endpoint.host, endpoint.port)
        handle.setHandle(self._socket)
        transport = self._transport(handle, endpoint.host)
        if not transport.isOpen():
            transport.open()
        client = ThriftHiveMetastore.Client(TBinaryProtocolAccelerated(transport))
        if self._user is not None:
            client.set_ugi(self._user, [])
        return client


class FirstKnown:
    """Calls for one thing, the newest Hive's first; which of them this server knows is found out once."""

    def __init__(self, *calls: Callable[..., Any]) -> None:
        self._calls = list(calls)

    def __call__(self, *arguments: object) -> Any:
        while True:
            call = self._calls[0]
            try:
                return call(*arguments)
            except TApplicationException as error:
                if error.type != TApplicationException.UNKNOWN_METHOD or len(self._calls) == 1:
                    raise
                self._calls.remove(call)


def reason(error: BaseException) -> str:
    """One line for people, without Java's stack."""
    text = str(getattr(error, "message", None) or getattr(error, "strerror", None) or error)
    return (text.strip().splitlines() or [type(error).__name__])[0][:500]


def _hung_up(socket_: socket.socket) -> bool:
    """Between calls the metastore has nothing to say: what can be read then is the end."""
    try:
        return bool(select.select([socket_], [], [], 0)[0])
    except (OSError, ValueError):
        return True
