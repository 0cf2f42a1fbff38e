"""Hive's partition paths: escaping and parsing."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivesink.core.partition import (
    DEFAULT_PARTITION,
    ESCAPED,
    escape,
    folder,
    normal,
    parse_path,
    partition_path,
    same_location,
    unescape,
    unregistrable,
)
from hivesink.core.time_format import TimePattern
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


@given(st.text())
def test_an_escaped_text_is_one_folder_name_that_reads_back(text: str) -> None:
    assert unescape(escape(text)) == text
    assert not {"/", "=", "\x00", "\n"} & set(escape(text))


def test_hives_own_example_and_percent_signs_that_stand_for_themselves() -> None:
    assert escape("a/b=c%d \x01ü}") == "a%2Fb%3Dc%25d %01ü}"
    assert [unescape(text) for text in ("100%", "%2", "%zz%2f%2F")] == ["100%", "%2", "%zz//"]


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


AT = datetime(2024, 3, 9, 7, 5, 4, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("pattern", "text", "unit"),
    [
        ("yyyy-MM-dd--HH", "2024-03-09--07", "hour"),
        ("yyyyMMdd", "20240309", "day"),
        ("yyyy/MM", "2024/03", "month"),
        ("HH:mm:ss", "07:05:04", "second"),
        ("'day 'dd", "day 09", "day"),
        ("''yyyy''", "'2024'", "year"),
        ("yyyy'%d'", "2024%d", "year"),
        ("yyyy%", "2024%", "year"),
        ("'%Y'yyyy", "%Y2024", "year"),
    ],
)
def test_patterns_format_as_javas_do(pattern: str, text: str, unit: str) -> None:
    parsed = TimePattern.parse(pattern)
    assert (parsed.format(AT), parsed.unit) == (text, unit)
    assert parsed.format(AT.replace(year=7)) == text.replace("2024", "0007")


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [("yyyy-QQ", "'QQ' in"), ("'open", "not closed"), ("--", "no part of a time"), ("yy", "'yy' in")],
)
def test_a_pattern_that_cant_be_one_says_why(pattern: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        TimePattern.parse(pattern)


def test_several_columns_have_a_pattern_each() -> None:
    found = TimePattern.parse_all("dt=yyyy-MM-dd, Hour=HH")
    assert {name: pattern.strftime for name, pattern in found.items()} == {"dt": "%Y-%m-%d", "hour": "%H"}
    with pytest.raises(ValueError, match="each column once"):
        TimePattern.parse_all("dt=yyyy, DT=MM")


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ("file:/a/b", "/a/b/", True),
        ("file:///a/b", "file:/a/b", True),
        ("hdfs://nn/a", "hdfs://nn/a/", True),
        ("hdfs://nn/a", "/a", False),
        ("hdfs://nn:8020/a", "hdfs://nn/a", True),
        ("hdfs://nn:8020", "hdfs://nn/", True),
        ("hdfs://nn:80201/a", "hdfs://nn/a", False),
        ("/a/b", "/a/c", False),
        ("file:///", "/", True),
    ],
)
def test_locations_are_compared_by_meaning(left: str, right: str, *, same: bool) -> None:
    assert same_location(left, right) is same
    assert normal("file:///") == "/"


def test_an_unpartitioned_tables_parts_are_in_its_own_folder() -> None:
    assert [folder("file:/w/t/", name) for name in ("", "dt=1")] == ["file:/w/t", "file:/w/t/dt=1"]


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("a=" + "x" * 765, None),
        ("a=" + "x" * 766, "768 characters; the metastore takes 767"),
        ("a=" + "é" * 765, None),
        ("a=" + "😀" * 383, "768 characters"),  # two of UTF-16 each
        ("a=b ", "'a=b ' ends in a blank: the metastore can't distinguish it from 'a=b'"),
        ("a= ", "ends in a blank"),
        ("a= b", None),
        ("a=b /c=d", None),
        ("a=b%09", None),
        ("a=b\u00a0", None),
    ],
)
def test_what_the_metastore_can_hold(path: str, reason: str | None) -> None:
    found = unregistrable(path)
    assert found is None if reason is None else reason in (found or "")
