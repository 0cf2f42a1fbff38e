"""The file formats that tables may be STORED AS: Hive's classes of each, its settings, and where its adapter is.

A new format is an entry here and a module in `hivesink/formats`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from hivesink.config.parsers import Option, one_of, size

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Format:
    """A file format as Hive knows it; `adapter` is `module:Class` of a `FileFormat`, `options` are its own settings."""

    name: str
    input_format: str
    output_format: str
    serde: str
    adapter: str
    options: Mapping[str, Option] = field(default_factory=dict)


# The codecs that every Hive reader of Parquet knows.
ParquetCompression = Enum(
    "ParquetCompression", {"SNAPPY": "snappy", "GZIP": "gzip", "ZSTD": "zstd", "NONE": "uncompressed"}
)
# How TIMESTAMPs are stored: Hive before 4.0 reads INT96 alone (HIVE-21215); Iceberg and others read INT64.
ParquetTimestamp = Enum("ParquetTimestamp", {"INT96": "int96", "MICROS": "micros"})

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
            options={
                "sink.parquet.timestamp": Option("int96", one_of(ParquetTimestamp)),
                "parquet.compression": Option("snappy", one_of(ParquetCompression)),
                "parquet.block.size": Option("128MB", size),
            },
        ),
    )
}
SUPPORTED = " or ".join(f"STORED AS {name}" for name in FORMATS)
"""For messages."""


def format_name(input_format: str | None) -> str:
    """The name of the format that is read by the class `input_format`; the class where no format here has it."""
    names = (known.name for known in FORMATS.values() if known.input_format == input_format)
    return next(names, input_format or "none")
