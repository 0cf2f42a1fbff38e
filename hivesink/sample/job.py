"""The text of a job that streams a source into its table, as those in `jobs/`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hivesink.core.partition import with_scheme
from hivesink.sample.source import TopicSource
from hivesink.spark.input import columns_to_drop

if TYPE_CHECKING:
    from pathlib import Path

    from hivesink.config.options import SinkConfig
    from hivesink.core.table import TableSpec
    from hivesink.sample.source import FilesSource

_TEXT = '''"""Writes {what} to {table}.

    hivesink run {path}

Environment variables: {variables}; WRITER; CHECKPOINT; TRIGGER
("5 seconds", or "availableNow" to commit what has arrived and end).
"""

from __future__ import annotations

from os import environ

from hivesink import HiveSink, session, sources

{settings}
WRITER = environ.get("WRITER", "{writer}")
CHECKPOINT = environ.get("CHECKPOINT", f"checkpoints/{{WRITER}}")
TRIGGER = environ.get("TRIGGER", "5 seconds")


def main() -> None:
    """Stream the records until stopped, or with availableNow until all are written."""
    spark = session(WRITER{kafka})
{events}
    sink = HiveSink.for_table(spark, "{table}", writer=WRITER)
    trigger = {{"availableNow": True}} if TRIGGER == "availableNow" else {{"processingTime": TRIGGER}}
    query = sink.start(events, checkpoint=CHECKPOINT, trigger=trigger)
    query.awaitTermination()


if __name__ == "__main__":
    main()
'''
_DEEP = ', options={"recursiveFileLookup": "true"}'
_DROP = """    # The table has columns of these names; the sink would take Kafka's for them.
    events = events.drop({names})"""


def job_text(job: Path, source: FilesSource | TopicSource, spec: TableSpec, config: SinkConfig) -> str:
    """The text for the file `job`, whose stem is the writer."""
    common = {"table": str(spec.name), "path": str(job), "writer": job.stem}
    if not isinstance(source, TopicSource):
        return _TEXT.format(
            what="the JSON lines of a folder's files",
            variables="FOLDER (where the files arrive)",
            settings=f'FOLDER = environ.get("FOLDER", {with_scheme(source.folder)!r})',
            kafka="",
            events=f"    events = sources.lines(spark, FOLDER{_DEEP if source.is_deep else ''})",
            **common,
        )
    events = "    events = sources.kafka(spark, SERVERS, TOPIC)"
    if names := columns_to_drop(spec, config):
        events += "\n" + _DROP.format(names=", ".join(f'"{name}"' for name in names))
    servers = f'SERVERS = environ.get("KAFKA_SERVERS", {source.servers!r})'
    topic = f'TOPIC = environ.get("KAFKA_TOPIC", "{source.topic}")'
    return _TEXT.format(
        what="the JSON records of a Kafka topic",
        variables="KAFKA_SERVERS, KAFKA_TOPIC",
        settings=f"{servers}\n{topic}",
        kafka=", kafka=True",
        events=events,
        **common,
    )
