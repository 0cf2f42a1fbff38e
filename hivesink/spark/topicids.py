"""The ids of Kafka's topics, which tell a topic from a later one of its name (brokers from 2.8 on give them)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hivesink.core.offsets import KafkaOffset, SourceOffset, from_json
from hivesink.errors import SourceUnreachable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hivesink.core.offsets import TopicIds

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


def ids_of(descriptions: Mapping[str, Any]) -> dict[str, str]:
    """The id of each topic that has one, of Kafka's TopicDescription of each."""
    found = {name: str(description.topicId().toString()) for name, description in descriptions.items()}
    return {name: one for name, one in found.items() if one != _NONE}


def _asked(source: Any, topics: Iterable[str]) -> dict[str, str]:
    from py4j.protocol import Py4JJavaError

    # Neither Spark's older source nor its deprecated reader of offsets has one.
    if "kafkaOffsetReader" not in dir(source) or "admin" not in dir(reader := source.kafkaOffsetReader()):
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
