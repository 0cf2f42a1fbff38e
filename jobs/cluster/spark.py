"""A Spark standalone master and its workers, from the jars that PySpark ships."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from hivesink.embedded.server import HOST, Launch
from hivesink.jvm.jars import all_jars, jar, spark_home
from hivesink.jvm.java import find_java
from jobs.cluster import settings
from jobs.cluster.server import EmbeddedServer


class _SparkServer(EmbeddedServer):
    keeps_port = True

    def _spark(self, properties: Mapping[str, str]) -> tuple[str, ...]:
        own = (f"-D{name}={value}" for name, value in properties.items())
        return self._java(all_jars(), "256m", *own, levels={"org.apache.spark.deploy": "info"})


class SparkMaster(_SparkServer):
    """The master of `spark://127.0.0.1:<port>`; restarted, it knows its workers and applications again."""

    name = "the Spark master"

    @property
    def uri(self) -> str:
        """The `spark://` address."""
        return f"spark://{self.address}"

    def _launch(self, port: int) -> Launch:
        own = {**settings.spark_master(), "spark.deploy.recoveryDirectory": str(self.folder / "recovery")}
        arguments = ("--host", HOST, "--port", str(port), "--webui-port", "0")
        return Launch(
            command=(*self._spark(own), "org.apache.spark.deploy.master.Master", *arguments),
            log=self.folder / "master.log",
            # Its next words are ALIVE, or RECOVERING where it finds workers of its last run.
            ready="I have been elected leader!",
            env=_environment(),
        )


class SparkWorker(_SparkServer):
    """A worker of that master; what its executors write goes to its folder. Ready when it is registered."""

    def __init__(self, folder: Path, number: int, master_uri: Callable[[], str]) -> None:
        super().__init__(folder)
        self.name = f"Spark worker {number}"
        self._master_uri = master_uri

    def _launch(self, port: int) -> Launch:
        arguments = (
            *("--host", HOST, "--port", str(port), "--webui-port", "0"),
            *("--cores", str(settings.WORKER_CORES), "--memory", settings.WORKER_MEMORY),
            *("--work-dir", str(self.folder / "work"), self._master_uri()),
        )
        own = {"spark.local.dir": str(self.folder / "tmp")}
        return Launch(
            command=(*self._spark(own), "org.apache.spark.deploy.worker.Worker", *arguments),
            log=self.folder / "worker.log",
            ready="Successfully registered with master",
            env=_environment(),
        )


def _environment() -> dict[str, str]:
    scala = jar("scala-library").name.split("-")[2]
    return {
        # Executors are started with what their worker has.
        "JAVA_HOME": str(find_java().home),
        "SPARK_HOME": str(spark_home()),
        # It keeps the web pages, and all that executors open, on the loopback.
        "SPARK_LOCAL_IP": HOST,
        # The worker looks for build folders to learn it, and PySpark has none.
        "SPARK_SCALA_VERSION": scala.rpartition(".")[0],
    }
