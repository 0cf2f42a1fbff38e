"""HiveServer2's protocol where it fails."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from hivesink.core.table import TableName
from hivesink.errors import InvalidOption, MetastoreUnreachable, UnknownTable
from hivesink.hive import Login
from hivesink.metastore import connect
from tests.metastore.live import declared

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("auth", ["NOSASL", "NONE", "LDAP"])
def test_nobody_there_is_one_line_without_secrets(auth: str) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    password = "hush-hush" if auth == "LDAP" else None
    registrar = connect("hiveserver2", f"127.0.0.1:{port}", login=Login(auth, "me", password))
    with pytest.raises(MetastoreUnreachable, match=r"hiveserver2://127\.0\.0\.1") as caught:
        registrar.table(TableName("d", "t"))
    assert "\n" not in str(caught.value)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("address", ["", "me:hush@:1", "127.0.0.1:x"])
def test_a_wrong_address_or_login_is_refused_without_its_text(address: str) -> None:
    for called, login in ((address, Login("NOSASL")), ("127.0.0.1:1", Login("NOSASL", "me", "hush"))):
        with pytest.raises(InvalidOption, match="hiveserver2") as caught:
            connect("hiveserver2", called, login=login)
        assert "hush" not in str(caught.value)
        assert "hush" not in repr(login)


def test_a_closed_registrar_opens_again(thrift_server: tuple[str, int], tmp_path: Path) -> None:
    host, port = thrift_server
    registrar = connect("hiveserver2", f"{host}:{port}", login=Login("NOSASL"))
    name = declared(tmp_path).name
    for _ in range(2):
        with pytest.raises(UnknownTable, match=str(name)):
            registrar.table(name)
        registrar.close()
