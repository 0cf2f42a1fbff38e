"""Logins that fail, in one line each, and those that don't."""

from __future__ import annotations

import importlib
import os
import shutil
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from thrift.transport.TSocket import TSocket

from hivesink import errors, kerberos
from hivesink.config.site import Site
from hivesink.hive import Hive
from hivesink.kerberos import tickets
from hivesink.kerberos.wire import over_kerberos
from hivesink.logs import storage_of
from hivesink.metastore import catalog
from hivesink.metastore.thrift_connection import Connection
from hivesink.storage.hdfs_calls import WINDOW
from jobs.cluster import Cluster, kdc
from jobs.cluster.kdc import Kdc
from jobs.cluster.settings import TEMPORARY
from tests.metastore.live import declared
from tests.secure.site import kdc_of, login_of, site_of
from tests.storage.realhdfs import apart

REALM, PRINCIPAL_OF = f"@{kdc.REALM}", "hive.metastore.kerberos.principal"


def without_kdc(cluster: Cluster, folder: Path) -> str:
    """A krb5.conf with a port where nobody listens."""
    server, conf = kdc_of(cluster), folder / "krb5.conf"
    conf.write_text((server.folder / "krb5.conf").read_text().replace(str(server.port), "1"))
    return str(conf)


@pytest.fixture(params=["HDFS", "metastore"])
def ask(request: pytest.FixtureRequest, alice: Cluster) -> Callable[[], Any]:
    """A first call of a new client."""
    site = site_of(alice)
    if request.param == "HDFS":
        return lambda: apart(site.hadoop, window=0.0).length(f"{alice.filesystem}/none")
    return lambda: Connection(alice.metastore_uri, site.hive).read(lambda client: client.get_all_databases())


