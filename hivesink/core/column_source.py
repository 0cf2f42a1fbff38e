"""Where a column's value comes from, if not from the field of its own name: `sink.column.<name>.from`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from urllib.parse import unquote

from hivesink.core.table import INTEGERS, TIMES, TIMES_TEXT, Array, Char, HiveType, Map, Primitive, Struct, Varchar

_STEP = re.compile(
    r"""
    \. (?P<name> [^\s.\[\]'"\\*?(),:@$]+ )
    | \[ (?P<index> [0-9]{1,9} ) \]
    | \[ ' (?P<single> (?: [^'\\] | \\. )* ) ' \]
    | \[ " (?P<double> (?: [^"\\] | \\. )* ) " \]
    """,
    re.VERBOSE | re.DOTALL,
)
_PATHS = "write names and indexes, such as $.user.id, $['odd name'] or $.items[0].sku"
_ANOTHER = re.compile(r"\s*,\s*(?=\$)")
_HEADER, _KEY = "kafka.headers.", "kafka.key."


@dataclass(frozen=True, slots=True)
class JsonPath:
    """Steps from a record to a value in it: names of fields in lower case, and indexes of arrays.

    `others` are tried in turn while there is nothing but null.
    """

    steps: tuple[str | int, ...]
    others: tuple[tuple[str | int, ...], ...] = ()

    @property
    def every(self) -> tuple[tuple[str | int, ...], ...]:
        return self.steps, *self.others


@dataclass(frozen=True, slots=True)
class KeyPath:
    """A path in Kafka's key."""

    path: JsonPath


@dataclass(frozen=True, slots=True)
class Header:
    """The last Kafka header of that name, which is as it is written."""

    name: str


class Metadata(Enum):
    """What a record comes with."""

    KEY = "kafka.key"
    TOPIC = "kafka.topic"
    PARTITION = "kafka.partition"
    OFFSET = "kafka.offset"
    TIMESTAMP = "kafka.timestamp"
    HEADERS = "kafka.headers"
    PATH = "file.path"
    ARRIVAL = "arrival-time"


PATH = "_path"
"""The stream's column of the file that a row came from."""
BLOCK = "_block"
"""The stream's column of the byte at which the part of that file begins which Spark has read the row in."""
ROW = "hivesink row"
"""The number of a row in its block, in a column of the sink's own: no stream has that name."""
RECORD, ELEMENT = "hivesink record", "hivesink element"
"""Where records hold many: a row's record in its batch, and its element in the record, from 0, null for all of it."""
_STREAM_COLUMNS = {
    Metadata.KEY: ("key", ("binary", "string")),
    Metadata.TOPIC: ("topic", ("string",)),
    Metadata.PARTITION: ("partition", ("int",)),
    Metadata.OFFSET: ("offset", ("bigint",)),
    Metadata.TIMESTAMP: ("timestamp", ("timestamp",)),
    Metadata.HEADERS: ("headers", ("array<struct<key:string,value:binary>>",)),
    Metadata.PATH: (PATH, ("string",)),
}

ColumnSource = JsonPath | KeyPath | Header | Metadata


def parse_source(text: str) -> ColumnSource:
    """A JSON path, or the name of metadata. Raises ValueError with what to write instead."""
    text = text.strip()
    if text.startswith(_HEADER) and text != _HEADER:
        return Header(text.removeprefix(_HEADER))
    if text.startswith(f"{_KEY}$"):
        return KeyPath(_paths(text.removeprefix(_KEY)))
    if not text.startswith("$"):
        names = {source.value: source for source in Metadata}
        if text in names:
            return names[text]
        message = f"write a JSON path such as $.user.id, {_KEY}$.id, {_HEADER}<name>, or one of {', '.join(names)}"
        raise ValueError(message)
    return _paths(text)


def _paths(text: str) -> JsonPath:
    paths, at = list[tuple[str | int, ...]](), 0
    while at < len(text):
        steps, at = _steps(text, at + 1)
        another = _ANOTHER.match(text, at)
        if at < len(text) and another is None:
            raise _no_path(text, at)
        if not steps or isinstance(steps[0], int):
            message = f"a record is an object, so a path begins with a name: {_PATHS}"
            raise ValueError(message)
        paths.append(steps)
        at = another.end() if another else at
    return JsonPath(paths[0], tuple(paths[1:]))


def parse_list(text: str) -> JsonPath:
    """The path to a record's list; `$`: the record is one. Raises ValueError with what to write instead."""
    text = text.strip()
    if not text.startswith("$"):
        message = "write the path to a list, such as $.Records, or $ where the record is a list"
        raise ValueError(message)
    steps, at = _steps(text, 1)
    if at < len(text):
        raise _no_path(text, at)
    return JsonPath(steps)


def _steps(text: str, at: int) -> tuple[tuple[str | int, ...], int]:
    """The steps from `at` on, and where they end."""
    steps: list[str | int] = []
    while match := _STEP.match(text, at):
        quoted = match["single"] if match["double"] is None else match["double"]
        name = match["name"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL)
        steps.append(int(match["index"]) if match["index"] else name.lower())
        at = match.end()
    return tuple(steps), at


def _no_path(text: str, at: int) -> ValueError:
    return ValueError(f"not a path from {text[at:]!r} on: {_PATHS}")


def json_path(field: str) -> str:
    """The path of a record's field of any name, as `sink.column.<name>.from` has it."""
    escaped = re.sub(r'["\\]', r"\\\g<0>", field)
    return f"$.{field}" if field.isidentifier() else f'$["{escaped}"]'


def stream_column(source: ColumnSource) -> tuple[str, tuple[str, ...]] | None:
    """The stream's column that `source` is read from, and Spark's types that it may have; None if it is in none."""
    if isinstance(source, JsonPath):
        return None
    if isinstance(source, KeyPath):
        source = Metadata.KEY
    return _STREAM_COLUMNS.get(Metadata.HEADERS if isinstance(source, Header) else source)


def named_file(uri: str) -> str:
    """The file of a `file.path` as people write it: `/in/a b.json` for `file:///in/a%20b.json`."""
    return re.sub("^file:/+", "/", unquote(uri))


def misfit(source: ColumnSource, kind: HiveType) -> str | None:
    """The types that a column from `source` may have, where `kind` is none of them; None where it is."""
    is_text = kind is Primitive.STRING or isinstance(kind, Varchar | Char)
    match source:
        case JsonPath() | KeyPath():
            return None
        case Header() | Metadata.KEY:
            return "any type that isn't nested" if isinstance(kind, Array | Map | Struct) else None
        case Metadata.TOPIC | Metadata.PATH:
            return None if is_text else "STRING, VARCHAR or CHAR"
        case Metadata.TIMESTAMP | Metadata.ARRIVAL:
            return None if kind in TIMES else TIMES_TEXT
        case Metadata.HEADERS:
            fits = "MAP<STRING,BINARY>, MAP<STRING,STRING> or ARRAY<STRUCT<key:STRING,value:BINARY>> (or value:STRING)"
            return None if kind in _HEADERS else fits
        case _:
            return None if is_text or kind in INTEGERS else "BIGINT, INT, SMALLINT, TINYINT, STRING, VARCHAR or CHAR"


_HEADERS = frozenset(
    kind
    for value in (Primitive.BINARY, Primitive.STRING)
    for kind in (Map(Primitive.STRING, value), Array(Struct((("key", Primitive.STRING), ("value", value)))))
)
