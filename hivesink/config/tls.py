"""TLS to Hive's servers: whose certificates are trusted."""

from __future__ import annotations

import os
import ssl
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hivesink.errors import InvalidOption

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_FILE = "SSL_CERT_FILE"
_STORE = "metastore.truststore.path"
"""In hive-site.xml, also as `hive.metastore…`; HiveServer2's own clients have no property of a site for it."""


def trusting(hive: Mapping[str, str]) -> ssl.SSLContext:
    """Trusts the authorities in the truststore of `hive`, without one `$SSL_CERT_FILE` or the system's; files are PEM.

    Raises InvalidOption. A server's certificate must name the host of its address, as Hive's own clients ask. Python
    can't read a keystore of Java's, which Spark's client of the metastore needs: then $SSL_CERT_FILE is in its place.
    """
    store = hive.get(_STORE) or hive.get(f"hive.{_STORE}")
    try:
        return ssl.create_default_context(cafile=store)
    except OSError as error:  # ssl's own are such
        reason = error.strerror or str(error)
        if isinstance(error, ssl.SSLError):
            if os.environ.get(_FILE):
                return ssl.create_default_context()
            made = f"keytool -list -rfc -keystore {store} > ca.pem"
            reason = f"Python can't read a keystore of Java's: run `{made}`, and set {_FILE} to that file"
        raise InvalidOption((f"hive.{_STORE} = {store}: {reason}",)) from error


@contextmanager
def verified(server: str) -> Iterator[None]:
    """Raises InvalidOption where the certificate of `server` isn't trusted, or is another host's."""
    try:
        yield
    except ssl.SSLCertVerificationError as error:
        problem = (
            f"the certificate of {server}: {error.verify_message}; trusted are those that hive.{_STORE} or ${_FILE} has"
        )
        raise InvalidOption((problem,)) from error
