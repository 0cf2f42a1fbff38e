"""Avro schemas, as far as the bytes and values of records go (Avro 1.12, "Schema Declaration")."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

DIGITS = 38
"""Of Arrow's and Hive's decimals."""
_UUID_BYTES = 16
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
    """

    name: str
    logical: str = ""
    size: int = 0
    scale: int = 0
    symbols: tuple[str, ...] = ()
    parts: list[Type] = field(default_factory=list)
    names: dict[str, list[int]] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.logical or self.name

    @property
    def arrow(self) -> pa.DataType:
        """Of the values of a type without parts."""
        if self.logical == "decimal":
            return pa.decimal128(DIGITS, self.scale)
        return _ARROW.get(self.logical) or _ARROW[self.name]


def parse(texts: Sequence[str]) -> Type:
    """The schema in the last of `texts`; those before define names for it. Raises ValueError."""
    names: dict[str, Type] = {}
    try:
        return [_type(json.loads(text), "", names) for text in texts][-1]
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        message = f"not an Avro schema: {type(error).__name__} {error}"
        raise ValueError(message) from error


def _type(given: Any, space: str, names: dict[str, Type]) -> Type:
    """`space` is the namespace around it."""
    if isinstance(given, str):
        # A name without dots is of this namespace, if there is such a one, else a full name.
        full = _full(given, space)
        return Type(given) if given in _ARROW else names[full if full in names else given]
    if isinstance(given, list):
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
        case str() as name if name in _ARROW:
            return _leaf(name, given)
        case inner:
            return _type(inner, space, names)


def _fields(record: Type, fields: Any, space: str, names: dict[str, Type]) -> None:
    former: dict[str, list[int]] = {}
    for place, given in enumerate(fields):
        record.parts.append(_type(given["type"], space, names))
        record.names.setdefault(given["name"].lower(), []).append(place)
        for alias in given.get("aliases", ()):
            former.setdefault(alias.lower(), []).append(place)
    # A field's former name counts where no field has it now.
    record.names = former | record.names


def _full(name: str, space: str | None) -> str:
    return name if "." in name or not space else f"{space}.{name}"


def _leaf(name: str, given: dict[str, Any]) -> Type:
    """A logical type that isn't known, or is wrong where it stands, means nothing."""
    made = Type(name, size=int(given["size"]) if name == "fixed" else 0)
    made.symbols = tuple(map(str, given["symbols"])) if name == "enum" else ()
    logical, precision = given.get("logicalType"), given.get("precision")
    scale = given.get("scale", 0)
    is_decimal = logical == "decimal" and name in {"bytes", "fixed"}
    # A larger scale fits no column.
    if is_decimal and isinstance(precision, int) and scale in range(min(precision, DIGITS) + 1):
        made.logical, made.scale = "decimal", scale
    elif logical in _LOGICAL.get(name, ()) and made.size in {0, _UUID_BYTES}:
        made.logical = str(logical)
    return made
