"""Spark's daemon of Python workers, with the sink's modules loaded: workers are forked from it ready for their tasks.

Spark runs it by `spark.python.daemon.module`. Without it each worker, also each that comes after an idle time,
loads them by itself, which takes more than a second of CPU.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from socket import socket


def installed_alone(path: list[str]) -> list[str]:
    """Python's path without what lies in an installed PySpark: its zips and a jar, which Spark puts first.

    Python compiles what is in a zip anew in each process, and reads a zip's directory again whenever Spark has added
    to the path: a second of CPU for each daemon, and a fifth of it for each worker.
    """
    folders = {Path(entry).resolve() for entry in path}

    def is_within(entry: str) -> bool:
        packages = (folder for folder in Path(entry).resolve().parents if folder.name == "pyspark")
        return any(package.parent in folders and (package.parent / "py4j").is_dir() for package in packages)

    return [entry for entry in path if not is_within(entry)]


def served(serve: Callable[[socket, bool], int], sock: socket, authenticated: bool) -> int:
    """A worker's main function, which ends in silence once Spark has closed its socket.

    Spark does so with idle workers, and at its end. By TCP a worker's last words were lost; by a Unix socket they are a
    BrokenPipeError, of which Spark's daemon prints the trace.
    """
    try:
        return serve(sock, authenticated)
    except BrokenPipeError:
        return 1


def main() -> None:
    """The daemon, until Spark ends it."""
    sys.path[:] = installed_alone(sys.path)
    # What it knows of the others.
    sys.path_importer_cache.clear()
    from pyspark import daemon, worker  # noqa: F401  what workers need; each module loads its own, as the next ones do

    from hivesink import wiring  # noqa: F401
    from hivesink.config.formats import FORMATS
    from hivesink.formats import adapter
    from hivesink.spark import batchjobs

    for form in FORMATS:
        adapter(form)
    batchjobs.settle()
    daemon.worker = partial(served, daemon.worker)
    daemon.manager()


if __name__ == "__main__":
    main()
