"""What a login's failure means: a table of cases for each question, without servers."""

from __future__ import annotations

import os
import struct
import threading
import time
from typing import TYPE_CHECKING

import pytest

from hivesink import kerberos
from hivesink.errors import InvalidOption
from hivesink.kerberos import tickets
from hivesink.kerberos.tickets import Trouble, trouble, trouble_of_java
from hivesink.spark import settings

if TYPE_CHECKING:
    from pathlib import Path

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


def keytab_of(folder: Path, *users: str) -> str:
    """MIT's file of keys, with one that fits nobody."""
    content = b"\x05\x02"
    for user in users:
        texts = b"".join(struct.pack(">h", len(text)) + text for text in (b"EXAMPLE.COM", user.encode()))
        entry = struct.pack(">h", 1) + texts + struct.pack(">iiBhh", 1, 0, 1, 18, 32) + bytes(32)
        content += struct.pack(">i", len(entry)) + entry
    file = folder / "keytab"
    file.write_bytes(content)
    return str(file)


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process has no login, and keeps none."""
    monkeypatch.setattr(kerberos, "_logins", {})
    monkeypatch.setattr(kerberos, "_tried", (0.0, NONE, NONE, ""))
    for name in kerberos.VARIABLES:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


@pytest.mark.usefixtures("nobody")
def test_whose_keys_a_process_takes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The environment's first, unless it names a ticket cache; with that gone none that may be another's."""
    file = keytab_of(tmp_path, "alice", "bob", "alice")
    both = ("alice@EXAMPLE.COM", "bob@EXAMPLE.COM")
    assert (tickets.principals(file), tickets.principals(f"{file}-none")) == (both, ())
    assert kerberos.of_environment() is None
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", f"FILE:{file}")
    assert kerberos.of_environment() == (both[0], file)
    site = "<configuration><property name='hadoop.security.authentication' value='kerberos'/></configuration>"
    (tmp_path / "core-site.xml").write_text(site)
    assert settings.by_environment({}) == {}
    login = {settings.PRINCIPAL: both[0], settings.KEYTAB: file}
    assert settings.by_environment({"HADOOP_CONF_DIR": str(tmp_path)}) == login
    with monkeypatch.context() as of_command:
        taken = list[tuple[str, str]]()
        of_command.setattr(kerberos, "log_in", lambda *login: taken.append(login))
        assert not kerberos.site_of({}).has_kerberos
        assert kerberos.site_of({"HADOOP_CONF_DIR": str(tmp_path)}).has_kerberos
        assert taken == [(both[0], file)]
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/none")
    assert kerberos.of_environment() is None
    why, reason = kerberos.renew(NONE, "no ticket", time.monotonic())
    assert (why, reason.endswith("is of alice@EXAMPLE.COM, bob@EXAMPLE.COM")) == (KEYTAB, True)


@pytest.mark.usefixtures("nobody")
def test_a_process_has_one_login(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also of threads that begin together; and no session has another afterwards, such as that of kinit's ticket."""
    file, begin, refused = keytab_of(tmp_path, "alice", "bob"), threading.Barrier(2), list[str]()

    def take(*_: object) -> tuple[None, str]:
        time.sleep(0.05)
        return None, ""

    monkeypatch.setattr(kerberos, "_take", take)

    def log_in(user: str) -> None:
        begin.wait()
        try:
            kerberos.log_in(user, file)
        except InvalidOption:
            refused.append(user)

    threads = [threading.Thread(target=log_in, args=(user,)) for user in ("alice", "bob")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 1
    assert os.environ["KRB5_CLIENT_KTNAME"] == file
    with pytest.raises(InvalidOption, match="run the job of kinit's user in a process of its own"):
        kerberos.refuse_others(None)


@pytest.mark.usefixtures("nobody")
@pytest.mark.parametrize("taken", [None, AWAY, KEYTAB], ids=["taken", "silent", "useless"])
@pytest.mark.parametrize("said", [NONE, ENDED, TOKEN, REFUSED])
def test_a_failure_means_what_came_of_new_tickets(
    monkeypatch: pytest.MonkeyPatch, said: Trouble, taken: Trouble | None
) -> None:
    """With new tickets the login is tried again; a second failure, or the key server's, is what it says."""
    monkeypatch.setattr(kerberos, "_new_tickets", lambda _: (taken, "words"))
    assert kerberos.renew(said, "said", time.monotonic()) == (taken, "words")
    assert kerberos.renew(said, "said", time.monotonic(), again=True) == (said, "said")
    assert kerberos.renew(AWAY, "said", time.monotonic()) == (AWAY, "said")


@pytest.mark.usefixtures("nobody")
def test_who_waited_for_new_tickets_shares_what_came_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a silent key server each try takes a minute; without anything to take them by each failure is looked at."""
    tries, is_silent = list[Trouble](), True

    def take(said: Trouble) -> tuple[Trouble, str]:
        tries.append(said)
        return AWAY if is_silent else said, "words"

    monkeypatch.setattr(kerberos, "_new_tickets", take)
    began = time.monotonic()
    assert [kerberos.renew(said, "", began) for said in (ENDED, ENDED, REFUSED)] == [(AWAY, "words")] * 3
    assert tries == [ENDED]
    is_silent = False
    began = time.monotonic()
    assert [kerberos.renew(said, "", began)[0] for said in (ENDED, ENDED, REFUSED)] == [ENDED, ENDED, REFUSED]
    assert tries == [ENDED, ENDED, REFUSED]
