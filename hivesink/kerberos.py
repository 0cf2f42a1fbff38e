"""Kerberos: this process's login, what its failures say, and Thrift's SASL with it.

Tickets are the C library's (MIT's): `KRB5CCNAME` names their cache, `KRB5_CLIENT_KTNAME` the keys
from which it takes a new one by itself, once the last one is half over. hdfs-native uses the same
library, so one login is for all.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hivesink.errors import InvalidOption, LoginFailed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Trouble(Enum):
    """Why a login failed, and what to do."""

    NO_KDC = "is the KDC running, and does krb5.conf (KRB5_CONFIG) name it?"
    NO_TICKET = "run kinit, or set spark.kerberos.principal and .keytab, or KRB5_CLIENT_KTNAME"
    TICKET_ENDED = "run kinit again, or let a keytab renew it (KRB5_CLIENT_KTNAME)"
    REFUSED = "compare the principals and keytabs of the site, krb5.conf, and the clocks"


_BASE = -1765328384
_BY_MINOR: Mapping[int, Trouble] = {
    _BASE + 29: Trouble.NO_KDC,  # KRB5KDC_ERR_SVC_UNAVAILABLE
    _BASE + 32: Trouble.TICKET_ENDED,  # KRB5KRB_AP_ERR_TKT_EXPIRED
    _BASE + 156: Trouble.NO_KDC,  # KRB5_KDC_UNREACH
    _BASE + 220: Trouble.NO_KDC,  # KRB5_REALM_CANT_RESOLVE
}
"""By the numbers of MIT's krb5.h, which are the same in every release."""
_NO_CACHE = _BASE + 195
"""KRB5_FCC_NOFILE."""
_BY_MAJOR: Mapping[int, Trouble] = {7: Trouble.NO_TICKET, 11: Trouble.TICKET_ENDED}
"""By the routine errors of RFC 2744: GSS_S_NO_CRED, GSS_S_CREDENTIALS_EXPIRED."""
_KDC = "the KDC"
_PRIVACY = 4
VARIABLES = ("KRB5CCNAME", "KRB5_CLIENT_KTNAME")
"""The environment's, by which a process finds its tickets, and the keys to take new ones."""
_logins: dict[tuple[str, str], str] = {}
"""The ticket caches of this process, by principal and keytab."""


