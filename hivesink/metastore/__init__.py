"""Metastores: over Thrift in bulk, through HiveServer2, and in memory for tests."""

from __future__ import annotations

import re
from contextlib import closing
from typing import TYPE_CHECKING

from hivesink.config.site import NO_SITE, Site
from hivesink.errors import InvalidOption
from hivesink.ports import Metastore

if TYPE_CHECKING:
    from hivesink.metastore.thrift import ThriftMetastore

# Adapters are imported where they are made, since tasks import this package and have no Thrift.
__all__ = ["catalog", "connect", "version"]


def connect(kind: str, address: str, site: Site = NO_SITE) -> Metastore:
    """The registrar `kind`, `thrift` or `hiveserver2`; it doesn't connect yet. Raises InvalidOption, Unsupported.

    `address` is thrift://host:port[,thrift://host2:port2], each tried in turn, or host:port.
    """
    if kind == "thrift":
        return catalog(address, site)
    if kind == "hiveserver2":
        from hivesink.hive import Hive
        from hivesink.metastore.hiveserver2 import HiveServer2Metastore

        return HiveServer2Metastore(Hive(address, site.hive))
    raise InvalidOption((f"registrar = {kind!r}: write thrift or hiveserver2",))


def catalog(address: str, site: Site = NO_SITE) -> ThriftMetastore:
    """The tables that `ddl` works with, at thrift://host:port[,…]. Raises InvalidOption, Unsupported."""
    from hivesink.metastore.thrift import ThriftMetastore
    from hivesink.metastore.thrift_connection import Connection

    return ThriftMetastore(Connection(address, site.hive))


def version(address: str, site: Site = NO_SITE) -> tuple[int, ...]:
    """The version that the metastore reports: 4.0.1 is (4, 0, 1), every Hive before 4 reports (3, 0).

    Raises InvalidOption, Unsupported, MetastoreUnreachable.
    """
    from hivesink.metastore.thrift_connection import Connection

    with closing(Connection(address, site.hive)) as connection:
        text = connection.read(lambda client: str(client.getVersion()))
    # A distribution may add to the numbers: 4.0.0-fork-7.
    return tuple(int(number) for number in re.split(r"[^\d.]", text)[0].split(".") if number)
