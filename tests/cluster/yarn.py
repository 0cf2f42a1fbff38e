"""A ResourceManager and NodeManagers beside the cluster's HDFS, for Spark applications whose master is `yarn`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from hivesink.config.cache import write_atomically
from hivesink.embedded.server import HOST, Launch, free_port, java_command
from hivesink.jvm.jars import JarSet, all_jars, fetch
from hivesink.jvm.java import find_java, write_sites
from jobs.cluster import Cluster, kdc
from jobs.cluster.hdfs import log4j1
from jobs.cluster.server import EmbeddedServer
from jobs.cluster.settings import HDFS_SECURE_JARS, KDC_JARS
from tests.cluster.gates import driver

JARS = JarSet.listed(Path(__file__).with_name("yarn-3.5.0.txt"))
_YARN = "org.apache.hadoop.yarn.server"
_SCHEDULER = {
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    # Of so little memory a tenth, the default, is too little for an application's master.
    "yarn.scheduler.capacity.maximum-am-resource-percent": "1.0",
}
_PRINCIPAL = f"{kdc.YARN}@{kdc.REALM}"


class _YarnServer(EmbeddedServer):
    def __init__(self, folder: Path, cluster: Cluster) -> None:
        super().__init__(folder)
        self.kdc = cluster.servers.kdc
        self._hdfs = cluster.conf

    def _daemon(self, kind: str, ready: str, site: Mapping[str, str]) -> Launch:
        conf, log = self.folder / "conf", self.folder / f"{kind.lower()}.log"
        jars, own = fetch(JARS), [f"-Dhadoop.log.dir={self.folder}", f"-Dyarn.log.dir={self.folder}"]
        if self.kdc:
            keytab = f"yarn.{kind.lower()}.keytab"
            site = {**site, **principals(), keytab: str(self.kdc.keytab)}
            jars += fetch(HDFS_SECURE_JARS) + fetch(KDC_JARS)
            own += self.kdc.java
        write_sites(conf, {"yarn-site": site, "capacity-scheduler": _SCHEDULER})
        package = f"{_YARN}.{kind.lower()}"
        levels = {f"{package}.{name}": "INFO" for name in (kind, "NodeStatusUpdaterImpl")}
        write_atomically(conf / "log4j.properties", log4j1("WARN", levels))
        path = os.pathsep.join([str(conf), str(self._hdfs), *map(str, jars)])
        command = (*java_command(path, "384m", *own), f"{package}.{kind}")
        # Containers are started with what the NodeManager has.
        return Launch(command, log, ready, env={"JAVA_HOME": str(find_java().home)})


class ResourceManager(_YarnServer):
    """`addresses` are what NodeManager and applications know it by, also after a restart."""

    name = "the ResourceManager"
    keeps_port = True

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        super().__init__(folder, cluster)
        self._others = {name: f"{HOST}:{free_port()}" for name in ("scheduler.", "resource-tracker.")}

    @property
    def addresses(self) -> dict[str, str]:
        named = {"": self.address, **self._others}
        return {f"yarn.resourcemanager.{name}address": address for name, address in named.items()}

    def _launch(self, port: int) -> Launch:
        self.port = port
        anywhere = {f"yarn.resourcemanager.{name}.address": f"{HOST}:0" for name in ("admin", "webapp")}
        own = {
            "yarn.scheduler.minimum-allocation-mb": "256",
            # Its web pages know no login.
            "yarn.resourcemanager.webapp.delegation-token-auth-filter.enabled": "false",
        }
        site = {**self.addresses, **anywhere, **own}
        return self._daemon("ResourceManager", "Transitioned to active state", site)


class NodeManager(_YarnServer):
    """Its containers run as the user of this process, also secured: another's need a program with root's rights."""

    name = "the NodeManager"

    def __init__(self, folder: Path, cluster: Cluster, manager: ResourceManager) -> None:
        super().__init__(folder, cluster)
        self._manager = manager

    def _launch(self, port: int) -> Launch:
        own = "yarn.nodemanager."
        site = {
            **self._manager.addresses,
            f"{own}hostname": HOST,
            f"{own}address": f"{HOST}:{port}",
            f"{own}localizer.address": f"{HOST}:0",
            f"{own}webapp.address": f"{HOST}:0",
            f"{own}local-dirs": str(self.folder / "local"),
            f"{own}log-dirs": str(self.folder / "logs"),
            f"{own}resource.memory-mb": "4096",
            f"{own}resource.cpu-vcores": "4",
            # Java reserves far more addresses than it has memory.
            f"{own}vmem-check-enabled": "false",
            # The disk of a test's machine may well be nearly full.
            f"{own}disk-health-checker.max-disk-utilization-per-disk-percentage": "100",
        }
        if self.kdc:
            # In place of each node's /etc/krb5.conf.
            site[f"{own}env-whitelist"] = "JAVA_HOME,PATH,LANG,KRB5_CONFIG,JDK_JAVA_OPTIONS"
        return self._daemon("NodeManager", "Registered with ResourceManager as", site)


def principals() -> dict[str, str]:
    return {f"yarn.{kind}.principal": _PRINCIPAL for kind in ("resourcemanager", "nodemanager")}


@contextmanager
def on_yarn(cluster: Cluster, folder: Path, nodes: int = 1) -> Iterator[dict[str, str]]:
    """Spark settings for two executors of one core, while the servers run."""
    with ExitStack() as stack:
        manager = stack.enter_context(ResourceManager(folder / "resourcemanager", cluster))
        for number in range(nodes):
            stack.enter_context(NodeManager(folder / f"nodemanager-{number}", cluster, manager))
        addresses = manager.addresses | (principals() if manager.kdc else {})
        yield {
            **driver(),
            "spark.master": "yarn",
            "spark.executor.instances": "2",
            "spark.executor.cores": "1",
            "spark.executor.memory": "512m",
            "spark.yarn.am.memory": "256m",
            # The jars of PySpark are here: an application needn't upload 400 MB of them.
            "spark.yarn.jars": f"local:{all_jars()}",
            **{f"spark.hadoop.{name}": value for name, value in addresses.items()},
        }
