from __future__ import annotations

from datetime import datetime, timezone

import pytest

from hivesink.core.bucket import TimePattern, folder, normal, same_location, unregistrable

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


def test_years_below_1000_have_four_digits() -> None:
    assert TimePattern.parse("yyyy-MM-dd").format(AT.replace(year=7)) == "0007-03-09"


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
    ],
)
def test_locations_are_compared_by_meaning(left: str, right: str, *, same: bool) -> None:
    assert same_location(left, right) is same


def test_the_root_stays_the_root() -> None:
    assert normal("file:///") == "/"


def test_an_unpartitioned_tables_parts_are_in_its_own_folder() -> None:
    assert folder("file:/w/t/", "") == "file:/w/t"
    assert folder("file:/w/t", "dt=1") == "file:/w/t/dt=1"


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
