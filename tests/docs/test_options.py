"""The options of docs/options.md are those of the code, and docs/python.md has every parameter."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from enum import Enum
from pathlib import Path

import pytest

from hivesink import HiveSink, session, sources
from hivesink.config.options import OF_HIVE, OPTIONS
from hivesink.core.column_source import Metadata

API = (Path(__file__).parents[2] / "docs" / "python.md").read_text(encoding="utf-8")
PAGE = (Path(__file__).parents[2] / "docs" / "options.md").read_text(encoding="utf-8")
DECODING = (Path(__file__).parents[2] / "docs" / "types.md").read_text(encoding="utf-8")
EVERY = {
    # A registry's options are said once for all formats that have one.
    re.sub(r"^sink\.value\.[a-z-]+-confluent\.", "sink.value.<format>.", name): option
    for name, option in {**OPTIONS, **OF_HIVE}.items()
}
ROWS = {
    found["name"]: found
    for found in re.finditer(
        r"^\| `(?P<name>[\w.<>-]+)` \| (?P<default>[^|]+) \| (?P<values>[^|]+) \| (?P<meaning>[^|]+) \|$",
        PAGE,
        re.MULTILINE,
    )
}


def test_the_page_has_every_option_once_and_no_other() -> None:
    assert sorted(re.findall(r"^\| `([\w.-]+|sink\.value\.<format>\.[\w.-]+)`", PAGE, re.MULTILINE)) == sorted(EVERY)


def test_the_pages_have_where_columns_can_come_from() -> None:
    assert PAGE.count("| `sink.column.<name>.from` |") == 1
    table = DECODING.partition("## Metadata\n")[2].partition("\n- ")[0]
    assert set(re.findall(r"`([a-z]+[.-][\w.]+)`", table)) == {one.value for one in Metadata}


SAMPLES = {
    "IANA zone": ("UTC", "Europe/Berlin"),
    "a column, several with commas": ("a", "a,B"),
    "a share, such as 0.01": ("0.01", "0.5", ".05"),
    "none, empty, zero-date, column=empty,…": ("none", "empty", "zero-date", "a=empty,zero-date"),
    "a sign": (",", r"\t", r"\u0001"),
    "none, a sign": ("none", "'", "\\"),
    "a text": ("", r"\N"),
    "a line": ("id,name",),
    "a path to a list": ("$", "$.Records", "$.detail[0].items"),
    "absolute path": ("/log",),
    "a name, with ${table} and ${writer}": ("lag", "hivesink.${table}.${writer}"),
    "package.Message": ("a.b.M",),
    "a file's path": ("/a.pem",),
    "env:NAME, or a file's path": ("env:A_1", "/run/secrets/a"),
    "http(s)://host:port/path": ("http://a:8081", "https://a/b", "http://[::1]:8081/apis/ccompat/v7"),
    "bytes, KB, MB, GB": ("1000", "64KB", "64MB", "1GB"),
    "at least 1MB": ("1000000", "1024KB", "64MB", "1GB"),
    "epochs": ("20",),
    "file name": ("_DONE",),
    "letters, digits, _ and -": ("a_1-b",),
    "metastore, success-file, insert-event, module:Class; several with commas": ("metastore", "a:B,metastore"),
    "ms, s, min, h": ("5ms", "5s", "5min", "5h"),
    "octal, such as 640": ("640",),
    "none, all, column,…": ("none", "all", "a", "a, B"),
    "pattern, or column=pattern,…": ("yyyy", "y=yyyy,m=MM"),
    "pattern": ("yyyyMMdd",),
    "rows": ("1000",),
    "text, epoch-seconds, epoch-millis, epoch-micros, epoch-nanos, epoch-days, a pattern, or column=format,…": (
        *("text", "epoch-seconds", "epoch-millis", "epoch-micros", "epoch-nanos", "epoch-days"),
        *("yyyy/MM/dd HH:mm:ss Z", "a=epoch-millis,b=text"),
    ),
}
"""Values as the page describes them; every other description is a list of the values themselves."""


@pytest.mark.parametrize("name", EVERY)
def test_defaults_are_the_declared_ones_and_what_the_page_offers_is_accepted(name: str) -> None:
    option, row = EVERY[name], ROWS[name]
    assert row["default"] == {None: "none", "": "empty"}.get(option.default, f"`{option.default}`")
    values = SAMPLES.get(row["values"]) or tuple(row["values"].split(", "))
    parsed = [option.parse(text) for text in (*values, *filter(None, [option.default]))]
    if isinstance(parsed[0], Enum):
        assert values == tuple(member.value for member in type(parsed[0]))


@pytest.mark.parametrize(
    ("heading", "call"),
    [
        ("session", session),
        ("sources.kafka", sources.kafka),
        ("sources.lines", sources.lines),
        ("HiveSink.for_table", HiveSink.for_table),
        ("sink.start", HiveSink.start),
    ],
)
def test_the_page_of_the_api_has_every_parameter(heading: str, call: Callable[..., object]) -> None:
    section = API.partition(f"\n## `{heading}(")[2].partition("\n## ")[0]
    assert section
    for name in inspect.signature(call).parameters.keys() - {"self"}:
        assert re.search(rf"\b{name}\b", section), name
