"""The rows of a statement that Spark answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hivesink.core.typetext import known_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, Row
    from pyspark.sql.types import DataType

    from hivesink.core.table import HiveType


def answer(frame: DataFrame, most: int) -> tuple[Sequence[HiveType | None], list[Row]]:
    """The types of the columns, None where only Spark has the type, and the first `most` rows as `collect` has them.

    Of dates, timestamps and decimals, also nested ones, they have the text that Spark's CAST to STRING gives: Python
    has only the years 1 to 9999, and some decimals lose their scale on the way.
    """
    from pyspark.sql import functions as sf

    # Both kinds of timestamps print alike.
    types = [known_type(field.dataType.simpleString().replace("timestamp_ntz", "timestamp")) for field in frame.schema]
    targets = [_sent(field.dataType) for field in frame.schema]
    # By number, since two columns may have the same name.
    numbered = frame.toDF(*map(str, range(len(targets))))
    sent = numbered.select(*(sf.col(str(index)).cast(kind) for index, kind in enumerate(targets)))
    return types, sent.limit(most).collect()


def _sent(kind: DataType) -> Any:
    from pyspark.sql import types

    match kind:
        case types.DateType() | types.TimestampType() | types.TimestampNTZType() | types.DecimalType():
            return types.StringType()
        case types.ArrayType():
            return types.ArrayType(_sent(kind.elementType), kind.containsNull)
        case types.MapType():
            return types.MapType(_sent(kind.keyType), _sent(kind.valueType), kind.valueContainsNull)
        case types.StructType():
            return types.StructType(
                [types.StructField(field.name, _sent(field.dataType), field.nullable) for field in kind]
            )
    return kind
