"""The visible offsets in a consumer group of Kafka's, where lag exporters look."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from hivesink.core.reads import Lag
from hivesink.errors import InvalidOption
from hivesink.spark import sources
from hivesink.spark.running import short_java_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from hivesink.core.offsets import Partition
    from hivesink.sink.commit.writer import WriterSpec

logger = logging.getLogger("hivesink")

_AGAIN = 10.0
"""Seconds until a commit that failed is tried again."""
_END = 20.0
"""Seconds that the last commit may take."""


class GroupCommits:
    """Commits what is heard, the newest alone, in a thread of its own: no epoch waits for it or fails by it."""

    def __init__(self, spark: SparkSession, group: str, client: Mapping[str, str]) -> None:
        """`client` has Spark's options of the source."""
        self.failures = 0
        self._spark, self._group, self._client = spark, group, client
        self._lag: Callable[[], Lag] = Lag
        self._news, self._has_news, self._is_over = threading.Condition(), False, False
        self._thread: threading.Thread | None = None

    @classmethod
    def of(cls, spark: SparkSession, spec: WriterSpec, streams: Sequence[Mapping[str, str]]) -> GroupCommits | None:
        """None where nobody wants it, or no stream is of Kafka. Raises InvalidOption for several clusters."""
        option = "sink.kafka.commit-group"
        group: str | None = spec.config[option]
        clients = [stream for stream in streams if "kafka.bootstrap.servers" in stream]
        if group is None or not clients:
            return None
        if len({client["kafka.bootstrap.servers"] for client in clients}) > 1:
            raise InvalidOption((f"{option}: the stream reads from several Kafka clusters: leave the option out",))
        name = group.replace("${table}", spec.target.name).replace("${writer}", spec.identity.writer)
        return cls(spark, name, clients[0])

    def hear(self, lag: Callable[[], Lag]) -> None:
        """More may be visible now: the thread asks `lag` for it, which may take long."""
        with self._news:
            self._lag, self._has_news, self._is_over = lag, True, False
            self._news.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="hivesink-group", daemon=True)
                self._thread.start()

    def end(self, *, commits: bool) -> None:
        """End what waits, too, unless the last that was heard `commits`. Then nothing more comes until it hears."""
        with self._news:
            self._is_over, self._has_news = True, self._has_news and commits
            self._news.notify()
            thread = self._thread
        if thread is not None:
            thread.join(_END)

    def _wait(self) -> bool:
        """Whether something is to be committed; False at the end."""
        with self._news:
            return self._news.wait_for(lambda: self._is_over or self._has_news) and self._has_news

    def _commits(self) -> Iterator[Mapping[Partition, int]]:
        done: Mapping[Partition, int] = {}
        while self._wait():
            self._has_news = False
            wanted = self._lag().visible
            if wanted != done:
                yield wanted
            done = wanted

    def _work(self) -> None:
        told = ""
        while True:
            with self._news:
                if not self._wait():
                    self._thread = None
                    return
            try:
                sources.commit(self._spark, self._client, self._group, self._commits())
            except Exception as error:  # noqa: BLE001  whatever it is, it is tried again
                self.failures += 1
                reason = short_java_error(str(error))
                if reason != told:
                    logger.warning("offsets of group %s aren't committed: %s", self._group, reason)
                told = reason
                with self._news:
                    self._has_news = not self._is_over
                    self._news.wait_for(lambda: self._is_over, _AGAIN)
