"""A Kerberos key server, Hadoop's MiniKdc, on the loopback, and what it makes of the cluster's other servers."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from hivesink.config.cache import write_atomically
from hivesink.embedded.server import Launch, java_command
from hivesink.jvm.jars import fetch
from jobs.cluster import settings
from jobs.cluster.server import EmbeddedServer

REALM = "EXAMPLE.COM"
HOST = "localhost"
"""Of every server: Kerberos asks for names, not numbers."""
SERVICES = tuple(f"{service}/{HOST}" for service in ("hdfs", "hive", "HTTP", "kafka", "yarn"))
YARN = SERVICES[-1]
USERS = ("alice", "bob")
KEYTAB = "principals.keytab"


class Kdc(EmbeddedServer):
    """The key server of EXAMPLE.COM; a start makes new keys for all its principals, in a single keytab.

    `lifetime` is that of tickets, in seconds.
    """

    name = "the KDC"
    keeps_port = True
    host = HOST
    protection = "authentication"
    """Of HDFS's and the metastore's calls, and of data: at least this, `integrity` or `privacy`."""

    def __init__(self, folder: Path, *, lifetime: int = 86_400) -> None:
        super().__init__(folder)
        self.lifetime = lifetime

    @property
    def keytab(self) -> Path:
        """The keys of SERVICES and USERS."""
        return self.folder / KEYTAB

    @property
    def java(self) -> tuple[str, ...]:
        """What a JVM needs to know of it."""
        return (f"-Djava.security.krb5.conf={self.folder / 'krb5.conf'}", "-Dsun.security.krb5.disableReferrals=true")

    def environment(self, user: str, folder: Path | None = None) -> Mapping[str, str]:
        """That of a process of `user`, who has no ticket yet; `folder` is for its tickets."""
        tickets = (folder or self.folder) / f"tickets-{user.partition('/')[0]}"
        return {"KRB5_CONFIG": str(self.folder / "krb5.conf"), "KRB5CCNAME": f"FILE:{tickets}"}

    @contextlib.contextmanager
    def logged_in(self, user: str, folder: Path | None = None) -> Iterator[None]:
        """This process has new tickets of `user`."""
        own = self.environment(user, folder)
        before = {name: os.environ.pop(name) for name in (*own, "KRB5_CLIENT_KTNAME") if name in os.environ}
        os.environ |= own
        try:
            self.take_ticket(user, own["KRB5CCNAME"])
            yield
        finally:
            for name in own:
                del os.environ[name]
            os.environ |= before

    def take_ticket(self, user: str, cache: str) -> None:
        """As `kinit -kt`: a new ticket of `user`, in place of what `cache` has."""
        gssapi: Any = import_module("gssapi")

        name = gssapi.Name(f"{user}@{REALM}", gssapi.NameType.kerberos_principal)
        Path(cache.removeprefix("FILE:")).unlink(missing_ok=True)
        # Not from the cache of this process, which may have a ticket that lives longer.
        store = {"client_keytab": str(self.keytab), "ccache": cache}
        # The first look is what asks.
        _ = gssapi.Credentials(name=name, usage="initiate", store=store).lifetime

    def _launch(self, port: int) -> Launch:
        conf = self.folder / "kdc.conf"
        properties = {
            "org.name": REALM.partition(".")[0],
            "org.domain": REALM.partition(".")[2],
            "kdc.bind.address": HOST,
            "kdc.port": port,
            "instance": "hivesink",
            "max.ticket.lifetime": self.lifetime,
            "max.renewable.lifetime": 7 * 86_400,
            "transport": "TCP",
            "debug": "false",
        }
        write_atomically(conf, "".join(f"{name}={value}\n" for name, value in properties.items()))
        jars = os.pathsep.join(map(str, fetch(settings.KDC_JARS)))
        main = "org.apache.hadoop.minikdc.MiniKdc"
        arguments = (str(self.folder), str(conf), str(self.keytab), *SERVICES, *USERS)
        return Launch((*java_command(jars, "128m"), main, *arguments), self.folder / "kdc.log", "Do <CTRL-C> or kill")


def core_site(protection: str) -> dict[str, str]:
    """What core-site.xml has where Kerberos is on; `protection` as `Kdc.protection`."""
    return {
        "hadoop.security.authentication": "kerberos",
        "hadoop.security.authorization": "true",
        "hadoop.rpc.protection": protection,
        "hadoop.security.token.service.use_ip": "false",
        "hadoop.proxyuser.hive.groups": "*",
        "hadoop.proxyuser.hive.hosts": "*",
    }


def hdfs_site(protection: str, keytab: Path | None = None) -> dict[str, str]:
    """What hdfs-site.xml has then; a server's has the `keytab`."""
    site = {
        "dfs.namenode.kerberos.principal": f"hdfs/_HOST@{REALM}",
        "dfs.datanode.kerberos.principal": f"hdfs/_HOST@{REALM}",
        "dfs.block.access.token.enable": "true",
        "dfs.data.transfer.protection": protection,
    }
    if protection == "privacy":
        # As sites have it: the default encrypts by 3DES, at a tenth of the speed.
        site["dfs.encrypt.data.transfer.cipher.suites"] = "AES/CTR/NoPadding"
    own = {
        "dfs.namenode.keytab.file": str(keytab),
        "dfs.datanode.keytab.file": str(keytab),
        "dfs.web.authentication.kerberos.principal": f"HTTP/_HOST@{REALM}",
        "dfs.web.authentication.kerberos.keytab": str(keytab),
        "hadoop.http.filter.initializers": "org.apache.hadoop.http.lib.StaticUserWebFilter",
        # Milliseconds: a job of minutes outlives several.
        "dfs.namenode.delegation.token.max-lifetime": "180000",
        "dfs.namenode.delegation.token.renew-interval": "180000",
        # Their web pages have no TLS. Data transfer is by SASL all the same.
        "ignore.secure.ports.for.testing": "true",
    }
    return site | (own if keytab else {})


def hive_site(keytab: Path | None = None) -> dict[str, str]:
    """What hive-site.xml has then, by both names of Hive 4's metastore; a server's has the `keytab`."""
    principal = f"hive/{HOST if keytab else '_HOST'}@{REALM}"
    site = {
        "hive.metastore.sasl.enabled": "true",
        "hive.metastore.kerberos.principal": principal,
        "hive.server2.authentication": "KERBEROS",
        "hive.server2.authentication.kerberos.principal": principal,
    }
    own = {
        "metastore.sasl.enabled": "true",
        "metastore.kerberos.principal": principal,
        "metastore.kerberos.keytab.file": str(keytab),
        "hive.metastore.kerberos.keytab.file": str(keytab),
        "hive.server2.authentication.kerberos.keytab": str(keytab),
        # It wants somebody who may renew its tokens, though none of its jobs needs any.
        "yarn.resourcemanager.principal": principal,
    }
    return site | (own if keytab else {})
