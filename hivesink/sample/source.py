"""What `--from` names, files of JSON lines or a Kafka topic, and a sample of it."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO, cast
from urllib.parse import quote

import pyarrow as pa

from hivesink.config.site import Site
from hivesink.core.column_source import PATH, named_file
from hivesink.core.partfile import Finished
from hivesink.core.partition import is_hidden, normal, scheme, with_scheme
from hivesink.errors import InvalidOption
from hivesink.logs import file_store, store_problems
from hivesink.ports import FileStore
from hivesink.sink.task.messages import InputShape
from hivesink.spark import sources
from hivesink.spark.session import session_for_kafka

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

_KAFKA = re.compile(r"kafka://(?P<servers>[^/\s]+)/(?P<topic>[A-Za-z0-9._-]+)/?")
_MOST_FILES = 100
_INFLATES = 5
"""How much longer JSON is than the same compressed."""
_BOM = b"\xef\xbb\xbf"
_ESCAPED = re.compile(r"""[\x00-\x20"#%<>?\[\\\]^`{|}\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]""")
"""What Java escapes in a path."""
_SHAPE = InputShape(value="value", timestamp="timestamp", topic="topic", partition="partition", offset="offset")
_COLUMNS = {
    "key": pa.binary(),
    "headers": pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()})),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
}
_LINE = "_line"
_CODECS = {".gz": "gzip", ".bz2": "bz2"}


@dataclass(frozen=True, slots=True)
class Sample:
    """Records of a source, in the columns in which Spark reads them (`shape`).

    `size` estimates the bytes of JSON that the sample is spread over: the whole source, or the lines of a single file.
    """

    batch: pa.RecordBatch
    shape: InputShape
    size: int

    def records(self) -> list[bytes | None]:
        """The raw records; None is a tombstone."""
        values: list[bytes | None] = self.batch.column("value").to_pylist()
        return values

    def heads(self) -> list[bytes]:
        """The first line of each file; none of a topic."""
        if self.shape.path is None:
            return []
        numbers = self.batch.column(_LINE).to_pylist()
        return [value or b"" for value, number in zip(self.records(), numbers, strict=True) if number == 1]

    def place(self, row: int, element: int | None = None) -> dict[str, str | int]:
        """Where the record of that row came from: `file` and `line`, or `topic`, `partition` and `offset`."""
        names = ("topic", "partition", "offset") if self.shape.path is None else (PATH, _LINE)
        place = {name.removeprefix("_"): self.batch.column(name)[row].as_py() for name in names}
        if "path" in place:
            place = {"file": named_file(place["path"]), "line": place["line"]}
        return place if element is None else {**place, "element": element}


@dataclass(frozen=True, slots=True)
class TopicSource:
    """A topic; `servers` are host:port, separated by commas."""

    servers: str
    topic: str

    def sample(self, most: int, site: Site) -> Sample:  # noqa: ARG002  a topic needs no site
        """In a Spark session that ends with it. Raises what `sample_topic` raises, JavaFailed."""
        spark = session_for_kafka("hivesink sample")
        try:
            return sample_topic(spark, self.servers, self.topic, most)
        finally:
            spark.stop()


