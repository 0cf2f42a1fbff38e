"""What `--from` names: files of JSON lines, or a topic of Kafka."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hivesink.errors import WrongUsage
from hivesink.sample.files import FilesSource

if TYPE_CHECKING:
    from hivesink.config.site import Site
    from hivesink.sample.records import Sample

_KAFKA = re.compile(r"kafka://(?P<servers>[^/\s]+)/(?P<topic>[A-Za-z0-9._-]+)/?")
_WITH_PORT = re.compile(r"(?:[^:\[\]]+|\[[0-9a-fA-F:]+\]):[0-9]+")
_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][\w+.-]*)://")


@dataclass(frozen=True, slots=True)
class TopicSource:
    """A topic; `servers` are host:port, separated by commas."""

    servers: str
    topic: str

    def sample(self, most: int, site: Site) -> Sample:  # noqa: ARG002  brokers need nothing of Hadoop's
        """Up to `most` records.

        Raises SourceUnreachable, TopicMissing, InvalidOption, JarsUnavailable, JavaNotFound.
        """
        from hivesink.sample.kafka import sample

        return sample(self.servers, self.topic, most)

    def odd_names(self) -> None:
        """A topic has no files."""

    def beyond(self) -> None:
        """A job reads the topic, and nothing else."""


Source = FilesSource | TopicSource


def source_of(text: str, site: Site) -> Source:
    """Raises WrongUsage for what is neither, and for a file or folder that isn't there; StoreUnavailable.

    InvalidOption for a folder without files that Spark reads.
    """
    if text.startswith("kafka:"):
        found = _KAFKA.fullmatch(text)
        if found is None:
            raise WrongUsage((f"--from {text}: write kafka://HOST:PORT/TOPIC, several brokers with commas",))
        for server in found["servers"].split(","):
            if not _WITH_PORT.fullmatch(server):
                problem = f"{server!r} has no port; write {server}:9092, or the port that the broker has"
                raise WrongUsage((f"--from {text}: {problem}",))
        return TopicSource(found["servers"], found["topic"])
    scheme = _SCHEME.match(text)
    if scheme is not None and scheme["scheme"] not in {"file", "hdfs"}:
        problem = "write a local path, hdfs://…, or kafka://HOST:PORT/TOPIC"
        raise WrongUsage((f"--from {text}: {scheme['scheme']}:// is not read; {problem}",))
    return FilesSource.at(text, site)
