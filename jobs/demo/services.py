"""What the demonstration starts, and stops again however it ends."""

from __future__ import annotations

from contextlib import contextmanager
from fcntl import LOCK_EX, LOCK_NB, flock
from typing import TYPE_CHECKING

from hivesink.embedded import metastore
from hivesink.embedded.metastore import EmbeddedMetastore
from hivesink.errors import HiveSinkError
from hivesink.jvm.session import local_session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession


class AlreadyRunning(HiveSinkError):
    """Two demonstrations would stream into one table."""

    def __init__(self, home: Path) -> None:
        self.home = home
        super().__init__(f"another demonstration runs in {home}; wait for its end")


@contextmanager
def alone(home: Path) -> Iterator[None]:
    """Refuse a second demonstration on the same state. Raises AlreadyRunning."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / "demo.lock").open("a") as lock:
        try:
            flock(lock, LOCK_EX | LOCK_NB)
        except BlockingIOError as error:
            raise AlreadyRunning(home) from error
        yield


@contextmanager
def running_metastore(home: Path) -> Iterator[str]:
    """The metastore of the state folder: the one that `hivesink metastore start` has started, else one's own."""
    found = metastore.status(home)
    if found.uri is not None:
        yield found.uri
        return
    with EmbeddedMetastore(home / "metastore", home / "warehouse") as own:
        yield own.uri


@contextmanager
def session(uri: str, home: Path, *, kafka: bool) -> Iterator[SparkSession]:
    """A Spark session that reads Hive tables as Hive does, not by Spark's own Parquet reader."""
    settings = {"spark.local.dir": str(home / "scratch"), "spark.sql.hive.convertMetastoreParquet": "false"}
    spark = local_session("hivesink demo", uri, home / "warehouse", kafka=kafka, extra=settings)
    try:
        yield spark
    finally:
        spark.stop()
