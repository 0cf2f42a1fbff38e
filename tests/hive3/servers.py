"""A Hive Metastore and a HiveServer2 of Hive 3.1.3, made for Java 8, on this machine's Java and its file system."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hivesink.jvm.jars import JarSet, fetch
from hivesink.jvm.java import find_java
from jobs.cluster.hive import HiveMetastore, HiveServer2

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hivesink.embedded.server import Launch

_HERE = Path(__file__).parent
# Of what org.apache.hive:hive-service and hive-standalone-metastore ask for: Hadoop is 3.3.6, which runs on Java 17.
JARS = JarSet.listed(_HERE / "hive-3.1.3.txt")


class Hive3Metastore(HiveMetastore):
    """A Hive Metastore 3.1.3 whose warehouse is below `folder`."""

    name = "the Hive Metastore 3.1.3"
    logger = "org.apache.hadoop.hive.metastore.HiveMetaStore"
    jars = JARS

    def __init__(self, folder: Path, extra: Mapping[str, str] | None = None) -> None:
        # By default it tries ten times what its database refuses, 2 s apart.
        own = {"hive.hmshandler.retry.attempts": "1"}
        super().__init__(folder, folder.as_uri, durable=False, extra={**own, **(extra or {})})


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
        classes = self._compiled()
        conf, *jars = path.split(os.pathsep)
        return replace(launch, command=(*java, classes, "Launch", os.pathsep.join([conf, classes, *jars]), main))

    def _compiled(self) -> str:
        """The folder of our classes, which win over Hive's. Fails where Java has no compiler."""
        classes = self.folder / "classes"
        path = os.pathsep.join(str(jar) for jar in fetch(JARS) if jar.name.startswith("hive-exec"))
        javac = (find_java().program, "-m", "jdk.compiler/com.sun.tools.javac.Main", "-cp", path, "-d", str(classes))
        subprocess.run((*javac, *map(str, sorted(_HERE.glob("*.java")))), check=True)
        return str(classes)
