"""What a failed login means, and what MIT's library tells of a ticket cache but GSSAPI doesn't."""

from __future__ import annotations

import ctypes
import re
from enum import Enum


class Trouble(Enum):
    """Why a login failed, and what to do."""

    NO_KDC = "is the KDC running, and does krb5.conf (KRB5_CONFIG) name it?"
    NO_TICKET = "run kinit, or set spark.kerberos.principal and .keytab, or KRB5_CLIENT_KTNAME"
    TICKET_ENDED = "run kinit again, or let a keytab renew it (KRB5_CLIENT_KTNAME)"
    TOKEN_ENDED = "the job's next batch, or its next start, brings a new one"  # noqa: S105  no password
    BAD_KEYTAB = "give a keytab that has the principal's present key: `kinit -kt KEYTAB PRINCIPAL` tries it"
    REFUSED = "compare the principals and keytabs of the site, krb5.conf, and the clocks; then run kinit again"

    @property
    def passes(self) -> bool:
        """Whether it may pass by itself: a KDC comes back, others renew a ticket."""
        return self in {Trouble.NO_KDC, Trouble.TICKET_ENDED, Trouble.TOKEN_ENDED}


_BASE = 2529638912  # -1765328384, as GSSAPI hands it out, without a sign
_BY_MINOR = {
    _BASE + 11: Trouble.TICKET_ENDED,  # KRB5KDC_ERR_NEVER_VALID: it ends too soon for another one
    _BASE + 29: Trouble.NO_KDC,  # KRB5KDC_ERR_SVC_UNAVAILABLE
    _BASE + 32: Trouble.TICKET_ENDED,  # KRB5KRB_AP_ERR_TKT_EXPIRED
    _BASE + 156: Trouble.NO_KDC,  # KRB5_KDC_UNREACH
    _BASE + 220: Trouble.NO_KDC,  # KRB5_REALM_CANT_RESOLVE
}
"""By the numbers of MIT's krb5.h, which are the same in every release."""
_BY_MAJOR = {7: Trouble.NO_TICKET, 11: Trouble.TICKET_ENDED}
"""By the routine errors of RFC 2744: GSS_S_NO_CRED, GSS_S_CREDENTIALS_EXPIRED."""
NO_CACHE = _BASE + 195
"""KRB5_FCC_NOFILE."""
_END = 14
"""The word of `krb5_creds`, on 64 bits, that has the time of its end."""
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
    return _BY_MINOR.get(minor) or _BY_MAJOR.get(major >> 16 & 0xFF, Trouble.REFUSED)


def trouble_of_java(text: str) -> Trouble | None:
    """What an error of Java's, with its causes, says of a login; None: nothing."""
    return next((why for pattern, why in _OF_JAVA if re.search(pattern, text)), None)


def held() -> tuple[str, int] | None:
    """Whose the environment's ticket cache is, and when its last ticket ends or ended (as `time.time`); None: no cache.

    GSSAPI tells nothing of a cache whose tickets have ended.
    """
    context, cache, owner, cursor = (ctypes.c_void_p() for _ in range(4))
    name, ticket, end = ctypes.c_char_p(), (ctypes.c_uint32 * 64)(), 0
    try:
        lib = ctypes.CDLL("libkrb5.so.3")
    except OSError:
        return None
    if lib.krb5_init_context(ctypes.byref(context)):
        return None
    if not lib.krb5_cc_default(context, ctypes.byref(cache)):
        if not (
            lib.krb5_cc_get_principal(context, cache, ctypes.byref(owner))
            or lib.krb5_unparse_name(context, owner, ctypes.byref(name))
            or lib.krb5_cc_start_seq_get(context, cache, ctypes.byref(cursor))
        ):
            while not lib.krb5_cc_next_cred(context, cache, ctypes.byref(cursor), ticket):
                end = max(end, ticket[_END])
            lib.krb5_cc_end_seq_get(context, cache, ctypes.byref(cursor))
        lib.krb5_cc_close(context, cache)
    lib.krb5_free_context(context)
    return (name.value.decode(), end) if name.value else None
