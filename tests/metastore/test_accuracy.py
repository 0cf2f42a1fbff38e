from __future__ import annotations

import pytest

from hivesink.metastore.accuracy import BASIC_ONLY, is_accurate


@pytest.mark.parametrize(
    ("text", "accurate"),
    [
        (None, False),
        ("", False),
        ("{}", False),
        ("false", False),
        ("FALSE", False),
        ('{"BASIC_STATS":"false"}', False),
        ('{"COLUMN_STATS":{}}', False),
        (BASIC_ONLY, True),
        ('{"COLUMN_STATS":{"id":"true"}}', True),
        ("true", True),
        ("TRUE", True),
        ("what is this", True),
    ],
)
def test_a_text_in_doubt_counts_as_trusted(text: str | None, accurate: bool) -> None:
    assert is_accurate(text) is accurate
