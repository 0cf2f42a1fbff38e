"""The running query's handle: Spark's, plus the sink's own errors, its timer, and an end that leaves nothing open."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

from hivesink.errors import HiveSinkError

if TYPE_CHECKING:
    from datetime import timedelta

    from pyspark.sql.streaming.query import StreamingQuery

    from hivesink.spark import HiveSink


class HiveQuery:
    """A started query. Its end, by itself or by `stop`, finishes what is open and sets exact statistics.

    Every other attribute is Spark's `StreamingQuery`'s.
    """

    def __init__(self, query: StreamingQuery, sink: HiveSink) -> None:
        self._query = query
        self._sink = sink
        self._ended = threading.Event()
        self._finishing = threading.Lock()
        self._finished = False
        self._timer = threading.Thread(target=self._keep_time, name="hivesink-timer", daemon=True)

    @classmethod
    def begin(cls, query: StreamingQuery, sink: HiveSink) -> HiveQuery:
        handle = cls(query, sink)
        handle._timer.start()
        return handle

    def awaitTermination(self, timeout: int | None = None) -> bool:  # noqa: N802  Spark's name
        """Wait for the end (seconds). True: it has ended, and every row can be read. Raises the sink's own error."""
        from pyspark.errors import StreamingQueryException

        try:
            # Without a time-out Spark returns None, once the query has ended.
            ended = self._query.awaitTermination(timeout) is not False
        except StreamingQueryException as error:
            self._raise_failure(error)
            raise
        self._raise_failure(None)
        if ended:
            self._finish()
        return ended

    def processAllAvailable(self) -> None:  # noqa: N802  Spark's name
        """Wait until everything that is there now is committed. Raises the sink's own error."""
        from pyspark.errors import StreamingQueryException

        try:
            self._query.processAllAvailable()
        except StreamingQueryException as error:
            self._raise_failure(error)
            raise

    def stop(self) -> None:
        """Stop after the batch that is being committed, finish what is open, set exact statistics.

        Raises where a publish or a registration is still open, or where the query had failed.
        """
        failed_before = self._sink.failure is not None
        self._query.stop()
        if failed_before or isinstance(self._sink.failure, HiveSinkError):
            self._raise_failure(None)
        # Anything else is the batch that `stop` cut off: nothing of it was decided, Spark runs it again.
        self._finish()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._query, name)

    def _raise_failure(self, cause: BaseException | None) -> None:
        if self._sink.failure is not None:
            self._end_timer()
            raise self._sink.failure from cause

    def _finish(self) -> None:
        self._end_timer()
        with self._finishing:
            if not self._finished:
                self._sink.committer.finish()
                self._finished = True

    def _end_timer(self) -> None:
        self._ended.set()
        if threading.current_thread() is not self._timer:
            self._timer.join()

    def _keep_time(self) -> None:
        """Retry, while no data comes, what waits for the metastore. `stop` is never called under the lock."""
        interval: timedelta = self._sink.setup.config["sink.registration.retry-interval"]
        while not self._ended.wait(interval.total_seconds()):
            if not self._query.isActive:
                return
            try:
                self._sink.committer.retry()
            except Exception as error:  # noqa: BLE001  whatever it is, the handle raises it
                self._sink.failure = self._sink.failure or error
                with contextlib.suppress(Exception):  # the query may be ending by itself
                    self._query.stop()
                return
