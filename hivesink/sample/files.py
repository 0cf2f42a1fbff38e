"""A sample of files of JSON lines, read as Spark reads them, without Spark."""

from __future__ import annotations

import bz2
import gzip
import io
import os
import zlib
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, BinaryIO, TypeVar, cast

from hivesink.core.bucket import normal
from hivesink.errors import InvalidOption, StoreUnavailable, WrongUsage, few
from hivesink.logs import file_system
from hivesink.sample.records import Line, of_lines
from hivesink.spark.filenames import has_colon, is_pattern, linked_folders, read_twice, require_seen
from hivesink.storage.fs import Entry, join

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from hivesink.config.site import Site
    from hivesink.sample.records import Sample
    from hivesink.storage.fs import FileSystem

_T = TypeVar("_T")

_MOST_FILES = 100
"""Files that are open at a time; a folder with more gives some of each part of its listing."""
_MOST_NAMED = 3
_LONGEST = 64 << 20
"""Bytes of a line: a longer one is no record of a stream."""
_INFLATES = 5
"""JSON lines take about so much more room than compressed."""
_BOM = b"\xef\xbb\xbf"
_BAD_CHARACTERS = r"{}[]*?\ and, on a local disk, the colon"
_PACKED: Mapping[str, Callable[[BinaryIO], io.BufferedIOBase]] = {
    ".gz": lambda raw: gzip.GzipFile(fileobj=raw),
    ".bz2": bz2.BZ2File,
}
_NOT_READ = frozenset({".zst", ".zstd", ".lz4", ".snappy", ".deflate", ".xz", ".lzo", ".zip", ".7z"})


