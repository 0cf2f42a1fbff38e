"""The values of rows, as JSON and as text: alike, whoever read them."""

from __future__ import annotations

from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal as Number
from json import dumps
from typing import TYPE_CHECKING, Any

from hivesink.cli.output import UNSAFE, jsonable, printable
from hivesink.core.table import Array, Decimal, Map, Primitive, Struct

if TYPE_CHECKING:
    from hivesink.core.table import HiveType


def plain(cell: Any, kind: HiveType | None = None) -> Any:  # noqa: PLR0911  one per type
    """As JSON: its objects have only text keys, Hive's maps have any primitive.

    Without a `kind`, what it would tell is left as it is: a FLOAT has the digits of the double that Python holds
    (0.10000000149011612 for 0.1), a map in Arrow's form stays a list of pairs, and a time that came as text is text.
    """
    match cell:
        case str():
            return _read(cell, kind)
        case dict() if isinstance(kind, Struct):
            return {name: plain(part, of) for (name, part), (_, of) in zip(cell.items(), kind.fields, strict=True)}
        case dict():
            key_kind, value_kind = (kind.key, kind.value) if isinstance(kind, Map) else (None, None)
            return {_key(key, key_kind): plain(part, value_kind) for key, part in cell.items()}
        case tuple() if hasattr(cell, "__fields__"):
            # A struct of Spark's, whose field names keep their case.
            kinds = [part for _, part in kind.fields] if isinstance(kind, Struct) else [None] * len(cell)
            return {name: plain(part, of) for name, part, of in zip(cell.__fields__, cell, kinds, strict=True)}
        case list() if isinstance(kind, Map):
            return plain(dict(cell), kind)
        case list():
            element = kind.element if isinstance(kind, Array) else None
            return [plain(part, element) for part in cell]
        case bytearray():
            # PySpark before 4.1 hands out a BINARY so.
            return bytes(cell)
        case float():
            # NumPy knows the fewest digits of a FLOAT. Not at the top: it would slow the start of every command.
            import numpy as np

            return jsonable(float(str(np.float32(cell))) if kind is Primitive.FLOAT else cell)
    return cell


def shown(cell: Any) -> str:
    """The text of a plain cell: what JSON has, but NULL, and a time with a space in its middle.

    A text that would look like a null, like nothing or like one in quotes is in JSON's quotes; so is one that has
    blanks at an end, or would break the row.
    """
    match cell:
        case None:
            return "NULL"
        case str():
            is_odd = cell in ("", "NULL") or cell.startswith('"') or cell != cell.strip() or UNSAFE.search(cell)
            return _quoted(cell) if is_odd else cell
        case datetime():
            return cell.isoformat(" ")
        case bool() | list() | dict():
            return _quoted(cell)
        case int():
            return str(cell)
    return str(jsonable(cell))


def _quoted(cell: Any) -> str:
    # JSON escapes only a part of what a terminal acts on.
    return printable(dumps(cell, default=jsonable, ensure_ascii=False))


def _key(key: Any, kind: HiveType | None) -> str:
    """As the same value is printed in JSON elsewhere."""
    text = plain(key, kind)
    return text if isinstance(text, str) else dumps(text, default=jsonable).strip('"')


def _read(text: str, kind: HiveType | None) -> Any:
    """The value of a date, a timestamp or a decimal that came as text; text where Python has no such year."""
    match kind:
        case Primitive.DATE:
            with suppress(ValueError):
                return date.fromisoformat(text)
        case Primitive.TIMESTAMP:
            seconds, _, fraction = text.partition(".")
            with suppress(ValueError):
                return datetime.fromisoformat(f"{seconds}.{fraction[:6].ljust(6, '0')}")
        case Decimal():
            return Number(text)
    return text
