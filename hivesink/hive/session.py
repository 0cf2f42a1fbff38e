"""A HiveServer2 session by PyHive, replaced when it breaks. Errors are those of PyHive and Thrift."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pyhive import hive
from pyhive.exc import Error as PyHiveError
from TCLIService.ttypes import TGetInfoReq, TGetInfoType
from thrift.Thrift import TException
from thrift.transport.TSocket import TSocket

from hivesink.errors import InvalidOption

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hivesink.hive.login import Login

BROKEN = (TException, OSError, EOFError)
"""The connection is lost, or nothing listens."""
REFUSED = PyHiveError
"""The server answered with an error; the session still works."""
DEFAULT_PORT = 10000
LOGIN_SECONDS = 60.0
"""A server that expects another `auth` waits for more bytes, so the login needs a limit."""


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
    """The server's own first line; PyHive's text would hold the whole reply with Java's stack."""
    status = getattr(error.args[0], "status", None) if error.args else None
    text = getattr(status, "errorMessage", None) or getattr(error, "message", None) or str(error)
    return (str(text).strip().splitlines() or [type(error).__name__])[0][:500]
