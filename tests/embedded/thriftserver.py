"""A Spark Thrift Server from the jars that PySpark ships; it speaks HiveServer2's protocol, for PyHive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hivesink.embedded.server import HOST, Launch
from hivesink.jvm.jars import all_jars, spark_home
from hivesink.jvm.java import LOCAL_FILES
from jobs.cluster.server import EmbeddedServer

if TYPE_CHECKING:
    from pathlib import Path


class EmbeddedThriftServer(EmbeddedServer):
    """A server for the length of a `with` block, over the tables of a running metastore.

    `auth` is HiveServer2's: NOSASL or NONE. Raises ServerFailed, JavaFailed.
    """

    name = "the embedded Spark Thrift Server"

    def __init__(self, folder: Path, metastore_uri: str, warehouse: Path, *, auth: str = "NOSASL") -> None:
        super().__init__(folder)
        self.auth = auth
        self._metastore_uri = metastore_uri
        self._warehouse = warehouse.absolute()

    def _launch(self, port: int) -> Launch:
        spark = {
            "spark.app.name": "hivesink thrift server",
            "spark.driver.bindAddress": HOST,
            "spark.driver.host": HOST,
            "spark.master": "local[2]",
            "spark.sql.catalogImplementation": "hive",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": self._warehouse.as_uri(),
            "spark.ui.enabled": "false",
        }
        java = self._java(
            all_jars(),
            "1g",
            "-Djdk.reflect.useDirectMethodHandle=false",
            "-Dio.netty.tryReflectionSetAccessible=true",
            *(f"-D{name}={value}" for name, value in spark.items()),
            sites={"hive-site": self._hive_site(port), **LOCAL_FILES},
            # ThriftCLIService logs the port when it is ready.
            levels={"org.apache.hive.service.cli.thrift": "info"},
        )
        server = ("--class", "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2", "spark-internal")
        return Launch(
            command=(*java, "org.apache.spark.deploy.SparkSubmit", *server),
            log=self.folder / "thriftserver.log",
            ready=f"Starting ThriftBinaryCLIService on port {port} ",
            env={"SPARK_HOME": str(spark_home()), "SPARK_LOCAL_IP": HOST},
        )

    def _hive_site(self, port: int) -> dict[str, str]:
        return {
            "hive.exec.dynamic.partition.mode": "nonstrict",
            "hive.exec.scratchdir": str(self.folder / "scratch"),
            "hive.metastore.uris": self._metastore_uri,
            "hive.server2.authentication": self.auth,
            "hive.server2.enable.doAs": "false",
            "hive.server2.thrift.bind.host": HOST,
            "hive.server2.thrift.port": str(port),
        }
