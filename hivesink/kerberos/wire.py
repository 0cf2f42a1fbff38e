"""What secures a connection to Hive's servers: TLS, and Thrift's SASL with Kerberos."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from thrift.transport.TTransport import TTransportException

from hivesink.errors import InvalidOption
from hivesink.kerberos import failure, library, told
from hivesink.kerberos.tickets import Trouble

_PRIVACY = 4
_LAYERS = {"integrity": 2, "auth-int": 2, "privacy": _PRIVACY, "auth-conf": _PRIVACY}
"""By the words of `hadoop.rpc.protection` and `hive.server2.thrift.sasl.qop`; any other is 1, no layer."""


def trusting(switch: str | None) -> ssl.SSLContext | None:
    """Where a site's `switch` is `true`: the authorities of `$SSL_CERT_FILE` (PEM), without it the system's.

    A server's certificate must name the host of its address, as Hive's own clients ask. Python can't read the keystore
    of Java's that Spark's client of the metastore needs in `hive.metastore.truststore.path`.
    """
    return ssl.create_default_context() if (switch or "").strip().lower() == "true" else None


@contextmanager
def verified(server: str) -> Iterator[None]:
    """Raises InvalidOption where the certificate of `server` isn't trusted, or is another host's."""
    try:
        yield
    except ssl.SSLCertVerificationError as error:
        trusted = (
            "trusted are those that $SSL_CERT_FILE names, as PEM (of a keystore: keytool -list -rfc -keystore STORE)"
        )
        raise InvalidOption((f"the certificate of {server}: {error.verify_message}; {trusted}",)) from error


def over_kerberos(socket: Any, server: str, principal: str, host: str, protection: str = "") -> Any:
    """Thrift's transport over `socket`, whose `open` logs in to `principal` (`service/_HOST@REALM`).

    `protection` is what the site allows, after commas: a server that offers only less is refused.
    `server` is for errors: InvalidOption without the package for it; from `open` LoginFailed and
    TTransportException.
    """
    from thrift_sasl import TSaslClientTransport

    gssapi = library(f"the login to {server}")

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
    least = min(_LAYERS.get(word.strip().lower(), 1) for word in protection.split(","))
    return Transport(lambda: Sasl(server, wanted, least), "GSSAPI", socket)


class Sasl:
    """The client of RFC 4752 in the shape that `thrift_sasl` takes, for the service `name`.

    PyHive's own swaps wrap and unwrap, and lacks the length before each message, without which a
    server waits.
    """

    def __init__(self, server: str, name: Any, least: int) -> None:
        gssapi = library(server)
        flags = gssapi.RequirementFlag
        wanted = [flags.mutual_authentication, flags.integrity, flags.confidentiality]
        self._server = server
        self._context = gssapi.SecurityContext(name=name, usage="initiate", flags=wanted)
        self._least, self._layer = least, 1

    def start(self, mechanism: str) -> tuple[bool, str, bytes]:
        return True, mechanism, self.step()[1]

    def step(self, challenge: bytes | str | None = None) -> tuple[bool, bytes]:
        """Raises LoginFailed."""
        # thrift_sasl hands out an empty challenge as text.
        said = challenge or None
        with told(self._server):
            if not self._context.complete:
                return True, self._context.step(said) or b""
            # What the server offers: 1 nothing, 2 integrity, 4 privacy; then how much it takes.
            offered = self._context.unwrap(said).message
            # The strongest of them.
            self._layer = next((layer for layer in (_PRIVACY, 2, 1) if layer & offered[0]), 0)
            if self._layer < self._least:
                reason = "it offers less protection than hadoop.rpc.protection or hive.server2.thrift.sasl.qop asks for"
                raise failure(self._server, reason, Trouble.REFUSED)
            most = b"\0\0\0" if self._layer == 1 else offered[1:4]
            return True, self._context.wrap(bytes([self._layer]) + most, False).message

    def encode(self, message: bytes) -> tuple[bool, bytes]:
        if self._layer == 1:
            return True, message
        with _broken():
            sealed = self._context.wrap(message, self._layer == _PRIVACY).message
        return True, len(sealed).to_bytes(4, "big") + sealed

    def decode(self, message: bytes) -> tuple[bool, bytes]:
        """Of what is sealed; thrift_sasl reads the rest by itself."""
        with _broken():
            return True, self._context.unwrap(message[4:]).message


@contextmanager
def _broken() -> Iterator[None]:
    """A message that can't be sealed or opened, such as after the ticket's end, breaks the connection."""
    try:
        yield
    except library("Kerberos").exceptions.GSSError as error:
        raise TTransportException(message=str(error)) from error
