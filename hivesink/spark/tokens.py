"""HDFS's delegation tokens, by which tasks log in that have neither ticket nor keytab."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError

from hivesink import kerberos
from hivesink.config.site import Site
from hivesink.errors import InvalidOption, LoginFailed
from hivesink.kerberos.tickets import Trouble
from hivesink.spark.running import driver_jvm, short_java_error
from hivesink.spark.settings import KEYTAB, PRINCIPAL
from hivesink.storage.hdfs_address import Address, resolve

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST = 3600.0
"""Seconds for which a token is handed out: by default NameNodes end it a day after its issue."""
_REST = 70.0
"""Seconds that a token must still live to be of use to a task; hdfs-native wants 60."""


class Tokens:
    """For the tasks of a session's batches. A task's process has them in its memory alone.

    They are taken as Spark takes its own: by its keytab or its user's ticket, read anew each time,
    and once a quarter of their life is over. A driver that has neither, as in YARN's cluster mode,
    hands out what it was given.
    """

    def __init__(self, spark: SparkSession, site: Site) -> None:
        self._spark, self._site = spark, site
        self._held: dict[frozenset[Address], tuple[bytes, float, float]] = {}
        """What `_take` returned."""
        # At DEBUG they write all that is sent and received.
        for name in ("py4j.java_gateway", "py4j.clientserver") if site.has_kerberos else ():
            logging.getLogger(name).addFilter(lambda record: record.levelno > logging.DEBUG)

    def fresh(self, locations: Collection[str]) -> bytes | None:
        """Hadoop's file of tokens for these locations; None if none is asked for. Raises LoginFailed."""
        on_hdfs = [place for place in locations if place.startswith("hdfs:")]
        if not on_hdfs or not self._site.has_kerberos:
            return None
        places = {resolve(place, self._site.hadoop)[0]: place for place in on_hdfs}
        content, until, end = self._held.get(frozenset(places), (b"", 0.0, 0.0))
        if time.time() >= until:
            # Java reads the cache, where the C library puts a new ticket when it is asked.
            with suppress(LoginFailed, InvalidOption):
                kerberos.user("HDFS")
            try:
                content, _, _ = self._held[frozenset(places)] = self._take(places)
            except Py4JJavaError as error:
                # A key server that is away for a while stops nothing.
                if time.time() > end - _REST:
                    if failed := kerberos.failure_of_java(str(error), short_java_error(str(error))):
                        raise failed from error
                    # Not from itself: who follows the causes would never end.
                    raise
        return content

    def _take(self, places: Mapping[Address, str]) -> tuple[bytes, float, float]:
        """The file's content, until when to hand it out, and the end of its life (`time.time`)."""
        jvm, java = driver_jvm(self._spark), self._spark.sparkContext._jsc  # noqa: SLF001  PySpark offers no other way
        security, text = jvm.org.apache.hadoop.security, jvm.org.apache.hadoop.io.Text
        hadoop = java.hadoopConfiguration()
        settings, systems = java.sc().getConf(), ",".join(f"hdfs://{at.authority}" for at in places)
        settings.set("spark.kerberos.access.hadoopFileSystems", systems)
        # Tasks need no tokens of these.
        for other in ("hive", "hbase", "kafka"):
            settings.set(f"spark.security.credentials.{other}.enabled", "false")
        user = security.UserGroupInformation.getCurrentUser()
        given, taken = user.getCredentials(), security.Credentials()
        manager = jvm.org.apache.spark.deploy.security.HadoopDelegationTokenManager
        manager(settings, hadoop, None).obtainDelegationTokens(taken)
        # The JVM prefers a token to a ticket, also a token that has ended, as where nobody renews Spark's.
        user.addCredentials(taken)
        begin, end = time.time(), float("inf")
        found = security.Credentials(taken)
        for address, place in places.items():
            system = jvm.org.apache.hadoop.fs.Path(place).getFileSystem(hadoop)
            service = text(system.getCanonicalServiceName())
            token = taken.getToken(service) or given.getToken(service)
            if token is None and user.hasKerberosCredentials():
                # Spark only logs why it got none.
                system.addDelegationTokens(user.getShortUserName(), taken)
                token = taken.getToken(service)
            if token is None:
                reason = "the driver has no delegation token of it, and nothing to take it by"
                raise kerberos.failure(str(address), reason, Trouble.NO_TICKET)
            end = min(end, token.decodeIdentifier().getMaxDate() / 1000)
            # By names that hdfs-native looks for: Hadoop's may have a number in place of the host.
            for name in (address.authority, f"ha-hdfs:{address.authority}", *address.namenodes):
                copied = token.copyToken()
                copied.setService(text(name))
                found.addToken(copied.getService(), copied)
        stream = jvm.java.io.ByteArrayOutputStream()
        found.writeTokenStorageToStream(jvm.java.io.DataOutputStream(stream))
        return bytes(stream.toByteArray()), begin + min((end - begin) / 4, MOST), end


def log_in(spark: SparkSession) -> None:
    """This process is the principal of the session's settings, and so is its JVM: `spark-submit` doesn't always do it.

    Raises LoginFailed, InvalidOption.
    """
    conf, users = spark.sparkContext.getConf(), driver_jvm(spark).org.apache.hadoop.security.UserGroupInformation
    login = kerberos.log_in(conf.get(PRINCIPAL), conf.get(KEYTAB))
    # Not on a standalone cluster.
    if login and users.isSecurityEnabled() and not users.isLoginKeytabBased():
        users.loginUserFromKeytab(*login)
