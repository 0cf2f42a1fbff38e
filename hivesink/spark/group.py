"""The visible offsets in a consumer group of Kafka's, where lag exporters look."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from hivesink.errors import InvalidOption
from hivesink.spark import sources
from hivesink.spark.running import short_java_error

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from hivesink.core.lag import Lag
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
        self._wanted: Mapping[Partition, int] = {}
        self._news, self._is_over = threading.Condition(), False
        self._thread = threading.Thread(target=self._work, name="hivesink-group", daemon=True)
        self._thread.start()

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

    def hear(self, lag: Lag) -> None:
        """These are visible now."""
        with self._news:
            self._wanted = lag.visible
            self._news.notify()

    def close(self) -> None:
        """Commit what was heard last, and end."""
        with self._news:
            self._is_over = True
            self._news.notify()
        self._thread.join(_END)

    def _new(self, done: Mapping[Partition, int]) -> Mapping[Partition, int]:
        """What is to be committed next, or nothing at the end; `done` is committed."""
        with self._news:
            self._news.wait_for(lambda: self._is_over or self._wanted != done)
            return {} if self._wanted == done else self._wanted

    def _commits(self, done: dict[Partition, int]) -> Iterator[Mapping[Partition, int]]:
        while wanted := self._new(done):
            yield wanted
            done.clear()
            done.update(wanted)

    def _work(self) -> None:
        done: dict[Partition, int] = {}
        told = ""
        while self._new(done):
            try:
                sources.commit(self._spark, self._client, self._group, self._commits(done))
            except Exception as error:  # noqa: BLE001, PERF203  whatever it is, it is tried again
                self.failures += 1
                reason = short_java_error(str(error))
                if reason != told:
                    logger.warning("offsets of group %s aren't committed: %s", self._group, reason)
                told = reason
                if self._is_over:
                    return
                with self._news:
                    self._news.wait_for(lambda: self._is_over, _AGAIN)
