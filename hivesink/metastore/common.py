"""What all registrars share: which tables the sink can write, partition names, trust in statistics, bulk changes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from hivesink.config.formats import FORMATS, SUPPORTED, format_name
from hivesink.core.log import PROPERTY
from hivesink.core.partition import DEFAULT_PARTITION, Estimate, parse_path, partition_path
from hivesink.core.table import Column, TableName, TableSpec
from hivesink.core.typetext import parse_type
from hivesink.errors import (
    PartitionInvalid,
    RegistrationFailed,
    TableReplaced,
    TypeTextInvalid,
    Unsupported,
)
from hivesink.ports import LiveTable

Key = TypeVar("Key")
FLAG = "COLUMN_STATS_ACCURATE"
"""The parameter by which Hive answers `count(*)` without reading (HIVE-11266)."""
Values = tuple[str, ...]
"""Unescaped values as the metastore keeps them: null is DEFAULT_PARTITION."""
Described = tuple[str, str, str | None]
"""A column's name, type and comment."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a metastore says of a table. `kind`: its type; `properties`: all of them."""

    name: TableName
    kind: str
    input_format: str
    serde: str
    clustered: bool
    properties: Mapping[str, str]
    columns: Sequence[Described] = ()
    partition_columns: Sequence[Described] = ()
    location: str | None = None

    @property
    def external(self) -> bool:
        return "EXTERNAL" in self.kind.upper() or self._set("EXTERNAL")

    def _set(self, key: str) -> bool:
        return self.properties.get(key, "").lower() == "true"

    @property
    def _fields_in_upper_case(self) -> bool:
        """Hive 4 finds an ORC file's nested fields by their names as the metastore spells them."""
        names = (name for _, text, _ in self.columns for name in re.findall(r"[^<>,:]+(?=:)", text))
        return any(name != name.lower() for name in names)

    def _typed(self, described: Iterable[Described]) -> tuple[Column, ...]:
        columns: list[Column] = []
        for name, text, comment in described:
            try:
                columns.append(Column(name.lower(), parse_type(text), comment or None))
            except TypeTextInvalid as error:  # noqa: PERF203 - the error names its column
                msg = f"column {name} of {self.name} ({text})"
                raise Unsupported(msg, error.reason, "give it another type, or leave it out") from error
        return tuple(columns)

    def spec(self) -> TableSpec:
        """Raises Unsupported for a type that the sink doesn't know."""
        fields = {"comment", "EXTERNAL"}
        return TableSpec(
            name=self.name,
            columns=self._typed(self.columns),
            partition_columns=self._typed(self.partition_columns),
            location=self.location,
            comment=self.properties.get("comment"),
            external=self.external,
            format=format_name(self.input_format),
            properties=tuple(sorted((key, text) for key, text in self.properties.items() if key not in fields)),
        )

    def require(self, table: LiveTable) -> None:
        """Raise TableReplaced if this is another table than `table` was; Unsupported if the sink can't write it."""
        if self.properties.get(PROPERTY) != table.log:
            raise TableReplaced(str(self.name), "it names another log")
        self.refuse()
        require_layout(table.spec, self._typed(self.partition_columns), format_name(self.input_format))

    def refuse(self) -> None:
        """Raise Unsupported where rows put into the table's folders would be wrong or lost."""
        name, format_ = self.name, FORMATS.get(format_name(self.input_format))
        refusals = (
            ("VIEW" in self.kind.upper(), f"{name}, a view,", "a view has no files", "name the table behind it"),
            (
                self._set("transactional"),
                f"{name}, a transactional table,",
                "Hive finds its rows by its own transaction log",
                "create an external table for the stream",
            ),
            (
                format_ is None or self.serde != format_.serde,
                f"the format of {name} ({self.input_format or 'none'})",
                "the sink can't write it",
                f"create it {SUPPORTED}, or, if it was altered, take that back: ALTER TABLE … SET FILEFORMAT",
            ),
            (
                self.clustered or "spark.sql.sources.schema.numBuckets" in self.properties,
                f"{name}, a table CLUSTERED or SKEWED BY columns,",
                "readers would look for rows in the wrong files",
                "create it with partitions only",
            ),
            (
                self.external and self._set("discover.partitions"),
                f"discover.partitions=true on {name}",
                "the metastore would register unfinished folders (partition.retention.period works only with it)",
                f"run: ALTER TABLE {name} SET TBLPROPERTIES ('discover.partitions'='false')",
            ),
            (
                format_ is FORMATS["ORC"] and self._fields_in_upper_case,
                f"upper case in a STRUCT's field names in {name}, an ORC table,",
                "Hive would read null from fields that files have in lower case",
                "create it with these names in lower case, or STORED AS PARQUET",
            ),
        )
        for applies, what, why, instead in refusals:
            if applies:
                raise Unsupported(what, why, instead)


