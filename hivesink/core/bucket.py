"""Buckets: the partitions of a table as the sink writes them, their time patterns and their folders."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

_LETTERS = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}
_UNIT = {"yyyy": "year", "MM": "month", "dd": "day", "HH": "hour", "mm": "minute", "ss": "second"}
_TOKEN = re.compile(r"'(?P<quoted>(?:[^']|'')*)'|(?P<letters>([A-Za-z])\3*)|(?P<text>[^A-Za-z']+)")
# PARTITIONS.PART_NAME. PARTITION_KEY_VALS.PART_KEY_VAL takes 255 or 256, which no folder name has room for.
_LONGEST_PARTITION = 767
_LOCAL = "file"
"""The scheme of bare paths."""
_LOCAL_PATH = re.compile(rf"(?:{_LOCAL}:(?://)?)?(/.*)", re.DOTALL)
_USUAL_PORT = re.compile(r"^(\w[\w+.-]*://[^/:]+):8020(?=/|$)")


def tokens(pattern: str) -> Iterator[tuple[str | None, str]]:
    """The runs of a letter in a pattern of Java's DateTimeFormatter, and between them (None, text).

    Raises ValueError for a quote that isn't closed.
    """
    at = 0
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        if token is None:
            message = f"the quote at position {at + 1} of {pattern!r} is not closed"
            raise ValueError(message)
        at = token.end()
        text = token["text"] if token["quoted"] is None else token["quoted"].replace("''", "'") or "'"
        yield token["letters"], text or ""


@dataclass(frozen=True, slots=True)
class TimePattern:
    """A parsed pattern of Flink's `DateTimeBucketAssigner`: the letters of Java's DateTimeFormatter that values need.

    `strftime` formats with it; `unit` is the finest field that it shows.
    """

    strftime: str
    unit: str

    @classmethod
    def parse(cls, pattern: str) -> TimePattern:
        """Raises ValueError for letters that a partition value can't use."""
        strftime, used = [], set()
        for letters, text in tokens(pattern):
            if letters is None:
                strftime.append(text.replace("%", "%%"))
            elif letters in _LETTERS:
                strftime.append(_LETTERS[letters])
                used.add(letters)
            else:
                message = f"{letters!r} in {pattern!r} is none of {', '.join(_LETTERS)}; put text in single quotes"
                raise ValueError(message)
        if not used:
            message = f"{pattern!r} has no part of a time; use some of {', '.join(_LETTERS)}"
            raise ValueError(message)
        return cls("".join(strftime), _UNIT[max(used, key=[*_UNIT].index)])

    @classmethod
    def parse_all(cls, text: str) -> dict[str, TimePattern]:
        """`pattern` (key `""`), or `column=pattern,column=pattern`. Raises ValueError."""
        if not re.match(r"\w+\s*=", text):
            return {"": cls.parse(text)}
        pairs = [item.partition("=") for item in text.split(",")]
        patterns = {column.strip().lower(): cls.parse(pattern.strip()) for column, _, pattern in pairs}
        if len(patterns) < len(pairs):
            message = "write each column once"
            raise ValueError(message)
        return patterns

    def format(self, at: datetime) -> str:
        """The value for `at`'s own wall clock; years below 1000 have four digits, as Java prints them."""
        year = f"{at.year:04d}"
        # `%%Y` is text: a percent sign and the letter.
        return at.strftime(re.sub("%%|%Y", lambda field: year if field[0] == "%Y" else field[0], self.strftime))


def folder(table_location: str, partition: str) -> str:
    """The folder of a new partition, or of an unpartitioned table."""
    base = table_location.rstrip("/")
    return f"{base}/{partition}" if partition else base


_ASIDE = ".hivesink-waiting-"


def aside(table_location: str, attempt: str) -> str:
    """The hidden folder where a try's parts wait until the metastore lists their partition.

    It is in the table's folder, but outside every partition's, whose files Hive's INSERT INTO an unlisted partition
    deletes (HIVE-29744). Each try has its own folder: tries of other users may lack the right to write in it.
    """
    return f"{table_location.rstrip('/')}/{_ASIDE}{attempt}"


def is_aside(folder: str) -> bool:
    """Whether `aside` makes such a `folder`."""
    return folder.rstrip("/").rpartition("/")[2].startswith(_ASIDE)


def is_hidden(below: str) -> bool:
    """Whether readers skip a folder: Hive's rule, with Spark's exception for partition folders."""
    names = [name for name in below.split("/") if name]
    return any(name.startswith(".") or (name.startswith("_") and "=" not in name) for name in names)


def same_location(left: str, right: str) -> bool:
    """Whether two locations are the same folder, by their text."""
    return left == right or normal(left) == normal(right)


def normal(location: str) -> str:
    """A single spelling of a location: no trailing slash, a local path without scheme, no port 8020, HDFS's usual."""
    local = _LOCAL_PATH.fullmatch(location)
    return (local[1] if local else _USUAL_PORT.sub(r"\1", location)).rstrip("/") or "/"


def with_scheme(location: str) -> str:
    """`location`, with its scheme also if it is a bare path."""
    return f"{_LOCAL}:{location}" if location.startswith("/") else location


def file_system_of(location: str) -> str:
    """What stands before the path in a location: `hdfs://nameservice`; nothing before a bare path."""
    return (re.match(r"(?:\w[\w+.-]*:(?://[^/]*)?)?", location) or [""])[0]


def scheme(location: str) -> str:
    """The scheme of a location, as of a bare path too; empty for what is no location."""
    parts = re.fullmatch(r"(\w[\w+.-]*):/.*", with_scheme(location), re.DOTALL)
    return parts[1] if parts else ""


def unregistrable(path: str) -> str | None:
    """Why the metastore's database can't hold partition `path`; None if it can.

    Derby, MySQL and SQL Server ignore blanks at the end of names: `dt=a` and `dt=a ` can't both be registered.
    Lengths are in UTF-16, as Derby counts.
    """
    length = len(path.encode("utf-16-le", "surrogatepass")) // 2
    if length > _LONGEST_PARTITION:
        return f"a partition name of {length} characters; the metastore takes {_LONGEST_PARTITION}"
    if path.endswith(" "):
        return f"partition {path!r} ends in a blank: the metastore can't distinguish it from {path.rstrip(' ')!r}"
    return None
