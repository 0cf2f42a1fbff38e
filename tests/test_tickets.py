"""What a login's failure means: a table of cases for each question, without servers."""

from __future__ import annotations

import os
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hivesink import kerberos
from hivesink.errors import InvalidOption, LoginFailed
from hivesink.kerberos import tickets
from hivesink.kerberos.tickets import Trouble, trouble, trouble_of_java

AWAY, NONE, ENDED, TOKEN, KEYTAB, REFUSED = (
    *(Trouble.NO_KDC, Trouble.NO_TICKET, Trouble.TICKET_ENDED),
    *(Trouble.TOKEN_ENDED, Trouble.BAD_KEYTAB, Trouble.REFUSED),
)
_LOGIN = "javax.security.auth.login.LoginException"
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
        ("GSSException: No valid credentials provided (Mechanism level: No route to host)", AWAY),
        ("GSSException: No valid credentials provided (Mechanism level: ICMP Port Unreachable)", AWAY),
        ("javax.security.auth.login.LoginException: Network is unreachable (connect failed)", AWAY),
        (f"{_LOGIN}\n\tat a.B.c(B.java:1)\nCaused by: java.net.PortUnreachableException\n\t... 9 more", AWAY),
        (f"{_LOGIN}: kdc.none\n\tat a.B.c(B.java:1)\nCaused by: java.net.UnknownHostException: kdc.none", AWAY),
        (f"{_LOGIN}: Checksum failed\n\tat a.B.c(B.java:1)\nCaused by: KrbException: Checksum failed", REFUSED),
        (f"{_LOGIN}: Unable to obtain password from user", NONE),
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


def test_what_passes() -> None:
    assert {why for why in Trouble if why.passes} == {AWAY, ENDED, TOKEN}


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process has no login, and keeps none."""
    monkeypatch.setattr(kerberos, "_login", None)
    for name in kerberos.VARIABLES:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


@pytest.mark.usefixtures("nobody")
def test_whose_keys_a_process_takes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The environment's first, where the site asks for a login, unless it names a ticket cache."""
    pytest.importorskip("gssapi")
    taken = list[tuple[object, ...]]()
    monkeypatch.setattr(kerberos, "log_in", lambda *login: taken.append(login))
    site = "<configuration><property name='hadoop.security.authentication' value='kerberos'/></configuration>"
    (tmp_path / "core-site.xml").write_text(site)
    asking = {"HADOOP_CONF_DIR": str(tmp_path)}
    kerberos.site_of(asking)
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", "FILE:/keytab")
    assert not kerberos.site_of({}).has_kerberos
    assert taken == []
    assert kerberos.site_of(asking).has_kerberos
    assert taken == [(None, "/keytab")]
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/none")
    kerberos.site_of(asking)
    assert (len(taken), tickets.held()) == (1, None)


@pytest.mark.usefixtures("nobody")
@pytest.mark.parametrize(("seconds", "verb"), [(3600, "ends"), (-3600, "ended")])
def test_whose_ticket_a_cache_has_and_until_when(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seconds: int, verb: str
) -> None:
    """MIT's file of tickets, version 4."""

    def words(*texts: bytes) -> bytes:
        return b"".join(struct.pack(">I", len(text)) + text for text in texts)

    user = struct.pack(">II", 1, 1) + words(b"EXAMPLE.COM", b"alice")
    server = struct.pack(">II", 1, 2) + words(b"EXAMPLE.COM", b"krbtgt", b"EXAMPLE.COM")
    end = int(time.time()) + seconds
    ticket = (
        user + server + struct.pack(">H", 18) + words(bytes(32)) + struct.pack(">4IB3I", end, end, end, 0, 0, 0, 0, 0)
    )
    (tmp_path / "tickets").write_bytes(b"\5\4\0\0" + user + ticket + words(b"ticket", b""))
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/tickets")
    if tickets.held() is None:
        pytest.skip("libkrb5.so.3 isn't installed")
    assert tickets.held() == ("alice@EXAMPLE.COM", end)
    assert kerberos.who().startswith(f"alice@EXAMPLE.COM, whose ticket {verb} at 20")


@pytest.mark.usefixtures("nobody")
def test_a_process_has_one_login(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also of threads that begin together, and in later sessions."""
    file, begin, refused = str(tmp_path / "keytab"), threading.Barrier(2), list[str]()

    def take(*of: object) -> str:
        time.sleep(0.05)
        return str(of[0])

    monkeypatch.setattr(kerberos, "_take", take)

    def log_in(user: str) -> None:
        begin.wait()
        try:
            kerberos.log_in(user, file)
        except InvalidOption:
            refused.append(user)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(log_in, ("alice", "bob")))
    assert len(refused) == 1
    assert os.environ["KRB5_CLIENT_KTNAME"] == file
    # A later session has the same.
    assert kerberos.log_in(None, None) == (({"alice", "bob"} - {*refused}).pop(), file)


@pytest.mark.usefixtures("nobody")
@pytest.mark.parametrize("taken", [None, AWAY, KEYTAB], ids=["taken", "silent", "useless"])
@pytest.mark.parametrize("said", [NONE, ENDED, TOKEN, REFUSED])
def test_a_failure_means_what_came_of_new_tickets(
    monkeypatch: pytest.MonkeyPatch, said: Trouble, taken: Trouble | None
) -> None:
    """With new tickets the login is tried again, and only a second failure is what it says."""
    keytabs, logins, server, other = list[object](), list[Trouble](), "h:1", "the KDC"

    def failure(at: str, why: Trouble) -> LoginFailed:
        return kerberos.failure(at, "words", why, "alice")

    def take(*arguments: object) -> str:
        keytabs.append(arguments[1])
        if taken:
            raise failure(other, taken)
        return "alice"

    def told(why: Trouble) -> str:
        def log_in() -> None:
            logins.append(why)
            raise failure(server, why)

        with pytest.raises(LoginFailed) as failed:
            kerberos.logged_in(log_in)
        return str(failed.value)

    monkeypatch.setattr(kerberos, "_take", take)
    assert (told(said), keytabs) == (str(failure(server, said)), [])
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", "FILE:/keytab")
    assert (told(AWAY), keytabs) == (str(failure(server, AWAY)), [])
    meant = failure(other, taken) if taken else failure(server, said)
    assert (told(said), keytabs) == (str(meant), ["/keytab"])
    assert logins == [said, AWAY, said, *([] if taken else [said])]