def require_layout(spec: TableSpec, partition_columns: Sequence[Column], stored_as: str) -> None:
    """Raises TableReplaced where the metastore has other ones than `spec` knows."""
    both = (spec.partition_columns, partition_columns)
    before, now = (", ".join(f"{column.name} {column.type}" for column in columns) for columns in both)
    if before != now:
        raise TableReplaced(str(spec.name), f"it is partitioned by ({now}), and was by ({before})")
    if stored_as != spec.format:
        raise TableReplaced(str(spec.name), f"it is STORED AS {stored_as}, and was STORED AS {spec.format}")


def values_of(spec: TableSpec, partition: str) -> Values:
    """Raises PartitionInvalid unless `partition` names the table's partition columns in their order."""
    parsed = parse_path(partition)
    names = [column.name for column in spec.partition_columns]
    if [name for name, _ in parsed] != names:
        raise PartitionInvalid(repr(partition), f"{spec.name} is partitioned by {', '.join(names) or 'nothing'}")
    return tuple(DEFAULT_PARTITION if value is None else value for _, value in parsed)


def name_of(spec: TableSpec, values: Values) -> str:
    """The metastore's own name of the partition: it escapes as `core.partition_path` does."""
    return partition_path([column.name for column in spec.partition_columns], values)


def figures_of(estimate: Estimate) -> dict[str, str]:
    """The parameters that say them. Without FLAG, planners use them and no query is answered from them."""
    return {
        "numFiles": str(estimate.files),
        "totalSize": str(estimate.bytes),
        "numRows": str(estimate.rows),
        "rawDataSize": str(estimate.raw_bytes),
    }


def is_trusted(parameters: Mapping[str, str] | None, *, is_partitioned: bool = False) -> bool:
    """Whether Hive might answer from the statistics of a partition or a table; an unclear FLAG counts as trusted.

    Hive before 2.0 wrote `true` or `false`, later ones a JSON object. Of a table that `is_partitioned` itself, Hive
    uses the columns' statistics alone: it reduces filters by their bounds, and counts by the partitions'.
    """
    text = (parameters or {}).get(FLAG, "").strip().lower() or "false"
    try:
        # Hive escapes the quotes where it describes a table.
        flag = json.loads(text.replace('\\"', '"'))
    except ValueError:
        return True
    if not isinstance(flag, dict):
        return flag is not False
    return bool(flag.get("column_stats")) or (not is_partitioned and flag.get("basic_stats") in {"true", True})


def change_all(
    partitions: Mapping[Key, str],
    change: Callable[[Sequence[Key]], None],
    *,
    action: str,
    per_call: int,
    ask: Callable[[], object],
) -> None:
    """Call `change` with up to `per_call` keys of `partitions` (names by key); after a refusal, with each key alone.

    A metastore refuses a whole call because of a single partition. `ask` asks it any question: a metastore that can't
    answer refuses everything, and isn't asked for each partition.
    Raises RegistrationFailed with all refused partitions once the others are changed.
    """
    keys = list(partitions)
    refused: dict[Key, RegistrationFailed] = {}
    waiting = [keys[start : start + per_call] for start in range(0, len(keys), per_call)]
    while waiting:
        chunk = waiting.pop(0)
        try:
            change(chunk)
        except RegistrationFailed as error:
            ask()
            if len(chunk) > 1:
                waiting[:0] = [[key] for key in chunk]
            else:
                refused[chunk[0]] = error
    if refused:
        first, *_ = refused.values()
        reasons = list(dict.fromkeys(error.reason for error in refused.values()))
        at_fault = tuple(partitions[key] for key in refused)
        raise RegistrationFailed(first.table, action, "; ".join(reasons[:3]), first.metastore, at_fault) from first
