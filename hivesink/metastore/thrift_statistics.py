"""Column statistics as the metastore's structs, in the types that Hive's own ANALYZE chooses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hive_metastore import ttypes

from hivesink.core.table import Char, Column, Decimal, Primitive, TableName, Varchar
from hivesink.metastore.thrift_calls import ENGINE

if TYPE_CHECKING:
    import decimal
    from collections.abc import Callable

    from hivesink.core.partition import Statistics
    from hivesink.core.statistics import ColumnFigures

TIMESTAMPS_SINCE = (4,)
"""The metastore's version from which timestamps have statistics of their own; before it, Hive keeps them as longs."""


def column_statistics(name: TableName, exact: Statistics, *, has_timestamps: bool) -> Any:
    """The `ColumnStatistics` of a partition, or of a table without any."""
    described = ttypes.ColumnStatisticsDesc(
        isTblLevel=not exact.partition, dbName=name.database, tableName=name.table, partName=exact.partition or None
    )
    objects = [
        ttypes.ColumnStatisticsObj(
            colName=column.name,
            colType=str(column.type),
            statsData=_data(column, figures, exact.rows, has_timestamps=has_timestamps),
        )
        for column, figures in exact.columns
    ]
    return ttypes.ColumnStatistics(statsDesc=described, statsObj=objects, engine=ENGINE)


def _data(column: Column, figures: ColumnFigures, rows: int, *, has_timestamps: bool) -> Any:
    # A null counts as a text of no characters.
    nulls, mean = figures.nulls, figures.length / rows if rows else 0.0
    data: dict[str, Any] = {}
    match column.type:
        case Primitive.BOOLEAN:
            falses = rows - nulls - figures.trues
            data["booleanStats"] = ttypes.BooleanColumnStatsData(figures.trues, falses, nulls)
        case Primitive.BINARY:
            data["binaryStats"] = ttypes.BinaryColumnStatsData(figures.longest, mean, nulls)
        case Primitive.STRING | Varchar() | Char():
            data["stringStats"] = ttypes.StringColumnStatsData(figures.longest, mean, nulls, figures.distinct)
        case Primitive.FLOAT | Primitive.DOUBLE:
            data["doubleStats"] = _bounded(ttypes.DoubleColumnStatsData, float, figures)
        case Decimal():
            data["decimalStats"] = _bounded(ttypes.DecimalColumnStatsData, _decimal, figures)
        case Primitive.DATE:
            data["dateStats"] = _bounded(ttypes.DateColumnStatsData, ttypes.Date, figures)
        case Primitive.TIMESTAMP if has_timestamps:
            data["timestampStats"] = _bounded(ttypes.TimestampColumnStatsData, ttypes.Timestamp, figures)
        case _:
            data["longStats"] = _bounded(ttypes.LongColumnStatsData, int, figures)
    return ttypes.ColumnStatisticsData(**data)


def _bounded(kind: Any, bound: Callable[[Any], Any], figures: ColumnFigures) -> Any:
    low, high = (None if end is None else bound(end) for end in (figures.low, figures.high))
    return kind(low, high, figures.nulls, figures.distinct)


def _decimal(value: decimal.Decimal) -> Any:
    """As Hive has it: the shortest scale, and the digits in two's complement, big-endian."""
    sign, digits, exponent = value.as_tuple()
    unscaled, scale = int("".join(map(str, digits))) * (-1 if sign else 1), -int(exponent)
    while scale > 0 and unscaled % 10 == 0:
        unscaled, scale = unscaled // 10, scale - 1
    in_bytes = unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)
    return ttypes.Decimal(unscaled=in_bytes, scale=scale)
