"""Avro schemas, as far as the bytes and values of records go (Avro 1.12, "Schema Declaration")."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache
from math import log10
from typing import Any

import pyarrow as pa

DIGITS = 38
"""Of Arrow's and Hive's decimals."""
_UUID_BYTES = 16
_MOST_BYTES = 1 << 31
"""Below this is the size of a fixed type, as of an array of bytes in Java."""
_LONGEST = 200
"""Characters of a reason: it is stored with each of the schema's records."""
_ARROW: dict[str, pa.DataType] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
    "date": pa.date32(),
    "timestamp-millis": pa.timestamp("ms", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "timestamp-nanos": pa.timestamp("ns", "UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
    "local-timestamp-nanos": pa.timestamp("ns"),
}
_PRIMITIVES = {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
"""Names that no schema can give to another type; `date` and its like it can."""
_LOGICAL = {
    "int": ("date", "time-millis"),
    "long": ("time-micros", *(name for name in _ARROW if "timestamp" in name)),
    "string": ("uuid",),
    "fixed": ("uuid",),
}


@dataclass(eq=False, slots=True)
class Type:
    """A type by the `name` of its bytes; `logical` is what they mean.

    `parts` are a record's fields, a union's branches, an array's items or a map's values; they may
    lead back to it.
    `names` has the places of a record's fields by lower-case name.
    `connect` is what Kafka Connect, which wrote the schema, calls it.
    `is_empty`: each value takes no bytes.
    """

    name: str
    logical: str = ""
    size: int = 0
    scale: int = 0
    precision: int = 0
    symbols: tuple[str, ...] = ()
    parts: list[Type] = field(default_factory=list)
    names: dict[str, list[int]] = field(default_factory=dict)
    is_empty: bool = False
    connect: str = ""

    def __str__(self) -> str:
        return self.logical or self.name

    @property
    def arrow(self) -> pa.DataType:
        """Of the values of a type without parts."""
        if self.logical == "decimal":
            return pa.decimal128(DIGITS, self.scale)
        return _ARROW.get(self.logical) or _ARROW[self.name]


@lru_cache(maxsize=1000)
def parse(texts: tuple[str, ...]) -> Type:
    """The schema in the last of `texts`; those before define names for it. Raises ValueError."""
    names: dict[str, Type] = {}
    try:
        return [_type(json.loads(text), "", names) for text in texts][-1]
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        reason = f"{type(error).__name__} {error}"[:_LONGEST].encode("utf-8", "replace").decode()
        message = f"not an Avro schema: {reason}"
        raise ValueError(message) from error


def _type(given: Any, space: str, names: dict[str, Type]) -> Type:
    """`space` is the namespace around it."""
    if isinstance(given, str):
        # A name without dots is of this namespace, if it has such a name, else a full name.
        full = _full(given, space)
        return _leaf(given, {}) if given in _PRIMITIVES else names[full if full in names else given]
    if isinstance(given, list):
        if not given:
            raise ValueError(given)
        return Type("union", parts=[_type(branch, space, names) for branch in given])
    match given["type"]:
        case "array" | "map" as name:
            part = given["items" if name == "array" else "values"]
            return Type(name, parts=[_type(part, space, names)])
        case "record" | "error" | "enum" | "fixed" as name:
            full = _full(given["name"], given.get("namespace", space))
            if full in names:
                raise ValueError(full + " twice")
            made = names[full] = Type("record") if name == "error" else _leaf(name, given)
            if made.name == "record":
                _fields(made, given["fields"], full.rpartition(".")[0], names)
            return made
        case str() as name if name in _PRIMITIVES:
            return _leaf(name, given)
        case inner:
            return _type(inner, space, names)


def _fields(record: Type, fields: Any, space: str, names: dict[str, Type]) -> None:
    former: dict[str, list[int]] = {}
    for place, given in enumerate(fields):
        record.parts.append(_type(given["type"], space, names))
        record.names.setdefault(given["name"].lower(), []).append(place)
        for alias in {alias.lower() for alias in given.get("aliases", ())}:
            former.setdefault(alias, []).append(place)
    # A field's former name counts where no field has it now.
    record.names |= {name: places for name, places in former.items() if name not in record.names}
    # A record that holds itself isn't empty: there is no such value.
    record.is_empty = all(part.is_empty for part in record.parts)


def _full(name: str, space: str | None) -> str:
    return name if "." in name or not space else f"{space}.{name}"


def _leaf(name: str, given: dict[str, Any]) -> Type:
    """A logical type that isn't known, or is wrong where it stands, means nothing."""
    made = Type(name, size=given["size"] if name == "fixed" else 0)
    if type(made.size) is not int or not 0 <= made.size < _MOST_BYTES:
        raise ValueError(made.size)
    made.connect = str(given.get("connect.name"))
    made.is_empty = name == "null" or (name == "fixed" and not made.size)
    if name == "enum":
        made.symbols = tuple(given["symbols"])
        # Raises TypeError or ValueError for what is no text.
        "".join(made.symbols).encode()
    logical, precision = given.get("logicalType"), given.get("precision")
    scale = given.get("scale", 0)
    # A larger scale fits no column.
    if logical == "decimal" and type(precision) is type(scale) is int and name in {"bytes", "fixed"}:
        most = precision if name == "bytes" else int((8 * made.size - 1) * log10(2))
        if 0 < precision <= most and 0 <= scale <= min(precision, DIGITS):
            made.logical, made.scale, made.precision = "decimal", scale, precision
    elif logical in _LOGICAL.get(name, ()) and made.size == (_UUID_BYTES if name == "fixed" else 0):
        made.logical = str(logical)
    return made
