"""Metastores: over Thrift in bulk, through HiveServer2, and in memory for tests."""

from __future__ import annotations

import getpass
import os
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from hivesink.errors import InvalidOption

if TYPE_CHECKING:
    from hivesink.metastore.hiveserver2 import Login
    from hivesink.metastore.thrift_catalog import ThriftCatalog
    from hivesink.ports import Registrar

__all__ = ["catalog", "connect"]

_HIVESERVER2_PORT = 10000


def connect(kind: str, address: str, *, timeout: float = 300.0, login: Login | None = None) -> Registrar:
    """The registrar `kind`; nothing is asked of the server yet. Raises InvalidOption.

    `thrift`: `address` is thrift://host:port[,thrift://host2:port2], `timeout` in seconds for each answer.
    `hiveserver2`: `address` is host:port, and `login` what PyHive wants to know.
    """
    if kind == "thrift":
        from hivesink.metastore.thrift import ThriftRegistrar
        from hivesink.metastore.thrift_connection import Connection

        user = _user()
        return ThriftRegistrar(Connection(address, timeout=timeout, user=user), owner=user)
    if kind == "hiveserver2":
        from hivesink.metastore.hiveserver2 import HiveServer2Registrar

        host, port = _host_and_port(address)
        return HiveServer2Registrar(host, port, login)
    problem = f"registrar = {kind!r}: write thrift or hiveserver2"
    raise InvalidOption((problem,))


def catalog(address: str, *, timeout: float = 300.0) -> ThriftCatalog:
    """What `ddl` works with, at thrift://host:port. Raises InvalidOption."""
    from hivesink.metastore.thrift_catalog import ThriftCatalog
    from hivesink.metastore.thrift_connection import Connection

    user = _user()
    return ThriftCatalog(Connection(address, timeout=timeout, user=user), owner=user)


def _user() -> str:
    """As Hadoop's clients decide it where there is no Kerberos."""
    return os.environ.get("HADOOP_USER_NAME") or getpass.getuser()


def _host_and_port(address: str) -> tuple[str, int]:
    try:
        parts = urlsplit("//" + address.rpartition("//")[2])
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host:
        # The text isn't repeated: it may hold a password.
        raise InvalidOption(("hiveserver2 address: write it as host:port",))
    return host, port or _HIVESERVER2_PORT
