"""A Hive table: its types, columns, partition columns and properties.

Types follow the Hive language manual, "Hive Data Types". `str(type)` is the text that a metastore keeps in a column's
`type` field (lower case, no spaces), which Hive also prints in `DESCRIBE`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from urllib.parse import quote, unquote

from hivesink.errors import InvalidOption


class Primitive(Enum):
    """A Hive type without parameters; the value is its metastore text."""

    BOOLEAN = "boolean"
    TINYINT = "tinyint"
    SMALLINT = "smallint"
    INT = "int"
    BIGINT = "bigint"
    FLOAT = "float"
    DOUBLE = "double"
    STRING = "string"
    BINARY = "binary"
    DATE = "date"
    TIMESTAMP = "timestamp"

    def __str__(self) -> str:
        return self.value


INTEGERS = (Primitive.TINYINT, Primitive.SMALLINT, Primitive.INT, Primitive.BIGINT)
"""From the narrowest on."""
TIMES = (Primitive.TIMESTAMP, Primitive.DATE, Primitive.BIGINT)
"""The types of columns that can hold times."""
TIMES_TEXT = "TIMESTAMP, DATE or BIGINT (epoch milliseconds, or as sink.timestamp-format says)"


@dataclass(frozen=True, slots=True)
class Decimal:
    """DECIMAL(precision, scale): 1 <= precision <= 38, 0 <= scale <= precision."""

    precision: int = 10
    scale: int = 0

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class Varchar:
    """VARCHAR(length): 1 <= length <= 65535, counted in characters."""

    length: int

    def __str__(self) -> str:
        return f"varchar({self.length})"


@dataclass(frozen=True, slots=True)
class Char:
    """CHAR(length): 1 <= length <= 255; trailing spaces don't count."""

    length: int

    def __str__(self) -> str:
        return f"char({self.length})"


@dataclass(frozen=True, slots=True)
class Array:
    """ARRAY<element>."""

    element: HiveType

    def __str__(self) -> str:
        return f"array<{self.element}>"


@dataclass(frozen=True, slots=True)
class Map:
    """MAP: Hive allows only primitive keys."""

    key: HiveType
    value: HiveType

    def __str__(self) -> str:
        return f"map<{self.key},{self.value}>"


@dataclass(frozen=True, slots=True)
class Struct:
    """STRUCT: field names are kept in lower case, as the metastore keeps them."""

    fields: tuple[tuple[str, HiveType], ...]

    def __str__(self) -> str:
        return f"struct<{','.join(f'{name}:{kind}' for name, kind in self.fields)}>"


HiveType = Primitive | Decimal | Varchar | Char | Array | Map | Struct


def is_text(kind: HiveType) -> bool:
    """Whether a value is text: a STRING, VARCHAR or CHAR."""
    return kind is Primitive.STRING or isinstance(kind, Varchar | Char)


@dataclass(frozen=True, slots=True)
class Column:
    """A column; the name is in lower case, as the metastore keeps it."""

    name: str
    type: HiveType
    comment: str | None = None
    nullable: bool = True


def rows_text(spec: TableSpec) -> str:
    """The names and types of the columns, and the format, in a text that no other rows have."""
    columns = [f"{quoted(column.name)} {column.type}" for column in spec.columns]
    return ", ".join(columns if spec.format == "PARQUET" else [*columns, spec.format])


@dataclass(frozen=True, slots=True)
class SortKey:
    """Orders rows by a column, whose name is in lower case. Nulls come last in both directions."""

    column: str
    descending: bool = False

    @property
    def direction(self) -> str:
        """As Arrow calls it."""
        return "descending" if self.descending else "ascending"


_LETTERS = "__rejected"
"""The end of the name of a table of dead letters. It is another target of its table's log."""


def is_letters(table: str) -> bool:
    """Whether the table of that name holds dead letters."""
    return table.endswith(_LETTERS)


def main_table(table: str) -> str:
    """The table itself, or the table whose dead letters it holds: whose log both are targets of."""
    return table.removesuffix(_LETTERS)


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """A database and a table, both in lower case."""

    database: str
    table: str

    @classmethod
    def parse(cls, text: object) -> TableName:
        """`db.table`, or `table` in `default`; lower-cased, back-quotes removed. Raises InvalidOption for all else."""
        parts = [part.strip("`").lower() for part in text.strip().split(".")] if isinstance(text, str) else []
        if len(parts) not in {1, 2} or not all(part and part.replace("_", "a").isalnum() for part in parts):
            raise InvalidOption((f"{text!r} is not a table name; write it as database.table",))
        return cls("default", parts[0]) if len(parts) == 1 else cls(*parts)

    @property
    def rejected(self) -> TableName:
        return TableName(self.database, f"{self.table}{_LETTERS}")

    @property
    def quoted(self) -> str:
        return f"{quoted(self.database)}.{quoted(self.table)}"

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"


@dataclass(frozen=True, slots=True)
class TableSpec:
    """A table as its DDL declares it, or as the metastore holds it.

    `properties` are the TBLPROPERTIES, sorted by key. `location` is None if the DDL leaves it to Hive. `format` is what
    STORED AS says, or the class of an input format that has no such name.
    """

    name: TableName
    columns: tuple[Column, ...]
    partition_columns: tuple[Column, ...] = ()
    location: str | None = None
    comment: str | None = None
    external: bool = False
    format: str = "PARQUET"
    properties: tuple[tuple[str, str], ...] = ()

    @property
    def options(self) -> dict[str, str]:
        return dict(self.properties)

    @property
    def is_partitioned(self) -> bool:
        return bool(self.partition_columns)


def quoted(name: str) -> str:
    """A name as Hive and Spark SQL take any; `hive.support.quoted.identifiers` is `column` by default."""
    return f"`{name.replace('`', '``')}`"


PROPERTY = "hivesink_field_ids"
"""The first of the properties; the others are called so with `_2`, `_3` and so on."""
_LONGEST = 3_900
"""The characters of a property. Metastores on MySQL and Derby take 4,000."""


def field_ids(columns: Iterable[Column], properties: Mapping[str, str]) -> dict[str, int]:
    """The id of each field by its path, such as `tags.element`: the kept ids, then those of new fields in their order.

    Paths are spelled as Parquet spells them, without its groups `list` and `key_value`.
    """
    ids: dict[str, int] = {}
    number = 1
    while text := properties.get(_name(number)):
        for item in text.split(","):
            ids[unquote(item)] = len(ids) + 1
        number += 1
    for column in columns:
        for path in _paths(column.name, column.type):
            ids.setdefault(path, len(ids) + 1)
    return ids


def as_properties(ids: Mapping[str, int]) -> dict[str, str]:
    """What keeps `ids`: paths in the order of their ids, percent-encoded, separated by commas."""
    texts = [""]
    for path in sorted(ids, key=lambda path: ids[path]):
        item = quote(path, safe=".")
        if texts[-1] and len(texts[-1]) + 1 + len(item) > _LONGEST:
            texts.append("")
        texts[-1] += f",{item}" if texts[-1] else item
    return {_name(number): text for number, text in enumerate(texts, 1)}


def _name(number: int) -> str:
    return PROPERTY if number == 1 else f"{PROPERTY}_{number}"


def _paths(path: str, kind: HiveType) -> Iterator[str]:
    yield path
    match kind:
        case Array(element):
            yield from _paths(f"{path}.element", element)
        case Map(key, value):
            yield from _paths(f"{path}.key", key)
            yield from _paths(f"{path}.value", value)
        case Struct(fields):
            for name, field in fields:
                yield from _paths(f"{path}.{name.lower()}", field)
