"""Kerberos: this process's login, what its failures say, and Thrift's SASL with it.

Tickets are the C library's (MIT's): `KRB5CCNAME` names their cache, `KRB5_CLIENT_KTNAME` the keys
from which it takes a new one by itself, once the last one is half over. hdfs-native uses the same
library, so one login is for all.
"""

from __future__ import annotations

import os
import re
import threading
import time
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta, timezone
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from hivesink.errors import InvalidOption, LoginFailed
from hivesink.kerberos import tickets
from hivesink.kerberos.tickets import Keys, Trouble, trouble, trouble_of_java

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_T = TypeVar("_T")
_KDC = "the KDC"
_JVM = "Hadoop or Hive from Spark's JVM"
_PRIVACY = 4
__all__ = [
    "Trouble",
    "adopt",
    "failure",
    "log_in",
    "logged_in",
    "renew",
    "transport",
    "trouble",
    "trouble_of_java",
    "user",
]
VARIABLES = ("KRB5CCNAME", "KRB5_CLIENT_KTNAME")
"""The environment's, by which a process finds its tickets, and the keys to take new ones."""
_OWN = "MEMORY:hivesink"
"""A ticket cache in memory, where hdfs-native finds it, too: no file is left behind, or lost."""
_logins = set[tuple[str, str]]()
"""Whom `log_in` has made of this process, one principal, and by which keytabs."""
_taken = 0.0
"""When the last new tickets were taken, by the monotonic clock."""
_lock = threading.Lock()
_file: int | None = None
"""That of `adopt`."""


def log_in(principal: str, keytab: str) -> None:
    """From now on this process is `principal`, by the keys that `keytab` has at each new ticket.

    Raises LoginFailed, InvalidOption without the package for it.
    """
    gssapi, keytab = _gssapi("spark.kerberos.keytab"), str(Path(keytab).absolute())
    if others := {user for user, _ in _logins} - {principal}:
        # Open connections and the JVM would stay who they were.
        problem = f"this process is logged in as {others.pop()}: run the job of {principal} in a process of its own"
        raise InvalidOption((problem,))
    if (principal, keytab) not in _logins:
        keys, reason = _take(gssapi, principal, keytab, _OWN)
        if keys is not Keys.TAKEN:
            why = Trouble.NO_KDC if keys is Keys.NO_KDC else Trouble.BAD_KEYTAB
            raise failure(_KDC, reason, why, principal)
        _logins.add((principal, keytab))
    os.environ |= dict(zip(VARIABLES, (_OWN, keytab), strict=True))


def logged_in(log_in: Callable[[], _T]) -> _T:
    """What `log_in` returns, called once more if it failed and new tickets could be taken.

    Raises what it raises; a LoginFailed says what the failure means.
    """
    began = time.monotonic()
    try:
        return log_in()
    except LoginFailed as error:
        said = Trouble(error.advice)
        why, reason = renew(said, error.reason, began)
        if why is said:
            raise
        if why is not None:
            raise failure(error.server, reason, why) from error
    return log_in()


def renew(said: Trouble, reason: str, began: float, *, again: bool = False) -> tuple[Trouble | None, str]:
    """What a failed login means, and why, after a try to take new tickets. None: try it again.

    It began at `began` (monotonic). `again`: it had new tickets.
    """
    global _taken  # noqa: PLW0603  so is the cache
    with _lock:
        keys, words = Keys.TAKEN, ""
        # Another thread may have taken them meanwhile.
        if said is not Trouble.NO_KDC and not again and _taken < began:
            keys, words = _new_tickets(said)
            _taken = time.monotonic() if keys is Keys.TAKEN else _taken
    return tickets.verdict(said, keys, again=again), words or reason


def _new_tickets(said: Trouble) -> tuple[Keys, str]:
    """By the keytab; without one the ticket of `kinit` gives new ones for services."""
    cache, keytab = map(os.environ.get, VARIABLES)
    if keytab:
        # Without the package for it, HDFS's client takes tickets by itself.
        with suppress(InvalidOption):
            return _take(_gssapi("a keytab"), tickets.principal(), keytab.removeprefix("FILE:"), cache)
    return (Keys.TAKEN if said is Trouble.REFUSED and tickets.forget() else Keys.NONE), ""


