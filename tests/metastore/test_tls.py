"""TLS to a real metastore and a real HiveServer2 of Hive 4.0.1, with a certificate of their own."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from hivesink import hive
from hivesink.config.site import Site
from hivesink.embedded.metastore import EmbeddedMetastore
from hivesink.embedded.server import Launch
from hivesink.errors import HiveSinkError, InvalidOption, MetastoreUnreachable
from hivesink.jvm.java import find_java
from hivesink.metastore import version
from jobs.cluster.hive import HiveMetastore, HiveServer2
from tests.hive3.servers import Hive3Server
from tests.metastore.live import DT, OverThrift, dt, made, new

PASSWORD = "changeit"  # noqa: S105  Java's usual one
USE = {"hive.metastore.use.SSL": "true"}


def keytool(*arguments: str) -> str:
    """Java's tool, whose output is returned; a runtime without the program has it too."""
    command = (find_java().program, "-m", "java.base/sun.security.tools.keytool.Main", *arguments)
    return subprocess.run((*command, "-storepass", PASSWORD), check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def keystore(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key with a certificate for this machine, which is its own authority."""
    store: Path = tmp_path_factory.mktemp("keys") / "server.jks"
    names = ("-dname", "CN=localhost", "-ext", "san=dns:localhost,ip:127.0.0.1", "-ext", "bc=ca:true")
    keytool("-genkeypair", "-alias", "server", "-keyalg", "RSA", "-validity", "2", *names, "-keystore", str(store))
    return store


@pytest.fixture(scope="module")
def authority(keystore: Path) -> Path:
    """As the error message says."""
    file = keystore.with_name("ca.pem")
    file.write_text(keytool("-list", "-rfc", "-keystore", str(keystore)))
    return file


@pytest.fixture(scope="module")
def server(keystore: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HiveMetastore]:
    folder = tmp_path_factory.mktemp("metastore")
    own = {"use.SSL": "true", "keystore.path": str(keystore), "keystore.password": PASSWORD}
    names = {f"{prefix}metastore.{name}": value for name, value in own.items() for prefix in ("", "hive.")}
    with HiveMetastore(folder, folder.as_uri, durable=False, extra=names) as started:
        yield started


def test_a_metastore(server: HiveMetastore, authority: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    over = OverThrift(server.uri, site=USE)
    with closing(over):
        registrar, live = over.connect(), made(over, tmp_path, DT)
        registrar.add(live, [new(live, dt(day)) for day in range(1, 9)])
        assert len(registrar.names(live)) == 8


def test_who_is_not_trusted(
    server: HiveMetastore,
    keystore: Path,
    authority: Path,
    metastore: EmbeddedMetastore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def told(uri: str, **hive: str) -> HiveSinkError:
        with pytest.raises(HiveSinkError) as caught:
            version(uri, Site(hive={name.replace("_", "."): value for name, value in hive.items()}))
        assert "\n" not in str(caught.value)
        return caught.value

    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    unknown = told(server.uri, hive_metastore_use_SSL="true")
    assert isinstance(unknown, InvalidOption)
    assert "self-signed certificate" in str(unknown).replace("self signed", "self-signed")
    assert "$SSL_CERT_FILE" in str(unknown)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    # Spark's client reads the site's keystore.
    assert version(server.uri, Site(hive={**USE, "hive.metastore.truststore.path": str(keystore)}))[0] == 4
    # Each speaks otherwise than its server.
    assert "hive.metastore.use.SSL" in str(told(server.uri))
    assert isinstance(told(metastore.uri, hive_metastore_use_SSL="true"), MetastoreUnreachable)


class _OverHttp(Hive3Server):
    """Of Hive 3.1.3: 4.0.1 wants a library for SAML there that is on no public mirror."""

    def _launch(self, port: int) -> Launch:
        # Its cookies want another library.
        cookie = {"hive.server2.thrift.http.cookie.auth.enabled": "false"}
        self.extra |= {**cookie, "hive.server2.thrift.http.port": str(port)}
        return replace(super()._launch(port), ready="Started ThriftHttpCLIService in https mode")


@pytest.mark.long
@pytest.mark.parametrize("auth", ["NOSASL", "NONE"])
@pytest.mark.parametrize("mode", ["binary", "http"])
def test_hiveserver2(  # noqa: PLR0917
    mode: str,
    auth: str,
    keystore: Path,
    authority: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = {"hive.server2.use.SSL": "true", "hive.server2.transport.mode": mode, "hive.server2.authentication": auth}
    extra = {**said, "hive.server2.keystore.path": str(keystore), "hive.server2.keystore.password": PASSWORD}
    server: HiveServer2
    if mode == "http":
        server = _OverHttp(tmp_path, request.getfixturevalue("hive3")[0], extra)
    else:
        uri = request.getfixturevalue("server").uri
        # Java's client of the metastore reads the keystore itself.
        trusting = {"hive.metastore.truststore.path": str(keystore), "hive.metastore.truststore.password": PASSWORD}
        extra |= {**USE, **trusting, "hive.exec.scratchdir": (tmp_path / "scratch").as_uri()}
        server = HiveServer2(tmp_path, tmp_path.as_uri, lambda: uri, extra=extra)
    with server:
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        with hive.Hive(server.address, said) as session:
            assert session.query("SELECT 1 AS one").rows == [(1,)]
            assert "default" in {name for (name,) in session.query("SHOW DATABASES").rows}
        monkeypatch.delenv("SSL_CERT_FILE")
        with hive.Hive(server.address, said) as session, pytest.raises(InvalidOption, match="certificate of"):
            session.query("SELECT 1")
        plain = {**said, "hive.server2.use.SSL": "false"}
        with hive.Hive(server.address, plain) as session, pytest.raises(HiveSinkError) as caught:
            session.query("SELECT 1")
        assert "\n" not in str(caught.value)


def test_http_and_kerberos() -> None:
    with pytest.raises(InvalidOption, match="over binary only"):
        hive.Hive("127.0.0.1:1", {"hive.server2.transport.mode": "http", "hive.server2.authentication": "KERBEROS"})
