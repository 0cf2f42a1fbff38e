"""Who hears of a query: a consumer group of Kafka's, where lag exporters look, and OpenLineage.

Each has a thread of its own. No epoch waits for it, or fails by it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hivesink.core.epoch import Epoch
from hivesink.core.offsets import KafkaOffset, NoOffset, Partition, SourceOffset, read_between
from hivesink.core.partition import file_system_of, normal, scheme
from hivesink.core.reads import Lag
from hivesink.errors import HiveSinkError, InvalidOption
from hivesink.sink.commit.writer import WriterSpec
from hivesink.spark import sources
from hivesink.spark.running import short_java_error, source_text, streams
from hivesink.version import VERSION
from hivesink.wiring import OpenedWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger("hivesink")

_AGAIN = 10.0
"""Seconds until a commit that failed is tried again."""
_END = 20.0
"""Seconds that the last commit may take."""
_PERIOD = 60.0
"""Seconds between two events of a run."""
_PATIENCE = 5.0
"""Seconds that the end of a query waits for its last event."""


class GroupCommits:
    """Commits visible offsets as they are heard, the newest alone."""

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


def lineage(setup: OpenedWriter, plan: Any) -> contextlib.AbstractContextManager[Any]:
    """A run of a query with this `plan`, begun where OpenLineage is configured; leaving it ends the run."""
    files = (Path.cwd() / "openlineage.yml", Path.home() / ".openlineage" / "openlineage.yml")
    named = any(name == "OPENLINEAGE_URL" or name.startswith("OPENLINEAGE__") for name in os.environ)
    if not (named or "OPENLINEAGE_CONFIG" in os.environ or any(map(Path.exists, files))):
        return contextlib.nullcontext()
    run = LineageRun(setup, streams(plan))
    run.start()
    return run


class LineageRun(threading.Thread):
    """Tells START, RUNNING once epochs have settled, and COMPLETE or FAIL, with all that has settled so far.

    It reads the log once a minute and at the end. Nothing of the query waits for it, but for its last event.
    """

    def __init__(self, setup: OpenedWriter, sources: list[dict[str, str]]) -> None:
        super().__init__(name="hivesink-lineage", daemon=True)
        self._setup, self._sources = setup, sources
        self._over = threading.Event()
        self._error: BaseException | None = None
        self._counts = {"rowCount": 0, "size": 0, "fileCount": 0}
        self._told: Epoch | None = None
        """None until the log was read once: what has settled by then is of other runs."""
        self._offsets: dict[int, tuple[SourceOffset, SourceOffset]] = {}
        """By source, where the first of these epochs began, and where the last ended."""
        with contextlib.suppress(HiveSinkError):
            self._read()

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._error = error
        self._over.set()
        self.join(_PATIENCE)

    def run(self) -> None:
        """Whatever goes wrong here is a warning."""
        try:
            from openlineage.client import OpenLineageClient
            from openlineage.client.event_v2 import RunState
            from openlineage.client.uuid import generate_new_uuid

            client, run = OpenLineageClient(), str(generate_new_uuid())
        except Exception as error:  # noqa: BLE001  of the client's
            logger.warning("no lineage: %s; it needs hivesink[lineage]", error)
            return
        state, is_last = RunState.START, False
        while True:
            try:
                if self._read() or state is not RunState.RUNNING:
                    client.emit(self._event(state, run))
            except Exception as error:  # noqa: BLE001  a server's, or the log's
                logger.warning("no lineage of %s: %s", self._setup.spec.target.name, error)
            if is_last:
                return
            is_last = self._over.wait(_PERIOD)
            state = RunState.FAIL if self._error else RunState.COMPLETE if is_last else RunState.RUNNING

    def _read(self) -> bool:
        """Take in what has settled since the last look; whether anything has."""
        log, table = self._setup.context.log, self._setup.spec.target.name
        view = log.view()
        settled = view.settled(log.manifest(view.head).settled) if view.manifests else Epoch(0)
        before = settled if self._told is None else self._told
        for manifest in [log.manifest(epoch) for epoch in view.manifests if before < epoch <= settled]:
            parts = [part for part in manifest.created if part.table == table]
            self._counts["rowCount"] += sum(part.rows for part in parts)
            self._counts["size"] += sum(part.length for part in parts)
            self._counts["fileCount"] += len(parts)
            ref = manifest.last_batch.ref if manifest.last_batch else None
            for number, (start, end) in enumerate(zip(ref.start, ref.end, strict=True) if ref else ()):
                self._offsets[number] = self._offsets.get(number, (start,))[0], end
        self._told = settled
        return settled > before

    def _event(self, state: Any, run: str) -> Any:
        from openlineage.client.event_v2 import Job, OutputDataset, Run, RunEvent
        from openlineage.client.facet_v2 import error_message_run, schema_dataset, symlinks_dataset
        from openlineage.client.facet_v2 import output_statistics_output_dataset as statistics

        producer, spec = f"https://pypi.org/project/hivesink/{VERSION}", self._setup.spec
        target, field = spec.target, schema_dataset.SchemaDatasetFacetFields
        columns = (*target.spec.columns, *target.spec.partition_columns)
        fields = [field(column.name, str(column.type)) for column in columns]
        schema = schema_dataset.SchemaDatasetFacet(fields, producer=producer)
        link = symlinks_dataset.Identifier(*_place(target.location), "LOCATION")
        links = symlinks_dataset.SymlinksDatasetFacet([link], producer=producer)
        counts: Any = statistics.OutputStatisticsOutputDatasetFacet(**self._counts, producer=producer)
        hive = f"hive://{self._setup.context.registrar.address.rpartition('//')[2].partition(',')[0]}"
        about, wrote = {"schema": schema, "symlinks": links}, {"outputStatistics": counts}
        output = OutputDataset(hive, target.name, facets=about, outputFacets=wrote)
        facets: dict[str, Any] = {}
        if self._error:
            text = str(self._error)
            facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(text, "PYTHON", producer=producer)
        return RunEvent(
            eventTime=datetime.now(timezone.utc).isoformat(),
            producer=producer,
            eventType=state,
            run=Run(run, facets),
            job=Job(os.environ.get("OPENLINEAGE_NAMESPACE", "default"), f"{target.name}.{spec.identity.writer}"),
            inputs=list(self._inputs(producer)),
            outputs=[output],
        )

    def _inputs(self, producer: str) -> Iterator[Any]:
        """Kafka's topics with the offsets that were read, and folders of files."""
        from openlineage.client.event_v2 import InputDataset
        from openlineage.client.generated.base import InputDatasetFacet

        for number, options in enumerate(self._sources):
            offsets = self._offsets.get(number, (NoOffset(), NoOffset()))
            names, reads = list[tuple[str, str]](), read_between(*offsets)
            if servers := options.get("kafka.bootstrap.servers"):
                read = offsets[1].topics() if isinstance(offsets[1], KafkaOffset) else source_text(options).split(",")
                names = [(f"kafka://{servers.partition(',')[0]}", topic) for topic in read if topic]
            elif path := options.get("path"):
                names = [_place(path)]
            for space, name in names:
                of_it = [each for each in reads if each.get("topic", name) == name]
                facet: Any = InputDatasetFacet(producer=producer).with_additional_properties(offsets=of_it)
                yield InputDataset(space, name, inputFacets={"hivesink_offsets": facet})


def _place(location: str) -> tuple[str, str]:
    """The namespace and the name of a location, as OpenLineage spells them."""
    system, path = file_system_of(location), normal(location)
    if scheme(location) == "file":
        return "file", path
    name = path.removeprefix(system)
    return (f"s3{system[3:]}", name.lstrip("/")) if system.startswith("s3a") else (system, name)
