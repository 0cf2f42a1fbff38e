"""Buckets: a bucket is a partition of a table as the sink sees it, named by its escaped path.

`TimePattern` is what Flink calls the format string of `DateTimeBucketAssigner`: Java's DateTimeFormatter letters,
as far as a partition value needs them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

_LETTERS = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}
_UNIT = {"yyyy": "year", "MM": "month", "dd": "day", "HH": "hour", "mm": "minute", "ss": "second"}
_ORDER = ("year", "month", "day", "hour", "minute", "second")
_TOKEN = re.compile(r"'(?P<quoted>(?:[^']|'')*)'|(?P<letters>([A-Za-z])\3*)|(?P<text>[^A-Za-z']+)")
# PARTITIONS.PART_NAME. PARTITION_KEY_VALS.PART_KEY_VAL takes 255 or 256, which no folder name has room for.
_LONGEST_PARTITION = 767


@dataclass(frozen=True, slots=True)
class TimePattern:
    """A parsed pattern: `strftime` formats with it; `unit` is the finest field that it shows."""

    pattern: str
    strftime: str
    unit: str

    @classmethod
    def parse(cls, pattern: str) -> TimePattern:
        """Raises ValueError for letters that a partition value can't use."""
        written, units, at = [], set(), 0
        while at < len(pattern):
            token = _TOKEN.match(pattern, at)
            if token is None:
                message = f"the quote at position {at + 1} of {pattern!r} is not closed"
                raise ValueError(message)
            at = token.end()
            letters = token["letters"]
            if letters is None:
                text = token["text"] if token["quoted"] is None else token["quoted"].replace("''", "'") or "'"
                written.append(text.replace("%", "%%"))
            elif letters in _LETTERS:
                written.append(_LETTERS[letters])
                units.add(_UNIT[letters])
            else:
                message = f"{letters!r} in {pattern!r} is none of {', '.join(_LETTERS)}; put text in single quotes"
                raise ValueError(message)
        if not units:
            message = f"{pattern!r} shows no part of a time"
            raise ValueError(message)
        return cls(pattern, "".join(written), max(units, key=_ORDER.index))

    @classmethod
    def parse_all(cls, text: str) -> dict[str, TimePattern]:
        """`pattern` (key `""`), or `column=pattern,column=pattern`. Raises ValueError."""
        if not re.match(r"\w+\s*=", text):
            return {"": cls.parse(text)}
        pairs = (item.partition("=") for item in text.split(","))
        return {column.strip().lower(): cls.parse(pattern.strip()) for column, _, pattern in pairs}

    def format(self, at: datetime) -> str:
        """The value of `at`'s own wall clock; years below 1000 have four digits, as Java prints them."""
        return at.strftime(self.strftime.replace("%Y", f"{at.year:04d}"))


def folder(table_location: str, partition: str) -> str:
    """Where a new partition's files go; an unpartitioned table's are in the table's own folder."""
    base = table_location.rstrip("/")
    return f"{base}/{partition}" if partition else base


_ASIDE = ".hivesink-waiting-"


def aside(table_location: str, attempt: str) -> str:
    """Where one try's parts wait whose partition the metastore doesn't list; Hive passes over a hidden folder.

    In the table's own folder, but outside of every partition's: what is there, Hive's INSERT INTO an unlisted partition
    deletes (HIVE-29744). Each try has a folder of its own, so that no user waits in what another one has made.
    """
    return f"{table_location.rstrip('/')}/{_ASIDE}{attempt}"


def is_aside(folder: str) -> bool:
    """Whether `folder` is one that `aside` names."""
    return folder.rstrip("/").rpartition("/")[2].startswith(_ASIDE)


def given_up(folder: str) -> str:
    """Where the files of a partition go that was given up, and would live in `folder`: beside it, hidden, for good."""
    return f"{folder.rstrip('/').rpartition('/')[0]}/.hivesink-given-up"


def same_location(left: str, right: str) -> bool:
    """Whether two locations are one folder, as far as their text tells (`file:/a`, `file:///a`, `/a/`)."""
    return normal(left) == normal(right)


def normal(location: str) -> str:
    """A location in one spelling: no trailing slash, a local path without its scheme, HDFS without its usual port."""
    found = re.fullmatch(r"file:(?://)?(/.*)", location)
    spelled = found[1] if found else re.sub(r"^(hdfs://[^/:]+):8020(?=/|$)", r"\1", location)
    return spelled.rstrip("/") or "/"


def unregistrable(path: str) -> str | None:
    """Why the metastore's database can't hold partition `path`; None where it can.

    Derby, MySQL and SQL Server compare names as if blanks at their end weren't there: of `dt=a` and `dt=a ` the
    second can't be registered, and the first can't where the second is. Lengths are those that Derby counts, UTF-16.
    """
    length = len(path.encode("utf-16-le", "surrogatepass")) // 2
    if length > _LONGEST_PARTITION:
        return f"a partition name of {length} characters; the metastore takes {_LONGEST_PARTITION}"
    if path.endswith(" "):
        return f"partition {path!r} ends in a blank, by which the metastore can't tell it from {path.rstrip(' ')!r}"
    return None
