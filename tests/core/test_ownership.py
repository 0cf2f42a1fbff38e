"""Which table a log belongs to: one question, and every answer to it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivesink.core.ownership import (
    Evidence,
    LogAddress,
    Parts,
    RootRecord,
    Verdict,
    default_root,
    rebased,
    same_table,
)
from hivesink.core.table import TableName
from hivesink.errors import LogDamaged, NewerFormat

RECORD = RootRecord("1d", "thrift://a:9083", "demo.t", "/w/t")
OURS, AGAIN, COPY, MADE = Verdict.OURS, Verdict.SET_AGAIN, Verdict.COPY, Verdict.MADE_AGAIN
HERE, GONE, NONE = Parts.IN_PLACE, Parts.GONE, Parts.NONE
OTHER = ("demo.other",)

# What happened; the id that the table states; its name and location; parts; pending; left behind; named by; verdict.
CASES: list[tuple[str, str | None, str, str, Parts, bool, bool, tuple[str, ...], Verdict]] = [
    ("nothing", "1d", "demo.t", "/w/t", HERE, True, True, (), OURS),
    ("TRUNCATE, or INSERT OVERWRITE of all that was new", "1d", "demo.t", "/w/t", GONE, True, True, (), OURS),
    ("an external table was renamed", "1d", "demo.u", "/w/t", HERE, True, True, (), OURS),
    ("the same, and a user has compacted the newest files", "1d", "demo.u", "/w/t", GONE, True, True, (), OURS),
    ("a managed table was renamed", "1d", "demo.u", "/w/u", HERE, True, False, (), OURS),
    ("the same, before its first file", "1d", "demo.u", "/w/u", NONE, True, False, (), OURS),
    ("the same, and a user has compacted the newest files", "1d", "demo.u", "/w/u", GONE, True, False, (), OURS),
    ("the same, and a new table of the old name is there", "1d", "demo.u", "/w/u", HERE, True, True, (), OURS),
    (
        "SET LOCATION, and the newest files are found",
        "1d",
        "demo.t",
        "/x",
        HERE,
        True,
        True,
        (),
        OURS,
    ),
    ("DROP, and CREATE from the text of SHOW CREATE TABLE", "1d", "demo.t", "/w/t", GONE, True, True, (), OURS),
    ("CREATE under another name from that text", "1d", "demo.u", "/w/u", GONE, False, True, OTHER, COPY),
    ("the same over the same files", "1d", "demo.u", "/w/t", HERE, False, True, OTHER, COPY),
    ("the same, after the original was dropped; external", "1d", "demo.u", "/w/u", GONE, True, True, (), COPY),
    ("the text in a second metastore", "1d", "demo.t", "/dev/t", GONE, True, True, (), COPY),
    ("the same, before the first file", "1d", "demo.t", "/dev/t", NONE, True, True, (), COPY),
    ("the same, with the files copied there", "1d", "demo.t", "/dev/t", HERE, True, True, (), OURS),
    ("a lost update", None, "demo.t", "/w/t", HERE, True, True, (), AGAIN),
    ("a metastore restored from before the first start", None, "demo.t", "/w/t", HERE, True, True, (), AGAIN),
    ("the same, from before a reset", "2e", "demo.t", "/w/t", HERE, True, True, (), AGAIN),
    ("DROP and CREATE of an external table over its files", None, "demo.t", "/w/t", HERE, True, True, (), AGAIN),
    ("the same under another name", None, "demo.u", "/w/t", HERE, True, True, (), AGAIN),
    ("a kill between the root's record and the ALTER", None, "demo.t", "/w/t", NONE, False, True, (), AGAIN),
    ("the same, and the table was renamed since", None, "demo.u", "/w/u", NONE, False, False, (), AGAIN),
    ("DROP and CREATE before any file, while rows wait", None, "demo.t", "/w/t", NONE, True, True, (), MADE),
    ("DROP and CREATE", None, "demo.t", "/w/t", GONE, False, True, (), MADE),
    ("the same by `ddl apply`, which sets an id", "2e", "demo.t", "/w/t", GONE, False, True, (), MADE),
    ("the same, while rows wait", None, "demo.t", "/w/t", GONE, True, True, (), MADE),
    ("the table was renamed, and a new one has its name", None, "demo.t", "/w/t", GONE, True, True, OTHER, COPY),
    ("the same, before the first file", None, "demo.t", "/w/t", NONE, False, True, OTHER, COPY),
    ("two tables with one sink.log-location", None, "demo.u", "/w/u", GONE, False, True, OTHER, COPY),
    ("the same, over the same files", None, "demo.u", "/w/t", HERE, False, True, OTHER, COPY),
    ("DDL with sink.log-location in a second metastore", None, "demo.t", "/dev/t", GONE, True, True, (), MADE),
    ("the same, before the first file", None, "demo.t", "/dev/t", NONE, False, True, (), MADE),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_whose_log_it_is(case: tuple[str, str | None, str, str, Parts, bool, bool, tuple[str, ...], Verdict]) -> None:
    _, stated, name, location, parts, pending, behind, named, want = case
    evidence = Evidence(parts, pending=pending, left_behind=behind, named_by=named)
    assert same_table(stated, RECORD, name, location, lambda: evidence) is want


def test_nothing_is_looked_at_where_id_name_and_location_agree() -> None:
    def never() -> Evidence:
        raise AssertionError

    assert same_table("1d", RECORD, "demo.t", "/w/t", never) is Verdict.OURS


@given(st.text(min_size=1), st.text("0123456789abcdef", min_size=1))
def test_an_address_is_read_back_and_is_plain_text(root: str, table_id: str) -> None:
    address = LogAddress(root, table_id)
    assert LogAddress.parse(str(address)) == address
    assert re.fullmatch(r"[A-Za-z0-9%/:._~#-]+", str(address))


@pytest.mark.parametrize("text", [None, "", "#", "file:/x", "#1d", "file:/x#"])
def test_any_other_text_names_no_log(text: str | None) -> None:
    assert LogAddress.parse(text) is None


def test_a_record_is_read_back_and_damage_is_named() -> None:
    assert RootRecord.decode(RECORD.encode(), "f") == RECORD
    for data in (b"", b"{", b"[]", b'{"format": 1}', RECORD.encode().replace(b'"demo.t"', b"7")):
        with pytest.raises(LogDamaged, match="f is damaged"):
            RootRecord.decode(data, "f")
    with pytest.raises(NewerFormat, match="f has format version 2"):
        RootRecord.decode(RECORD.encode().replace(b'"format": 1', b'"format": 2'), "f")


@pytest.mark.parametrize(
    ("path", "want"),
    [("/w/t/dt=1/.p", "/w/u/dt=1/.p"), ("/w/t2/dt=1/.p", "/w/t2/dt=1/.p"), ("/elsewhere/.p", "/elsewhere/.p")],
)
def test_a_path_follows_its_tables_folder(path: str, want: str) -> None:
    assert rebased(path, "/w/t", "/w/u") == want


def test_the_root_is_beside_the_table() -> None:
    for location in ("/w/t", "/w/t/"):
        assert default_root(location, TableName("demo", "t")) == "/w/.hivesink/demo.t"
