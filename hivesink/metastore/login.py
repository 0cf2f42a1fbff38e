"""The login to a site's metastores, plain or with Kerberos, as its `hive-site.xml` describes it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from puresasl.client import SASLClient, SASLError
from thrift.transport.TTransport import TBufferedTransport, TTransportException

from hivesink.errors import InvalidOption, Unsupported

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_TIMEOUT = 600.0
"""Seconds: Hive's default of hive.metastore.client.socket.timeout."""
_SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_UNITS = {"day": "d", "days": "d", "hour": "h", "hours": "h", "min": "m", "minute": "m", "minutes": "m"}
_UNITS |= {"sec": "s", "second": "s", "seconds": "s", "msec": "ms", "usec": "us", "nsec": "ns"}
_PRINCIPAL = re.compile(r"[^/@\s]+/[^/@\s]+(?:@[^/@\s]+)?")


@dataclass(frozen=True, slots=True)
class MetastoreLogin:
    """`timeout` is for each wait on the socket, in seconds.

    With Kerberos, `principal` is the metastore's own (`hive/_HOST@EXAMPLE.COM`, where _HOST is the host of the
    address), and the tickets are those of `kinit`.
    """

    kerberos: bool = False
    principal: str | None = None
    timeout: float = DEFAULT_TIMEOUT

    @classmethod
    def of(cls, hive: Mapping[str, str]) -> MetastoreLogin:
        """From `hive-site.xml`, by new or old names. Raises InvalidOption; Unsupported for TLS, HTTP and passwords."""
        texts = {name: hive.get(name, hive.get(f"hive.{name}")) for name in _NAMES}
        values = {name: text.strip() for name, text in texts.items() if text is not None}
        for name, plain in _ONLY.items():
            if (values.get(name) or plain).lower() != plain:
                msg = f"hive.{name} = {values[name]}"
                raise Unsupported(msg, "hivesink speaks to a metastore plainly or with Kerberos", "use another port")
        kerberos = values.get(_SASL, "").lower() == "true"
        principal = values.get(_PRINCIPAL_NAME) or None
        if kerberos and not _PRINCIPAL.fullmatch(principal or ""):
            raise InvalidOption((f"hive.{_PRINCIPAL_NAME} = {principal!r}: Kerberos needs it as service/_HOST@REALM",))
        timeout = values.get(_TIMEOUT)
        return cls(kerberos, principal if kerberos else None, DEFAULT_TIMEOUT if timeout is None else _seconds(timeout))

    def transport(self, socket: Any, host: str) -> Any:
        """Over an open `socket`, logged in. Raises InvalidOption without Kerberos' package, TTransportException."""
        if not self.kerberos:
            return TBufferedTransport(socket)
        service, _, named = (self.principal or "").partition("@")[0].partition("/")
        return _kerberos_transport(socket, service, host.lower() if named == "_HOST" else named)


def _kerberos_transport(socket: Any, service: str, host: str) -> Any:
    from puresasl import mechanisms
    from thrift_sasl import TSaslClientTransport

    if not mechanisms.have_kerberos:
        raise InvalidOption(
            ("hive.metastore.sasl.enabled = true needs Kerberos' Python package: pip install kerberos, then kinit",)
        )
    transport = TSaslClientTransport(lambda: _Sasl(host, service), "GSSAPI", socket)
    try:
        transport.open()
    except TTransportException:
        raise
    except Exception as error:
        # GSSError is the C library's; its text is nested tuples.
        problem = f"Kerberos login to {service}@{host} failed: {error}; is there a ticket (klist)?"
        raise TTransportException(TTransportException.NOT_OPEN, problem) from error
    return transport


class _Sasl(SASLClient):  # type: ignore[misc]  # puresasl has no types
    """puresasl's client with the method names of the C library's, which thrift_sasl calls.

    PyHive's class for it works only without signing and encryption: its `encode` unwraps.
    """

    def __init__(self, host: str, service: str) -> None:
        super().__init__(host, service)
        self._failure = ""

    def start(self, mechanism: str) -> tuple[bool, str, bytes | None]:
        try:
            self.choose_mechanism([mechanism])
            return True, mechanism, self.process()
        except SASLError as error:
            self._failure = str(error)
            return False, mechanism, None

    def step(self, challenge: bytes | str) -> tuple[bool, bytes | None]:
        # thrift_sasl hands out an empty challenge as text.
        return self._try(lambda: self.process(challenge or b""))

    def encode(self, plain: bytes) -> tuple[bool, bytes | None]:
        return self._try(lambda: self.wrap(plain))

    def decode(self, received: bytes) -> tuple[bool, bytes | None]:
        return self._try(lambda: self.unwrap(received))

    def getError(self) -> str:  # noqa: N802  the C library's name
        return self._failure

    def _try(self, call: Any) -> tuple[bool, bytes | None]:
        try:
            return True, call()
        except Exception as error:  # noqa: BLE001  its text goes into thrift_sasl's error
            self._failure = str(error)
            return False, None


_SASL = "metastore.sasl.enabled"
_PRINCIPAL_NAME = "metastore.kerberos.principal"
_TIMEOUT = "metastore.client.socket.timeout"
_ONLY = {
    "metastore.use.SSL": "false",
    "metastore.client.thrift.transport.mode": "binary",
    "metastore.client.auth.mode": "nosasl",
}
_NAMES = (_SASL, _PRINCIPAL_NAME, _TIMEOUT, *_ONLY)


def _seconds(text: str) -> float:
    """`600`, `600s`, `10 min`: as Hive's `TimeValidator` reads it."""
    parts = re.fullmatch(r"(\d+)\s*([a-z]*)", text.lower())
    unit = parts and _UNITS.get(parts[2], parts[2] or "s")
    if parts is None or unit not in _SECONDS or not int(parts[1]):
        raise InvalidOption((f"hive.{_TIMEOUT} = {text!r}: write it as a number with s, m, h or ms",))
    return int(parts[1]) * _SECONDS[unit]
