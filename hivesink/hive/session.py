"""The login to HiveServer2, and a session by PyHive, replaced when it breaks. Errors are those of PyHive and Thrift."""

from __future__ import annotations

import getpass
import threading
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pyhive import hive
from pyhive.exc import Error as PyHiveError
from TCLIService.ttypes import TGetInfoReq, TGetInfoType
from thrift.Thrift import TException
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport

from hivesink.errors import InvalidOption
from hivesink.hive.values import moment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

BROKEN = (TException, OSError, EOFError)
"""The connection is lost, or nothing listens."""
REFUSED = PyHiveError
"""The server answered with an error; the session still works."""
DEFAULT_PORT = 10000
LOGIN_SECONDS = 60.0
"""A server that expects another `auth` waits for more bytes, so the login needs a limit."""

# PyHive's own raises where Python has no such year.
hive.TYPES_CONVERTER["TIMESTAMP_TYPE"] = moment


class Auth(str, Enum):
    """The values of `hive.server2.authentication` that PyHive supports."""

    NONE = "NONE"
    NOSASL = "NOSASL"
    LDAP = "LDAP"
    CUSTOM = "CUSTOM"
    KERBEROS = "KERBEROS"


_PASSWORD = {Auth.LDAP.value, Auth.CUSTOM.value}


@dataclass(frozen=True, slots=True)
class Login:
    """`auth` is one of Auth; LDAP and CUSTOM need user and password, KERBEROS a ticket. The password is never shown."""

    auth: str = "NONE"
    username: str | None = None
    password: str | None = None
    kerberos_service_name: str | None = None

    def __repr__(self) -> str:
        return f"Login(auth={self.auth!r}, username={self.username!r})"

    @classmethod
    def of(cls, site: Mapping[str, str]) -> Login:
        """The login for the HiveServer2 that `hive-site.xml` describes."""
        auth = site.get("hive.server2.authentication", "NONE").strip().upper()
        service = site.get("hive.server2.authentication.kerberos.principal", "").partition("/")[0]
        return cls(auth, kerberos_service_name=(service or "hive") if auth == "KERBEROS" else None)

    def check(self) -> None:
        """Raise InvalidOption for parts that contradict each other, without showing their values."""
        problems = []
        known = [auth.value for auth in Auth]
        if self.auth not in known:
            problems.append(f"hiveserver2 login: auth is one of {', '.join(known)}")
        if self.auth in _PASSWORD and (self.username is None or not self.password):
            problems.append(f"hiveserver2 login: {self.auth} needs a user and a password")
        if self.auth in known and self.auth not in _PASSWORD and self.password is not None:
            problems.append(f"hiveserver2 login: a password goes with LDAP or CUSTOM, not with {self.auth}")
        if (self.auth == "KERBEROS") != (self.kerberos_service_name is not None):
            problems.append("hiveserver2 login: KERBEROS, and only it, needs kerberos_service_name (often `hive`)")
        if problems:
            raise InvalidOption(tuple(problems))

    def transport(self, socket: Any, host: str) -> Any:
        """The transport over a closed `socket` to `host`, as PyHive makes it. Raises InvalidOption."""
        from thrift_sasl import TSaslClientTransport

        self.check()
        if self.auth == "NOSASL":
            return TBufferedTransport(socket)
        if self.auth == "KERBEROS" and not any(map(find_spec, ("sasl", "kerberos", "winkerberos"))):
            problem = "hiveserver2 login: KERBEROS needs its Python package: pip install kerberos, then kinit"
            raise InvalidOption((problem,))
        mechanism = "GSSAPI" if self.auth == "KERBEROS" else "PLAIN"
        # PLAIN wants a password; a server without authentication reads none.
        named = {"username": self.user, "password": self.password or "x", "service": self.kerberos_service_name}
        return TSaslClientTransport(
            lambda: hive.get_installed_sasl(host=host, sasl_auth=mechanism, **named), mechanism, socket
        )

    @property
    def user(self) -> str:
        """The session's user; by default this process's."""
        return self.username or getpass.getuser()


@dataclass(frozen=True, slots=True)
class Result:
    """As PyHive gives it: each column's name and type (`STRING_TYPE`), and the rows."""

    columns: tuple[tuple[str, str], ...]
    rows: Sequence[tuple[Any, ...]]


class Session:
    """Safe to share between threads: one statement at a time. `lock` holds several together."""

    def __init__(self, host: str, port: int, login: Login) -> None:
        self.host = host
        self.port = port
        self.login = login
        self.lock = threading.RLock()
        self._connection: Any = None
        self._spark = False

    @property
    def address(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"hiveserver2://{host}:{self.port}"

    @property
    def spark(self) -> bool:
        """Whether Spark's Thrift Server answers; opens the session. Raises BROKEN, REFUSED, InvalidOption."""
        with self.lock:
            self._connected()
            return self._spark

    def run(self, statement: str, most: int | None = None) -> Result:
        """Run `statement`; at most `most` rows are fetched. Raises BROKEN, REFUSED, InvalidOption."""
        with self.lock:
            connection = self._connected()
            try:
                with connection.cursor() as cursor:
                    cursor.execute(statement)
                    columns = tuple((str(column[0]), str(column[1])) for column in cursor.description or ())
                    if not columns:
                        return Result((), ())
                    return Result(columns, cursor.fetchall() if most is None else cursor.fetchmany(most))
            except REFUSED:
                raise
            except BaseException:
                self._connection = None
                raise

    def close(self) -> None:
        """Close the session; a later statement opens another."""
        with self.lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                # The server forgets a session whose connection is gone.
                with suppress(*BROKEN, REFUSED):
                    connection.close()

    def _connected(self) -> Any:
        if self._connection is None:
            socket = TSocket(self.host, self.port)
            socket.setTimeout(LOGIN_SECONDS * 1000)
            transport = self.login.transport(socket, self.host)
            connection = hive.connect(thrift_transport=transport, username=self.login.user)
            request = TGetInfoReq(connection.sessionHandle, TGetInfoType.CLI_DBMS_NAME)
            self._spark = "spark" in str(connection.client.GetInfo(request).infoValue.stringValue).lower()
            # Statements have no limit.
            socket.setTimeout(None)
            self._connection = connection
        return self._connection


def host_and_port(address: str) -> tuple[str, int]:
    """`host:port`, 10000 where no port is named. Raises InvalidOption."""
    try:
        parts = urlsplit("//" + address.rpartition("//")[2])
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host:
        # Don't repeat the text: it may hold a password.
        raise InvalidOption(("hiveserver2 address: write it as host:port",))
    return host, port or DEFAULT_PORT


def reason(error: BaseException) -> str:
    """The server's own first line that says something; PyHive's text would hold the whole reply with Java's stack."""
    status = getattr(error.args[0], "status", None) if error.args else None
    text = getattr(status, "errorMessage", None) or getattr(error, "message", None) or str(error)
    lines = [line for line in str(text).splitlines() if line.strip()] or [type(error).__name__]
    # Spark's server puts what is wrong with a statement's syntax below a line that ends in a colon.
    told = 2 if lines[0].rstrip().endswith(":") else 1
    return " ".join(line.strip() for line in lines[:told])[:500]
