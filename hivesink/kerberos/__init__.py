"""Kerberos: this process's login, and what its failures say.

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
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from hivesink.config.site import Site
from hivesink.errors import InvalidOption, LoginFailed
from hivesink.kerberos import tickets
from hivesink.kerberos.tickets import Trouble, trouble, trouble_of_java

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_T = TypeVar("_T")
_KDC = "the KDC"
_JVM = "Hadoop or Hive from Spark's JVM"
VARIABLES = ("KRB5CCNAME", "KRB5_CLIENT_KTNAME")
"""The environment's, by which a process finds its tickets, and the keys to take new ones."""
_OWN = "MEMORY:hivesink"
"""A ticket cache in memory, where hdfs-native finds it, too: no file is left behind, or lost."""
_logins = dict[tuple[str, str], dict[str, str]]()
"""Whom `log_in` has made of this process, one principal, by which keytabs, and the environment before."""
_tried: tuple[float, Trouble, Trouble | None, str] = 0.0, Trouble.NO_TICKET, Trouble.NO_TICKET, ""
"""The last try to take new tickets: when it was over (monotonic), after which failure, and what `renew` returned."""
_lock = threading.Lock()
_file: int | None = None
"""That of `adopt`."""


def log_in(principal: str, keytab: str) -> None:
    """From now on this process is `principal`, by the keys that `keytab` has at each new ticket.

    Raises LoginFailed, InvalidOption without the package for it.
    """
    gssapi, keytab = library("spark.kerberos.keytab"), str(Path(keytab).absolute())
    with _lock:
        refuse_others(principal)
        if (principal, keytab) not in _logins:
            why, reason = _take(gssapi, principal, keytab, _OWN)
            if why is not None:
                raise failure(_KDC, reason, why, principal)
            _logins[principal, keytab] = {name: os.environ[name] for name in VARIABLES if name in os.environ}
        os.environ |= dict(zip(VARIABLES, (_OWN, keytab), strict=True))


def refuse_others(principal: str | None) -> None:
    """Raises InvalidOption if this process is logged in as another than `principal`; None: whose the ticket is."""
    if others := {user for user, _ in _logins} - {principal}:
        # Open connections and the JVM would stay who they were.
        whose = principal or "kinit's user"
        problem = f"this process is logged in as {others.pop()}: run the job of {whose} in a process of its own"
        raise InvalidOption((problem,))


def of_environment() -> tuple[str, str] | None:
    """The first principal of the keytab that the environment names, and the file, if it names no ticket cache.

    The default cache is that of all processes of a user, who may have a keytab each.
    """
    cache, keytab = map(next(iter(_logins.values()), os.environ).get, VARIABLES)
    file = (keytab or "").removeprefix("FILE:")
    # Without the package HDFS's client alone takes tickets.
    names = () if cache or find_spec("gssapi") is None else tickets.principals(file)
    return (names[0], file) if names else None


def site_of(environ: Mapping[str, str]) -> Site:
    """The site that it names, for a command, which has logged in by `of_environment` where that asks for Kerberos.

    Raises what `Site.load` and `log_in` raise.
    """
    site = Site.load(environ)
    if site.has_kerberos and not _logins and (login := of_environment()):
        log_in(*login)
    return site


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
    """What a login that failed as `said` means, and why, after a try to take new tickets. None: try it again.

    It began at `began` (monotonic). `again`: it had new tickets. A server with new keys refuses those in the cache, so
    only a new one's refusal counts.
    """
    global _tried  # noqa: PLW0603  so is the cache
    if said is Trouble.NO_KDC or again:
        return said, reason
    with _lock:
        when, after, why, words = _tried
        # Another thread may have tried meanwhile: with a silent KDC that takes long.
        if when < began or (why is after and after is not said):
            why, words = _new_tickets(said)
            _tried = time.monotonic(), said, why, words
    return why, words or reason


