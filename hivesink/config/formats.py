"""The file formats that tables may be STORED AS: Hive's classes of each, and where its adapter is.

A new format is an entry here and a module in `hivesink/formats`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Format:
    """A file format as Hive knows it by `name`; `adapter` is `module:Class` of a `FileFormat`."""

    name: str
    input_format: str
    output_format: str
    serde: str
    adapter: str


_HIVE = "org.apache.hadoop.hive.ql.io"
FORMATS: Mapping[str, Format] = {
    known.name: known
    for known in (
        Format(
            name="PARQUET",
            input_format=f"{_HIVE}.parquet.MapredParquetInputFormat",
            output_format=f"{_HIVE}.parquet.MapredParquetOutputFormat",
            serde=f"{_HIVE}.parquet.serde.ParquetHiveSerDe",
            adapter="hivesink.formats.parquet:ParquetFormat",
        ),
        Format(
            name="ORC",
            input_format=f"{_HIVE}.orc.OrcInputFormat",
            output_format=f"{_HIVE}.orc.OrcOutputFormat",
            serde=f"{_HIVE}.orc.OrcSerde",
            adapter="hivesink.formats.orc:OrcFormat",
        ),
    )
}
SUPPORTED = " or ".join(f"STORED AS {name}" for name in FORMATS)
"""For messages."""


def format_name(input_format: str | None) -> str:
    """The name of the format that is read by the class `input_format`; the class where no format here has it."""
    names = (known.name for known in FORMATS.values() if known.input_format == input_format)
    return next(names, input_format or "none")