def _take(gssapi: Any, principal: str | None, keytab: str, cache: str | None) -> tuple[Keys, str]:
    """Put a new ticket by the keytab in place of all that `cache`, or the library's own, holds."""
    if not os.access(keytab, os.R_OK):
        return Keys.USELESS, f"the keytab {keytab} can't be read"
    name = principal and gssapi.Name(principal, gssapi.NameType.kerberos_principal)
    # In the cache itself the library takes no new ticket before half of the last one's life.
    store = {"client_keytab": keytab, "ccache": f"{_OWN}-{uuid4()}"}
    try:
        taken = gssapi.Credentials(name=name, usage="initiate", store=store)
        # The first look is what asks the KDC.
        _ = taken.lifetime
        taken.store(store={"ccache": cache} if cache else None, usage="initiate", overwrite=True)
    except gssapi.exceptions.GSSError as error:
        why, reason = _trouble_of(error)
        if tickets.signed(error.min_code) == tickets.NO_CACHE:
            # Without a key of that name the library looks into the cache, which is new.
            reason = f"it has no key in {keytab}"
        return (Keys.NO_KDC if why is Trouble.NO_KDC else Keys.USELESS), reason
    return Keys.TAKEN, ""


def adopt(tokens: bytes) -> None:
    """From now on this process, a task's, is known to HDFS by `tokens` alone.

    They are Hadoop's file of them, which has no name here; each new connection reads it.
    """
    global _file  # noqa: PLW0603  the environment names it
    # By a keytab of this place's the library would log in as its first principal.
    os.environ.pop(VARIABLES[1], None)
    file = os.memfd_create("tokens")
    os.write(file, tokens)
    if _file is None:
        _file = file
    else:
        os.dup2(file, _file, inheritable=False)
        os.close(file)
    os.environ[VARIABLES[0]] = "MEMORY:none"
    os.environ["HADOOP_TOKEN_FILE_LOCATION"] = f"/proc/self/fd/{_file}"


def user(server: str) -> str:
    """Whose tickets these are, without host and realm. Raises LoginFailed, InvalidOption."""
    gssapi = _gssapi(f"the login to {server}")

    def name() -> str:
        with _told(server):
            return str(gssapi.Credentials(usage="initiate").name)

    return re.split("[/@]", logged_in(name), maxsplit=1)[0]


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


def failure(server: str, reason: str, why: Trouble, principal: str | None = None) -> LoginFailed:
    """The error."""
    return LoginFailed(server, principal or who(), reason, why.value, retryable=why.passes)


def failure_of_java(text: str, reason: str) -> LoginFailed | None:
    """The error for one of Spark's JVM, if that `text` with all its causes tells of a login."""
    why = trouble_of_java(text)
    if why in {Trouble.NO_TICKET, Trouble.REFUSED}:
        # Java takes a ticket that has ended for none.
        try:
            user(_JVM)
        except LoginFailed as error:
            why = Trouble(error.advice)
        except InvalidOption:
            """Only the package for it can tell."""
    return failure(_JVM, reason, why) if why else None


def who() -> str:
    """Whom the ticket cache names, and until when: a phrase."""
    cache = os.environ.get("KRB5CCNAME", "the default ticket cache")
    if _file is not None:
        return "the owner of the driver's token"
    try:
        gssapi = import_module("gssapi")
    except ImportError:
        return tickets.principal() or f"the user of {cache}"
    try:
        found = gssapi.Credentials(usage="initiate")
        name, left = str(found.name), found.lifetime
    except gssapi.exceptions.GSSError:
        return f"{tickets.principal() or f'the user of {cache}'}, who has no valid ticket"
    end = datetime.now(timezone.utc) + timedelta(seconds=left or 0)
    return f"{name}, whose ticket ends at {end:%Y-%m-%d %H:%M:%SZ}"


def _gssapi(what: str) -> Any:
    try:
        return import_module("gssapi")
    except ImportError as error:
        package = "pip install 'hivesink[kerberos]', after apt-get install gcc libkrb5-dev"
        problem = f"{what} needs Kerberos: {package}"
        raise InvalidOption((problem,)) from error
