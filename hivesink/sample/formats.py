"""The columns of a sample by how its records are written: from their schema, or from the values that they hold."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa

from hivesink.config.options import SinkConfig
from hivesink.core.column_source import json_path, parse_list
from hivesink.core.table import Column, Primitive
from hivesink.decode.csv import Dialect
from hivesink.decode.json.debezium import node_at
from hivesink.decode.reader import OpenSchemas, decoder_of
from hivesink.decode.values import NUMBER, InvalidValue
from hivesink.errors import InvalidOption
from hivesink.sample.infer import infer
from hivesink.sample.schemas import columns_of, of_connect, of_message


class Given(NamedTuple):
    """A sample's records, the settings of their table, and the first lines of files; a topic has none."""

    records: Sequence[bytes | None]
    config: SinkConfig
    schemas: OpenSchemas
    heads: Sequence[bytes]


class Proposed(NamedTuple):
    """Columns, the properties that they need, the column of an event's time, if sure, and what people should know."""

    columns: tuple[Column, ...]
    properties: dict[str, str]
    time: str | None = None
    notes: tuple[str, ...] = ()


def values_of(records: Iterable[bytes | None]) -> Iterator[Any]:
    """The records that are JSON; not those that are nested too deeply for Python's own reader."""
    for record in records:
        with suppress(ValueError, RecursionError):
            yield json.loads((record or b"").decode())


def _of_json(given: Given) -> Proposed:
    values = [*values_of(given.records)]
    if values and all(map(_event, values)):
        return _of_changes(given)
    path = given.config.text("sink.json.explode") or _list_of(values)
    if path is None:
        return Proposed(*infer(value for value in values if isinstance(value, dict)))
    steps, rows, inner = parse_list(path).steps, list[dict[str, Any]](), set[str]()
    for value in values:
        beside = {name: item for name, item in lowered(value).items() if name not in steps[:1]}
        for step in steps:
            value = lowered(value).get(str(step))  # noqa: PLW2901
        elements = [lowered(element) for element in (value if isinstance(value, list) else ())]
        inner = inner.union(*elements)
        rows += [{**beside, **element} for element in elements]
    columns, properties = infer(rows)
    for column in columns:
        option = f"sink.column.{column.name}.from"
        field = properties.get(option, json_path(column.name))
        if parse_list(field).steps[0] not in inner:
            properties[option] = field
        elif option in properties:
            properties[option] = path + field[1:]
    return Proposed(columns, {**properties, "sink.json.explode": path})


def lowered(value: Any) -> dict[str, Any]:
    """An object's fields by their names in lower case; of anything else none."""
    return {name.lower(): item for name, item in value.items()} if isinstance(value, dict) else {}


def _list_of(values: Sequence[Any]) -> str | None:
    """The path to the list of objects that each of the records is, or that is all it has."""
    names = {name for value in values for name in lowered(value)}
    lists = [lowered(value).get(min(names)) if names else value for value in values]
    if len(names) > 1 or not any(lists) or not all(map(_is_list, filter(None, lists))):
        return None
    return json_path(names.pop()) if names else "$"


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def _event(value: Any) -> dict[str, Any]:
    """The change event in a record; empty for any other record."""
    fields = lowered(value)
    event = lowered(fields.get("payload", fields))
    return event if "op" in event and {"before", "after"} & event.keys() else {}


def _of_changes(given: Given) -> Proposed:
    values = [*values_of(given.records)]
    images = (event.get("after") or event.get("before") for event in map(_event, values))
    columns, properties = infer(image for image in images if isinstance(image, dict))
    nodes = (node_at(value.get("schema"), ["after"]) for value in values if isinstance(value, dict))
    if node := next(filter(None, nodes), None):
        kinds = {column.name: column for column in columns_of(of_connect(node))[0]}
        columns = tuple(replace(kinds.get(column.name, column), name=column.name) for column in columns)
        properties.pop("sink.timestamp-format", None)
    return _with_event(given, columns, {**properties, "sink.value.format": "debezium-json"})


