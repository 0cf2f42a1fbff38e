"""Spark's daemon of Python workers, with the sink's modules loaded: workers are forked from it ready for their tasks.

Spark runs it by `spark.python.daemon.module`. Without it each worker, also each that comes after an idle time,
loads them by itself, which takes more than a second of CPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark import daemon, worker

from hivesink import wiring
from hivesink.config.formats import FORMATS
from hivesink.formats import adapter
from hivesink.spark import batchjobs

if TYPE_CHECKING:
    from socket import socket

READY = (worker, wiring, *map(adapter, FORMATS))
"""What workers need besides; each module loads its own."""
serve = daemon.worker


def served(sock: socket, authenticated: bool) -> int:
    """A worker's main function, which ends in silence once Spark has closed its socket.

    Spark does so with idle workers, and at its end. By TCP a worker's last words were lost; by a Unix socket they are a
    BrokenPipeError, of which Spark's daemon prints the trace.
    """
    try:
        return serve(sock, authenticated)
    except BrokenPipeError:
        return 1


if __name__ == "__main__":
    batchjobs.settle()
    daemon.worker = served
    daemon.manager()
