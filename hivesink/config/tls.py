"""TLS to Hive's servers: whose certificates are trusted."""

from __future__ import annotations

import ssl
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hivesink.errors import InvalidOption

if TYPE_CHECKING:
    from collections.abc import Iterator


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
