"""Tables that the sink can't write, by what any metastore says of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hivesink.core.table import Column, TableName
from hivesink.core.typetext import parse_type
from hivesink.errors import TypeTextInvalid, Unsupported

if TYPE_CHECKING:
    from collections.abc import Mapping

PARQUET_INPUT = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat"
PARQUET_OUTPUT = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat"
PARQUET_SERDE = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
_SPARK_BUCKETS = "spark.sql.sources.schema.numBuckets"


@dataclass(frozen=True, slots=True)
class Facts:
    """What decides; `kind` is the metastore's table type, `properties` are all parameters."""

    name: TableName
    kind: str
    input_format: str
    serde: str
    bucketed: bool
    skewed: bool
    properties: Mapping[str, str]

    @property
    def external(self) -> bool:
        return "EXTERNAL" in self.kind.upper() or self._set("EXTERNAL")

    def _set(self, key: str) -> bool:
        return self.properties.get(key, "").lower() == "true"

    def refuse(self) -> None:
        """Raise Unsupported where rows put into the table's folders would be wrong or lost."""
        name = self.name
        if "VIEW" in self.kind.upper():
            msg = f"{name}, a view,"
            raise Unsupported(msg, "a view has no files", "name the table behind it")
        if self._set("transactional"):
            msg = f"{name}, a transactional table,"
            raise Unsupported(
                msg,
                "Hive finds its rows by its own transaction log",
                "create an external table for the stream",
            )
        if self.input_format != PARQUET_INPUT or self.serde != PARQUET_SERDE:
            msg = f"the format of {name} ({self.input_format or 'none'})"
            raise Unsupported(
                msg,
                "the sink writes Parquet",
                "create the table STORED AS PARQUET",
            )
        if self.bucketed or _SPARK_BUCKETS in self.properties or self.skewed:
            msg = f"{name}, a table CLUSTERED or SKEWED BY columns,"
            raise Unsupported(
                msg,
                "readers would look for rows in the wrong files",
                "create it with partitions only",
            )
        if self.external and self._set("discover.partitions"):
            msg = f"discover.partitions=true on {name}"
            raise Unsupported(
                msg,
                "the metastore would register folders whose files aren't all there",
                f"run: ALTER TABLE {name} SET TBLPROPERTIES ('discover.partitions'='false')",
            )


def column(table: TableName, name: str, type_text: str, comment: str | None) -> Column:
    """A column as a metastore tells of it. Raises Unsupported for a type that the sink doesn't know."""
    try:
        return Column(name.lower(), parse_type(type_text), comment or None)
    except TypeTextInvalid as error:
        msg = f"column {name} of {table} ({type_text})"
        raise Unsupported(msg, error.reason, "give it another type, or leave it out") from error
