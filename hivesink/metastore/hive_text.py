"""HiveQL text for HiveServer2: quoting, and reading DESCRIBE FORMATTED of Hive and of Spark's Thrift Server."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from hivesink.core.partition import DEFAULT_PARTITION
from hivesink.core.table import TableSpec, quoted
from hivesink.metastore.common import Described, values_of

Row = Sequence[str | None]

# `$` because both servers substitute `${…}` inside of literals as well.
_LITERAL = {ord(char): f"\\u{ord(char):04x}" for char in (*map(chr, range(0x20)), "\x7f", "$", "'", "\\", ";")}


def literal(text: str) -> str:
    """A string literal that both servers read as `text`."""
    return f"'{text.translate(_LITERAL)}'"


def partition_clause(spec: TableSpec, partition: str, *, spark: bool) -> str:
    """`PARTITION (dt='…', hour='3')`; null is NULL to Spark, and its folder's name to Hive."""
    pairs = zip(spec.partition_columns, values_of(spec, partition), strict=True)
    values = ", ".join(
        f"{quoted(column.name)}=" + ("NULL" if spark and value == DEFAULT_PARTITION else literal(value))
        for column, value in pairs
    )
    return f"PARTITION ({values})"


@dataclass(slots=True)
class Description:
    """DESCRIBE FORMATTED, taken apart: columns, and the first value of each field by its lower-case name."""

    columns: list[Described] = field(default_factory=list)
    partition_columns: list[Described] = field(default_factory=list)
    fields: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, str] = field(default_factory=dict)

    @property
    def spark(self) -> bool:
        """Whether Spark's Thrift Server wrote it, by its names for the storage."""
        return "serde library" in self.fields and "num buckets" not in self.fields


def description(rows: Iterable[Row]) -> Description:
    """Read both dialects: Hive pads cells and gives each parameter a row; Spark lists them in a single row."""
    table = Description()
    section = "columns"
    for row in rows:
        name, value, more = ((cell or "").strip() for cell in (*row, "", "")[:3])
        if name.startswith("# "):
            if not name.startswith("# col_name"):
                section = "partition" if name.startswith("# Partition Information") else "detail"
        elif section in {"columns", "partition"} and name:
            target = table.columns if section == "columns" else table.partition_columns
            target.append((name, value, more or None))
        elif name.rstrip(":").lower() in {"table parameters", "partition parameters"} and not value:
            section = "parameters"
        elif section == "parameters" and not name and value:
            table.parameters[value] = more
        elif name:
            section = "detail"
            table.fields.setdefault(name.rstrip(":").lower(), value)
    keys = {name for name, _, _ in table.partition_columns}
    table.columns = [column for column in table.columns if column[0] not in keys]
    # Spark's are `[a=1, b={"x":"y"}]`: keys are words, so a comma inside a value doesn't end it.
    for name in ("table properties", "partition parameters"):
        listed = table.fields.get(name, "").removeprefix("[").removesuffix("]")
        pairs = re.split(r", (?=[\w.]+=)", listed)
        table.parameters |= dict(pair.split("=", 1) for pair in pairs if "=" in pair)
    return table
