"""How the rows lie in a table's part files, and which of its columns the settings may name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hivesink.config.options import Compression
from hivesink.core.table import Array, Map, Primitive, SortKey, Struct, TableSpec
from hivesink.errors import InvalidOption

if TYPE_CHECKING:
    from hivesink.config.options import SinkConfig
    from hivesink.core.table import HiveType

_DICTIONARY, _BLOOM, _SORT = "sink.parquet.dictionary", "sink.parquet.bloom-filter-columns", "sink.sort-by"


@dataclass(frozen=True, slots=True)
class Layout:
    """`row_group` is in bytes before encoding.

    `dictionary` says which columns have one: all, none, these, or (None) those in which values repeat.
    """

    compression: Compression = Compression.SNAPPY
    row_group: int = 128 << 20
    dictionary: bool | tuple[str, ...] | None = None
    bloom_filters: tuple[str, ...] = ()
    order: tuple[SortKey, ...] = ()

    @classmethod
    def of(cls, config: SinkConfig) -> Layout:
        """The sink's own setting wins over Hive's property."""
        return cls(
            compression=config["sink.parquet.compression"] or config["parquet.compression"],
            row_group=config["sink.parquet.row-group-size"] or config["parquet.block.size"],
            dictionary=config[_DICTIONARY],
            bloom_filters=config[_BLOOM] or (),
            order=config[_SORT] or (),
        )

    @property
    def plain(self) -> Layout:
        """The same for another table, which has none of the columns that the settings name."""
        return replace(self, dictionary=None, bloom_filters=(), order=())


def require_columns(spec: TableSpec, config: SinkConfig) -> None:
    """Raise InvalidOption for a setting's columns that the table lacks, or that the setting can't use."""
    layout = Layout.of(config)
    dictionary = layout.dictionary if isinstance(layout.dictionary, tuple) else ()
    named = {_DICTIONARY: dictionary, _BLOOM: layout.bloom_filters, _SORT: tuple(key.column for key in layout.order)}
    kinds = {column.name: column.type for column in spec.columns}
    problems = [
        f"{option} names {name!r}, {problem}"
        for option, names in named.items()
        for name in names
        if (problem := _problem(name, kinds, spec, is_sort=option == _SORT))
    ]
    every = {"", *kinds, *(column.name for column in spec.partition_columns)}
    times = (name for name in config["sink.timestamp-format"] if name not in every)
    problems += [f"sink.timestamp-format names {name!r}, which is no column of {spec.name}" for name in times]
    unknown = sorted((config["sink.statistics.columns"] or frozenset()) - kinds.keys())
    problems += [f"sink.statistics.columns names {name!r}, no column in the files of {spec.name}" for name in unknown]
    if problems:
        raise InvalidOption(tuple(problems))


def _problem(name: str, kinds: dict[str, HiveType], spec: TableSpec, *, is_sort: bool) -> str | None:
    if name in {column.name for column in spec.partition_columns}:
        return "a partition column: it has one value for all rows of a file"
    if name not in kinds:
        return f"which is no column of {spec.name}"
    kind = kinds[name]
    if isinstance(kind, Array | Map | Struct) or (kind is Primitive.BOOLEAN and not is_sort):
        return f"which is {kind}: write columns that are not nested" + ("" if is_sort else ", and not BOOLEAN")
    return None
