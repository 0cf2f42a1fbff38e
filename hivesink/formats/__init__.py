"""Adapters of the file formats that `config/formats.py` lists."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import pyarrow as pa

from hivesink.config.formats import FORMATS
from hivesink.config.options import SinkConfig
from hivesink.core.table import SortKey
from hivesink.ports.rows import FileContent, FileFormat

if TYPE_CHECKING:
    from typing_extensions import Self


class Adapter(FileFormat, Protocol):
    """What `Format.adapter` names."""

    @classmethod
    def of(
        cls,
        schema: pa.Schema,
        config: SinkConfig,
        *,
        order: tuple[SortKey, ...] = (),
        ids: Mapping[str, int] = ...,
    ) -> Self:
        """The format of rows of `schema`, which come in `order`. `ids` are those of fields, by their paths."""


class Records:
    """Writes a file by pyarrow, whose writer would finish it when dropped: one that wasn't closed stays unfinished."""

    _writer: Any = None

    def __del__(self) -> None:
        if self._writer is not None:
            self._writer.is_open = False


def adapter(name: str) -> type[Adapter]:
    """The adapter of the format `name`, loaded when it is first needed."""
    module, _, adapter_class = FORMATS[name].adapter.partition(":")
    loaded: type[Adapter] = getattr(import_module(module), adapter_class)
    return loaded


def measure(name: str, stream: BinaryIO) -> FileContent:
    """As `Measure`."""
    return adapter(name).measure(stream)


def fitted(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of `schema`, whose names are in lower case, in its types. ArrowInvalid for what doesn't fit."""
    places = {name.lower(): place for place, name in enumerate(rows.schema.names)}
    columns = [
        rows.column(places[wanted.name]).cast(wanted.type)
        if wanted.name in places
        else pa.nulls(rows.num_rows, wanted.type)
        for wanted in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
