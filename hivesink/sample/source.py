"""What `--from` names, files of JSON lines or a Kafka topic, and a sample of it."""

from __future__ import annotations

import bz2
import gzip
import io
import os
import re
import zlib
from dataclasses import dataclass
from itertools import islice
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, BinaryIO, cast
from urllib.parse import quote

import pyarrow as pa

from hivesink.core.column_source import LINE, PATH
from hivesink.core.partition import is_hidden, normal, scheme, with_scheme
from hivesink.errors import InvalidOption, WrongUsage
from hivesink.logs import file_store, store_problems
from hivesink.sink.task.messages import InputShape
from hivesink.storage.fs import join

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from hivesink.config.site import Site
    from hivesink.ports import FileStore

_KAFKA = re.compile(r"kafka://(?P<servers>[^/\s]+)/(?P<topic>[A-Za-z0-9._-]+)/?")
_MOST_FILES = 100
_INFLATES = 5
"""How much longer JSON is than the same compressed."""
_BOM = b"\xef\xbb\xbf"
_ESCAPED = re.compile(r"""[\x00-\x20"#%<>?\[\\\]^`{|}\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]""")
"""What Java escapes in a path."""
_UNPACK: Mapping[str, Callable[[BinaryIO], io.BufferedIOBase]] = {
    ".gz": lambda raw: gzip.GzipFile(fileobj=raw),
    ".bz2": bz2.BZ2File,
}

Place = dict[str, "str | int"]
"""Where a record is: `file` and `line`, or `topic`, `partition` and `offset`."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Records of a source, in the columns in which Spark reads them (`shape`), and where each came from.

    `size` estimates how many bytes of JSON the whole source holds, `stretch` how many times longer its
    times last than the sample's.
    """

    batch: pa.RecordBatch
    shape: InputShape
    places: tuple[Place, ...]
    size: int
    stretch: float = 1.0

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
        store = file_store(self.folder, site)
        names = sorted(self.lengths)
        chosen = names[:: -(-len(names) // _MOST_FILES) or 1]
        taken: list[tuple[str, int, bytes]] = []
        # The shortest first: the lines that they lack go to the others.
        for at, name in enumerate(sorted(chosen, key=lambda name: self.lengths[name])):
            path, share = join(self.folder, name), (most - len(taken)) // (len(chosen) - at)
            try:
                taken += ((path, number, line) for number, line in _read(store, path, share))
            except (OSError, EOFError, zlib.error) as error:
                raise InvalidOption((f"{path} can't be read: {error}",)) from error
        taken.sort(key=lambda line: line[0])
        columns = {
            "value": pa.array([line for *_, line in taken], pa.binary()),
            PATH: pa.array([_address(path) for path, *_ in taken], pa.string()),
            LINE: pa.array([number for _, number, _ in taken], pa.int64()),
        }
        places = tuple[Place, ...]({"file": path, "line": number} for path, number, _ in taken)
        shape = InputShape(value="value", path=PATH, line=LINE)
        packed = {name for name in names if PurePosixPath(name).suffix in _UNPACK}
        size = sum(length * (_INFLATES if name in packed else 1) for name, length in self.lengths.items())
        read = sum(len(line) + 1 for *_, line in taken)
        stretch = max(1.0, size / read) if read and len(names) == 1 else 1.0
        return Sample(pa.RecordBatch.from_pydict(columns), shape, places, size, stretch)


def source_of(text: str, site: Site) -> FilesSource | TopicSource:
    """A local path, `file:/…`, `hdfs://…` or `kafka://host/topic` (port 9092 unless another is given).

    For a file: that file alone. Raises WrongUsage if there is no such thing, or it has no files; StoreUnavailable.
    """
    if text.startswith("kafka:"):
        match = _KAFKA.fullmatch(text)
        if match is None:
            raise WrongUsage((f"--from {text}: write kafka://HOST:PORT/TOPIC, several brokers with commas",))
        servers = (
            server if re.search(r":\d+$", server) else f"{server}:9092" for server in match["servers"].split(",")
        )
        return TopicSource(",".join(servers), match["topic"])
    # Links in a local path stay as they were given.
    place = normal(text) if scheme(text) else os.path.abspath(text)  # noqa: PTH100
    if problems := store_problems(place):
        raise WrongUsage((f"--from {problems[0]}, and reads kafka://HOST:PORT/TOPIC",))
    store = file_store(place, site)
    if (file := store.find(place)) is not None:
        folder, _, name = place.rpartition("/")
        return FilesSource(folder or "/", {name: file.length})
    direct = _visible(store, place, [place])
    lengths = direct or _visible(store, place, store.walk(place))
    if not lengths:
        raise WrongUsage((f"--from {text}: no file that Spark reads; it skips names that begin with . or _",))
    return FilesSource(place, lengths, is_deep=not direct)


def _visible(store: FileStore, place: str, folders: Iterable[str]) -> dict[str, int]:
    """The files in those of `folders` that Spark reads, by their paths below `place`, with their lengths."""
    base = f"{place.rstrip('/')}/"
    shown = (folder for folder in folders if not is_hidden(folder.removeprefix(place)))
    return {file.path.removeprefix(base): file.length for folder in shown for file in store.visible(folder)}


def _read(store: FileStore, path: str, share: int) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers, split at CR, LF or both as Hadoop does, without the file's byte order mark."""
    unpack = _UNPACK.get(PurePosixPath(path).suffix)
    with store.open(path) as raw:
        # Latin-1 keeps every byte as it is.
        text = io.TextIOWrapper(cast("BinaryIO", unpack(raw) if unpack else raw), "latin-1", newline=None)
        for number, line in enumerate(islice(text, share), 1):
            value = line.removesuffix("\n").encode("latin-1")
            yield number, value.removeprefix(_BOM) if number == 1 else value


def _address(path: str) -> str:
    """As Spark's `_metadata.file_path` has it: `file:/in/a%20b.json`."""
    return with_scheme(_ESCAPED.sub(lambda character: quote(character[0]), path))
