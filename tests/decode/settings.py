"""What decoders are made of: columns, settings by their values, schemas; and records that are damaged."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

from hivesink.config.options import OnUnknownField, Precision, SinkConfig
from hivesink.config.parsers import null_texts
from hivesink.core.table import Column
from hivesink.core.typetext import parse_type
from hivesink.ports.rows import DecodedRows

UTC, IGNORE = ZoneInfo("UTC"), OnUnknownField.IGNORE
PLAIN = SinkConfig.parse({})


def decoding(
    zone: ZoneInfo = UTC,
    formats: Mapping[str, Any] | None = None,
    unknown: OnUnknownField = IGNORE,
    sources: Mapping[str, Any] | None = None,
    *,
    exact: bool = False,
    nulls: str = "none",
) -> SinkConfig:
    values = {
        "sink.timestamp-zone": zone,
        "sink.timestamp-format": formats or {},
        "sink.on-unknown-field": unknown,
        "sink.json.null-text": null_texts(nulls),
        "sink.json.timestamp-precision": Precision.EXACT if exact else Precision.TRUNCATE,
        **{f"sink.column.{name}.from": source for name, source in (sources or {}).items()},
    }
    return replace(PLAIN, values={**PLAIN.values, **values})


def declared(kinds: str) -> list[Column]:
    """The columns of `id int!, at timestamp`; `!` after a type: NOT NULL."""
    named = (item.split() for item in kinds.split(", "))
    return [Column(name, parse_type(kind.rstrip("!")), nullable=not kind.endswith("!")) for name, kind in named]


def bad(rows: DecodedRows) -> list[tuple[int, str | None, str]]:
    return [(row.index, row.field, row.reason) for row in rows.bad]


class Given:
    """Schemas that a test gives, as texts or as what is written in JSON."""

    def __init__(self, *schemas: Any) -> None:
        self.texts = [schema if isinstance(schema, str) else json.dumps(schema) for schema in schemas]

    def file(self) -> tuple[str, Sequence[str]]:
        return "", self.texts

    def registered(self, numbers: Sequence[int]) -> Mapping[int, Sequence[str]]:
        return {number: [self.texts[number]] for number in numbers if number < len(self.texts)}


def with_damage(records: Sequence[bytes], data: st.DataObject) -> tuple[int, bytes]:
    """The place of one of the records, and its bytes after one to three changes."""
    place = data.draw(st.integers(0, len(records) - 1))
    octets = bytearray(records[place])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(octets)))
        octets[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    return place, bytes(octets)
