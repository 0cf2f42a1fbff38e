"""A checkpoint's files, where Spark has them, and one of the sink's own: the ids of the topics that it began with."""

from __future__ import annotations

import json
import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from hivesink.core.bucket import normal
from hivesink.errors import CheckpointUnreadable, InvalidOption, NotWritable, StoreUnavailable
from hivesink.spark.site import driver_jvm, on_file_system
from hivesink.storage.local_files import refusing

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from hivesink.core.offsets import TopicIds

T = TypeVar("T")

TOPICS = "hivesink-topics"
"""For each source, the ids of Kafka's topics by their names, before Spark planned the query's first batch."""
_WRITE = "write the checkpoint's"


class Checkpoint:
    """A checkpoint's files: local ones are read directly, others through the driver's Hadoop file systems.

    `location` is a whole location, as Spark resolves it. Methods raise NotWritable, StoreUnavailable.
    """

    def __init__(self, spark: SparkSession, location: str) -> None:
        self._spark = spark
        self.location = location
        self._base = normal(location)
        self._is_local = location.startswith("file:")

    def read(self, name: str) -> bytes | None:
        """A file's content, by its path below the checkpoint; None if it doesn't exist. Raises InvalidOption too."""
        if self._is_local:
            try:
                return Path(self._base, name).read_bytes()
            except FileNotFoundError:
                return None
            except NotADirectoryError as error:
                problem = f"checkpoint is {self._base}, where a file is: move it away, or name another folder"
                raise InvalidOption((problem,)) from error

        def content(fs: Any, path: Any) -> bytes | None:
            if not fs.exists(path):
                return None
            with closing(fs.open(path)) as stream:
                return bytes(driver_jvm(self._spark).org.apache.commons.io.IOUtils.toByteArray(stream))

        return self._by_hadoop(name, content)

    def names(self, folder: str) -> list[str]:
        """What a folder of the checkpoint holds; nothing if it doesn't exist."""
        if self._is_local:
            try:
                return [path.name for path in Path(self._base, folder).iterdir()]
            except FileNotFoundError:
                return []
            except PermissionError as error:
                raise NotWritable(str(Path(self._base, folder)), str(error.strerror)) from error

        def listed(fs: Any, path: Any) -> list[str]:
            return [str(entry.getPath().getName()) for entry in fs.listStatus(path)] if fs.exists(path) else []

        return self._by_hadoop(folder, listed)

    def topics(self) -> TopicIds | None:
        """The ids of the topics that the query began with; None if there are none. Raises CheckpointUnreadable too."""
        data = self.read(TOPICS)
        try:
            return None if data is None else tuple(dict(ids) for ids in json.loads(data))
        except (ValueError, TypeError) as error:
            raise CheckpointUnreadable(self.location, TOPICS, str(error)) from error

    def put_topics(self, ids: TopicIds) -> None:
        """Write them, whole or not at all, in the place of those that may be there."""
        self.remove(TOPICS)
        data, draft = json.dumps(ids).encode(), f".{TOPICS}.{uuid4().hex}"
        if self._is_local:
            with refusing(f"{self._base}/{TOPICS}", _WRITE):
                Path(self._base).mkdir(parents=True, exist_ok=True)
                with Path(self._base, draft).open("xb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                Path(self._base, draft).rename(Path(self._base, TOPICS))
            return

        def write(fs: Any, path: Any) -> bool:
            hidden = driver_jvm(self._spark).org.apache.hadoop.fs.Path(f"{self._base}/{draft}")
            with closing(fs.create(hidden)) as stream:
                stream.write(bytearray(data))
            return bool(fs.rename(hidden, path))

        if not self._by_hadoop(TOPICS, write, _WRITE):
            raise StoreUnavailable(_WRITE, f"{self._base}/{TOPICS}", "it is there already")

    def remove(self, name: str) -> None:
        """Delete a file, if it is there."""
        if self._is_local:
            with refusing(f"{self._base}/{name}", "delete the checkpoint's"):
                Path(self._base, name).unlink(missing_ok=True)
            return
        self._by_hadoop(name, lambda fs, path: fs.delete(path, False), "delete the checkpoint's")

    def _by_hadoop(self, name: str, act: Callable[[Any, Any], T], action: str = "read the checkpoint's") -> T:
        location = f"{self._base}/{name}"
        try:
            return on_file_system(self._spark, location, action, act)
        except StoreUnavailable as error:
            if "AccessControlException" in error.reason:
                raise NotWritable(location, error.reason) from error
            raise