def log_in(principal: str, keytab: str) -> None:
    """From now on this process, and those that it starts, are `principal`, by the keys in `keytab`.

    Raises LoginFailed, InvalidOption without the package for it.
    """
    gssapi, keytab = _gssapi("spark.kerberos.keytab"), str(Path(keytab).absolute())
    if others := {user for user, _ in _logins} - {principal}:
        # Open connections and the JVM would stay who they were.
        problem = f"this process is logged in as {others.pop()}: run the job of {principal} in a process of its own"
        raise InvalidOption((problem,))
    if (principal, keytab) not in _logins:
        if not os.access(keytab, os.R_OK):
            raise failure(_KDC, f"the keytab {keytab} can't be read", Trouble.REFUSED, principal)
        # Not the user's own cache, which may hold somebody else's tickets.
        folder = tempfile.mkdtemp(prefix="hivesink-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        tickets = {"client_keytab": keytab, "ccache": f"FILE:{folder}/tickets"}
        name = gssapi.Name(principal, gssapi.NameType.kerberos_principal)
        try:
            # The first ticket says to the library whose keys it is to use later.
            _ = gssapi.Credentials(name=name, usage="initiate", store=tickets).lifetime
        except gssapi.exceptions.GSSError as error:
            why, reason = _trouble_of(error)
            if why is Trouble.NO_TICKET:
                # Without a key of that name the library looks into the cache, which is new.
                has_none = _signed(error.min_code) == _NO_CACHE
                why, reason = Trouble.REFUSED, f"it has no key in {keytab}" if has_none else reason
            raise failure(_KDC, reason, why, principal) from error
        _logins[principal, keytab] = tickets["ccache"]
    os.environ |= dict(zip(VARIABLES, (_logins[principal, keytab], keytab), strict=True))


def user(server: str) -> str:
    """Whose tickets these are, without host and realm. Raises LoginFailed, InvalidOption."""
    gssapi = _gssapi(f"the login to {server}")
    with _told(server):
        return re.split("[/@]", str(gssapi.Credentials(usage="initiate").name), maxsplit=1)[0]


def transport(socket: Any, server: str, principal: str, host: str) -> Any:
    """Thrift's transport over `socket`, whose `open` logs in to `principal` (`service/_HOST@REALM`).

    `server` is for errors: InvalidOption without the package for it; from `open` LoginFailed and
    TTransportException.
    """
    from thrift.transport.TTransport import TTransportException
    from thrift_sasl import TSaslClientTransport

    gssapi = _gssapi(f"the login to {server}")

    class Transport(TSaslClientTransport):  # type: ignore[misc]  # it has no types
        def open(self) -> None:
            try:
                super().open()
            except TTransportException as error:
                if str(error.message).startswith("Bad status"):
                    raise failure(server, error.message, Trouble.REFUSED) from error
                if error.type != TTransportException.NOT_OPEN:
                    error.message = f"{error.message} in a Kerberos login; does the server want one?"
                raise

    named, _, realm = principal.replace("_HOST", host.lower()).partition("@")
    # Without a realm krb5.conf says that of the host.
    kinds = gssapi.NameType
    wanted = gssapi.Name(f"{named}@{realm}", kinds.kerberos_principal)
    if not realm:
        wanted = gssapi.Name(named.replace("/", "@"), kinds.hostbased_service)
    return Transport(lambda: Sasl(server, wanted), "GSSAPI", socket)


class Sasl:
    """The client of RFC 4752 in the shape that `thrift_sasl` takes, for the service `name`.

    PyHive's own swaps wrap and unwrap, and lacks the length before each message, without which a
    server waits.
    """

    def __init__(self, server: str, name: Any) -> None:
        gssapi = _gssapi(server)
        flags = gssapi.RequirementFlag
        wanted = [flags.mutual_authentication, flags.integrity, flags.confidentiality]
        self._server = server
        self._context = gssapi.SecurityContext(name=name, usage="initiate", flags=wanted)
        self._layer = 1

    def start(self, mechanism: str) -> tuple[bool, str, bytes]:
        return True, mechanism, self.step()[1]

    def step(self, challenge: bytes | str | None = None) -> tuple[bool, bytes]:
        """Raises LoginFailed."""
        # thrift_sasl hands out an empty challenge as text.
        said = challenge or None
        with _told(self._server):
            if not self._context.complete:
                return True, self._context.step(said) or b""
            # What the server offers: 1 nothing, 2 integrity, 4 privacy; then how much it takes.
            offered = self._context.unwrap(said).message
            self._layer = next(layer for layer in (1, 2, _PRIVACY) if layer & offered[0])
            most = b"\0\0\0" if self._layer == 1 else offered[1:4]
            return True, self._context.wrap(bytes([self._layer]) + most, False).message

    def encode(self, message: bytes) -> tuple[bool, bytes]:
        if self._layer == 1:
            return True, message
        sealed = self._context.wrap(message, self._layer == _PRIVACY).message
        return True, len(sealed).to_bytes(4, "big") + sealed

    def decode(self, message: bytes) -> tuple[bool, bytes]:
        return True, message if self._layer == 1 else self._context.unwrap(message[4:]).message


@contextmanager
def _told(server: str) -> Iterator[None]:
    try:
        yield
    except _gssapi(server).exceptions.GSSError as error:
        why, reason = _trouble_of(error)
        raise failure(server, reason, why) from error


def _trouble_of(error: Any) -> tuple[Trouble, str]:
    words = error.get_all_statuses(error.min_code, is_maj=False) if error.min_code else ()
    return trouble(error.maj_code, error.min_code), "; ".join(words) or str(error)


def trouble(major: int, minor: int) -> Trouble:
    """What GSSAPI's two numbers mean."""
    return _BY_MINOR.get(_signed(minor)) or _BY_MAJOR.get(major >> 16 & 0xFF, Trouble.REFUSED)


def _signed(minor: int) -> int:
    return minor - (1 << 32) if minor >> 31 else minor


def failure(server: str, reason: str, why: Trouble, principal: str | None = None) -> LoginFailed:
    """The error. A ticket that has ended may be renewed by others, as a KDC may come back."""
    passing = why in {Trouble.NO_KDC, Trouble.TICKET_ENDED}
    return LoginFailed(server, principal or who(), reason, why.value, retryable=passing)


def who() -> str:
    """Whom the ticket cache names, and until when: a phrase."""
    cache = os.environ.get("KRB5CCNAME", "the default ticket cache")
    try:
        gssapi = import_module("gssapi")
    except ImportError:
        return f"the user of {cache}"
    try:
        found = gssapi.Credentials(usage="initiate")
        name, left = str(found.name), found.lifetime
    except gssapi.exceptions.GSSError:
        return f"the user of {cache}, which has no valid ticket"
    end = datetime.now(timezone.utc) + timedelta(seconds=left or 0)
    return f"{name}, whose ticket ends at {end:%Y-%m-%d %H:%M:%SZ}"


def _gssapi(what: str) -> Any:
    try:
        return import_module("gssapi")
    except ImportError as error:
        package = "pip install 'hivesink[kerberos]', after apt-get install gcc libkrb5-dev"
        problem = f"{what} needs Kerberos: {package}"
        raise InvalidOption((problem,)) from error