@dataclass(frozen=True, slots=True)
class FilesSource:
    """The visible files directly in a folder, or one of them; if it has only folders, all in those (`is_deep`).

    `folder` is absolute, or an address of HDFS.
    """

    folder: str
    names: tuple[str, ...]
    lengths: tuple[int, ...]
    neighbours: tuple[str, ...] = ()
    """If one file was named: the other visible files of its folder, which a job would read as well."""
    is_one_file: bool = False
    is_deep: bool = False
    folders: tuple[str, ...] = ()
    """The folders beside the files, of which a job reads nothing."""

    @classmethod
    def at(cls, location: str, site: Site) -> FilesSource:
        """A local path, `file:/…` or `hdfs://…`. Raises WrongUsage where there is nothing, and for a pattern.

        InvalidOption for a folder without files that Spark reads; StoreUnavailable.
        """
        place = normal(location)
        place = place if "://" in place else os.path.abspath(place)  # noqa: PTH100  links stay as they were given
        fs = file_system(place, site)
        if fs.is_folder(place):
            _require_no_pattern(place)
            direct = _visible(fs, place)
            found = direct or dict(_deep(fs, place, place))
            if not _is_remote(place):
                _require_one_name(place, found, deep=not direct)
                require_seen(place, deep=not direct, option="--from: ")
            if not found:
                problem = "holds no files that Spark reads: it passes over names that begin with . or _"
                raise InvalidOption((f"--from {location}: the folder {problem}; put files there",))
            beside = _folders(fs, place) if direct else ()
            return cls(place, tuple(found), tuple(found.values()), is_deep=not direct, folders=beside)
        length = fs.length(place)
        if length is None and is_pattern(location):
            way = "name a folder, whose files are all read, or one file"
            raise WrongUsage((f"--from {location}: a pattern isn't taken; {way}",))
        if length is None:
            raise WrongUsage((f"--from {location}: no such file or folder",))
        folder, _, name = place.rpartition("/")
        others = tuple(other for other in _visible(fs, folder or "/") if other != name)
        return cls(folder or "/", (name,), (length,), others, is_one_file=True)

    def folder_of_job(self) -> str:
        """The folder as Spark takes it, whatever its default file system. Raises InvalidOption if a job can't read it.

        A job reads whole folders: beside a file that was named, all must have its suffix.
        """
        if odd := self._odd():
            problem = f"Spark can't read {join(self.folder, odd[0])} as one file"
            raise InvalidOption((f"--from: {problem}; give it a name without any of {_BAD_CHARACTERS}",))
        suffixes = sorted({_suffix(name) for name in (*self.names, *self.neighbours)})
        if self.neighbours and len(suffixes) > 1:
            kinds = ", ".join(suffix or "no suffix" for suffix in suffixes)
            problem = f"a job reads the folder of {self.names[0]}, and {self.folder} holds other files too ({kinds})"
            raise InvalidOption((f"--from: {problem}; put the data into a folder of its own",))
        _require_no_pattern(self.folder)
        return self.folder if "://" in self.folder else f"file://{self.folder}"

    def beyond(self) -> str | None:
        """A word on what a job reads beside the file that was named; None for a folder, which it reads as a whole."""
        if self.is_deep:
            return f"{self.folder} holds no files but folders: the job reads the files in all of them"
        if self.folders:
            return f"the job reads the files in {self.folder}, and not its folders: {few(self.folders, _MOST_NAMED)}"
        if not self.is_one_file:
            return None
        text = f"the job reads every file in {self.folder}, not only {self.names[0]}: those that come later"
        if self.neighbours:
            text += f", and {few(self.neighbours, _MOST_NAMED)}"
        return f"{text}; FOLDER names another folder"

    def odd_names(self) -> str | None:
        """A word on files by whose names a job would stop; None if there are none."""
        odd = self._odd()
        return f"a job stops at the name of {few(odd, 1)}: rename it without any of {_BAD_CHARACTERS}" if odd else None

    def _odd(self) -> list[str]:
        """Names that may stand for several files, and those in which Hadoop sees a scheme before a colon."""
        names = (*self.names, *self.neighbours)
        return [name for name in names if is_pattern(name) or has_colon(join(self.folder, name))]

    def sample(self, most: int, site: Site) -> Sample:
        """Up to `most` lines, a like share of each file's first ones.

        Raises InvalidOption for a file that Spark's lines can't come from, StoreUnavailable.
        """
        fs = file_system(self.folder, site)
        chosen = _evenly(list(zip(self.names, self.lengths, strict=True)), _MOST_FILES)
        with ExitStack() as stack:
            readers = [_lines(fs, join(self.folder, name), stack) for name, _ in chosen]
            taken = [line for lines in _dealt(readers, most) for line in lines]
            is_all = len(chosen) == len(self.names) and not any(True for reader in readers for _ in islice(reader, 1))
        total = len(taken) if is_all else self._estimate(taken)
        return of_lines(taken, total)

    def _estimate(self, taken: Sequence[Line]) -> int:
        octets = sum(
            length * (_INFLATES if PurePosixPath(name).suffix in _PACKED else 1)
            for name, length in zip(self.names, self.lengths, strict=True)
        )
        mean = sum(len(line.value) + 1 for line in taken) / max(1, len(taken))
        return max(len(taken), round(octets / max(1.0, mean)))


def _visible(fs: FileSystem, folder: str) -> dict[str, int]:
    """The files, with their lengths, that Spark's file source takes."""
    entries = fs.list(folder)
    return {entry.name: entry.length for entry in entries if entry.length is not None and entry.name[0] not in "._"}


def _folders(fs: FileSystem, folder: str) -> tuple[str, ...]:
    """The visible ones, but for those named as partitions, which Spark reads."""
    names = (entry.name for entry in fs.list(folder) if entry.is_folder)
    return tuple(name for name in names if name[0] not in "._" and "=" not in name)


def _deep(fs: FileSystem, top: str, folder: str, above: str = "") -> Iterator[tuple[str, int]]:
    """The same of all folders within, as Spark reads them with `recursiveFileLookup`, by their paths.

    Raises InvalidOption for a link that leads to where Spark looks anyway, or around in a circle.
    """
    entries = fs.list(folder)
    links = [] if _is_remote(top) else linked_folders(folder)
    for name, real in links:
        here = f"{os.path.realpath(top)}/"
        if name[0] not in "._" and (f"{real}/".startswith(here) or here.startswith(f"{real}/")):
            raise _doubled(join(folder, name), real)
    for entry in (*entries, *(Entry(name, None) for name, _ in links)):
        path = f"{above}{entry.name}"
        if entry.name[0] in "._":
            continue
        if entry.length is not None:
            yield path, entry.length
        elif entry.is_folder:
            yield from _deep(fs, top, join(folder, entry.name), f"{path}/")


