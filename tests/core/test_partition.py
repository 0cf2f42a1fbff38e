"""Hive's partition paths, escaped and parsed, and the one text that Hive gives each value."""

from __future__ import annotations

import math
import re
import struct
from datetime import date, datetime, timezone
from decimal import Decimal as Number
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivesink.core.partition import (
    DEFAULT_PARTITION,
    escape,
    folder,
    normal,
    parse_path,
    partition_path,
    same_location,
    unescape,
    unregistrable,
)
from hivesink.core.partition_value import canonical
from hivesink.core.table import Char, Decimal, HiveType, Primitive
from hivesink.core.time_format import TimePattern
from hivesink.core.typetext import parse_type
from hivesink.errors import PartitionInvalid


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


P = Primitive


FILE = Path(__file__).parent / "cases/partition_values.txt"
WORDS = {"Number": Number, "date": date, "datetime": datetime, "timezone": timezone, "math": math, "struct": struct}


def cases() -> list[tuple[HiveType, str, str]]:
    kind: HiveType = P.STRING
    found = []
    for line in FILE.read_text(encoding="utf-8").splitlines()[2:]:
        if line.startswith("-- "):
            kind = parse_type(line[3:])
        else:
            value, expected = line.split(" => ")
            found.append((kind, value, expected))
    return found


@pytest.mark.parametrize(("kind", "value", "expected"), cases())
def test_the_folder_of_each_value(kind: HiveType, value: str, expected: str) -> None:
    given = eval(value, WORDS)  # noqa: S307  a file of this repository
    if expected.startswith("! "):
        with pytest.raises(PartitionInvalid, match=f"of type {re.escape(str(kind))} ") as caught:
            canonical(given, kind)
        assert expected[2:] in str(caught.value)
    else:
        text = canonical(given, kind)
        path = partition_path(["p"], [text])
        assert path == f"p={expected}"
        assert parse_path(path) == (("p", text),)
        assert text is None or canonical(text, kind) == text


def test_an_error_does_not_repeat_a_megabyte() -> None:
    with pytest.raises(PartitionInvalid) as caught:
        canonical("x" * 1_000_000, Char(3))
    assert len(str(caught.value)) < 300


@given(st.floats())
def test_a_double_reads_back(value: float) -> None:
    text = canonical(value, P.DOUBLE)
    assert text is not None
    assert struct.pack("d", float(text)) == struct.pack("d", value) or math.isnan(value)
    assert canonical(text, P.DOUBLE) == text


@given(st.floats(width=32))
def test_a_float_reads_back(value: float) -> None:
    text = canonical(value, P.FLOAT)
    assert text is not None
    assert struct.pack("<f", float(text)) == struct.pack("<f", value) or math.isnan(value)
    assert canonical(text, P.FLOAT) == text


@given(st.integers(1, 38).flatmap(lambda p: st.tuples(st.just(p), st.integers(0, p))), st.data())
def test_a_decimal_has_one_text(shape: tuple[int, int], data: st.DataObject) -> None:
    precision, scale = shape
    unscaled = data.draw(st.integers(-(10**precision) + 1, 10**precision - 1))
    value = Number((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))
    text = canonical(value, Decimal(precision, scale))
    assert text is not None
    assert Number(text) == value
    assert "E" not in text
    assert not ("." in text and text.endswith("0"))
    assert canonical(f"{value:f}000" if scale else f"{value}.000", Decimal(precision, scale)) == text


@given(st.datetimes())
def test_a_timestamp_has_one_text(value: datetime) -> None:
    text = canonical(value, P.TIMESTAMP)
    assert text is not None
    assert canonical(text, P.TIMESTAMP) == text
    assert datetime.fromisoformat(text.ljust(26, "0") if "." in text else text) == value
