"""The ids of Kafka's topics, which tell a topic from a later one of its name (brokers from 2.8 on give them)."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from hivesink.core.offsets import KafkaOffset, SourceOffset, from_json
from hivesink.core.topics import keep, kept
from hivesink.errors import SourceUnreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from hivesink.core.offsets import TopicIds
    from hivesink.core.topics import Known
    from hivesink.spark.input import Checkpoint

OPTION = "hivesink.topics"
"""An option of a stream with its topics as they were when it was made, as manifests have them. Spark passes over it."""
_NONE = "AAAAAAAAAAAAAAAAAAAAAA"
"""What stands for no id: Kafka's Uuid.ZERO_UUID, as text."""


def told_topics(options: Mapping[str, str]) -> KafkaOffset:
    """What `OPTION` says in a stream's `options`."""
    found = from_json(json.loads(options[OPTION]))
    assert isinstance(found, KafkaOffset)  # noqa: S101  `sources.kafka` writes it
    return found


def ids_now(execution: Any, ends: tuple[SourceOffset, ...]) -> TopicIds:
    """The ids that the topics of a batch's `ends` have now; `execution` as in `Running`.

    Asks with the client of Spark's own source, so with all of its settings. Says nothing of a topic that isn't there,
    and nothing at all where the broker gives no ids or the source has no such client. Raises SourceUnreachable.
    """
    sources = execution.sources()
    return tuple(
        _asked(sources.apply(number), end.topics()) if isinstance(end, KafkaOffset) else {}
        for number, end in enumerate(ends)
    )


class CheckpointTopics:
    """The topics of a query's sources, by `ids`, which are kept in its checkpoint's files."""

    def __init__(self, files: Checkpoint) -> None:
        self.files = files
        self._kept: Known | None = None
        self._ids: Callable[[], TopicIds] = tuple

    def asking(self, execution: Any, ends: tuple[SourceOffset, ...]) -> CheckpointTopics:
        """Itself, for a batch of these `ends`."""
        self._ids = partial(ids_now, execution, ends)
        return self

    def kept(self, names: Collection[str] = ()) -> Known:
        """As `Topics` has it."""
        # Of what isn't known yet, another sink of the query may have kept something.
        if self._kept is None or set(names) - self._kept.keys():
            self._kept = kept(self.files)
        return self._kept

    def keep(self, known: Known) -> None:
        """As `Topics` has it."""
        if known != self.kept():
            keep(known, self.files)
            self._kept = known

    def now(self) -> TopicIds:
        """As `Topics` has it."""
        return self._ids()


def ids_of(descriptions: Mapping[str, Any]) -> dict[str, str]:
    """The id of each topic that has one, of Kafka's TopicDescription of each."""
    found = {name: str(description.topicId().toString()) for name, description in descriptions.items()}
    return {name: one for name, one in found.items() if one != _NONE}


def reader_of(source: Any) -> Any:
    """What reads the offsets of a Kafka source of Spark's, with a client of its own; None if it has none."""
    # Neither Spark's older source nor its deprecated reader of offsets has one.
    reader = source.kafkaOffsetReader() if "kafkaOffsetReader" in dir(source) else None
    return reader if "admin" in dir(reader) else None


def _asked(source: Any, topics: Iterable[str]) -> dict[str, str]:
    from py4j.protocol import Py4JJavaError

    reader = reader_of(source)
    if reader is None:
        return {}
    names = sorted(topics)
    try:
        found = described(reader.admin(), names)
    except Py4JJavaError as error:
        reason = str(error.java_exception.getCause() or error.java_exception)
        if "InterruptedException" in reason:
            raise  # The query is stopped, and tells so itself.
        what = f"the id of topic {', '.join(names)} of Kafka"
        raise SourceUnreachable(what, reason) from error
    return ids_of({name: one for name, one in found.items() if one is not None})


def described(admin: Any, names: Sequence[str]) -> dict[str, Any]:
    """What Kafka's AdminClient says of each topic; None if there is no such topic."""
    answers = admin.describeTopics(names).topicNameValues()
    return {name: _awaited(answers.get(name)) for name in names}


def _awaited(answer: Any) -> Any:
    from py4j.protocol import Py4JJavaError

    try:
        return answer.get()
    except Py4JJavaError as error:
        if "UnknownTopicOrPartition" in str(error.java_exception):
            return None
        raise
