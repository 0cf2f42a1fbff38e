"""Values as the case tables write them."""

from __future__ import annotations

import json
from datetime import date
from typing import Any


def shown(value: Any) -> str:  # noqa: PLR0911  one for each kind of value
    """NULL, true, 1, 1.5, "text", x'6869', 2024-01-02, [list], {map: value}, (struct: value)."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case str():
            return json.dumps(value, ensure_ascii=False)
        case bytes():
            return f"x'{value.hex()}'"
        case date():
            return str(value)
        case float():
            return repr(value)
        case [tuple(), *_]:
            return "{" + ", ".join(f"{shown(key)}: {shown(item)}" for key, item in value) + "}"
        case list():
            return "[" + ", ".join(map(shown, value)) + "]"
        case dict():
            return "(" + ", ".join(f"{name}: {shown(item)}" for name, item in value.items()) + ")"
        case _:
            return str(value)