def _require_no_pattern(folder: str) -> None:
    if is_pattern(folder):
        problem = f"Spark takes {folder} for a pattern; give the folder a name without any of {{}}[]*?\\"
        raise InvalidOption((f"--from: {problem}",))


def _require_one_name(folder: str, names: Iterable[str], *, deep: bool) -> None:
    if twice := next(read_twice(folder, (join(folder, name) for name in names), deep=deep), None):
        raise _doubled(*twice)


def _doubled(link: str, real: str) -> InvalidOption:
    problem = f"{link} is a link to {real}, and Spark reads a file under both names; move the link out of the folder"
    return InvalidOption((f"--from: {problem}",))


def _is_remote(place: str) -> bool:
    return "://" in place


def _suffix(name: str) -> str:
    """Whether a file is compressed makes it no other kind of file."""
    path = PurePosixPath(name)
    return (path.with_suffix("") if path.suffix in _PACKED else path).suffix


def _evenly(items: list[_T], most: int) -> list[_T]:
    return items if len(items) <= most else [items[at * len(items) // most] for at in range(most)]


def _dealt(readers: Sequence[Iterator[_T]], most: int) -> list[list[_T]]:
    """`most` items in all, a like share of each reader; what some lack comes from the others."""
    taken: list[list[_T]] = [[] for _ in readers]
    active, left = list(range(len(readers))), most
    while active and left:
        share = max(1, left // len(active))
        for index in list(active):
            found = list(islice(readers[index], min(share, left)))
            taken[index] += found
            left -= len(found)
            if not found:
                active.remove(index)
    return taken


def _lines(fs: FileSystem, path: str, stack: ExitStack) -> Iterator[Line]:
    """The lines of a file as Hadoop's LineReader splits them: at CR, LF or both, without a mark at the beginning.

    The file stays open until `stack` closes it.
    """
    suffix = PurePosixPath(path).suffix
    lower = suffix.lower()
    if lower in _NOT_READ:
        problem = f"files in {lower} can't be sampled; unpack one of them, or compress with gzip"
        raise InvalidOption((f"{path}: {problem}",))
    if suffix not in _PACKED and lower in _PACKED:
        # Spark unpacks by Hadoop's CompressionCodecFactory, to which the suffix's case matters.
        name = PurePosixPath(path).with_suffix(lower).name
        raise InvalidOption((f"{path}: some versions of Spark read it without unpacking it; rename it to {name}",))
    with _readable(path):
        raw = stack.enter_context(fs.open(path))
        unpacked = _PACKED[suffix](raw) if suffix in _PACKED else raw
        # Latin-1 gives each byte back as it was, whatever the text's own encoding.
        text = stack.enter_context(io.TextIOWrapper(cast("BinaryIO", unpacked), "latin-1", newline=None))
        number = 0
        while line := text.readline(_LONGEST):
            number += 1
            if len(line) == _LONGEST:
                problem = f"line {number} is longer than 64 MB; write one JSON object a line"
                raise InvalidOption((f"{path}: {problem}",))
            value = line.removesuffix("\n").encode("latin-1")
            yield Line(path, number, value.removeprefix(_BOM) if number == 1 else value)


@contextmanager
def _readable(path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise InvalidOption((f"{path} was deleted while it was read; try again",)) from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InvalidOption((f"{path} is damaged: {error}; write it again",)) from error
    except OSError as error:
        if PurePosixPath(path).suffix == ".bz2" and error.errno is None:
            raise InvalidOption((f"{path} is damaged: {error}; write it again",)) from error
        raise StoreUnavailable(action="read", path=path, reason=error.strerror or str(error)) from error
