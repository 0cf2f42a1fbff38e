"""Queries through HiveServer2 by PyHive."""

from __future__ import annotations

import getpass
import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import date
from functools import partial
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from pyhive import hive
from pyhive.exc import Error as PyHiveError
from thrift.Thrift import TException
from thrift.transport.THttpClient import THttpClient
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

from hivesink import kerberos
from hivesink.core.table import HiveType
from hivesink.core.typetext import known_type
from hivesink.errors import HiveSinkError, InvalidOption, QueryFailed, SourceUnreachable
from hivesink.kerberos.wire import over_kerberos, trusting, verified

BROKEN = (TException, OSError, EOFError)
"""The connection is lost, or nothing listens."""
REFUSED = PyHiveError
"""The server answered with an error; the session still works."""
DEFAULT_PORT, HTTP_PORT = 10000, 10001
LOGIN_SECONDS = 60.0
_KINDS = ("NONE", "NOSASL", "LDAP", "CUSTOM", "KERBEROS")
"""The values of `hive.server2.authentication` that PyHive supports."""
_BY_PASSWORD = ("LDAP", "CUSTOM")
_PASSWORD = "HIVESINK_HIVESERVER2_PASSWORD"  # noqa: S105  where it is


class Answer(NamedTuple):
    """A result: its columns' names, their types where they are Hive's, and its rows.

    BOOLEAN, integers, FLOAT, DOUBLE, DECIMAL, STRING, BINARY, DATE and TIMESTAMP are bool, int, float, Decimal, str,
    bytes, date and datetime (without zone, cut to microseconds), NULL is None. All others are text as the server sends
    it, so are dates outside the years 1 to 9999.
    """

    columns: Sequence[str] = ()
    types: Sequence[HiveType | None] = ()
    rows: Sequence[Sequence[Any]] = ()


