"""That all of a batch is read of the topics that its offsets are of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from hivesink.core.topics import expected, identified, ids_due, named, require_resumed, topic_ids, topics_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from hivesink.core.epoch import BatchRef, HistoryPolicy, LastBatch
    from hivesink.core.offsets import TopicIds
    from hivesink.core.topics import Known


class Topics(Protocol):
    """The topics that a query reads, and what its checkpoint keeps of them."""

    def kept(self, names: Collection[str]) -> Known:
        """The ids of which the checkpoint's offsets are, of `names` at least. Raises CheckpointUnreadable."""

    def keep(self, known: Known) -> None:
        """Make `known` what is kept. Raises StoreUnavailable, NotWritable."""

    def now(self) -> TopicIds:
        """The ids that the topics of each source have now. Raises SourceUnreachable."""


class NoTopics:
    """Of a query that reads none."""

    def kept(self, names: Collection[str]) -> Known:  # noqa: ARG002  the port's
        return {}

    def keep(self, known: Known) -> None:
        """Nothing can be known."""

    def now(self) -> TopicIds:
        return ()


class BatchTopics:
    """The check of one batch. Methods raise TopicRemade, and what `topics` raises."""

    def __init__(
        self, topics: Topics, last: LastBatch | None, batch: BatchRef, *, policy: HistoryPolicy, log: str
    ) -> None:
        self._topics, self._last, self._policy, self._log = topics, last, policy, log
        self._names = topics_of(batch.end)
        self._due = ids_due(topics.kept(self._names), last, batch, policy)
        self._ref = expected(batch, self._due)

    def before(self) -> None:
        """To be called before the batch is read. Raises OffsetsDontChain too."""
        if self._names - self._due.keys():
            self._ask()
        require_resumed(self._last, self._ref, self._policy, self._log)
        self._keep()

    def after(self) -> BatchRef:
        """The batch with the ids of its topics, once all of it has been read."""
        self._ask()
        self._keep()
        return self._ref

    def _ask(self) -> None:
        self._ref = identified(self._last, self._ref, self._due, self._topics.now(), self._log)
        self._due = {**named(topic_ids(self._ref.end)), **self._due}

    def _keep(self) -> None:
        self._topics.keep({name: self._due[name] for name in self._names & self._due.keys()})
