"""What a failed login means, and what MIT's library does with a ticket cache but GSSAPI doesn't."""

from __future__ import annotations

import ctypes
import re
from contextlib import contextmanager, suppress
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Trouble(Enum):
    """Why a login failed, and what to do."""

    NO_KDC = "is the KDC running, and does krb5.conf (KRB5_CONFIG) name it?"
    NO_TICKET = "run kinit, or set spark.kerberos.principal and .keytab, or KRB5_CLIENT_KTNAME"
    TICKET_ENDED = "run kinit again, or let a keytab renew it (KRB5_CLIENT_KTNAME)"
    TOKEN_ENDED = "the job's next batch, or its next start, brings a new one"  # noqa: S105  no password
    BAD_KEYTAB = "give a keytab that has the principal's present key: `kinit -kt KEYTAB PRINCIPAL` tries it"
    REFUSED = "compare the principals and keytabs of the site, krb5.conf, and the clocks"

    @property
    def passes(self) -> bool:
        """Whether it may pass by itself: a KDC comes back, others renew a ticket."""
        return self in {Trouble.NO_KDC, Trouble.TICKET_ENDED, Trouble.TOKEN_ENDED}


_BASE = -1765328384
_BY_MINOR: Mapping[int, Trouble] = {
    _BASE + 11: Trouble.TICKET_ENDED,  # KRB5KDC_ERR_NEVER_VALID: it ends too soon for another one
    _BASE + 29: Trouble.NO_KDC,  # KRB5KDC_ERR_SVC_UNAVAILABLE
    _BASE + 32: Trouble.TICKET_ENDED,  # KRB5KRB_AP_ERR_TKT_EXPIRED
    _BASE + 156: Trouble.NO_KDC,  # KRB5_KDC_UNREACH
    _BASE + 220: Trouble.NO_KDC,  # KRB5_REALM_CANT_RESOLVE
}
"""By the numbers of MIT's krb5.h, which are the same in every release."""
_BY_MAJOR: Mapping[int, Trouble] = {7: Trouble.NO_TICKET, 11: Trouble.TICKET_ENDED}
"""By the routine errors of RFC 2744: GSS_S_NO_CRED, GSS_S_CREDENTIALS_EXPIRED."""
NO_CACHE = _BASE + 195
"""KRB5_FCC_NOFILE."""
_OF_JAVA = (
    (r"(?:Mechanism level|LoginException): .*\b(?:timed out|Connection refused|locate KDC)", Trouble.NO_KDC),
    (r"(?:Mechanism level|LoginException): .*(?:[uU]nreachable|No route to host)", Trouble.NO_KDC),
    # What the KDC's socket says may have no words.
    (r"LoginException.*\n(?:[ \t].*\n)*Caused by: java\.net\.\w+Exception", Trouble.NO_KDC),
    (r"Ticket expired", Trouble.TICKET_ENDED),
    (r"SecretManager\$InvalidToken", Trouble.TOKEN_ENDED),
    (r"Client cannot authenticate via|Failed to find any Kerberos tgt|Unable to obtain password", Trouble.NO_TICKET),
    (r"LoginException|Login failure for|GSS initiate failed", Trouble.REFUSED),
)
"""What Java says of a login; the first that fits."""


def trouble(major: int, minor: int) -> Trouble:
    """What GSSAPI's two numbers mean."""
    return _BY_MINOR.get(signed(minor)) or _BY_MAJOR.get(major >> 16 & 0xFF, Trouble.REFUSED)


def trouble_of_java(text: str) -> Trouble | None:
    """What an error of Java's, with its causes, says of a login; None: nothing."""
    return next((why for pattern, why in _OF_JAVA if re.search(pattern, text)), None)


def signed(minor: int) -> int:
    """The number as krb5.h has it."""
    return minor - (1 << 32) if minor >> 31 else minor


_SERVER = 2
"""The word of `krb5_creds` that points to the server's name, after a number and the client's."""
_OWN = ("krbtgt/", "krb5_ccache_conf_data/")


def forget() -> bool:
    """Take the tickets for services out of the cache: the KDC gives new ones. False: none, or can't.

    What `kinit` would do, but for the ticket that it got.
    """
    cursor, gone = ctypes.c_void_p(), list[int]()
    with suppress(OSError), _cache() as (lib, context, cache):
        _do(lib.krb5_cc_start_seq_get(context, cache, ctypes.byref(cursor)))
        held = []
        while not lib.krb5_cc_next_cred(context, cache, ctypes.byref(cursor), ticket := (ctypes.c_void_p * 32)()):
            if not _text(lib, context, ctypes.c_void_p(ticket[_SERVER])).startswith(_OWN):
                held.append(ticket)
        lib.krb5_cc_end_seq_get(context, cache, ctypes.byref(cursor))
        gone = [lib.krb5_cc_remove_cred(context, cache, 0, ticket) for ticket in held]
    return 0 in gone


def principal() -> str | None:
    """Whose the ticket cache is, also once its tickets have ended."""
    owner = ctypes.c_void_p()
    with suppress(OSError), _cache() as (lib, context, cache):
        _do(lib.krb5_cc_get_principal(context, cache, ctypes.byref(owner)))
        return _text(lib, context, owner)
    return None


def principals(keytab: str) -> tuple[str, ...]:
    """Of whom `keytab` has keys, in its order; none if it can't be read."""
    table, cursor, found = ctypes.c_void_p(), ctypes.c_void_p(), dict[str, None]()
    with suppress(OSError), _cache() as (lib, context, _):
        _do(lib.krb5_kt_resolve(context, keytab.encode(), ctypes.byref(table)))
        _do(lib.krb5_kt_start_seq_get(context, table, ctypes.byref(cursor)))
        while not lib.krb5_kt_next_entry(context, table, entry := (ctypes.c_void_p * 16)(), ctypes.byref(cursor)):
            # After the struct's own number.
            found[_text(lib, context, ctypes.c_void_p(entry[1]))] = None
        lib.krb5_kt_end_seq_get(context, table, ctypes.byref(cursor))
        lib.krb5_kt_close(context, table)
    return tuple(found)


@contextmanager
def _cache() -> Iterator[tuple[Any, ctypes.c_void_p, ctypes.c_void_p]]:
    """The library, its context, and the environment's ticket cache. Raises OSError."""
    lib, context, cache = ctypes.CDLL("libkrb5.so.3"), ctypes.c_void_p(), ctypes.c_void_p()
    _do(lib.krb5_init_context(ctypes.byref(context)))
    try:
        _do(lib.krb5_cc_default(context, ctypes.byref(cache)))
        yield lib, context, cache
        lib.krb5_cc_close(context, cache)
    finally:
        lib.krb5_free_context(context)


def _do(code: int) -> None:
    if code:
        raise OSError(code)


def _text(lib: Any, context: ctypes.c_void_p, name: ctypes.c_void_p) -> str:
    text = ctypes.c_char_p()
    _do(lib.krb5_unparse_name(context, name, ctypes.byref(text)))
    return (text.value or b"").decode()
