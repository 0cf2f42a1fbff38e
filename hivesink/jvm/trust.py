"""Let a packaged Java trust whom this Python trusts: it brings its own list, without a site's."""

from __future__ import annotations

import ssl
import struct
from hashlib import sha1
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

PASSWORD = "changeit"  # noqa: S105 - Java's own default; nothing in the file is secret


def write_trust_store(path: Path) -> bool:
    """Write the authorities that this Python loads into a Java key store; say whether there are any."""
    authorities = ssl.create_default_context().get_ca_certs(binary_form=True)
    path.write_bytes(key_store(authorities))
    return bool(authorities)


def key_store(certificates: list[bytes]) -> bytes:
    """Return a store of type JKS, version 2, that trusts these DER certificates.

    The layout is that of `sun.security.provider.JavaKeyStore.engineLoad`.
    """
    body = struct.pack(">III", 0xFEEDFEED, 2, len(certificates))
    for number, certificate in enumerate(certificates):
        alias = f"ca{number}".encode()
        body += struct.pack(">IH", 2, len(alias)) + alias + struct.pack(">Q", 0)
        body += struct.pack(">H", 5) + b"X.509" + struct.pack(">I", len(certificate)) + certificate
    salted = PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + body
    return body + sha1(salted, usedforsecurity=False).digest()