class Hive(AbstractContextManager["Hive"]):
    """A session, safe to share between threads, until it is closed or its connection breaks.

    `lock` holds several statements together.
    """

    def __init__(self, address: str, site: Mapping[str, str]) -> None:
        """At `address`, host:port (by default 10000), with the login that `site`, hive-site.xml's, describes.

        The first statement connects. A password is `$HIVESINK_HIVESERVER2_PASSWORD`. Raises InvalidOption.
        """
        self._auth = auth = site.get("hive.server2.authentication", "NONE").strip().upper()
        if auth not in _KINDS:
            raise InvalidOption((f"hive.server2.authentication = {auth!r}: hivesink knows {', '.join(_KINDS)}",))
        # PLAIN wants a password; a server without authentication reads none.
        self._password = os.environ.get(_PASSWORD) if auth in _BY_PASSWORD else "x"
        if not self._password:
            raise InvalidOption((f"hive.server2.authentication = {auth}: set ${_PASSWORD}",))
        self._is_http = site.get("hive.server2.transport.mode", "binary").strip().lower() == "http"
        if self._is_http and auth == "KERBEROS":
            problem = "hive.server2.transport.mode = http: hivesink logs in with Kerberos over binary only"
            raise InvalidOption((problem,))
        try:
            parts = urlsplit("//" + address.rpartition("//")[2])
            host, port = parts.hostname, parts.port
        except ValueError:
            host, port = None, None
        if not host:
            # Don't repeat the text: it may hold a password.
            raise InvalidOption(("hiveserver2 address: write it as host:port",))
        self._host, self._port = host, port or (HTTP_PORT if self._is_http else DEFAULT_PORT)
        shown = f"[{host}]" if ":" in host else host
        self.address = f"hiveserver2://{shown}:{self._port}"
        self.lock = threading.RLock()
        self._site = site
        self._tls = trusting(site.get("hive.server2.use.SSL"))
        self._connection: Any = None

    def query(self, sql: str, *, most: int | None = None) -> Answer:
        """Run a statement, and return its columns and at most `most` of its rows; without a limit in time.

        Raises QueryFailed (with the server's words), SourceUnreachable.
        """
        where = f"HiveServer2 at {self._host}:{self._port}"
        try:
            return self.run(sql.strip().rstrip(";"), most)
        except HiveSinkError:
            raise
        except BROKEN as error:
            hint = f"is it running, and is {self._auth} its hive.server2.authentication?"
            raise SourceUnreachable(where, f"{reason(error)}; {hint}") from error
        except Exception as error:
            # PyHive raises a bare Exception for a TIMESTAMP whose year Python doesn't have.
            raise QueryFailed(reason=f"{reason(error)} ({where})") from error

    def run(self, statement: str, most: int | None = None) -> Answer:
        """As `query`, with the errors of PyHive and Thrift: BROKEN, REFUSED."""
        with self.lock:
            connection = self._connected()
            try:
                with connection.cursor() as cursor:
                    cursor.execute(statement)
                    if not cursor.description:
                        return Answer()
                    named = [(str(name), str(kind)) for name, kind, *_ in cursor.description]
                    fetched = cursor.fetchall() if most is None else cursor.fetchmany(most)
            except BaseException as error:
                # After an interruption, the answer would be the next statement's.
                if isinstance(error, BROKEN) or not isinstance(error, Exception):
                    self._connection = None
                raise
        kinds = [kind for _, kind in named]
        types = [known_type(kind.removesuffix("_TYPE").lower()) for kind in kinds]
        return Answer([name for name, _ in named], types, [tuple(map(_cell, kinds, row)) for row in fetched])

    def close(self) -> None:
        """End the session; a later statement begins another session."""
        # The server forgets a session whose connection is gone.
        with self.lock, suppress(*BROKEN, REFUSED):
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _connected(self) -> Any:
        if self._connection is None:
            self._connection = kerberos.logged_in(self._new)
        return self._connection

    def _new(self) -> Any:
        """A connection, made as PyHive makes it, but with a limit."""
        from thrift_sasl import TSaslClientTransport

        user, site = getpass.getuser(), self._site.get
        if self._is_http:
            scheme, host = "https" if self._tls else "http", self.address.partition("//")[2]
            path = site("hive.server2.thrift.http.path", "cliservice").strip("/ ")
            wire: Any = _Http(f"{scheme}://{host}/{path}", ssl_context=self._tls)
            hive.Connection._set_authorization_header(wire, user, self._password)  # noqa: SLF001  as PyHive does
            transport = wire
        else:
            wire = TSocket(self._host, self._port)
            if self._auth == "NOSASL":
                transport = _Open(wire)
            elif self._auth == "KERBEROS":
                principal = site("hive.server2.authentication.kerberos.principal", "hive/_HOST").strip()
                protection = site("hive.server2.thrift.sasl.qop", "")
                transport = over_kerberos(wire, self.address, principal, self._host, protection)
            else:
                named = {"host": self._host, "username": user, "password": self._password}
                sasl = partial(hive.get_installed_sasl, sasl_auth="PLAIN", **named)
                transport = TSaslClientTransport(sasl, "PLAIN", wire)
        # PyHive's own socket has no limit, and a server that expects another `auth` waits for more bytes.
        wire.setTimeout(LOGIN_SECONDS * 1000)
        with verified(self.address):
            wire.open()
            if self._tls and not self._is_http:
                wire.setHandle(self._tls.wrap_socket(wire.handle, server_hostname=self._host))
            connection = hive.connect(thrift_transport=transport, username=user)
        # Statements have no limit.
        wire.setTimeout(None)
        return connection


class _Open(TBufferedTransport):  # type: ignore[misc]  # it has no types
    def open(self) -> None:
        """It is."""


class _Http(THttpClient):  # type: ignore[misc]  # it has no types
    def flush(self) -> None:
        super().flush()
        if self.code != HTTPStatus.OK:
            # Its page is no Thrift.
            raise TTransportException(message=f"HTTP {self.code} {self.message}")


def _cell(kind: str, cell: Any) -> Any:
    """PyHive leaves dates as text; those that Python doesn't have stay so."""
    if kind == "DATE_TYPE" and cell is not None:
        with suppress(ValueError):
            return date.fromisoformat(cell)
    return cell


def reason(error: BaseException) -> str:
    """The server's own first line that says something; PyHive's text would hold the whole reply with Java's stack."""
    status = getattr(error.args[0], "status", None) if error.args else None
    text = getattr(status, "errorMessage", None) or getattr(error, "message", None) or str(error)
    lines = [line for line in str(text).splitlines() if line.strip()] or [type(error).__name__]
    # Spark's server puts what is wrong with a statement's syntax below a line that ends in a colon.
    shown = 2 if lines[0].rstrip().endswith(":") else 1
    return " ".join(line.strip() for line in lines[:shown])[:500]
