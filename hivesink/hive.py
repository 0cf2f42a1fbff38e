"""Queries through HiveServer2 by PyHive.

>>> with hivesink.hive.connect("hive.example:10000", Login("LDAP", "me", password)) as hive:
...     hive.query("SELECT dt, count(*) FROM demo.flights GROUP BY dt").rows
"""

from __future__ import annotations

import getpass
import os
import threading
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pyhive import hive
from pyhive.exc import Error as PyHiveError
from thrift.Thrift import TException
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport

from hivesink.errors import InvalidOption, QueryFailed, SourceUnreachable

if TYPE_CHECKING:
    from collections.abc import Mapping

BROKEN = (TException, OSError, EOFError)
"""The connection is lost, or nothing listens."""
REFUSED = PyHiveError
"""The server answered with an error; the session still works."""
DEFAULT_PORT = 10000
LOGIN_SECONDS = 60.0


_KINDS = ("NONE", "NOSASL", "LDAP", "CUSTOM", "KERBEROS")
"""The values of `hive.server2.authentication` that PyHive supports."""
_BY_PASSWORD = ("LDAP", "CUSTOM")


@dataclass(frozen=True, slots=True)
class Login:
    """`auth` is NONE, NOSASL, LDAP or CUSTOM, which need user and password, or KERBEROS, which needs a ticket.

    The password is never shown.
    """

    auth: str = "NONE"
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    kerberos_service_name: str | None = None

    @classmethod
    def of(cls, site: Mapping[str, str]) -> Login:
        """For the HiveServer2 that `hive-site.xml` describes; a password is `$HIVESINK_HIVESERVER2_PASSWORD`."""
        kind = site.get("hive.server2.authentication", "NONE").strip().upper()
        if kind in _BY_PASSWORD:
            return cls(kind, getpass.getuser(), os.environ.get("HIVESINK_HIVESERVER2_PASSWORD"))
        service = site.get("hive.server2.authentication.kerberos.principal", "").partition("/")[0]
        return cls(kind, kerberos_service_name=(service or "hive") if kind == "KERBEROS" else None)


@dataclass(frozen=True, slots=True)
class Column:
    """`type` is Hive's word, without parameters: `int`, `decimal`, `array`."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Rows:
    """A result.

    BOOLEAN, integers, FLOAT, DOUBLE, DECIMAL, STRING, BINARY, DATE and TIMESTAMP are bool, int, float, Decimal, str,
    bytes, date and datetime (without zone, cut to microseconds), NULL is None. All others are text as the server sends
    it, so are dates outside the years 1 to 9999.
    """

    columns: tuple[Column, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()


def connect(address: str, login: Login | None = None, *, hive: Mapping[str, str] | None = None) -> Hive:
    """A session at `address`, host:port (by default 10000), by `login` or that of `hive`, a hive-site.xml's properties.

    Its first statement connects. Raises InvalidOption for an address or a login that can't be.
    """
    used = login or Login.of(hive or {})
    by_password = used.auth in _BY_PASSWORD
    has_password = bool(used.username and used.password) if by_password else used.password is not None
    is_kerberos, has_service = used.auth == "KERBEROS", used.kerberos_service_name is not None
    rules = {
        f"auth is one of {', '.join(_KINDS)}": used.auth in _KINDS,
        "LDAP and CUSTOM, and only they, need a user and a password": by_password == has_password,
        "KERBEROS, and only it, needs kerberos_service_name (often `hive`)": is_kerberos == has_service,
    }
    # Don't show the values: one is a password.
    if broken := tuple(f"hiveserver2 login: {rule}" for rule, holds in rules.items() if not holds):
        raise InvalidOption(broken)
    try:
        parts = urlsplit("//" + address.rpartition("//")[2])
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host:
        # Don't repeat the text: it may hold a password.
        raise InvalidOption(("hiveserver2 address: write it as host:port",))
    return Hive(host, port or DEFAULT_PORT, used)


class Hive(AbstractContextManager["Hive"]):
    """A session, safe to share between threads, until it is closed or its connection breaks.

    `lock` holds several statements together.
    """

    def __init__(self, host: str, port: int, login: Login) -> None:
        shown = f"[{host}]" if ":" in host else host
        self.address = f"hiveserver2://{shown}:{port}"
        self.lock = threading.RLock()
        self._host = host
        self._port = port
        self._login = login
        self._connection: Any = None

    def query(self, sql: str, *, most: int | None = None) -> Rows:
        """Run a statement, and return its columns and at most `most` of its rows; without a limit in time.

        Raises QueryFailed (with the server's words), SourceUnreachable.
        """
        where = f"HiveServer2 at {self._host}:{self._port}"
        try:
            return self.run(sql.strip().rstrip(";"), most)
        except BROKEN as error:
            hint = f"is it running, and is {self._login.auth} its hive.server2.authentication?"
            raise SourceUnreachable(where, f"{reason(error)}; {hint}") from error
        except Exception as error:
            # PyHive raises a bare Exception for a TIMESTAMP whose year Python doesn't have.
            raise QueryFailed(reason=f"{reason(error)} ({where})") from error

    def run(self, statement: str, most: int | None = None) -> Rows:
        """As `query`, with the errors of PyHive and Thrift: BROKEN, REFUSED."""
        with self.lock:
            connection = self._connected()
            try:
                with connection.cursor() as cursor:
                    cursor.execute(statement)
                    if not cursor.description:
                        return Rows()
                    named = [(str(name), str(kind)) for name, kind, *_ in cursor.description]
                    fetched = cursor.fetchall() if most is None else cursor.fetchmany(most)
            except BaseException as error:
                # After an interruption, the answer would be the next statement's.
                if isinstance(error, BROKEN) or not isinstance(error, Exception):
                    self._connection = None
                raise
        kinds = [kind for _, kind in named]
        columns = tuple(Column(name, kind.removesuffix("_TYPE").lower()) for name, kind in named)
        return Rows(columns, tuple(tuple(map(_cell, kinds, row)) for row in fetched))

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
        """The connection, made as PyHive makes it, but with a limit."""
        from thrift_sasl import TSaslClientTransport

        if self._connection is None:
            # PyHive's own socket has no limit, and a server that expects another `auth` waits for more bytes.
            login, socket = self._login, TSocket(self._host, self._port)
            socket.setTimeout(LOGIN_SECONDS * 1000)
            user, mechanism = login.username or getpass.getuser(), "GSSAPI" if login.auth == "KERBEROS" else "PLAIN"
            # PLAIN wants a password; a server without authentication reads none.
            named = {"username": user, "password": login.password or "x", "service": login.kerberos_service_name}
            sasl = partial(hive.get_installed_sasl, host=self._host, sasl_auth=mechanism, **named)
            is_plain = login.auth == "NOSASL"
            transport = TBufferedTransport(socket) if is_plain else TSaslClientTransport(sasl, mechanism, socket)
            self._connection = hive.connect(thrift_transport=transport, username=user)
            # Statements have no limit.
            socket.setTimeout(None)
        return self._connection


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
