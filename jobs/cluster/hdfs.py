"""A NameNode and its DataNodes, and the administration command."""

from __future__ import annotations

import getpass
import os
import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from hivesink.config.cache import write_atomically
from hivesink.embedded.server import HOST, Launch, java_command, wait_until
from hivesink.errors import ServerFailed
from hivesink.jvm.jars import fetch
from hivesink.jvm.java import write_sites
from jobs.cluster import kdc, settings
from jobs.cluster.kdc import Kdc
from jobs.cluster.server import EmbeddedServer
from jobs.cluster.tool import run_once

if TYPE_CHECKING:
    from hdfs_native import Client

REPORT_SECONDS = 120
# Only what the daemons log when they are ready, and where.
LOGGERS = {
    "BlockStateChange": "INFO",
    "org.apache.hadoop.hdfs.server.datanode.DataNode": "INFO",
    "org.apache.hadoop.hdfs.server.namenode.NameNode": "INFO",
    "org.apache.hadoop.hdfs.StateChange": "INFO",
    "org.apache.hadoop.http.HttpServer2": "INFO",
    # It only complains of the missing native library.
    "org.apache.hadoop.util.NativeCodeLoader": "ERROR",
}


class NameNode(EmbeddedServer):
    """The NameNode of `hdfs://127.0.0.1:<port>`; its first start formats its folder.

    Ready when it is out of safe mode and has the block reports of the DataNodes that run.
    """

    name = "the NameNode"
    keeps_port = True

    def __init__(self, folder: Path, *, durable: bool) -> None:
        super().__init__(folder)
        self.datanodes: tuple[DataNode, ...] = ()
        self._durable = durable

    @property
    def filesystem(self) -> str:
        """The `hdfs://` address."""
        return f"hdfs://{self.address}"

    @property
    def counter(self) -> str:
        """The page of its counters, as JSON, while it runs."""
        port = re.findall(r"Jetty bound to port (\d+)", (self.folder / "namenode.log").read_text(errors="replace"))[-1]
        return f"http://{HOST}:{port}/jmx?qry=Hadoop:service=NameNode,name=RpcActivityForPort{self.port}"

    def start(self) -> None:
        """Start the NameNode, and return when it serves what its DataNodes hold."""
        super().start()
        log = self.folder / "namenode.log"
        reporting = [node.port for node in self.datanodes if node.alive]

        def serves() -> bool:
            text = log.read_text(errors="replace")
            reported = (re.search(rf"processReport .*\({HOST}:{port}, .*blocks: \d", text) for port in reporting)
            return all(reported) and self._answers()

        if not wait_until(serves, REPORT_SECONDS):
            self.stop()
            problem = f"has no block reports of {reporting}, or does not answer"
            raise ServerFailed(self.name, problem, str(log), log.read_text(errors="replace")[-500:])

    def dfsadmin(self, *arguments: str) -> str:
        """Run `hdfs dfsadmin` and return what it prints. Raises ServerFailed if it fails."""
        answer = subprocess.run(
            (*_java(self.folder / "conf", "128m", self.kdc), "org.apache.hadoop.hdfs.tools.DFSAdmin", *arguments),
            capture_output=True,
            text=True,
            check=False,
        )
        if answer.returncode:
            tail = " | ".join((answer.stdout + answer.stderr).splitlines())
            command = f"dfsadmin {' '.join(arguments)}"
            raise ServerFailed(command, f"ended with {answer.returncode}", str(self.folder / "namenode.log"), tail)
        return answer.stdout

    def _answers(self) -> bool:
        """Say whether it answers requests: it starts to listen a moment earlier."""
        try:
            _client(self.filesystem, self.kdc).get_file_info("/")
        except RuntimeError as e:
            if "NameNode still not started" in str(e):
                return False
            raise
        return True

    def _launch(self, port: int) -> Launch:
        sync = {} if self._durable else {"dfs.namenode.edits.noeditlogchannelflush": "true"}
        own = {
            **sync,
            "dfs.namenode.http-address": f"{HOST}:0",
            "dfs.namenode.name.dir": (self.folder / "names").as_uri(),
            "dfs.namenode.rpc-address": f"{self.host}:{port}",
        }
        conf = _write_conf(self.folder, f"hdfs://{self.host}:{port}", own, self.kdc)
        command = (*_java(conf, "384m", self.kdc), "org.apache.hadoop.hdfs.server.namenode.NameNode")
        if not (self.folder / "names" / "current" / "VERSION").exists():
            tool = (*command, "-format", "-force", "-nonInteractive")
            run_once(f"the format of {self.name}", tool, self.folder / "format.log")
        # Only the active state's services come after this line; a single NameNode has them at once.
        return Launch(command, self.folder / "namenode.log", "NameNode RPC up at: ")


