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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timezone
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from hivesink.config.site import Site
from hivesink.errors import InvalidOption, LoginFailed
from hivesink.kerberos import tickets
from hivesink.kerberos.tickets import Trouble, trouble, trouble_of_java

_T = TypeVar("_T")
_JVM = "Hadoop or Hive from Spark's JVM"
VARIABLES = ("KRB5CCNAME", "KRB5_CLIENT_KTNAME")
"""The environment's, by which a process finds its tickets, and the keys to take new ones."""
_OWN = "MEMORY:hivesink"
"""A ticket cache in memory, where hdfs-native finds it, too: no file is left behind, or lost."""
_login: tuple[str, str] | None = None
"""Whom `log_in` has made of this process, and by which keytab."""
_lock = threading.Lock()
_file: int | None = None
"""That of `adopt`."""


def log_in(principal: str | None, keytab: str | None) -> tuple[str, str] | None:
    """From now on this process is `principal`, by the keys that `keytab` has at each new ticket.

    None: the first in `keytab`; without `keytab` it stays who it is. Returns whom this has made of it, and by which
    file. Raises LoginFailed, InvalidOption without the package for it, or if the process is logged in as another.
    """
    global _login  # noqa: PLW0603  so is the process's environment
    with _lock:
        if _login and principal not in {None, _login[0]}:
            # Open connections and the JVM would stay who they were.
            problem = f"this process is logged in as {_login[0]}: run the job of {principal} in a process of its own"
            raise InvalidOption((problem,))
        keytab = str(Path(keytab).absolute()) if keytab else None
        if keytab and (_login is None or _login[1] != keytab):
            _login = _take(principal, keytab, _OWN), keytab
            os.environ |= dict(zip(VARIABLES, (_OWN, keytab), strict=True))
        return _login


def site_of(environ: Mapping[str, str]) -> Site:
    """The site that it names. Where that asks for Kerberos, this process has logged in by the environment's keytab.

    But not if that names a ticket cache, too. The default cache is that of all processes of a user, who may have a
    keytab each. Raises what `Site.load` and `log_in` raise.
    """
    site = Site.load(environ)
    cache, keytab = map(os.environ.get, VARIABLES)
    if site.has_kerberos and keytab and not cache:
        log_in(None, keytab.removeprefix("FILE:"))
    return site


def logged_in(log_in: Callable[[], _T]) -> _T:
    """What `log_in` returns, called once more if it failed and new tickets were taken. Raises what both do."""
    try:
        return log_in()
    except LoginFailed as error:
        if not renewed(Trouble(error.advice)):
            raise
    return log_in()


def renewed(why: Trouble) -> bool:
    """Whether new tickets were taken by the environment's keytab, so that a login that failed for `why` may succeed.

    A server with new keys refuses the tickets in the cache, so only a new one's refusal counts. Raises LoginFailed.
    """
    cache, keytab = map(os.environ.get, VARIABLES)
    if why is Trouble.NO_KDC or not keytab:
        return False
    held = tickets.held()
    _take(held[0] if held else _login and _login[0], keytab.removeprefix("FILE:"), cache)
    return True


def _take(principal: str | None, keytab: str, cache: str | None) -> str:
    """Put a new ticket by the keytab in place of all that `cache`, or the library's own, holds; return whose it is.

    Raises LoginFailed.
    """
    gssapi = library("a keytab")
    # In the cache itself the library takes no new ticket before half of the last one's life.
    store = {"client_keytab": keytab, "ccache": f"{_OWN}-{uuid4()}"}
    with told("the KDC", principal, keytab):
        name = principal and gssapi.Name(principal, gssapi.NameType.kerberos_principal)
        taken = gssapi.Credentials(name=name, usage="initiate", store=store)
        # The first look is what asks the KDC.
        whose = str(taken.name)
        taken.store(store={"ccache": cache} if cache else None, usage="initiate", overwrite=True)
    return whose


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
    with told(server):
        name = str(gssapi.Credentials(usage="initiate").name)
    return re.split("[/@]", name, maxsplit=1)[0]


@contextmanager
def told(server: str, principal: str | None = None, keytab: str | None = None) -> Iterator[None]:
    """Raises GSSAPI's errors as LoginFailed; where a `keytab` is tried it is at fault, unless the KDC is silent."""
    try:
        yield
    except library(server).exceptions.GSSError as error:
        why = trouble(error.maj_code, error.min_code)
        words = error.get_all_statuses(error.min_code, is_maj=False) if error.min_code else ()
        if keytab and error.min_code == tickets.NO_CACHE:
            # Without a key of that name the library looks into the cache, which is new.
            words = (f"the keytab {keytab} has no key of it, or can't be read",)
        if keytab and why is not Trouble.NO_KDC:
            why = Trouble.BAD_KEYTAB
        raise failure(server, "; ".join(words) or str(error), why, principal) from error


def failure(server: str, reason: str, why: Trouble, principal: str | None = None) -> LoginFailed:
    """The error."""
    if _file is not None and why is Trouble.NO_TICKET:
        # The client takes a token that has ended for none.
        why = Trouble.TOKEN_ENDED
    return LoginFailed(server, who(principal), reason, why.value, retryable=why.passes)


def failure_of_java(text: str, reason: str) -> LoginFailed | None:
    """The error for one of Spark's JVM, if that `text` with all its causes tells of a login."""
    why, held = trouble_of_java(text), tickets.held()
    can_read = os.environ.get(VARIABLES[0], "FILE:").startswith(("FILE:", "/"))
    if can_read and held and (why is Trouble.NO_TICKET or (why is Trouble.REFUSED and held[1] < time.time())):
        # Java takes a ticket that has ended for none, and may have looked before the C library took a new one.
        why = Trouble.TICKET_ENDED
    return failure(_JVM, reason, why) if why else None


def who(principal: str | None = None) -> str:
    """Whom the ticket cache names, and until when, or another `principal`: a phrase."""
    if _file is not None:
        return "the owner of the driver's token"
    held = tickets.held()
    if held is None or principal not in {None, held[0]}:
        return principal or f"the user of {os.environ.get(VARIABLES[0], 'the default ticket cache')}"
    verb = "ends" if held[1] > time.time() else "ended"
    return f"{held[0]}, whose ticket {verb} at {datetime.fromtimestamp(held[1], timezone.utc):%Y-%m-%d %H:%M:%SZ}"


def library(what: str) -> Any:
    """The package for GSSAPI. Raises InvalidOption if there is none: `what` needs it."""
    try:
        return import_module("gssapi")
    except ImportError as error:
        package = "pip install 'hivesink[kerberos]', after apt-get install gcc libkrb5-dev"
        problem = f"{what} needs Kerberos: {package}"
        raise InvalidOption((problem,)) from error