def test_no_ticket(ask: Callable[[], Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/none")
    with pytest.raises(errors.LoginFailed, match=r"localhost:\d+ as the user of FILE:.*run kinit") as told:
        ask()
    assert not told.value.retryable
    assert "\n" not in str(told.value)


@pytest.fixture(scope="module")
def ended(secured: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a ticket of alice's that some key server made for 8 s; they are over."""
    assert secured.servers.kdc
    with Kdc(tmp_path_factory.mktemp("ended"), lifetime=8) as server, server.logged_in("alice"):
        pass
    time.sleep(9)
    return server.folder


def test_a_ticket_that_has_ended(
    ask: Callable[[], Any], alice: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ended: Path
) -> None:
    """Others may renew it, so it is worth another try; by the keys of a keytab the library does so itself."""
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{shutil.copy(ended / 'tickets-alice', tmp_path)}")
    with monkeypatch.context() as there:
        there.setenv("KRB5_CONFIG", f"{ended}/krb5.conf")
        kinds = (errors.LoginFailed, errors.MetastoreUnreachable)
        with pytest.raises(kinds, match=rf"alice{REALM}, whose ticket ended at .*Ticket expired; run kinit") as told:
            ask()
    assert isinstance(told.value, errors.HiveSinkError)
    assert told.value.retryable
    for keytab, kdc_conf, words, passes in (
        (tmp_path / "none", None, "none has no key of it, or can't be read; give a keytab", False),
        (ended / "principals.keytab", None, "Decrypt integrity check failed; give a keytab", False),
        (kdc_of(alice).keytab, without_kdc(alice, tmp_path), "Cannot contact any KDC", True),
    ):
        with monkeypatch.context() as there:
            there.setenv("KRB5_CLIENT_KTNAME", str(keytab))
            there.setenv("KRB5_CONFIG", kdc_conf or os.environ["KRB5_CONFIG"])
            with pytest.raises(errors.HiveSinkError, match=words) as told:
                ask()
        assert told.value.retryable == passes
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", str(kdc_of(alice).keytab))
    ask()


def test_a_server_with_new_keys(
    ask: Callable[[], Any], alice: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It refuses the tickets that are in the cache: new ones are taken, and only theirs say what is wrong."""
    with Kdc(tmp_path / "other") as other:
        keytab = other.keytab
        monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/tickets")
        with monkeypatch.context() as there:
            there.setenv("KRB5_CONFIG", f"{other.folder}/krb5.conf")
            other.take_ticket("bob", f"FILE:{tmp_path}/tickets")
            with pytest.raises(errors.LoginFailed, match=r"as bob.*: .*GSS initiate failed.*; compare") as told:
                ask()
            assert not told.value.retryable
            there.setenv("KRB5_CLIENT_KTNAME", str(keytab))
            with pytest.raises(errors.LoginFailed, match=r"as bob.*: .*GSS initiate failed.*; compare"):
                ask()
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", str(kdc_of(alice).keytab))
    ask()
    held = tickets.held()
    assert held
    assert (held[0], held[1] > time.time()) == (f"bob{REALM}", True)


def test_a_kdc_that_is_down(
    ask: Callable[[], Any], alice: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What goes by itself is as a server that is down."""
    for name, value in login_of(alice, "bob", tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("KRB5_CONFIG", without_kdc(alice, tmp_path))
    with pytest.raises((errors.StoreUnavailable, errors.MetastoreUnreachable), match="Cannot contact any KDC"):
        ask()


@pytest.mark.parametrize(
    ("at", "properties", "kind", "words"),
    [
        (kdc.HOST, {PRINCIPAL_OF: f"none/_HOST{REALM}"}, errors.LoginFailed, "none/localhost.* not found"),
        (kdc.HOST, {PRINCIPAL_OF: "hive/_HOST@OTHER.COM"}, errors.LoginFailed, "OTHER.COM.* not found"),
        (kdc.HOST, {PRINCIPAL_OF: f"hdfs/_HOST{REALM}"}, errors.LoginFailed, "GSS initiate failed"),
        ("127.0.0.1", {}, errors.LoginFailed, rf"hive/127\.0\.0\.1{REALM} not found"),
        (kdc.HOST, {"hadoop.rpc.protection": "privacy"}, errors.LoginFailed, "offers less protection than"),
        (kdc.HOST, {"hive.metastore.sasl.enabled": "false"}, errors.MetastoreUnreachable, r"metastore\.sasl\.enabled"),
        ("plain", {"hive.metastore.client.socket.timeout": "5s"}, errors.MetastoreUnreachable, "the server want one"),
    ],
    ids=["no such service", "another realm", "another service", "no such host", "sealed", "plain", "plain server"],
)
def test_a_site_that_says_otherwise(  # noqa: PLR0917  a table's columns
    alice: Cluster,
    request: pytest.FixtureRequest,
    at: str,
    properties: Mapping[str, str],
    kind: type[Exception],
    words: str,
) -> None:
    uri = alice.metastore_uri.replace(kdc.HOST, at)
    if at == "plain":
        uri = request.getfixturevalue("metastore").uri.replace("127.0.0.1", kdc.HOST)
    connection = Connection(uri, {**site_of(alice).hive, **properties})
    with pytest.raises(kind, match=words) as told:
        connection.read(lambda client: client.getVersion())
    assert "\n" not in str(told.value)


def test_datanodes_that_want_a_login(alice: Cluster) -> None:
    plain = {**site_of(alice).hadoop, WINDOW: "500"}
    del plain["dfs.data.transfer.protection"]
    store = storage_of(alice.filesystem, Site(plain)).logs()
    with pytest.raises(errors.StoreUnavailable, match=r"set dfs\.data\.transfer\.protection in hdfs-site\.xml"):
        store.create(f"{alice.filesystem}{TEMPORARY}/none", b"data")


def test_a_client_of_hdfs_without_a_login(alice: Cluster) -> None:
    with pytest.raises(errors.StoreUnavailable, match=r"set hadoop\.security\.authentication = kerberos"):
        apart({}, window=0.0, timeout=3.0).length(f"{alice.filesystem}/none")


def test_a_keytab(ask: Callable[[], Any], alice: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The library takes tickets by it for hdfs-native, too."""
    keytab = str(kdc_of(alice).keytab)
    monkeypatch.setattr(kerberos, "_login", None)
    for name in kerberos.VARIABLES:
        monkeypatch.setenv(name, f"FILE:{tmp_path}/none")
    for principal, file, words in (
        ("carol", keytab, f"{keytab} has no key of it"),
        ("alice", f"{tmp_path}/none", "can't be read"),
    ):
        with pytest.raises(errors.LoginFailed, match=rf"as {principal}{REALM}: .*{words}.*; give a keytab"):
            kerberos.log_in(principal + REALM, file)
    with monkeypatch.context() as down:
        down.setenv("KRB5_CONFIG", without_kdc(alice, tmp_path))
        with pytest.raises(errors.LoginFailed, match="Cannot contact any KDC") as told:
            kerberos.log_in(f"hive/localhost{REALM}", keytab)
        assert told.value.retryable
    # Not as the keytab's first principal, nor with a file that a SIGKILL would leave, or that goes missing.
    assert kerberos.log_in(f"bob{REALM}", keytab) == kerberos.log_in(None, None) == (f"bob{REALM}", keytab)
    assert (os.environ["KRB5CCNAME"], kerberos.user("")) == ("MEMORY:hivesink", "bob")
    ask()
    with pytest.raises(errors.InvalidOption, match=rf"is logged in as bob{REALM}: .* of alice{REALM} in a process"):
        kerberos.log_in(f"alice{REALM}", keytab)


def test_a_table_belongs_to_the_ticket(alice: Cluster, tmp_path: Path) -> None:
    tables, spec = catalog(alice.metastore_uri, site_of(alice)), declared(tmp_path)
    tables.create_database_if_absent(spec.name.database)
    tables.create(spec)
    assert tables.struct(spec.name).owner == "alice"


def test_a_user_who_may_not_write(alice: Cluster) -> None:
    store = storage_of(alice.filesystem, site_of(alice)).logs()
    with pytest.raises(errors.NotWritable, match="user=alice, access=WRITE"):
        store.create(f"{alice.filesystem}/user/hive/none/file", b"")


@pytest.mark.long
@pytest.mark.usefixtures("alice")
@pytest.mark.parametrize("protection", ["integrity", "privacy"])
def test_what_is_sealed(tmp_path: Path, protection: str) -> None:
    """Calls and data, more than one token of SASL's takes, both ways."""
    cluster, long = Cluster(tmp_path, secure=True, only={"metastore"}), os.urandom(1 << 20)
    kdc_of(cluster).protection = protection
    with cluster, kdc_of(cluster).logged_in("alice"):
        site, path = site_of(cluster), f"{cluster.filesystem}{TEMPORARY}/sealed"
        assert site.hadoop["dfs.data.transfer.protection"] == site.hive["hadoop.rpc.protection"] == protection
        with closing(Connection(cluster.metastore_uri, site.hive)) as connection:
            assert connection.read(lambda client: client.get_config_value("hive.none", long.hex())) == long.hex()
        files = storage_of(cluster.filesystem, site).logs()
        files.create(path, long)
        assert files.read(path) == long


@pytest.mark.long
def test_hiveserver2(alice: Cluster) -> None:
    alice.servers.hiveserver2.start()
    with Hive(alice.hiveserver2, site_of(alice).hive) as hive:
        assert hive.query("SELECT 1").rows == [(1,)]
    with Hive(alice.hiveserver2, {}) as plain, pytest.raises(errors.SourceUnreachable, match=r"server2\.authent"):
        plain.query("SELECT 1")


@pytest.mark.parametrize(
    ("offered", "asked", "layer"),
    [(1, "auth", 1), (2, "privacy,Integrity", 2), (3, "", 2), (7, "auth-conf", 4)],
    ids=["authentication", "integrity", "two", "all"],
)
def test_layers(alice: Cluster, offered: int, asked: str, layer: int) -> None:
    """Against the C library as a server; what Java's does is in `test_what_is_sealed`."""
    near, far = socket.socketpair()
    heard: list[bytes] = []
    with near, far:
        serving = threading.Thread(target=accept, args=(far, str(kdc_of(alice).keytab), offered, layer, heard))
        serving.start()
        wire = TSocket("localhost")
        wire.setHandle(near)
        transport = over_kerberos(wire, "thrift://h:1", f"hive/_HOST{REALM}", "localhost", asked)
        transport.open()
        for question in (b"first", b"x" * 200_000):
            transport.write(question)
            transport.flush()
            assert transport.read(len(question)) == question[::-1]
        serving.join(60)
    assert heard == [b"first", b"x" * 200_000]


def accept(wire: socket.socket, keytab: str, offered: int, layer: int, heard: list[bytes]) -> None:
    """RFC 4752's server in Thrift's messages: two questions, whose answers are them backwards."""
    gssapi: Any = importlib.import_module("gssapi")
    keys = gssapi.Credentials(usage="accept", store={"keytab": keytab})
    context = gssapi.SecurityContext(creds=keys, usage="accept")
    with wire.makefile("rb") as stream:

        def hear() -> bytes:
            _, length = struct.unpack(">BI", stream.read(5))
            return stream.read(length)

        def say(status: int, payload: bytes) -> None:
            wire.sendall(struct.pack(">BI", status, len(payload)) + payload)

        assert hear() == b"GSSAPI"
        while not context.complete:
            say(2, context.step(hear()) or b"")
        assert hear() == b""
        say(2, context.wrap(bytes([offered, 0, 255, 255]), False).message)
        assert context.unwrap(hear()).message[0] == layer
        say(5, b"")
        for _ in range(2):
            (length,) = struct.unpack(">I", stream.read(4))
            said = stream.read(length)
            if layer > 1:
                opened = context.unwrap(said)
                assert opened.encrypted == (layer == 4)
                said = opened.message
            heard.append(said)
            answer = said[::-1]
            if layer > 1:
                answer = context.wrap(answer, layer == 4).message
            wire.sendall(struct.pack(">I", len(answer)) + answer)
