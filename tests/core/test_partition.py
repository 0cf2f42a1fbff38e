"""Hive's partition paths: escaping and parsing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivesink.core.partition import DEFAULT_PARTITION, ESCAPED, escape, parse_path, partition_path, unescape
from hivesink.errors import PartitionInvalid

# As listed by Hive's FileUtils: the control characters by its loop, the others one by one.
HIVES_LIST = {chr(code) for code in range(32)} | {
    '"', "#", "%", "'", "*", "/", ":", "=", "?", "\\", "\x7f", "{", "[", "]", "^",
}  # fmt: skip


def test_exactly_what_hive_escapes_is_escaped() -> None:
    assert HIVES_LIST == ESCAPED
    for code in range(0x3000):
        char = chr(code)
        assert escape(char) == (f"%{code:02X}" if char in HIVES_LIST else char)


def test_hives_own_example() -> None:
    assert escape("a/b=c%d \x01ü}") == "a%2Fb%3Dc%25d %01ü}"


@given(st.text())
def test_escape_round_trips(text: str) -> None:
    assert unescape(escape(text)) == text


@given(st.text())
def test_an_escaped_text_is_one_folder_name(text: str) -> None:
    assert not {"/", "=", "\x00", "\n"} & set(escape(text))


def test_a_percent_sign_without_two_digits_stands_for_itself() -> None:
    assert unescape("100%") == "100%"
    assert unescape("%2") == "%2"
    assert unescape("%zz%2f%2F") == "%zz//"


NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,10}", fullmatch=True)
VALUES = st.one_of(st.none(), st.text(min_size=1, max_size=20).filter(lambda text: text != DEFAULT_PARTITION))


@given(st.dictionaries(NAMES, VALUES, min_size=1, max_size=4))
def test_path_round_trips(values: dict[str, str | None]) -> None:
    path = partition_path(list(values), list(values.values()))
    assert parse_path(path) == tuple(values.items())
    assert path.count("/") == len(values) - 1


def test_paths() -> None:
    assert partition_path(["dt", "Hour"], ["2024-01-02", "3"]) == "dt=2024-01-02/hour=3"
    assert partition_path(["a", "b"], [None, ""]) == f"a={DEFAULT_PARTITION}/b={DEFAULT_PARTITION}"
    assert partition_path(["t"], ["2024-01-02 03:04:05"]) == "t=2024-01-02 03%3A04%3A05"
    assert parse_path(f"/A={DEFAULT_PARTITION}/b=x%3Dy/") == (("a", None), ("b", "x=y"))


@pytest.mark.parametrize("path", ["", "a", "a=", "=b", "a=1//b=2", "a=1/part-0"])
def test_what_is_no_partition_path(path: str) -> None:
    with pytest.raises(PartitionInvalid, match="is not name=value"):
        parse_path(path)


def test_a_folder_name_that_file_systems_refuse() -> None:
    assert partition_path(["a"], ["ü" * 126]) == "a=" + "ü" * 126
    with pytest.raises(PartitionInvalid, match="256 bytes"):
        partition_path(["a"], ["ü" * 127])