def _new_tickets(said: Trouble) -> tuple[Trouble | None, str]:
    """By the keytab; without one the ticket of `kinit` gives new ones for services. `said`: nothing to take them by."""
    cache, keytab = map(os.environ.get, VARIABLES)
    if keytab:
        # Without the package for it, HDFS's client takes tickets by itself.
        with suppress(InvalidOption):
            file = keytab.removeprefix("FILE:")
            names = {owner} if (owner := tickets.principal()) else {user for user, _ in _logins}
            # The library would be the first of several.
            names = names or {*tickets.principals(file)}
            if len(names) > 1:
                reason = f"the ticket cache is gone, and the keytab {file} is of {', '.join(sorted(names))}"
                return Trouble.BAD_KEYTAB, reason
            return _take(library("a keytab"), next(iter(names), None), file, cache)
    return (None if said is Trouble.REFUSED and tickets.forget() else said), ""


def _take(gssapi: Any, principal: str | None, keytab: str, cache: str | None) -> tuple[Trouble | None, str]:
    """Put a new ticket by the keytab in place of all that `cache`, or the library's own, holds. None: done."""
    if not os.access(keytab, os.R_OK):
        return Trouble.BAD_KEYTAB, f"the keytab {keytab} can't be read"
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
        return (why if why is Trouble.NO_KDC else Trouble.BAD_KEYTAB), reason
    return None, ""


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
    gssapi = library(f"the login to {server}")

    def name() -> str:
        with told(server):
            return str(gssapi.Credentials(usage="initiate").name)

    return re.split("[/@]", logged_in(name), maxsplit=1)[0]


@contextmanager
def told(server: str) -> Iterator[None]:
    """Raises GSSAPI's errors as LoginFailed."""
    try:
        yield
    except library(server).exceptions.GSSError as error:
        why, reason = _trouble_of(error)
        raise failure(server, reason, why) from error


def _trouble_of(error: Any) -> tuple[Trouble, str]:
    words = error.get_all_statuses(error.min_code, is_maj=False) if error.min_code else ()
    return trouble(error.maj_code, error.min_code), "; ".join(words) or str(error)


def failure(server: str, reason: str, why: Trouble, principal: str | None = None) -> LoginFailed:
    """The error."""
    if _file is not None and why is Trouble.NO_TICKET:
        # The client takes a token that has ended for none.
        why = Trouble.TOKEN_ENDED
    return LoginFailed(server, principal or who(), reason, why.value, retryable=why.passes)


def failure_of_java(text: str, reason: str) -> LoginFailed | None:
    """The error for one of Spark's JVM, if that `text` with all its causes tells of a login."""
    why = trouble_of_java(text)
    if why in {Trouble.NO_TICKET, Trouble.REFUSED}:
        # Java takes a ticket that has ended for none, and may have looked before the C library took a new one.
        try:
            user(_JVM)
            can_read = os.environ.get(VARIABLES[0], "FILE:").startswith(("FILE:", "/"))
            why = Trouble.TICKET_ENDED if why is Trouble.NO_TICKET and can_read else why
        except LoginFailed as error:
            why = Trouble(error.advice)
        except InvalidOption:
            """Only the package for it can tell."""
    return failure(_JVM, reason, why) if why else None


def who() -> str:
    """Whom the ticket cache names, and until when: a phrase."""
    if _file is not None:
        return "the owner of the driver's token"
    owner = tickets.principal() or f"the user of {os.environ.get(VARIABLES[0], 'the default ticket cache')}"
    with suppress(ImportError):
        gssapi = import_module("gssapi")
        try:
            held = gssapi.Credentials(usage="initiate")
            end = datetime.now(timezone.utc) + timedelta(seconds=held.lifetime or 0)
        except gssapi.exceptions.GSSError:
            return f"{owner}, who has no valid ticket"
        return f"{held.name}, whose ticket ends at {end:%Y-%m-%d %H:%M:%SZ}"
    return owner


def library(what: str) -> Any:
    """The package for GSSAPI. Raises InvalidOption if there is none: `what` needs it."""
    try:
        return import_module("gssapi")
    except ImportError as error:
        package = "pip install 'hivesink[kerberos]', after apt-get install gcc libkrb5-dev"
        problem = f"{what} needs Kerberos: {package}"
        raise InvalidOption((problem,)) from error
