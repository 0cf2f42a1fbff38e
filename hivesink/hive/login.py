"""Who logs in to HiveServer2, and how, in the terms of PyHive and `hive.server2.authentication`."""

from __future__ import annotations

import getpass
from dataclasses import dataclass
from enum import Enum
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from hivesink.errors import InvalidOption

if TYPE_CHECKING:
    from collections.abc import Mapping


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
    def of(cls, hive: Mapping[str, str]) -> Login:
        """The login for the HiveServer2 that `hive-site.xml` describes."""
        auth = hive.get("hive.server2.authentication", "NONE").strip().upper()
        service = hive.get("hive.server2.authentication.kerberos.principal", "").partition("/")[0]
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
        from pyhive.hive import get_installed_sasl
        from thrift.transport.TTransport import TBufferedTransport
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
            lambda: get_installed_sasl(host=host, sasl_auth=mechanism, **named), mechanism, socket
        )

    @property
    def user(self) -> str:
        """The session's user; by default this process's."""
        return self.username or getpass.getuser()
