"""The running query's handle: Spark's, plus the sink's own errors, its timer, and an end that leaves nothing open."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import TYPE_CHECKING, Any

from hivesink.config.options import OnStop
from hivesink.config.parsers import address
from hivesink.core.metrics import Sample
from hivesink.core.offsets import ends
from hivesink.core.progress import Progress
from hivesink.errors import EpochTaken, FencedOut, HiveSinkError
from hivesink.spark.running import Questions

if TYPE_CHECKING:
    from pyspark.errors import StreamingQueryException
    from pyspark.sql.streaming.query import StreamingQuery

    from hivesink.spark.queryrun import QueryRun

logger = logging.getLogger("hivesink")

_GRACE = 60.0
"""Seconds that a batch may take to finish before its query is stopped."""
_OTHER_RUN = re.compile(r"ConcurrentModification|\[CONCURRENT_|Multiple streaming (?:jobs|queries)")
"""What Spark says of another run at the query's checkpoint."""
_AT_ONCE = timedelta(0)
_NOBODY = contextlib.nullcontext()
newest: dict[str, HiveQuery] = {}
"""The newest query, by log: a job that starts its sink again has dealt with the end of the query before."""
# In a forked process, they are those of the process that forked it.
os.register_at_fork(after_in_child=newest.clear)
_PLACES = ("HIVESINK_METRICS", "HIVESINK_METRICS_FILE")
"""What `hivesink run --metrics`, and `--metrics-file`, tell the job's process."""
_exported: set[str] = set()
# In a forked process nobody serves or writes.
os.register_at_fork(after_in_child=_exported.clear)


def queries() -> list[HiveQuery]:
    """The newest query on each log in this process."""
    return list(newest.values())


def settle_all() -> None:
    """At a job's end, end its queries. Raises the failure of the first that has failed."""
    with contextlib.ExitStack() as ends:
        for query in queries():
            ends.callback(query.settle)


def progress_of_all() -> dict[str, Progress]:
    """The newest queries' progress, by table and writer."""
    specs = [(query, query.run.setup.spec) for query in queries()]
    return {f"{spec.target.name} ({spec.identity.writer})": query.progress() for query, spec in specs}


def export_metrics(*places: str | os.PathLike[str] | None) -> bool:
    """Have the metrics of all queries of this process at each of `places`, and of the environment's.

    An address serves them, into a folder they are written. Returns whether anybody wants them. Raises NotWritable.
    """
    for place in (os.fspath(place) for place in (*places, *map(os.environ.get, _PLACES)) if place):
        if place not in _exported:
            # The client library is loaded where somebody wants metrics.
            from hivesink.metrics import Families, serve, write_always

            families = Families(_samples)
            if (at := address(place)) is not None:
                serve(families, *at)
            else:
                write_always(families, place)
            _exported.add(place)
    return bool(_exported)


def _samples() -> Mapping[tuple[str, str], list[Sample]]:
    now, specs = datetime.now(timezone.utc), [(query, query.run.setup.spec) for query in queries()]
    return {(spec.target.name, spec.identity.writer): [*query.samples(now)] for query, spec in specs}


def wait_for_batch(query: Any) -> None:
    """Wait until `query` is between two batches, but not for ever."""
    deadline = time.monotonic() + _GRACE
    while query.isActive and time.monotonic() < deadline:
        status = query.status
        if not (status["isTriggerActive"] and status["isDataAvailable"]):
            return
        time.sleep(0.05)


