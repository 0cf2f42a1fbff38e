"""A checkpoint's files, where Spark has them, and a file of the sink's: the ids of the topics that it began with."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hivesink.errors import CheckpointUnreadable
from hivesink.storage.fs import delete, join, put_once

if TYPE_CHECKING:
    from hivesink.core.offsets import TopicIds
    from hivesink.storage.fs import FileSystem

TOPICS = "hivesink-topics"
"""For each source, the ids of Kafka's topics by their names, before Spark planned the query's first batch."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint's files, by their names below `location`. Methods raise NotWritable, StoreUnavailable."""

    fs: FileSystem
    location: str

    def read(self, name: str) -> bytes | None:
        """A file's content; None if there is none."""
        return self.fs.read(join(self.location, name))

    def names(self, folder: str) -> list[str]:
        """The names in a folder; none if there is no such folder."""
        return [entry.name for entry in self.fs.list(join(self.location, folder))]

    def remove(self, name: str) -> None:
        """Delete a file, if it is there."""
        delete(self.fs, join(self.location, name))

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
        put_once(self.fs, join(self.location, TOPICS), json.dumps(ids).encode())