class DataNode(EmbeddedServer):
    """A DataNode of that NameNode; ready when it has reported its blocks."""

    keeps_port = True

    def __init__(self, folder: Path, number: int, filesystem: Callable[[], str]) -> None:
        super().__init__(folder)
        self.name = f"DataNode {number}"
        self._filesystem = filesystem

    def _launch(self, port: int) -> Launch:
        own = {
            "dfs.datanode.address": f"{HOST}:{port}",
            "dfs.datanode.data.dir": (self.folder / "blocks").as_uri(),
            "dfs.datanode.hostname": self.host,
            "dfs.datanode.http.address": f"{HOST}:0",
            "dfs.datanode.ipc.address": f"{HOST}:0",
        }
        conf = _write_conf(self.folder, self._filesystem(), own, self.kdc)
        command = (*_java(conf, "384m", self.kdc), "org.apache.hadoop.hdfs.server.datanode.DataNode")
        return Launch(command, self.folder / "datanode.log", "Successfully sent block report ")


def client_sites(filesystem: str, keys: Kdc | None = None) -> dict[str, dict[str, str]]:
    """Return core-site.xml and hdfs-site.xml for clients, by name without the ending."""
    core, hdfs = settings.core_site(filesystem, getpass.getuser()), settings.hdfs_site()
    if keys:
        core, hdfs = core | kdc.core_site(keys.protection), hdfs | kdc.hdfs_site(keys.protection)
    return {"core-site": core, "hdfs-site": hdfs}


def make_folders(filesystem: str, folders: Mapping[str, int], keys: Kdc | None = None) -> None:
    """Make the missing ones of these folders, with their permissions."""
    client = _client(filesystem, keys)
    for folder, permission in folders.items():
        parent, _, name = folder.rpartition("/")
        if name not in {Path(entry.path).name for entry in client.list_status(parent or "/")}:
            client.mkdirs(folder, permission, True)
            # mkdirs applies a umask.
            client.set_permission(folder, permission)


def make_homes(filesystem: str, keys: Kdc) -> None:
    """Make a folder for each user of the key server, where a path without a leading `/` leads."""
    client = _client(filesystem, keys)
    for user in kdc.USERS:
        client.mkdirs(f"/user/{user}", 0o755, True)
        client.set_owner(f"/user/{user}", user)


def _client(filesystem: str, keys: Kdc | None = None) -> Client:
    from hdfs_native import Client

    sites = client_sites(filesystem, keys)
    return Client(filesystem, sites["core-site"] | sites["hdfs-site"])


def _write_conf(folder: Path, filesystem: str, own: Mapping[str, str], keys: Kdc | None) -> Path:
    conf = folder / "conf"
    sites = client_sites(filesystem, keys)
    if keys is not None:
        sites["hdfs-site"] |= kdc.hdfs_site(keys.protection, keys.keytab)
    sites["core-site"]["hadoop.tmp.dir"] = str(folder / "tmp")
    sites["hdfs-site"].update(own)
    write_sites(conf, sites)
    write_atomically(conf / "log4j.properties", log4j1("WARN", LOGGERS))
    for daemon in ("hdfs", "datanode"):
        # The daemons need this folder to start, though no jar has their web pages.
        (conf / "webapps" / daemon / "WEB-INF").mkdir(parents=True, exist_ok=True)
    return conf


def _java(conf: Path, heap: str, keys: Kdc | None = None) -> tuple[str, ...]:
    jars = fetch(settings.HDFS_JARS)
    if keys:
        # Hadoop reads keytabs by the KDC's own library.
        jars += fetch(settings.HDFS_SECURE_JARS) + fetch(settings.KDC_JARS)
    return java_command(
        os.pathsep.join([str(conf), *map(str, jars)]),
        heap,
        f"-Dhadoop.log.dir={conf.parent}",
        *(keys.java if keys else ()),
    )


def log4j1(level: str, levels: Mapping[str, str] | None = None) -> str:
    """Return a configuration of log4j 1, which Hadoop still uses; `levels` are by logger name."""
    lines = [
        f"log4j.rootLogger={level},stderr",
        "log4j.appender.stderr=org.apache.log4j.ConsoleAppender",
        "log4j.appender.stderr.target=System.err",
        "log4j.appender.stderr.layout=org.apache.log4j.PatternLayout",
        "log4j.appender.stderr.layout.ConversionPattern=%d{ISO8601} %p %c{2}: %m%n",
        *(f"log4j.logger.{name}={its_level}" for name, its_level in (levels or {}).items()),
    ]
    return "\n".join(lines) + "\n"
