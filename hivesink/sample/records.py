"""A sample of a source: some of its records as a stream would bring them, and where each came from."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

import pyarrow as pa

from hivesink.core.column_source import LINE, PATH
from hivesink.sink.task.messages import InputShape

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

_QUOTED = re.compile(r"""[\x00-\x20"#%<>?\[\\\]^`{|}\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]""")
"""What `java.net.URI` escapes in a path: no letters beyond ASCII."""

Place = dict[str, "str | int"]
"""Where a record is: `file` and `line` (from 1), or `topic`, `partition` and `offset`."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Records in the source's order: `batch` has the columns that `shape` names, `places` where each row came from.

    `total` says about how many records the source holds; it is exact if the sample is all of them.
    """

    batch: pa.RecordBatch
    shape: InputShape
    places: tuple[Place, ...]
    total: int

    def records(self) -> list[bytes | None]:
        """The raw records; None is a tombstone."""
        values: list[bytes | None] = self.batch.column("value").to_pylist()
        return values

    def position(self, row: int) -> str:
        """Where the record of that row came from, for people."""
        place = self.places[row]
        if "file" in place:
            return f"{place['file']} line {place['line']}"
        return f"topic {place['topic']} partition {place['partition']} offset {place['offset']}"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a file, without its end; `number` counts from 1."""

    file: str
    number: int
    value: bytes


@dataclass(frozen=True, slots=True)
class KafkaRecord:
    """A record of Kafka; `timestamp` is an instant, `value` None a tombstone. `headers` None: it has none."""

    topic: str
    partition: int
    offset: int
    timestamp: datetime
    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] | None = None


def of_lines(lines: Sequence[Line], total: int) -> Sample:
    """A sample of files: the stream has nothing but the lines and where they are."""
    columns = {"value": pa.array([line.value for line in lines], pa.binary())}
    columns[PATH] = pa.array([_address(line.file) for line in lines], pa.string())
    columns[LINE] = pa.array([line.number for line in lines], pa.int64())
    places = tuple[Place, ...]({"file": line.file, "line": line.number} for line in lines)
    shape = InputShape(value="value", path=PATH, line=LINE)
    return Sample(pa.RecordBatch.from_pydict(columns), shape, places, total)


def _address(file: str) -> str:
    """A file's path as Spark 4 has it in `_metadata.file_path`: `file:/in/a%20b.json`."""
    # What isn't UTF-8 in a local name becomes what Java makes of it.
    text = os.fsencode(file).decode(errors="replace")
    quoted = _QUOTED.sub(lambda found: quote(found[0]), text)
    return quoted if "://" in text else f"file:{quoted}"


def of_kafka(records: Sequence[KafkaRecord], total: int) -> Sample:
    """A sample of a topic, with the columns of Spark's Kafka source that the sink reads."""
    headers = [None if one.headers is None else [{"key": k, "value": v} for k, v in one.headers] for one in records]
    columns = {
        "key": pa.array([record.key for record in records], pa.binary()),
        "headers": pa.array(headers, pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()}))),
        "value": pa.array([record.value for record in records], pa.binary()),
        "topic": pa.array([record.topic for record in records], pa.string()),
        "partition": pa.array([record.partition for record in records], pa.int32()),
        "offset": pa.array([record.offset for record in records], pa.int64()),
        "timestamp": pa.array([record.timestamp for record in records], pa.timestamp("us", "UTC")),
    }
    shape = InputShape(value="value", timestamp="timestamp", topic="topic", partition="partition", offset="offset")
    places = tuple[Place, ...](
        {"topic": record.topic, "partition": record.partition, "offset": record.offset} for record in records
    )
    return Sample(pa.RecordBatch.from_pydict(columns), shape, places, total)
