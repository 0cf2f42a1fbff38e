"""Partitions: their keys, their escaped paths as Hive writes them, and what a metastore holds of them.

Paths follow Hive's `FileUtils.makePartName`, `escapePathName` and `unescapePathName`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from hivesink.core.table import is_letters
from hivesink.errors import PartitionInvalid

PartitionKey = tuple[str, str]
"""A table's name and a partition's escaped path (`""`: the unpartitioned table itself)."""


def known_as(key: PartitionKey, table: str) -> PartitionKey:
    """`key` of a log whose table is `table` now: it, or its dead letters, may have had another name before."""
    name, partition = key
    rejected = f"{table}__rejected"
    if name in {table, rejected}:
        return key
    return (rejected if is_letters(name) else table), partition


@dataclass(frozen=True, slots=True)
class LivePartition:
    """A registered partition. `accurate`: Hive trusts its statistics, since its or its table's flag is set.

    `format`, as in `TableSpec`, is that of its files; None if it is the table's.
    """

    partition: str
    location: str
    accurate: bool
    columns_behind: bool
    format: str | None = None


@dataclass(frozen=True, slots=True)
class NewPartition:
    """A partition to register: its escaped path, its folder, its files' number and bytes."""

    partition: str
    location: str
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a partition (`""`: an unpartitioned table) holds, for planners. `raw_bytes`: encoded, before compression."""

    partition: str
    files: int
    bytes: int
    rows: int
    raw_bytes: int


def by_table(keys: Iterable[PartitionKey]) -> dict[str, list[str]]:
    """Distinct partitions by table, both sorted."""
    tables = defaultdict[str, set[str]](set)
    for table, partition in keys:
        tables[table].add(partition)
    return {table: sorted(tables[table]) for table in sorted(tables)}


DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""Hive's name for the partition of null and of the empty string."""

ESCAPED = frozenset(map(chr, range(0x20))) | frozenset("\x7f\"#%'*/:=?\\{[]^")
"""What Hive writes as `%XX`. Space, `}`, `<`, `>`, `|`, `&` and everything beyond ASCII stay as they are."""

_TABLE = {ord(char): f"%{ord(char):02X}" for char in ESCAPED}
_CODE = re.compile(r"%([0-9A-Fa-f]{2})")
# dfs.namenode.fs-limits.max-component-length, and NAME_MAX of local file systems.
_LONGEST_NAME = 255


def escape(text: str) -> str:
    """Escape a name or a value as Hive does."""
    return text.translate(_TABLE)


def unescape(text: str) -> str:
    """The inverse of `escape`. A `%` without two hex digits after it stands for itself, as in Hive."""
    return _CODE.sub(lambda code: chr(int(code[1], 16)), text) if "%" in text else text


# Each batch of a stream has rows of much the same partitions, and an epoch asks several times for each.
_remembered = lru_cache(maxsize=1 << 16)


def partition_path(names: Sequence[str], values: Sequence[str | None]) -> str:
    """`dt=2024-01-02/hour=3`: lower-case names, escaped values, null and empty as DEFAULT_PARTITION.

    `values` are canonical texts. Raises PartitionInvalid for a folder name that file systems refuse.
    """
    return _path(tuple(names), tuple(values))


@_remembered
def _path(names: tuple[str, ...], values: tuple[str | None, ...]) -> str:
    pairs = zip(names, values, strict=True)
    folders = [f"{escape(name.lower())}={escape(value or DEFAULT_PARTITION)}" for name, value in pairs]
    path = "/".join(folders)
    longest = max((len(folder.encode("utf-8", "replace")) for folder in folders), default=0)
    if longest > _LONGEST_NAME:
        raise PartitionInvalid(repr(path), f"a folder name of {longest} bytes; file systems take {_LONGEST_NAME}")
    return path


@_remembered
def parse_path(path: str) -> tuple[tuple[str, str | None], ...]:
    """Names and values of `name=value/…`; DEFAULT_PARTITION becomes None. Raises PartitionInvalid."""
    pairs = []
    for folder in path.strip("/").split("/"):
        # The last `=` separates name and value: Hive's own pattern is greedy, and escaped values contain none.
        name, _, value = folder.rpartition("=")
        if not (name and value):
            raise PartitionInvalid(repr(path), f"{folder!r} is not name=value; in a value, write %2F for a slash")
        pairs.append((unescape(name).lower(), None if value == DEFAULT_PARTITION else unescape(value)))
    return tuple(pairs)


# PARTITIONS.PART_NAME. PARTITION_KEY_VALS.PART_KEY_VAL takes 255 or 256, which no folder name has room for.
_LONGEST_PARTITION = 767
_LOCAL = "file"
"""The scheme of bare paths."""
_LOCAL_PATH = re.compile(rf"(?:{_LOCAL}:(?://)?)?(/.*)", re.DOTALL)
_USUAL_PORT = re.compile(r"^(\w[\w+.-]*://[^/:]+):8020(?=/|$)")


def folder(table_location: str, partition: str) -> str:
    """The folder of a new partition, or of an unpartitioned table."""
    return f"{table_location.rstrip('/')}/{partition}".rstrip("/")


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
    """Why the metastore's database can't hold partition `path`; None if it can. Lengths are in UTF-16, as in Derby.

    Derby, MySQL and SQL Server ignore blanks at the end of names: `dt=a` and `dt=a ` can't both be registered.
    """
    length = len(path.encode("utf-16-le", "surrogatepass")) // 2
    if length > _LONGEST_PARTITION:
        return f"a partition name of {length} characters; the metastore takes {_LONGEST_PARTITION}"
    if path.endswith(" "):
        return f"partition {path!r} ends in a blank: the metastore can't distinguish it from {path.rstrip(' ')!r}"
    return None
