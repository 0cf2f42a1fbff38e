"""The running query's handle: Spark's, plus the sink's own errors, its timer, and an end that leaves nothing open."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import threading
import time
from concurrent.futures import Future
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from hivesink.config.options import OnStop
from hivesink.errors import EpochTaken, FencedOut, HiveSinkError, InvalidOption
from hivesink.spark.running import Questions

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.errors import StreamingQueryException
    from pyspark.sql.streaming.query import StreamingQuery

    from hivesink.core.progress import Progress
    from hivesink.spark.queryrun import QueryRun
    from hivesink.wiring import OpenedWriter

logger = logging.getLogger("hivesink")

_T = TypeVar("_T")

_GRACE = 60.0
"""Seconds that a batch may take to finish before its query is stopped."""

_OTHER_RUN = re.compile(r"ConcurrentModification|\[CONCURRENT_|Multiple streaming (?:jobs|queries)")
"""What Spark says of another run at the query's checkpoint."""

_AT_ONCE = timedelta(0)

_newest: dict[str, HiveQuery] = {}
"""The newest query, by log: a job that starts its sink again has dealt with the end of the query before."""
# In a forked process, they are those of the process that forked it.
os.register_at_fork(after_in_child=_newest.clear)


def settle_all() -> None:
    """At a job's end, end its queries. Raises the failure of the first that has one."""
    with contextlib.ExitStack() as ends:
        for query in list(_newest.values()):
            ends.callback(query.settle)


def progress_of_all() -> dict[str, Progress]:
    """The newest queries' progress, by table and writer."""
    runs = [query._run for query in list(_newest.values())]  # noqa: SLF001  this module's own
    named = ((f"{run.setup.spec.target.name} ({run.setup.spec.identity.writer})", run) for run in runs)
    return {name: run.committer.progress() for name, run in named}


def setup_at(checkpoint: str) -> OpenedWriter | None:
    """That of the query which runs in this process with that checkpoint."""
    runs = (query._run for query in list(_newest.values()) if query.isActive)  # noqa: SLF001  this module's own
    return next((run.setup for run in runs if run.checkpoint == checkpoint), None)


def runs() -> dict[str, QueryRun]:
    """The newest run on each log in this process."""
    return {log: query._run for log, query in list(_newest.items())}  # noqa: SLF001  as above


def begun_by(query: str) -> OpenedWriter | None:
    """That of the sink whose `start` began the query of this id in this process."""
    own = (one for one in list(_newest.values()) if one._own and str(one.id) == query)  # noqa: SLF001  as above
    return next((one._run.setup for one in own), None)  # noqa: SLF001  as above


def active_queries() -> list[StreamingQuery]:
    """Spark's handles of the sinks' queries that run, in whichever session."""
    return [query._query for query in list(_newest.values()) if query.isActive]  # noqa: SLF001  this module's own


def wait_for_batch(query: Any) -> None:
    """Wait until `query` is between two batches, but not for ever."""
    deadline = time.monotonic() + _GRACE
    while query.isActive and time.monotonic() < deadline:
        status = query.status
        if not (status["isTriggerActive"] and status["isDataAvailable"]):
            return
        time.sleep(0.05)


def _waited(call: Callable[[], _T]) -> _T:
    """What `call` returns, which waits in the JVM. Ctrl-C ends the wait by nothing but KeyboardInterrupt.

    PySpark's handler of SIGINT calls the JVM, and fails in the middle of another call of the same thread.
    """
    done: Future[_T] = Future()

    def run() -> None:
        try:
            done.set_result(call())
        except BaseException as error:  # noqa: BLE001  whoever waits gets it
            done.set_exception(error)

    threading.Thread(target=run, name="hivesink-wait", daemon=True).start()
    try:
        return done.result()
    except KeyboardInterrupt:
        raise KeyboardInterrupt from None


