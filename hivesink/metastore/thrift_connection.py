"""A connection to a metastore: tries address by address, is shared under a lock, and is replaced when it breaks.

A read is repeated once on a fresh connection. A changing call is never sent twice: if its answer got lost, only the
metastore knows whether it was done.
"""

from __future__ import annotations

import getpass
import logging
import os
import re
import select
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

from hive_metastore import ThriftHiveMetastore
from hive_metastore.ttypes import NoSuchObjectException
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.protocol.TProtocol import TProtocolException
from thrift.Thrift import TApplicationException, TException
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

from hivesink import errors, kerberos
from hivesink.errors import InvalidOption, LoginFailed, Unsupported
from hivesink.kerberos.wire import over_kerberos, trusting, verified

log = logging.getLogger(__name__)

T = TypeVar("T")
Client = Any
DEFAULT_PORT = 9083
CONNECT_SECONDS = 10.0
LOGIN_SECONDS = 60.0
_BROKEN = (TTransportException, TProtocolException, OSError, EOFError)

_TIMEOUT, _PRINCIPAL = "metastore.client.socket.timeout", "metastore.kerberos.principal"
_SASL = "TLS or Kerberos, set hive.metastore.use.SSL or hive.metastore.sasl.enabled = true in hive-site.xml"
_ONLY = {
    "metastore.client.thrift.transport.mode": "binary",
    "metastore.client.auth.mode": "nosasl",
}
_SECONDS = {"": 1.0, "d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


def endpoints(uris: str) -> tuple[tuple[str, int], ...]:
    """Hosts and ports of `thrift://host:port[,thrift://host2:port2]`. Raises InvalidOption."""
    with suppress(ValueError):
        parts = [urlsplit(uri.strip()) for uri in uris.split(",") if uri.strip()]
        addresses = [(part.hostname, part.port or DEFAULT_PORT) for part in parts if part.scheme == "thrift"]
        if addresses and len(addresses) == len(parts) and all(host for host, _ in addresses):
            return tuple((str(host), port) for host, port in addresses)
    # Don't repeat the text: it may hold a password.
    problem = (
        "the metastore's address (--metastore, HIVESINK_METASTORE, or hive.metastore.uris of hive-site.xml): write "
        "it as thrift://host:port[,thrift://host2:port2], with a port up to 65535"
    )
    raise InvalidOption((problem,))


class Connection:
    """To the metastores at `uris`, with the login of `hive`, a hive-site.xml's properties.

    Raises InvalidOption, Unsupported.
    A metastore without Kerberos creates folders as `user`, which is named as Hadoop's clients do it.
    """

    def __init__(self, uris: str, hive: Mapping[str, str] | None = None) -> None:
        self._endpoints = list(endpoints(uris))
        hosts = ((f"[{host}]" if ":" in host else host, port) for host, port in self._endpoints)
        self.address = ",".join(f"thrift://{host}:{port}" for host, port in hosts)
        self._principal, self._timeout = login(hive or {})
        self._protection = (hive or {}).get("hadoop.rpc.protection", "")
        self._tls = trusting(_value(hive or {}, "metastore.use.SSL", ""))
        self._lock = threading.RLock()
        self._client: Client | None = None
        self._socket: socket.socket | None = None

    @property
    def user(self) -> str:
        """Who owns what is created: the ticket's, or as Hadoop's clients name somebody without one."""
        if self._principal is not None:
            return kerberos.user(self.address)
        return os.environ.get("HADOOP_USER_NAME") or getpass.getuser()

    def read(self, ask: Callable[..., T], *arguments: object) -> T:
        """Raises the metastore's NoSuchObjectException, MetastoreUnreachable, NotWritable, MetastoreNotUnderstood."""
        with self._lock:
            try:
                try:
                    return self._ask(ask, *arguments)
                except _BROKEN as error:
                    log.info("asking %s again on a fresh connection: %s", self.address, reason(error))
                    return self._ask(ask, *arguments)
            except NoSuchObjectException:
                raise
            except (*_BROKEN, TException) as error:
                raise self._failure(error) from error

    def change(self, table: str, action: str, ask: Callable[..., T], *arguments: object) -> T:
        """Raises MetastoreUnreachable (nothing was sent), RegistrationFailed, RegistrationUnknown.

        MetastoreNotUnderstood if the server knows none of the calls; it has done nothing then.
        """
        with self._lock:
            try:
                return self._ask(ask, *arguments)
            except _BROKEN as error:
                raise errors.RegistrationUnknown(table, action, reason(error), self.address) from error
            except TException as error:
                if _is_not_understood(error):
                    raise self._failure(error) from error
                raise errors.RegistrationFailed(table, action, reason(error), self.address) from error

    def _failure(self, *causes: Exception) -> errors.HiveSinkError:
        kind = errors.MetastoreNotUnderstood if all(map(_is_not_understood, causes)) else errors.unanswered
        return kind(self.address, "; ".join(dict.fromkeys(map(reason, causes))))

    def close(self) -> None:
        """Close the connection; a later call opens another."""
        with self._lock:
            if self._socket is not None:
                self._socket.close()
            self._client = self._socket = None

    def _ask(self, ask: Callable[..., T], *arguments: object) -> T:
        if self._socket is not None and _hung_up(self._socket):
            self.close()
        if self._client is None:
            self._client = self._connect()
        try:
            return ask(self._client, *arguments)
        except BaseException as error:
            # Another TException is an answer. Interrupted before it, the next call would read this answer.
            if isinstance(error, _BROKEN) or not isinstance(error, TException):
                self.close()
            raise

    def _connect(self) -> Client:
        failures: list[Exception] = []
        for endpoint in tuple(self._endpoints):
            try:
                client = kerberos.logged_in(partial(self._open, *endpoint))
            except (*_BROKEN, TException, LoginFailed) as error:
                self.close()
                failures.append(error)
                continue
            # Ask this metastore first next time.
            self._endpoints.remove(endpoint)
            self._endpoints.insert(0, endpoint)
            return client
        for failure in failures:
            # Where it may pass, the metastore is out of reach.
            if isinstance(failure, LoginFailed) and not failure.retryable:
                raise failure
        raise self._failure(*failures)

    def _open(self, host: str, port: int) -> Client:
        self.close()
        address = f"thrift://{host}:{port}"
        # TSocket.open() logs a stack trace for every refused connection, so the socket is opened here.
        self._socket = socket.create_connection((host, port), timeout=min(CONNECT_SECONDS, self._timeout))
        # A server that expects another login waits for more bytes, so this needs a limit.
        self._socket.settimeout(min(LOGIN_SECONDS, self._timeout))
        if self._tls is not None:
            with verified(address):
                self._socket = self._tls.wrap_socket(self._socket, server_hostname=host)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        handle = TSocket(host, port)
        handle.setHandle(self._socket)
        transport = TBufferedTransport(handle)
        if self._principal is not None:
            transport = over_kerberos(handle, address, self._principal, host, self._protection)
            transport.open()
        # Without `strictRead` the first bytes of another protocol count as a length, and the read waits for it.
        client = ThriftHiveMetastore.Client(TBinaryProtocolAccelerated(transport, strictRead=True))
        client.gives_states = True  # Until thrift_calls finds out that this server doesn't know the call.
        if self._principal is None:
            try:
                client.set_ugi(self.user, [])
            except TTransportException as error:
                # So do servers that wait for a login of another kind.
                error.message = f"{error.message} at the login; if it expects {_SASL}"
                raise
        self._socket.settimeout(self._timeout)
        return client


def _is_not_understood(error: Exception) -> bool:
    if isinstance(error, TApplicationException):
        return bool(error.type == TApplicationException.UNKNOWN_METHOD)
    return isinstance(error, TProtocolException)


def reason(error: BaseException) -> str:
    """A line, without Java's stack trace."""
    text = str(getattr(error, "message", None) or getattr(error, "strerror", None) or error)
    return (text.strip().splitlines() or [type(error).__name__])[0][:500]


def _hung_up(socket_: socket.socket) -> bool:
    """Whether the metastore closed the connection: between calls nothing else can be read."""
    try:
        return bool(select.select([socket_], [], [], 0)[0])
    except (OSError, ValueError):
        return True


def login(hive: Mapping[str, str]) -> tuple[str | None, float]:
    """The metastore's own principal, None without Kerberos, and the limit of each wait on the socket in seconds.

    By hive-site.xml, where the principal is as `hive/_HOST@EXAMPLE.COM`. Raises InvalidOption; Unsupported for HTTP and
    passwords.
    """
    for name, plain in _ONLY.items():
        if (text := _value(hive, name, plain)).lower() != plain:
            msg = f"hive.{name} = {text}"
            raise Unsupported(msg, "hivesink speaks binary Thrift, plainly or with Kerberos", "use another port")
    principal = None
    if _value(hive, "metastore.sasl.enabled", "false").lower() == "true":
        principal = _value(hive, _PRINCIPAL, "")
        if not re.fullmatch(r"[^/@\s]+/[^/@\s]+(?:@[^/@\s]+)?", principal):
            problem = f"hive.{_PRINCIPAL} = {principal or None!r}: Kerberos needs it as service/_HOST@REALM"
            raise InvalidOption((problem,))
    timeout = _value(hive, _TIMEOUT, "600s")
    # `600`, `600s`, `10 min`, `5 minutes`: as Hive's `TimeValidator` reads it.
    units = "d(?:ays?)?|h(?:ours?)?|m(?:in(?:ute)?s?)?|s(?:ec(?:ond)?s?)?|[mun]s(?:ec)?|"
    parts = re.fullmatch(rf"(\d+)\s*({units})", timeout.lower())
    if parts is None or not int(parts[1]):
        raise InvalidOption((f"hive.{_TIMEOUT} = {timeout!r}: write it as a number with s, m, h or ms",))
    unit = parts[2][:2] if parts[2][1:2] == "s" else parts[2][:1]
    return principal, int(parts[1]) * _SECONDS[unit]


def _value(hive: Mapping[str, str], name: str, default: str) -> str:
    """By its new or old name."""
    return hive.get(name, hive.get(f"hive.{name}", "")).strip() or default
