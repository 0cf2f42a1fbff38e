"""A Hive Metastore and a HiveServer2 of Hive 3.1.3, made for Java 8, on this machine's Java and its file system."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from hivesink.config.cache import made_once
from hivesink.embedded.server import Launch
from hivesink.jvm.jars import JarSet, all_jars, fetch
from hivesink.jvm.java import find_java
from jobs.cluster.hive import HiveMetastore, HiveServer2

_HERE = Path(__file__).parent
# Of what org.apache.hive:hive-service and hive-standalone-metastore ask for: Hadoop is 3.3.6, which runs on Java 17.
JARS = JarSet.listed(_HERE / "hive-3.1.3.txt")
_SECURITY = "org.apache.hadoop.hive.ql.security"
BY_FOLDERS = {
    "metastore.pre.event.listeners": f"{_SECURITY}.authorization.AuthorizationPreEventListener",
    "hive.security.metastore.authorization.manager": f"{_SECURITY}.authorization.StorageBasedAuthorizationProvider",
    "hive.security.metastore.authenticator.manager": f"{_SECURITY}.HadoopDefaultMetastoreAuthenticator",
}
"""Settings of a metastore in which users may do what they may do to the folders."""


class Hive3Metastore(HiveMetastore):
    """A Hive Metastore 3.1.3 whose warehouse is below `folder`."""

    name = "the Hive Metastore 3.1.3"
    logger = "org.apache.hadoop.hive.metastore.HiveMetaStore"
    jars = JARS

    def __init__(self, folder: Path, extra: Mapping[str, str] | None = None) -> None:
        # By default it tries ten times what its database refuses, 2 s apart.
        own = {"hive.hmshandler.retry.attempts": "1", "hive.hmshandler.retry.interval": "50ms"}
        super().__init__(folder, folder.as_uri, durable=False, extra={**own, **(extra or {})})

    def _launch(self, port: int) -> Launch:
        launch = super()._launch(port)
        *java, path, main, option, number = launch.command
        return replace(launch, command=(*java, _with_ours(path), main, option, number))


class Hive3Server(HiveServer2):
    """A HiveServer2 3.1.3 over that metastore, auth NOSASL."""

    name = "HiveServer2 3.1.3"
    jars = JARS

    def __init__(self, folder: Path, metastore: Hive3Metastore, extra: Mapping[str, str] | None = None) -> None:
        own = {
            "hive.exec.scratchdir": (folder / "scratch-files").as_uri(),
            "hive.query.results.cache.enabled": "false",
            "hive.auto.convert.join": "false",
        }
        filesystem = metastore.folder.as_uri()
        super().__init__(folder, lambda: filesystem, lambda: metastore.uri, extra={**own, **(extra or {})})

    def _launch(self, port: int) -> Launch:
        launch = super()._launch(port)
        *java, path, main = launch.command
        return replace(launch, command=(*java, str(_classes()), "Launch", _with_ours(path), main))


def _with_ours(path: str) -> str:
    """A class path in which our classes win over Hive's."""
    conf, *jars = path.split(os.pathsep)
    return os.pathsep.join([conf, str(_classes()), *jars])


def _classes() -> Path:
    """The folder of our classes, compiled once with Spark's Janino, as the embedded metastore's are."""
    sources = sorted(_HERE.glob("*.java"))
    key = sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]

    def compiled(scratch: Path) -> Path:
        classes = scratch / "classes"
        classes.mkdir()
        (hive,) = (jar for jar in fetch(JARS) if jar.name.startswith("hive-exec"))
        compiler = ("-cp", all_jars(), "org.codehaus.commons.compiler.samples.CompilerDemo")
        options = ("-d", str(classes), "-classpath", str(hive), *map(str, sources))
        subprocess.run([find_java().program, *compiler, *options], check=True)
        return classes

    return made_once(f"classes/{key}", compiled)