class HiveQuery:
    """A started query. Its end, by itself or by `stop`, finishes what is open and writes estimates.

    Every other attribute is Spark's `StreamingQuery`'s. `own` is False if `HiveSink.start` didn't make the query;
    `interval` is how often Spark asks for new rows, None if it ends by itself.
    """

    def __init__(
        self, query: StreamingQuery, run: QueryRun, *, own: bool = True, interval: timedelta | None = _AT_ONCE
    ) -> None:
        self._query = query
        self._run = run
        self._ended = threading.Event()
        self._finishing = threading.Lock()
        self._finished = False
        self._timer = threading.Thread(target=self._keep_time, name="hivesink-timer", daemon=True)
        self._own = own
        self._interval = interval
        self._questions = Questions(interval)
        config = run.setup.spec.config
        keeps = config["sink.on-stop"] is OnStop.KEEP and not config["sink.rolling-policy.on-epoch"]
        self._publishes = not (keeps and interval is not None)
        self._timer.start()
        _newest[run.setup.context.log.location] = self

    def awaitTermination(self, timeout: int | None = None) -> bool:  # noqa: N802  Spark's name
        """Wait at most `timeout` seconds, without it until the query ends. True if it has ended.

        Then every row can be read, but for those that `sink.on-stop` = `keep` keeps. Raises the sink's own error if
        the query has failed with one, else Spark's StreamingQueryException; InvalidOption for a time-out that is none.
        """
        from pyspark.errors import StreamingQueryException

        # Not by Spark, below: what the wait raises counts as told, and what ends the query isn't logged then.
        given: Any = timeout
        if given is not None and not (isinstance(given, (int, float)) and 0 < given <= threading.TIMEOUT_MAX):
            problem = f"timeout = {timeout!r}: write a number of seconds above 0, or leave it out to wait for the end"
            raise InvalidOption((problem,))
        with self._run.awaited():
            try:
                # Without a time-out Spark returns None, once the query has ended.
                ended = _waited(partial(self._query.awaitTermination, timeout)) is not False
            except StreamingQueryException as error:
                self._fail(error)
            if ended:
                self._end_well()
        return ended

    def processAllAvailable(self) -> None:  # noqa: N802  Spark's name
        """Wait until all data that is available now is committed; its rows may wait for their roll. Raises as above."""
        from pyspark.errors import StreamingQueryException

        with self._run.awaited():
            try:
                _waited(self._query.processAllAvailable)
            except StreamingQueryException as error:
                self._fail(error)

    def stop(self) -> None:
        """Stop after the batch that is being committed, finish what is open, write estimates.

        Raises the sink's error if a publish or a registration stays open (the next start goes on with it), or if the
        query had failed.
        """
        from py4j.protocol import Py4JJavaError

        failed_before = self._query.exception()
        try:
            self._query.stop()
        except Py4JJavaError:
            # If the session was stopped first, Spark complains, but the query ends.
            if self._query.isActive:
                raise
        if failed_before is not None:
            self._fail(failed_before)
        self._end_well()

    def exception(self) -> StreamingQueryException | None:
        """Spark's error, if the query has failed with one, whose text holds the sink's; None while it runs."""
        if (error := self._query.exception()) is not None:
            self._ended.set()
        return error

    def progress(self) -> Progress:
        """What the query has committed, what waits, and how far it is behind its source. Waits for no batch."""
        return self._run.committer.progress()

    def settle(self) -> None:
        """End the query with its job, or wait for its own end. Raises its failure, unless the job was told of it."""
        if self._ended.is_set():
            self._finish(well=False)
        elif self._interval is None:
            # A job that doesn't wait for it would end before the first batch, as if all had been read.
            self.awaitTermination()
        else:
            wait_for_batch(self._query)
            self.stop()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._query, name)

    def _fail(self, cause: StreamingQueryException) -> NoReturn:
        """Raise the sink's own error if there is one, else Spark's, which holds only the text of errors."""
        self._end_timer()
        failure = self._run.late_failure or self._run.failure
        if failure is None:
            raise cause
        raise failure from cause

    def _end_well(self) -> None:
        self._end_timer()
        if self._run.late_failure is not None:
            raise self._run.late_failure
        # What a call by the job's own function raises is the function's business.
        if self._own and isinstance(self._run.failure, HiveSinkError):
            raise self._run.failure
        if self._own and self._run.failure is not None and not self._finished:
            # It is undecided, and Spark runs it again.
            stopped = "the query into %s was stopped in the middle of a batch; the next start finishes it"
            logger.warning(stopped, self._run.setup.spec.target.name)
        self._finish()

    def _finish(self, *, well: bool = True) -> None:
        ended_by = self._query.exception()
        is_beaten = ended_by is not None and _OTHER_RUN.search(str(ended_by)) is not None
        if is_beaten or isinstance(self._run.late_failure or self._run.failure, (EpochTaken, FencedOut)):
            return  # Another run is at work, and finishes what waits.
        with self._finishing:
            if not self._finished:
                self._run.committer.finish(roll=self._publishes)
                self._finished = True
                if well and self._run.failure is None:
                    self._run.committer.tell_end()

    def _end_timer(self) -> None:
        self._ended.set()
        if self._timer.is_alive() and threading.current_thread() is not self._timer:
            self._timer.join()

    def _keep_time(self) -> None:
        """While no data comes, retry what waits for the metastore, and roll rows that wait."""
        interval: timedelta = self._run.setup.spec.config["sink.rolling-policy.check-interval"]
        while not self._ended.wait(interval.total_seconds()):
            if not self._keeps_up():
                return

    def _keeps_up(self) -> bool:
        try:
            if self._query.isActive:
                message = self._query.status.get("message")
                asked = self._questions.look(message, self._run.setup.context.tick(), time.time())
                self._run.keep_up(asked)
                return True
            # Nobody may wait for its end, but its rows are to be read.
            if self._interval is None and self._query.exception() is None:
                self._finish()
        except Exception as error:  # noqa: BLE001  whatever it is, the handle or the next batch raises it
            self._run.late_failure = error
            self._run.tell(error)
            if self._own:
                with contextlib.suppress(Exception):  # the query may be ending by itself
                    self._query.stop()
        return False
