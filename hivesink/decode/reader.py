"""Input batches of either kind, raw or decoded, to rows of a Hive table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hivesink.decode.fit import check_types
from hivesink.decode.json import JsonDecoder
from hivesink.decode.result import DecodeOptions
from hivesink.decode.rows import ColumnsReader

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from hivesink.core.table import Column
    from hivesink.decode.result import Decoded

__all__ = ["DecodeOptions", "RowsReader", "check_types"]


class RowsReader:
    """Reads `columns` from the raw column `value` (JSON in bytes or text), or, without it, from columns."""

    def __init__(self, columns: Sequence[Column], value: str | None, options: DecodeOptions) -> None:
        self._value = value
        self._json = JsonDecoder(columns, options) if value is not None else None
        self._columns = ColumnsReader(columns, options)

    def read(self, batch: pa.RecordBatch) -> Decoded:
        """Raises ColumnsDontFit for decoded rows whose types can't fit."""
        if self._json is None:
            return self._columns.read(batch)
        return self._json.decode(batch.column(batch.schema.get_field_index(self._value)))
