"""Ships code to tasks, as zips that the driver sends through Spark.

This package goes to executors without its servers and commands; modules of the user's own classes go to all tasks.

`python -m hivesink.spark.shipping FILE`, which `make dist` runs, writes the zip for `--py-files`.
"""

from __future__ import annotations

import importlib.resources
import io
import os
import pickle
import socket
import sys
import zipfile
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hivesink.config.cache import write_atomically
from hivesink.config.plugins import modules_for_tasks
from hivesink.errors import ExecutorsDiffer
from hivesink.spark.site import is_local
from hivesink.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from importlib.resources.abc import Traversable
    from typing import TypeAlias

    from pyspark.sql import SparkSession

    from hivesink.config.options import SinkConfig

    Sealed: TypeAlias = tuple[str, bytes]

_LEFT_OUT = ("__pycache__", "airflow.py", "cli", "embedded", "tables")
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""A zip's oldest possible time, so that the same code makes the same zip at any time."""


def ship(spark: SparkSession) -> str | None:
    """Send this package to a cluster's executors; return the zip's name, or None if nothing needs sending.

    Local mode needs nothing, nor does `--py-files` with hivesink in it: tasks check its version.
    """
    if is_local(spark):
        return None
    conf = spark.sparkContext.getConf()
    files = ",".join(conf.get(name, "") or "" for name in ("spark.submit.pyFiles", "spark.yarn.dist.pyFiles"))
    if any(file.rpartition("/")[2].startswith("hivesink") for file in files.split(",")):
        return None
    return _sent(spark, f"hivesink-{VERSION}", zipped())


def ship_own(spark: SparkSession, config: SinkConfig) -> str | None:
    """Send the modules of the user's own classes to the tasks; return the zip's name, or None if there are none.

    Local mode needs them too: its tasks run in processes that know nothing of the job file's folder.
    """
    entries = modules_for_tasks(config)
    return _sent(spark, "own", _zip(entries.items())) if entries else None


def _sent(spark: SparkSession, prefix: str, content: bytes) -> str:
    """Send a zip to import from to all tasks; return its name."""
    context = spark.sparkContext
    name = f"{prefix}-{sha256(content).hexdigest()[:12]}.zip"
    if any(added.rpartition("/")[2] == name for added in context.listFiles):
        return name
    # Spark removes it with the context. A cache may be read-only.
    path = Path(context._temp_dir, name)  # noqa: SLF001  PySpark's own temporary files are in it
    write_atomically(path, content)
    before = list(sys.path)
    context.addPyFile(str(path))
    # Spark puts it on the driver's path too; the driver keeps the modules that made the zip.
    sys.path[:] = before
    return name


def sealed(value: object) -> Sealed:
    """A value for tasks, with its version: another version of the package may not be able to read it."""
    return VERSION, pickle.dumps(value)


def unsealed(seal: Sealed) -> Any:
    """In a task: the sealed value. Raises ExecutorsDiffer."""
    version, pickled = seal
    if version != VERSION:
        where = f"{socket.gethostname()}, {Path(__file__).parents[1]}"
        problem = f"the driver is hivesink {version}, but an executor ({where}) imports {VERSION}"
        raise ExecutorsDiffer(problem, "leave hivesink out of --py-files, or send the driver's version")
    return pickle.loads(pickled)  # noqa: S301  the driver's own bytes, by Spark's own channel


def zipped() -> bytes:
    """The package as a zip to import from."""
    return _zip(_files(importlib.resources.files("hivesink"), "hivesink"))


def _zip(entries: Iterable[tuple[str, bytes]]) -> bytes:
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(entries):
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), content, zipfile.ZIP_DEFLATED)
    return whole.getvalue()


def _files(folder: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    # Not by path: the package may itself be in a zip.
    for entry in folder.iterdir():
        if entry.name in _LEFT_OUT:
            continue
        if entry.is_dir():
            yield from _files(entry, f"{name}/{entry.name}")
        else:
            yield f"{name}/{entry.name}", entry.read_bytes()


if __name__ == "__main__":
    write_atomically(Path(os.fsdecode(sys.argv[1])), zipped())
