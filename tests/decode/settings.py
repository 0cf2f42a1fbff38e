"""A table's settings for its decoder, by their values."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from hivesink.config.options import OnUnknownField, Precision, SinkConfig
from hivesink.config.parsers import null_texts

if TYPE_CHECKING:
    from collections.abc import Mapping

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
