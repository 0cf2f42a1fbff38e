"""Servers that end with the process that starts them, as tests and demonstrations need them, or that outlive it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING

from hivesink.embedded.metastore import EmbeddedMetastore
from hivesink.embedded.server import DetachedServer, Launch
from hivesink.errors import NotWritable

if TYPE_CHECKING:
    from typing_extensions import Self

    from jobs.cluster.kdc import Kdc

GUARD = Path(__file__).with_name("guard.py")
NOT_DURABLE = ("-Dderby.system.durability=test",)
"""The option of Derby with which nothing is synced."""


class EmbeddedServer(DetachedServer):
    """A server for the length of a `with` block, which ends with this process, unless it is `detached`.

    `keeps_port`: others know it by its port, so a restart takes this port or fails. With a `kdc` it asks for Kerberos.
    """

    detached = False
    keeps_port = False
    kdc: Kdc | None = None
    _guard: subprocess.Popen[bytes] | None = None

    def kill(self) -> None:
        """Kill the server by SIGKILL, as a crash would, and return when it is gone."""
        self._end(signal.SIGKILL)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self.stop()

    def _another_port(self) -> int:
        if self.keeps_port and self.port is not None:
            msg = f"port {self.port} of {self.name}"
            raise NotWritable(msg, "another program uses it", "stop it, then start again")
        return super()._another_port()

    def _run(self, launch: Launch, log: IO[bytes]) -> int:
        if self.detached:
            return super()._run(launch, log)
        child = self._guard = subprocess.Popen(
            [sys.executable, "-I", "-S", GUARD, str(launch.grace), *launch.command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env={**os.environ, **launch.env},
            cwd=launch.log.parent,
            start_new_session=True,
        )
        # Nothing comes if the program can't be started; its log says why.
        return int((child.stdout and child.stdout.readline()) or child.pid)

    def _end(self, *signals: signal.Signals) -> None:
        super()._end(*signals)
        if self._guard is not None:
            with self._guard:  # Its end also closes the pipe to it.
                self._guard = None


class OwnMetastore(EmbeddedServer, EmbeddedMetastore):
    """The embedded metastore in a `with` block.

    Without `durable` a power cut may lose the last commits, which tests don't mind; the process's death never does.
    """

    def __init__(self, folder: Path, warehouse: Path, *, durable: bool = True) -> None:
        super().__init__(folder, warehouse)
        self.options = () if durable else NOT_DURABLE