class HiveQuery:
    """A started query. Its end, by itself or by `stop`, finishes what is open and writes estimates.

    Every other attribute is Spark's `StreamingQuery`'s. `own` is False if `HiveSink.start` didn't make the query;
    `interval` is how often Spark asks for new rows, None if it ends by itself.
    """

    def __init__(
        self,
        query: StreamingQuery,
        run: QueryRun,
        *,
        own: bool = True,
        interval: timedelta | None = _AT_ONCE,
        lineage: contextlib.AbstractContextManager[Any] = _NOBODY,
    ) -> None:
        self.handle = query
        self.run = run
        self.own = own
        self._lineage = lineage
        self._interval = interval
        self._ended = threading.Event()
        self._finishing = threading.Lock()
        self._finished = False
        log = run.setup.context.log.location
        if (before := newest.get(log)) is not None:
            before.leave_group()
        newest[log] = self
        run.committer.figures.hear()
        self._timer = threading.Thread(target=self._keep_time, name="hivesink-timer", daemon=True)
        self._timer.start()

    def awaitTermination(self, timeout: int | None = None) -> bool:  # noqa: N802  Spark's name
        """Wait at most `timeout` seconds, without it until the query ends. True if it has ended.

        Then every row can be read, but for those that `sink.on-stop` = `keep` keeps. Raises the sink's own error if
        the query has failed with it, else Spark's StreamingQueryException.
        """
        # Without a time-out Spark returns None, once the query has ended.
        if self._wait(partial(self.handle.awaitTermination, timeout)) is False:
            return False
        self._end(None)
        return True

    def processAllAvailable(self) -> None:  # noqa: N802  Spark's name
        """Wait until all data that is available now is committed; its rows may wait for their roll. Raises as above."""
        self._wait(self.handle.processAllAvailable)

    def _wait(self, call: Callable[[], Any]) -> Any:
        """What `call` returns, which waits in the JVM. Ctrl-C ends the wait by nothing but KeyboardInterrupt."""
        from pyspark.errors import StreamingQueryException

        # PySpark's handler of SIGINT calls the JVM, and fails in the middle of another call of the same thread.
        done = Future[Any]()

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
        except StreamingQueryException as error:
            self._end(error)

    def stop(self) -> None:
        """Stop after the batch that is being committed, finish what is open, write estimates.

        Raises the sink's error if a publish or a registration stays open (the next start goes on with it), or if the
        query had failed.
        """
        from py4j.protocol import Py4JJavaError

        failed_before = self.handle.exception()
        try:
            self.handle.stop()
        except Py4JJavaError:
            # If the session was stopped first, Spark complains, but the query ends.
            if self.handle.isActive:
                raise
        self._end(failed_before)

    def exception(self) -> StreamingQueryException | None:
        """Spark's error, if the query has failed, whose text holds the sink's; None while it runs."""
        if (error := self.handle.exception()) is not None:
            self._ended.set()
        return error

    def progress(self) -> Progress:
        """What the query has committed, what waits, and how far it is behind its source. Waits for no batch."""
        return self.run.committer.progress()

    def samples(self, now: datetime) -> Iterator[Sample]:
        """The metrics at the time `now` (UTC)."""
        yield from self.run.committer.figures.samples(now)
        for (topic, number), at in ends(self.run.newest or ()).items():
            yield Sample("end_offset", at, {"topic": topic, "partition": str(number)})
        is_up = False
        with contextlib.suppress(Exception):  # The JVM may be gone.
            is_up = bool(self.handle.isActive)
        yield Sample("group_commit_failures", self.run.group.failures if self.run.group else 0)
        yield Sample("up", int(is_up))

    def settle(self) -> None:
        """End the query with its job, or wait for its own end. Raises its failure, unless the job was told of it."""
        if self._ended.is_set():
            with self._lineage:
                self._finish(well=False)
        elif self._interval is None:
            # A job that doesn't wait for it would end before the first batch, as if all had been read.
            self.awaitTermination()
        else:
            wait_for_batch(self.handle)
            self.stop()

    def leave_group(self, *, commits: bool = False) -> None:
        """Drop or commit what its group has yet to get; a newer run may have committed more. Later news joins again."""
        if self.run.group is not None:
            self.run.group.end(commits=commits)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.handle, name)

    def _end(self, cause: StreamingQueryException | None) -> None:
        """Raise the sink's own error, else the `cause`, which holds only the text of errors; else finish."""
        with self._lineage:
            self._ended.set()
            if self._timer.is_alive() and threading.current_thread() is not self._timer:
                self._timer.join()
            late, failure = self.run.late_failure, self.run.failure
            if cause is not None:
                if (told := late or failure) is not None:
                    raise told from cause
                raise cause
            if late is not None:
                raise late
            # What a call by the job's own function raises is the function's business.
            if self.own and isinstance(failure, HiveSinkError):
                raise failure
            if self.own and failure is not None and not self._finished:
                # It is undecided, and Spark runs it again.
                stopped = "the query into %s was stopped in the middle of a batch; the next start finishes it"
                logger.warning(stopped, self.run.setup.spec.target.name)
            self._finish()

    def _finish(self, *, well: bool = True) -> None:
        ended_by = self.handle.exception()
        is_beaten = ended_by is not None and _OTHER_RUN.search(str(ended_by)) is not None
        if is_beaten or isinstance(self.run.late_failure or self.run.failure, (EpochTaken, FencedOut)):
            return  # Another run is at work, and finishes what waits.
        with self._finishing:
            if not self._finished:
                config = self.run.setup.spec.config
                keeps = config["sink.on-stop"] is OnStop.KEEP and not config["sink.rolling-policy.on-epoch"]
                with contextlib.ExitStack() as ended:
                    ended.callback(self.leave_group)
                    self.run.committer.finish(roll=not keeps or self._interval is None)
                    self.leave_group(commits=True)
                self._finished = True
                if well and self.run.failure is None:
                    self.run.committer.tell_end()

    def _keep_time(self) -> None:
        """While no data comes, retry what waits for the metastore, and roll rows that wait."""
        interval: timedelta = self.run.setup.spec.config["sink.rolling-policy.check-interval"]
        questions = Questions(self._interval)
        try:
            while not self._ended.wait(interval.total_seconds()):
                if not self.handle.isActive:
                    # Nobody may wait for its end, but its rows are to be read.
                    if self._interval is None and self.handle.exception() is None:
                        self._finish()
                    return
                message = self.handle.status.get("message")
                self.run.keep_up(questions.look(message, self.run.setup.context.tick(), time.time()))
        except Exception as error:  # noqa: BLE001  whatever it is, the handle or the next batch raises it
            self.run.late_failure = error
            self.run.tell(error)
            if self.own:
                with contextlib.suppress(Exception):  # the query may be ending by itself
                    self.handle.stop()
        finally:
            self.leave_group()
