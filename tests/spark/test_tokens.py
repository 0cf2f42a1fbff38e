"""When the driver takes new delegation tokens, without a cluster; `tests/secure/test_lasting.py` has a real one."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from hivesink.config.site import Site
from hivesink.errors import LoginFailed
from hivesink.spark.tokens import MOST, Tokens

SECURED = {"hadoop.security.authentication": "kerberos"}
PLACES = ("hdfs://nn:8020/a", "hdfs://nn:8020/b")


class Away(Py4JJavaError):  # type: ignore[misc]  # py4j has no types
    def __init__(self) -> None:
        """Without a JVM."""

    def __str__(self) -> str:
        return "GSSException: No valid credentials provided (Mechanism level: Receive timed out)"


class Counted(Tokens):
    """Tokens that live for `life` seconds, from a key server that may be away."""

    def __init__(self, life: float, hadoop: Mapping[str, str] = SECURED) -> None:
        super().__init__(SimpleNamespace(), Site(hadoop))  # type: ignore[arg-type]  # nothing asks it
        self.life, self.taken, self.away = life, 0, False

    def _take(self, places: Any) -> tuple[bytes, float, float]:
        assert [address.authority for address in places] == ["nn:8020"]
        if self.away:
            raise Away
        self.taken += 1
        now = time.time()
        return b"%d" % self.taken, now + min(self.life / 4, MOST), now + self.life


def test_where_nothing_asks_for_them() -> None:
    assert Counted(180.0, {}).fresh(PLACES) is None
    assert Counted(180.0).fresh(("file:///a", "s3a://b/c")) is None


@pytest.mark.parametrize(
    ("life", "after", "away", "handed"),
    [
        (180.0, 44, False, b"1"),
        (180.0, 46, False, b"2"),
        (180.0, 46, True, b"1"),
        (180.0, 109, True, b"1"),
        (180.0, 111, True, None),
        (7 * 86400.0, 3599, False, b"1"),
        (7 * 86400.0, 3601, False, b"2"),
        (7 * 86400.0, 86400, True, b"1"),
    ],
)
def test_new_ones(monkeypatch: pytest.MonkeyPatch, life: float, after: float, away: bool, handed: bytes | None) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    source = Counted(life)
    assert source.fresh(PLACES) == b"1"
    now[0] += after
    source.away = away
    if handed is None:
        with pytest.raises(LoginFailed, match=r"timed out\); is the KDC running") as told:
            source.fresh(PLACES)
        assert told.value.retryable
    else:
        assert source.fresh(PLACES) == handed


def test_an_error_that_is_no_logins(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has an end, where its causes are followed."""
    monkeypatch.setattr(Away, "__str__", lambda _: "java.net.ConnectException: Connection refused")
    source = Counted(180.0)
    source.away = True
    with pytest.raises(Away) as told:
        source.fresh(PLACES)
    assert told.value.__cause__ is None


def test_no_log_has_them(caplog: pytest.LogCaptureFixture) -> None:
    """py4j writes what it sends and receives."""
    caplog.set_level(logging.DEBUG)
    Counted(180.0).fresh(PLACES)
    for name in ("py4j.java_gateway", "py4j.clientserver"):
        logging.getLogger(name).debug("Answer received: !yeSERUUwA=")
        logging.getLogger(name).info("Closing down")
    assert [record.message for record in caplog.records if record.name.startswith("py4j")] == ["Closing down"] * 2


def test_a_task_keeps_them_in_memory() -> None:
    """And logs in by nothing else, such as the first principal of a keytab that its environment names."""
    code = """
from hivesink import kerberos
import os
for content in (b"first", b"second, longer", b"3rd"):
    kerberos.adopt(content)
    place = os.environ["HADOOP_TOKEN_FILE_LOCATION"]
    assert open(place, "rb").read() == open(place, "rb").read() == content
    assert "memfd" in os.readlink(place)
assert kerberos.failure("nn", "none", kerberos.Trouble.NO_TICKET).retryable
print(sum("memfd" in os.path.realpath(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")))
print(os.environ["KRB5CCNAME"], os.environ.get("KRB5_CLIENT_KTNAME"))
"""
    environment = {**os.environ, "KRB5_CLIENT_KTNAME": "/etc/keytab"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == ["1", "MEMORY:none", "None"]
