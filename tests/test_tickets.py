"""What a login's failure means: a table of cases for each question, without servers."""

from __future__ import annotations

import pytest

from hivesink.kerberos.tickets import Keys, Trouble, trouble, trouble_of_java, verdict

AWAY, NONE, ENDED, TOKEN, KEYTAB, REFUSED = (
    *(Trouble.NO_KDC, Trouble.NO_TICKET, Trouble.TICKET_ENDED),
    *(Trouble.TOKEN_ENDED, Trouble.BAD_KEYTAB, Trouble.REFUSED),
)
_CREDENTIAL, _EXPIRED, _FAILURE = 7 << 16, 11 << 16, 13 << 16


@pytest.mark.parametrize(
    ("major", "minor", "means"),
    [
        (_FAILURE, -1765328228, AWAY),  # Cannot contact any KDC for realm
        (_FAILURE, -1765328355, AWAY),  # A service is not available that is required to process the request
        (_FAILURE, -1765328164, AWAY),  # Cannot resolve servers for KDC in realm
        (_CREDENTIAL, -1765328228, AWAY),
        (_FAILURE, -1765328352, ENDED),  # Ticket expired
        (_FAILURE, -1765328373, ENDED),  # Requested effective lifetime is negative or too short
        (_EXPIRED, 0, ENDED),
        (_CREDENTIAL, -1765328352, ENDED),
        (_CREDENTIAL, -1765328189, NONE),  # No credentials cache found
        (_CREDENTIAL, 0, NONE),
        (_FAILURE, -1765328377, REFUSED),  # Server not found in Kerberos database
        (_FAILURE, -1765328347, REFUSED),  # Clock skew too great
        (_FAILURE, -1765328360, REFUSED),  # Preauthentication failed
        (_FAILURE, 100004, REFUSED),
    ],
)
def test_numbers(major: int, minor: int, means: Trouble) -> None:
    """As krb5.h has them; GSSAPI hands them out without a sign."""
    assert trouble(major, minor & 0xFFFFFFFF) is means


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("Client cannot authenticate via:[TOKEN, KERBEROS]", NONE),
        ("GSS initiate failed [Caused by GSSException: (Mechanism level: Failed to find any Kerberos tgt)]", NONE),
        ("GSS initiate failed [Caused by GSSException: (Mechanism level: Ticket expired (32))]", ENDED),
        ("GSSException: No valid credentials provided (Mechanism level: Connection refused)", AWAY),
        ("GSSException: No valid credentials provided (Mechanism level: Receive timed out)", AWAY),
        ("javax.security.auth.login.LoginException: Receive timed out", AWAY),
        ("javax.security.auth.login.LoginException: Checksum failed", REFUSED),
        ("javax.security.sasl.SaslException: GSS initiate failed", REFUSED),
        ("org.apache.hadoop.security.token.SecretManager$InvalidToken: token (…) is expired", TOKEN),
        ("com.amazonaws.AmazonServiceException: InvalidToken", None),
        ("org.apache.hadoop.security.AccessControlException: Permission denied: user=alice, access=WRITE", None),
        ("java.net.ConnectException: Connection refused", None),
    ],
)
def test_words_of_java(text: str, means: Trouble | None) -> None:
    assert trouble_of_java(text) is means


@pytest.mark.parametrize(
    # With new tickets, without any, with a KDC that is silent, with a keytab that can't work.
    ("said", "taken", "none", "silent", "useless"),
    [
        (AWAY, AWAY, AWAY, AWAY, AWAY),
        (NONE, None, NONE, AWAY, KEYTAB),
        (ENDED, None, ENDED, AWAY, KEYTAB),
        (TOKEN, None, TOKEN, AWAY, KEYTAB),
        (REFUSED, None, REFUSED, AWAY, KEYTAB),
    ],
)
def test_verdicts(said: Trouble, taken: Trouble | None, none: Trouble, silent: Trouble, useless: Trouble) -> None:
    """A first failure with tickets that could be renewed is tried again; a second one is what it says."""
    wanted = {Keys.TAKEN: taken, Keys.NONE: none, Keys.NO_KDC: silent, Keys.USELESS: useless}
    assert {keys: verdict(said, keys, again=False) for keys in Keys} == wanted
    assert {keys: verdict(said, keys, again=True) for keys in Keys} == {**wanted, Keys.TAKEN: said}


def test_what_passes() -> None:
    assert {why for why in Trouble if why.passes} == {AWAY, ENDED, TOKEN}
