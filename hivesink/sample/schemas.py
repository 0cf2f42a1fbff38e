"""The columns that schemas declare: Avro's, and as Avro would have them Kafka Connect's and Protobuf's. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hivesink.core.table import Array, Column, Decimal, HiveType, Map, Primitive, Struct
from hivesink.core.time_format import EpochUnit
from hivesink.decode.arrowtypes import arrow_type
from hivesink.decode.avro.schema import DIGITS, Type
from hivesink.decode.connect import CONNECT, UNITS, VARIABLE, ZONED
from hivesink.decode.protobuf.columns import NUMBERS
from hivesink.decode.protobuf.scan import AS_JSON

_HIVE = {arrow_type(kind): kind for kind in Primitive}
_AVRO = {"struct": "record", "int8": "int", "int16": "int", "int32": "int", "int64": "long"}
_AVRO |= {"float32": "float", "float64": "double"}
"""What types of Connect's are called in Avro."""


_UINT64, _BYTES = 4, 12


def columns_of(*records: Type) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    """The columns of all fields of records, the newest last, and a note on each field that none can hold.

    The newest type counts. A field that has another name in newer records keeps the former one, by which a column
    reads it from all.
    """
    fields = dict[str, tuple[HiveType | None, list[str]]]()
    for record in records:
        for name, kind in _fields(record):
            former = [other for other, places in record.names.items() if places == record.names[name]]
            # The present name first: a record before may have had it alone.
            column, notes = next((other for other in former if other in fields), name), list[str]()
            fields[column] = _hive(kind, column, notes), notes
    columns = tuple(Column(name, kind) for name, (kind, _) in fields.items() if kind)
    return columns, tuple(note for _, notes in fields.values() for note in notes)


def _fields(record: Type) -> Iterator[tuple[str, Type]]:
    names = _names(record)
    return ((names[place], part) for place, part in enumerate(record.parts) if place in names)


def _names(record: Type) -> dict[int, str]:
    """The fields' present names, by their places."""
    names: dict[int, str] = {}
    for name, places in record.names.items():
        # Former names come last.
        names.setdefault(places[0], name)
    return names


def _hive(kind: Type, path: str, notes: list[str], *above: Type) -> HiveType | None:  # noqa: PLR0911  one for each kind
    """The type of a column that holds all values of `kind`, else None and a note: none holds a record in itself."""
    if unit := UNITS.get(kind.connect):
        return Primitive.DATE if unit is EpochUnit.DAYS else Primitive.TIMESTAMP
    if kind.connect == VARIABLE:
        return Decimal(DIGITS, 10)
    if kind.connect == ZONED or "timestamp" in kind.logical:
        return Primitive.TIMESTAMP
    if kind.logical == "decimal":
        return Decimal(min(kind.precision, DIGITS), kind.scale)
    parts = () if kind in above else kind.parts
    if kind.name == "record" and parts:
        fields = ((name, _hive(part, f"{path}.{name}", notes, kind, *above)) for name, part in _fields(kind))
        some = tuple((name, part) for name, part in fields if part)
        return Struct(some) if some else None
    # Of Protobuf's maps the key's type comes last.
    keys = [_hive(part, path, notes) for part in parts[1:]] if kind.name == "map" else []
    parts = parts[:1] if kind.name == "map" else parts
    inner = {_hive(part, path, notes, kind, *above) for part in parts if part.name != "null"}
    made = next(iter(inner)) if len(inner) == 1 else None
    if not kind.parts and kind.name != "record":
        made = _HIVE.get(kind.arrow)
    # What is within has its own note.
    if made is None and None not in inner and kind.name != "null":
        notes.append(f"No column holds all values of {path} ({kind})")
    if made and kind.name == "array":
        return Array(made)
    if made and kind.name == "map":
        return Map(next((key for key in keys if key), Primitive.STRING), made)
    return made


def of_connect(node: Any) -> Type:
    """A type of Connect's, from an event's own schema, as Avro would have it."""
    kind = str(node.get("type", "struct"))
    made = Type(_AVRO.get(kind, kind), connect=str(node.get("name")))
    parameters = node.get("parameters") or {}
    if made.connect == f"{CONNECT}Decimal":
        made.logical, made.scale = "decimal", int(parameters.get("scale", 0))
        made.precision = int(parameters.get("connect.decimal.precision", DIGITS))
    inner = node.get("fields") or [node[name] for name in ("items", "values") if name in node]
    for place, part in enumerate(inner):
        made.parts.append(of_connect(part))
        made.names[str(part.get("field")).lower()] = [place]
    return made


def of_message(message: Any, symbols: Mapping[str, Any], known: dict[str, Type]) -> Type:
    """A message's type, as Avro would have it; `known` are those by name, which may lead back to themselves."""
    name, file = message.full_name, message.file.name
    if name == "google.protobuf.Timestamp":
        return Type("long", logical="timestamp-micros")
    if name in known or file in AS_JSON:
        return known.get(name, Type("string"))
    made = known[name] = Type("record")
    for place, field in enumerate(message.fields):
        part = Type("bytes" if field.type == _BYTES else "string")
        if field.cpp_type <= len(NUMBERS) and field.full_name not in symbols:
            part = NUMBERS[field.cpp_type - 1]
        if field.cpp_type == _UINT64:
            part = Type("bytes", logical="decimal", precision=20)
        elif field.message_type is not None:
            part = of_message(field.message_type, symbols, known)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            part = Type("map", parts=part.parts[::-1])
        elif field.is_repeated:
            part = Type("array", parts=[part])
        made.parts.append(part)
        made.names[field.name.lower()] = [place]
    # Wrappers of a value are that value.
    return made.parts[0] if file == "google/protobuf/wrappers.proto" else made