def _with_event(given: Given, columns: Sequence[Column], properties: dict[str, str], *notes: str) -> Proposed:
    """With what the latest state of a row is told by."""
    every = {"op": (Primitive.STRING, "$.op"), "changed_at": (Primitive.TIMESTAMP, "$.ts_ms")}
    if not given.heads:
        every["record_offset"] = Primitive.BIGINT, "kafka.offset"
    more, time = list(columns), ""
    for wanted, (kind, path) in every.items():
        name = wanted
        while name in {column.name for column in more}:
            name = f"event_{name}"
        more.append(Column(name, kind, "of the change"))
        properties[f"sink.column.{name}.from"] = path
        time = name if kind is Primitive.TIMESTAMP else time
    formats = filter(None, (properties.get("sink.timestamp-format"), f"{time}=epoch-millis"))
    properties["sink.timestamp-format"] = ",".join(formats)
    return Proposed(tuple(more), properties, time, notes)


def _of_csv(given: Given) -> Proposed:
    dialect, option = Dialect(given.config), "sink.value.csv.header"
    records = [record.decode("utf-8", "replace") for record in given.records if record]
    heads = list(dict.fromkeys(head.decode("utf-8", "replace") for head in given.heads if head))
    header = given.config[option] or next(iter(heads), None)
    if header is None:
        raise InvalidOption((f"{option} is missing: name the fields, as in --set {option}=id,name",))
    if len(heads) > 1 and not given.config[option]:
        told = (
            f"files begin with other lines, such as {heads[0]!r} and {heads[1]!r}, and a table's files have one order"
        )
        raise InvalidOption((f"{told}: choose files of one header, or name the fields by --set {option}=…",))
    split = [dialect.split(header)]
    for record in records:
        with suppress(InvalidValue):
            split.append(dialect.split(record))
    names, *texts = (row for row in split if len(row) == len(split[0]))
    rows = [dict(zip(map(str, names), map(_value, row), strict=True)) for row in texts if row != names]
    columns, properties = infer(rows)
    if any("" in row for row in texts):
        properties["sink.json.null-text"] = "empty"
    return Proposed(columns, {**properties, option: header})


def _value(text: str | None) -> Any:
    """What JSON would have for a field's text."""
    is_json = text in {"true", "false"} or re.fullmatch(NUMBER, text or "")
    return json.loads(text) if text and is_json else text or None


def _kinds(given: Given) -> list[Any]:
    """What a decoder reads the sample's records by, the newest last."""
    records = pa.array([record for record in given.records if record is not None], pa.binary())
    decoder: Any = decoder_of((), given.config, given.schemas)
    kinds: list[Any]
    kinds, bad = decoder.kinds(records)
    if not kinds:
        reason = bad[0].reason if bad else "the sample has no record with a value"
        raise InvalidOption((f"sink.value.format = {given.config['sink.value.format']!r}: {reason}",))
    return kinds


def _of_avro(given: Given) -> Proposed:
    kinds = _kinds(given)
    if not given.config["sink.value.format"].startswith("debezium"):
        columns, left = columns_of(*kinds)
        return Proposed(columns, {}, None, left)
    images = [kind.parts[place] for kind in kinds for place in kind.names.get("after", ())]
    images = [branch for image in images for branch in (image.parts or [image]) if branch.name == "record"]
    columns, left = columns_of(*images)
    return _with_event(given, columns, {}, *left)


def _of_protobuf(given: Given) -> Proposed:
    columns, left = columns_of(*(of_message(kind.descriptor, kind.symbols, {}) for kind in _kinds(given)))
    return Proposed(columns, {}, None, left)


PROPOSALS: Mapping[str, Callable[[Given], Proposed]] = {
    "json": _of_json,
    "csv": _of_csv,
    "debezium-json": _of_changes,
    "avro": _of_avro,
    "avro-confluent": _of_avro,
    "debezium-avro-confluent": _of_avro,
    "protobuf": _of_protobuf,
    "protobuf-confluent": _of_protobuf,
}
"""By format: what a table of such records may be. They raise InvalidOption, and what `Schemas` raises."""
