from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from hivesink.jvm.java import find_java
from hivesink.jvm.trust import PASSWORD, key_store, write_trust_store


def keytool() -> str:
    beside = Path(find_java().home) / "bin" / "keytool"
    program = str(beside) if beside.exists() else shutil.which("keytool")
    if program is None:
        pytest.skip("this Java comes without its keytool")
    return program


def test_java_reads_the_store_and_finds_every_authority(tmp_path: Path) -> None:
    store = tmp_path / "trust.jks"
    authorities = ssl.create_default_context().get_ca_certs(binary_form=True)
    assert write_trust_store(store) == bool(authorities)
    listed = subprocess.run(
        [keytool(), "-J-Duser.language=en", "-list", "-keystore", store, "-storepass", PASSWORD],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert listed.count("trustedCertEntry") == len(authorities)


def test_java_refuses_a_store_that_was_changed(tmp_path: Path) -> None:
    store = tmp_path / "trust.jks"
    store.write_bytes(key_store([])[:-1] + b"x")
    command = [keytool(), "-list", "-keystore", str(store), "-storepass", PASSWORD]
    assert subprocess.run(command, capture_output=True, check=False).returncode != 0