@dataclass(frozen=True, slots=True)
class FilesSource:
    """Visible files of a folder: those directly in it; if it has none, all below (`is_deep`)."""

    folder: str
    files: Sequence[Finished]
    is_deep: bool = False

    def sample(self, most: int, site: Site) -> Sample:
        """Up to `most` lines, a like share of each file.

        Raises InvalidOption for a damaged file, StoreUnavailable.
        """
        store, paths = file_store(self.folder, site), sorted(file.path for file in self.files)
        chosen = paths[:: -(-len(paths) // _MOST_FILES)]
        rows: list[dict[str, Any]] = []
        for path in chosen:
            # As Spark's `_metadata.file_path` has it: `file:/in/a%20b.json`.
            address = with_scheme(_ESCAPED.sub(lambda match: quote(match[0]), path))
            try:
                lines = _read(store, path, -(-most // len(chosen)))
                rows += ({"value": line, PATH: address, _LINE: number} for number, line in lines)
            except OSError as error:
                raise InvalidOption((f"{path} can't be read: {error}",)) from error
        packed = sum(file.length for file in self.files if PurePosixPath(file.path).suffix in _CODECS)
        size = sum(file.length for file in self.files) + (_INFLATES - 1) * packed
        if len(paths) == 1:
            size = min(size, sum(len(row["value"]) + 1 for row in rows))
        schema = pa.schema([("value", pa.binary()), (PATH, pa.string()), (_LINE, pa.int64())])
        shape = InputShape(value="value", path=PATH)
        return Sample(pa.RecordBatch.from_pylist(rows, schema), shape, size)


def source_of(text: str, site: Site) -> FilesSource | TopicSource:
    """A local path, `file:/…`, `hdfs://…` or `kafka://host:port/topic`.

    For a file: that file alone. Raises InvalidOption if there is no such thing, or it has no files; StoreUnavailable.
    """
    if text.startswith("kafka:"):
        match = _KAFKA.fullmatch(text)
        if match is None:
            raise InvalidOption((f"--from {text}: write kafka://HOST:PORT/TOPIC, several brokers with commas",))
        return TopicSource(match["servers"], match["topic"])
    # Links in a local path stay as they were given.
    place = normal(text) if scheme(text) else os.path.abspath(text)  # noqa: PTH100
    if problems := store_problems(place):
        raise InvalidOption((f"--from {problems[0]}, and reads kafka://HOST:PORT/TOPIC",))
    store = file_store(place, site)
    if (file := store.find(place)) is not None:
        return FilesSource(place.rpartition("/")[0] or "/", [file])
    direct = store.visible(place)
    folders = [] if direct else [folder for folder in store.walk(place) if not is_hidden(folder.removeprefix(place))]
    files = [*direct, *(file for folder in folders for file in store.visible(folder))]
    if not files:
        raise InvalidOption((f"--from {text}: no file that Spark reads; it skips names that begin with . or _",))
    return FilesSource(place, files, is_deep=not direct)


def _read(store: FileStore, path: str, share: int) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers, split at CR, LF or both as Hadoop does, without the file's byte order mark."""
    codec = _CODECS.get(PurePosixPath(path).suffix)
    with store.open(path) as raw:
        # Latin-1 keeps every byte as it is.
        unpacked = pa.CompressedInputStream(raw, codec) if codec else raw
        text = io.TextIOWrapper(cast("BinaryIO", unpacked), "latin-1", newline=None)
        for number, line in enumerate(islice(text, share), 1):
            value = line.removesuffix("\n").encode("latin-1")
            yield number, value.removeprefix(_BOM) if number == 1 else value


def sample_topic(spark: SparkSession, servers: str, topic: str, most: int) -> Sample:
    """Up to `most` records, a like share of each partition: half of them its first ones, half its newest.

    Raises SourceUnreachable, InvalidOption, and what Spark raises while it reads.
    """
    ranges = sources.offsets(spark, servers, topic)
    half = max(1, most // len(ranges) // 2)
    begins = {number: (first, min(first + half, end)) for number, (first, end) in ranges.items()}
    ends = {number: (max(begins[number][1], end - half), end) for number, (_, end) in ranges.items()}
    rows: list[Row] = []
    for part in (begins, ends):
        starting, ending = (
            json.dumps({topic: {str(number): edges[side] for number, edges in part.items()}}) for side in (0, 1)
        )
        client = {**sources.client_of(spark, servers), **sources.ASK}
        # Records may expire while they are read: the sample is then smaller.
        settings = {"subscribe": topic, "startingOffsets": starting, "endingOffsets": ending, "failOnDataLoss": "false"}
        records = spark.read.format("kafka").options(**client, **settings, includeHeaders="true").load()
        # As a number: Python's own times would be in this machine's zone.
        names = ("topic", "partition", "offset", "unix_micros(timestamp) AS timestamp", "value", "key", "headers")
        rows += records.selectExpr(*names).limit(most - len(rows)).collect()
    rows.sort(key=lambda row: (row.partition, row.offset))
    columns = {name: pa.array([row[name] for row in rows], kind) for name, kind in _COLUMNS.items()}
    mean = sum(len(row.value or b"") for row in rows) / max(1, len(rows))
    size = round(mean * sum(end - first for first, end in ranges.values()))
    return Sample(pa.RecordBatch.from_pydict(columns), _SHAPE, size)
