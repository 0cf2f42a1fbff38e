"""What `--from` names, files of JSON lines or a Kafka topic, and a sample of it."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import os
import re
import zlib
from dataclasses import dataclass
from itertools import islice
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO, cast
from urllib.parse import quote

import pyarrow as pa

from hivesink.core.column_source import PATH
from hivesink.core.partition import is_hidden, normal, scheme, with_scheme
from hivesink.errors import InvalidOption
from hivesink.logs import file_store, store_problems
from hivesink.sink.task.messages import InputShape
from hivesink.spark import sources
from hivesink.spark.session import session_for_kafka
from hivesink.storage.fs import join

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pyspark.sql import Row, SparkSession

    from hivesink.config.site import Site
    from hivesink.ports import FileStore

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
_UNPACK: Mapping[str, Callable[[BinaryIO], io.BufferedIOBase]] = {
    ".gz": lambda raw: gzip.GzipFile(fileobj=raw),
    ".bz2": bz2.BZ2File,
}

Place = dict[str, "str | int"]
"""Where a record is: `file` and `line`, or `topic`, `partition` and `offset`."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Records of a source, in the columns in which Spark reads them (`shape`), and where each came from.

    `size` estimates the bytes of JSON that the sample is spread over: the whole source, or the lines of a single file.
    """

    batch: pa.RecordBatch
    shape: InputShape
    places: tuple[Place, ...]
    size: int

    def records(self) -> list[bytes | None]:
        """The raw records; None is a tombstone."""
        values: list[bytes | None] = self.batch.column("value").to_pylist()
        return values

    def position(self, row: int) -> str:
        """Where the record of that row came from, for people."""
        return " ".join(f"{key} {value}" for key, value in self.places[row].items())


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
    """Visible files of a folder with their lengths: those directly in it; if it has none, all below (`is_deep`)."""

    folder: str
    lengths: Mapping[str, int]
    is_deep: bool = False

    def sample(self, most: int, site: Site) -> Sample:
        """Up to `most` lines, a like share of each file.

        Raises InvalidOption for a damaged file, StoreUnavailable.
        """
        store, names = file_store(self.folder, site), sorted(self.lengths)
        chosen = names[:: -(-len(names) // _MOST_FILES) or 1]
        columns: dict[str, list[Any]] = {"value": [], PATH: []}
        places = []
        for name in chosen:
            path = join(self.folder, name)
            # As Spark's `_metadata.file_path` has it: `file:/in/a%20b.json`.
            address = with_scheme(_ESCAPED.sub(lambda match: quote(match[0]), path))
            try:
                for number, line in _read(store, path, -(-most // len(chosen))):
                    columns["value"].append(line)
                    columns[PATH].append(address)
                    places.append(Place({"file": path, "line": number}))
            except (OSError, EOFError, zlib.error) as error:
                raise InvalidOption((f"{path} can't be read: {error}",)) from error
        inflates = {name: _INFLATES if PurePosixPath(name).suffix in _UNPACK else 1 for name in names}
        size = sum(length * inflates[name] for name, length in self.lengths.items())
        if len(names) == 1:
            size = min(size, sum(len(line) + 1 for line in columns["value"]))
        kinds = pa.schema([("value", pa.binary()), (PATH, pa.string())])
        shape = InputShape(value="value", path=PATH)
        return Sample(pa.RecordBatch.from_pydict(columns, kinds), shape, tuple(places), size)


def source_of(text: str, site: Site) -> FilesSource | TopicSource:
    """A local path, `file:/…`, `hdfs://…` or `kafka://host/topic` (port 9092 unless another is given).

    For a file: that file alone. Raises InvalidOption if there is no such thing, or it has no files; StoreUnavailable.
    """
    if text.startswith("kafka:"):
        match = _KAFKA.fullmatch(text)
        if match is None:
            raise InvalidOption((f"--from {text}: write kafka://HOST:PORT/TOPIC, several brokers with commas",))
        servers = (
            server if re.search(r":\d+$", server) else f"{server}:9092" for server in match["servers"].split(",")
        )
        return TopicSource(",".join(servers), match["topic"])
    # Links in a local path stay as they were given.
    place = normal(text) if scheme(text) else os.path.abspath(text)  # noqa: PTH100
    if problems := store_problems(place):
        raise InvalidOption((f"--from {problems[0]}, and reads kafka://HOST:PORT/TOPIC",))
    store = file_store(place, site)
    if (file := store.find(place)) is not None:
        folder, _, name = place.rpartition("/")
        return FilesSource(folder or "/", {name: file.length})

    def visible(folders: Iterable[str]) -> dict[str, int]:
        """The files that Spark reads, by their paths below `place`, with their lengths."""
        base = f"{place.rstrip('/')}/"
        shown = (folder for folder in folders if not is_hidden(folder.removeprefix(place)))
        return {file.path.removeprefix(base): file.length for folder in shown for file in store.visible(folder)}

    direct = visible([place])
    lengths = direct or visible(store.walk(place))
    if not lengths:
        raise InvalidOption((f"--from {text}: no file that Spark reads; it skips names that begin with . or _",))
    return FilesSource(place, lengths, is_deep=not direct)


def _read(store: FileStore, path: str, share: int) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers, split at CR, LF or both as Hadoop does, without the file's byte order mark."""
    unpack = _UNPACK.get(PurePosixPath(path).suffix)
    with store.open(path) as raw:
        # Latin-1 keeps every byte as it is.
        text = io.TextIOWrapper(cast("BinaryIO", unpack(raw) if unpack else raw), "latin-1", newline=None)
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
        client = {"kafka.bootstrap.servers": servers, **sources.FETCH, **sources.ASK}
        # Records may expire while they are read: the sample is then smaller.
        settings = {"subscribe": topic, "startingOffsets": starting, "endingOffsets": ending, "failOnDataLoss": "false"}
        records = spark.read.format("kafka").options(**client, **settings, includeHeaders="true").load()
        # As a number: Python's own times would be in this machine's zone.
        names = ("topic", "partition", "offset", "unix_micros(timestamp) AS timestamp", "value", "key", "headers")
        rows += records.selectExpr(*names).limit(most - len(rows)).collect()
    rows.sort(key=lambda row: (row.partition, row.offset))
    columns = {name: pa.array([row[name] for row in rows], kind) for name, kind in _COLUMNS.items()}
    places = tuple[Place, ...]({"topic": topic, "partition": row.partition, "offset": row.offset} for row in rows)
    mean = sum(len(row.value or b"") for row in rows) / max(1, len(rows))
    size = round(mean * sum(end - first for first, end in ranges.values()))
    return Sample(pa.RecordBatch.from_pydict(columns), _SHAPE, places, size)
