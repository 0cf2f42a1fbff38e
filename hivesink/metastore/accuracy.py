"""`COLUMN_STATS_ACCURATE`: the parameter by which Hive answers `count(*)` without reading (HIVE-11266)."""

from __future__ import annotations

import json

FLAG = "COLUMN_STATS_ACCURATE"
BASIC_ONLY = '{"BASIC_STATS":"true"}'
"""Number of files, bytes and rows hold; no column's statistics do."""


def is_accurate(text: str | None) -> bool:
    """Whether Hive might trust statistics by this parameter: a text in doubt counts as trusted.

    Hive before 2.0 wrote `true` or `false`, later ones a JSON object.
    """
    if text is None or not text.strip():
        return False
    try:
        found = json.loads(text.lower())
    except ValueError:
        return True
    if isinstance(found, dict):
        return found.get("basic_stats") in {"true", True} or bool(found.get("column_stats"))
    return found is not False
