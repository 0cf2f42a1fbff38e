"""One run of a query: it commits each batch once, and keeps the query's state in step."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any

from hivesink import errors
from hivesink.config.options import OnMissingFile
from hivesink.core.epoch import BatchId, BatchRef, Epoch, KnownTopics, Place, judge, read_before
from hivesink.core.offsets import SourceOffset, TopicIds, span
from hivesink.core.table import quoted
from hivesink.logs import storage_of
from hivesink.sink.commit.committer import Committer
from hivesink.sink.task.attempt import check_input
from hivesink.sink.task.messages import InputShape, TaskPlan, TaskReport
from hivesink.spark import running
from hivesink.spark.batchjobs import BatchJobs
from hivesink.spark.checkpoint import Checkpoint, batch_ref, batch_watermark, next_batch, next_watermark
from hivesink.spark.input import SourceFiles, input_shape, needed_input
from hivesink.spark.listeners import GroupCommits
from hivesink.spark.running import Running, briefly, short_java_error, trigger_interval
from hivesink.spark.sources import ids_at_start, ids_now
from hivesink.wiring import OpenedWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

logger = logging.getLogger("hivesink")


@dataclass(slots=True)
class Call:
    """A batch of a run. `written`: the rows that the log may hold of it; `epoch` is set once a call has returned."""

    run: str = ""
    batch: int = -1
    written: DataFrame | None = None
    epoch: Epoch | None = None


class QueryRun:
    """One run of a query. A new run is a new object, since what was in memory may no longer hold."""

    def __init__(
        self, spark: SparkSession, setup: OpenedWriter, query: Running | None = None, call: Call | None = None
    ) -> None:
        """`query`: of plain `foreachBatch`; `call`: the last on this log in this process, perhaps of another sink."""
        self._spark = spark
        self._is_plain = query is not None
        self.setup = setup
        self._jobs = BatchJobs(spark, setup)
        encode, tasks = self._jobs.encode, self._jobs.tasks
        self.committer: Committer = setup.committer(tolerant=not self._is_plain, encode=encode, tasks=tasks)
        self.failure: Exception | None = None
        self.late_failure: Exception | None = None
        """What ended the timer: the next batch raises it."""
        self.query = query
        self.checkpoint: Checkpoint | None = None
        """Once the run has begun."""
        self._topics = KnownTopics()
        self._sources: tuple[str, ...] = ()
        self._keeps_state: bool | None = None
        self._has_watermark = False
        self._comes_as_read = False
        self._spark_decides = False
        """Whether Spark's watermark decides when partitions are over."""
        self._unfollowed: BatchId | None = None
        """The last batch, where that is so and the next batch's watermark isn't known yet."""
        self.call = call or Call()
        self.newest: tuple[SourceOffset, ...] | None = None
        """The ends of Kafka's topics, as Spark saw them last."""
        self.group: GroupCommits | None = None
        self._calling = threading.RLock()

    def begin(self, location: str, schema: StructType, plan: Any, *, ends_early: bool) -> Checkpoint:
        """Recover, and refuse a checkpoint at `location` that doesn't follow from the log, as `HiveSink.start` says."""
        from pyspark.sql.pandas.types import to_arrow_schema
        from pyspark.sql.types import StructType

        setup, spec = self.setup, self.committer.spec
        files = Checkpoint(storage_of(location, setup.site).logs(), location)
        self._has_watermark = running.is_marked(plan)
        # A user's own function may change a batch.
        self._comes_as_read = not self._is_plain and running.comes_as_read(plan)
        shape = self._shape(schema, ())
        plan_of_none = spec.task_plan(Epoch(0), shape, setup.context.stamp())
        chosen = StructType([schema[name] for name in needed_input(schema, plan_of_none)])
        # PySpark 4.2 wants the zone of TIMESTAMPs; tasks get UTC from every version.
        zone: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
        check_input(to_arrow_schema(chosen, **zone), plan_of_none, setup.tools().open(plan_of_none))
        streams = running.streams(plan)
        self.group = GroupCommits.of(self._spark, spec, streams)
        self.committer.recover()
        self._sources = tuple(map(running.source_text, streams))
        first = next_batch(files, self._sources)
        files.remove_left_over()
        last = setup.last_batch()
        place = Place(setup.spec.target.name, setup.context.log.location, location)
        judge(last, first, setup.spec.append, place, raw=shape.is_raw)
        # What a start has left that was refused before its query began is of no offsets.
        kept = files.topics() if first.query else None
        self._topics.begin(last, first, kept or ())
        now = tuple(ids_at_start(self._spark, options) for options in streams)
        self._require_same(now)
        if first.batch == 0 and kept is None and any(now):
            files.put_topics(now)
        if spec.commit_rule.clock is not None:
            traits = running.traits_of(plan, planned=first.end is not None, ends_early=ends_early)
            if traits.holds_back:
                running.require_watermark(setup.spec.config, has_watermark=self._has_watermark)
            self.committer.clock.traits = traits
            self._spark_decides = self._has_watermark and shape.event_time is None
            self._unfollowed = BatchId(first.batch - 1) if self._spark_decides and first.batch else None
        # No sooner: a start that is refused leaves no thread.
        self.committer.figures.heard = None if self.group is None else self.group.hear
        self.checkpoint = files
        return files

    def _require_same(self, now: TopicIds) -> None:
        """Raises SourceChanged if topics have other ids `now` than before."""
        if again := self._topics.learn(now):
            last = self.setup.last_batch()
            raise errors.SourceChanged.topics(self.setup.context.log.location, last.epoch if last else 0, again)

    def _shape(self, schema: StructType, ends: Sequence[SourceOffset]) -> InputShape:
        spec, config, mark = self.setup.spec.target.spec, self.setup.spec.config, self._has_watermark
        return input_shape(schema, spec, config, ends, as_read=self._comes_as_read, has_watermark=mark)

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        self.failure = self.late_failure
        if self.failure is not None:
            raise self.failure
        try:
            query = self.query = self.query or Running.here(self._spark)
            files = self.checkpoint
            if files is None:
                plan, ends_early = query.execution.analyzedPlan(), trigger_interval(query.execution) is None
                files = self.begin(query.checkpoint, batch.schema, plan, ends_early=ends_early)
            self._commit(batch, BatchId(batch_id), query, files)
        except Exception as error:  # noqa: BLE001  it is raised again, only shorter
            # Spark's own exception holds this as text only; the handle raises the real error, if the job asks for it.
            self.failure = error
            self.tell(error)
            raise briefly(error) from (error.__cause__ and briefly(error.__cause__))
        except BaseException as error:
            # Such as SystemExit: Py4J's thread would end without an answer, and Spark wait for ever.
            self.failure = errors.OwnCodeFailed("on_commit", "function", error)
            self.tell(self.failure)
            raise self.failure from error

    def tell(self, error: Exception) -> None:
        """Log what ends the query: the job may be waiting for another query."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        text = str(error)
        if not isinstance(error, errors.HiveSinkError):
            text = f"{type(error).__name__}: {short_java_error(text)}"
            of_spark = (Py4JError, PySparkException, ConnectionError)
            with suppress(*of_spark):  # The JVM may have died.
                if self.query is not None and isinstance(error, of_spark) and not self.query.handle.isActive:
                    return  # What a stop makes of a batch that runs is no news, and the handle tells of the batch.
        logger.error("the query into %s ends: %s", self.setup.spec.target.name, text)

    def keep_up(self, asked: float | None) -> None:
        """While no batch comes; `asked` as for the committer's."""
        batch, following = self._unfollowed, None
        if asked is not None and batch is not None and self.checkpoint is not None:
            following = next_watermark(batch, self.checkpoint)
            # Unless another batch has been committed by now.
            if following and self._unfollowed == batch:
                self._unfollowed = None
        self.committer.keep_up(asked, following)

    def _commit(self, batch: DataFrame, batch_id: BatchId, query: Running, files: Checkpoint) -> None:
        log = self.setup.context.log.location
        with self._calling:
            if (self.call.run, self.call.batch) != (query.run, batch_id):
                self.call = Call(query.run, batch_id)
            call = self.call
            if call.epoch is not None:
                raise errors.CalledTwice(log, batch_id, call.epoch)
            if self._keeps_state is None:
                self._keeps_state = running.keeps_state(query.execution.lastExecution().executedPlan())
            ref = batch_ref(query.id, batch_id, files)
            ref = replace(ref, sources=self._sources, keeps_state=self._keeps_state)
            shape = self._shape(batch.schema, ref.end)
            if self._has_watermark and shape.event_time is None:
                shape = replace(shape, watermark=batch_watermark(ref))
            self.newest = running.newest_offsets(query.execution, ref.end)
            behind = None if self.newest is None else span(ref.end, self.newest)
            write, ids = partial(self._write, batch, call, ref, query), lambda: self._topics.ids
            done = self.committer.commit(ref, shape, write, behind, query.checkpoint, topic_ids=ids)
            if done.replayed:
                # If the log may hold rows of this run, they must be these: after an error the batch may come again.
                if call.written is not None and not batch.sameSemantics(call.written):
                    raise errors.CalledTwice(log, batch_id, done.epoch)
                self._run_again(batch, ref, query)
            call.epoch, call.written = done.epoch, None
            self._unfollowed = ref.batch if self._spark_decides else None

    def _write(
        self, batch: DataFrame, call: Call, ref: BatchRef, query: Running, plan: TaskPlan
    ) -> Iterable[TaskReport]:
        call.written = batch
        files = self._require_files(ref, query, replayed=False)
        if self._topics.lacks(ref.end):
            self._require_same(ids_now(query.execution, ref.end))
        # What a user makes of the records may take long, and gets all the tasks that Spark gives it.
        records = span(ref.start, ref.end) if self._comes_as_read else None
        needed = batch.select(*map(quoted, needed_input(batch.schema, plan)))
        reports = self._jobs.write(needed, plan, records)
        if changed := files.changed():
            raise errors.SourceFilesChanged(ref.batch, tuple(changed))
        # Not before: all of the batch has been read by now.
        self._require_same(ids_now(query.execution, ref.end))
        return reports

    def _run_again(self, batch: DataFrame, ref: BatchRef, query: Running) -> None:
        """Run a committed batch without writing: its operators store the state that the next batch needs.

        Spark sees its event times, too: for these alone nothing is required that may be gone by now.
        """
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        if self._keeps_state:
            self._require_files(ref, query, replayed=True)
        elif not self._spark_decides or SourceFiles(self._spark, query.execution, ref).missing():
            return
        try:
            batch.write.format("noop").mode("append").save()
        except (Py4JJavaError, PySparkException) as error:
            if self._keeps_state:
                raise
            lost = "Spark's watermark of batch %d isn't known until more rows come: it can't be read again: %s"
            logger.warning(lost, ref.batch, short_java_error(str(error)))

    def _require_files(self, ref: BatchRef, query: Running, *, replayed: bool) -> SourceFiles:
        """The batch's files. Raises Unsupported; SourceFilesMissing, or logs it where that is allowed."""
        files = SourceFiles(self._spark, query.execution, ref)
        missing = files.missing()
        if missing and not replayed:
            # Appending requires that files already read are moved away: their rows are in the table. A batch that is
            # replayed needs them for its state.
            read = set(read_before(self.setup.last_batch(), ref))
            missing = [path for path in missing if path not in read]
        if missing:
            error = errors.SourceFilesMissing(ref.query, ref.batch, len(files.planned), tuple(missing))
            if self.setup.spec.config["sink.on-missing-file"] is OnMissingFile.FAIL:
                raise error
            passed_over = "batch %d: %d of %d planned files are gone and are passed over, the first is %s"
            logger.warning(passed_over, ref.batch, len(missing), len(files.planned), missing[0])
        return files
