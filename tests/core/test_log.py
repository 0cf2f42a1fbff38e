"""What a writer may be called, and what a listing of its log gives away about what it doesn't show."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivesink.core.epoch import Epoch
from hivesink.core.lifecycle import EpochState
from hivesink.core.log import (
    LONGEST_NAME,
    Evidence,
    LogAddress,
    LogView,
    RootRecord,
    Verdict,
    default_root,
    rebased,
    require_own,
    require_whole,
    require_writer_name,
    same_table,
)
from hivesink.core.table import TableName
from hivesink.errors import InvalidOption, LogDamaged
from tests.contracts.manifests import small
from tests.core.tables import cases

ODD = ["", "team/a", ".h", "..", ".", "../demo.other/w", "a b", "-x", "flüge", "a.", "a\n", "é", "a\x00b"]
ODD += ["x" * (LONGEST_NAME + 1), "a\\b", "a:b", "٣"]


@pytest.mark.parametrize(
    "name", ["flights", "team-a", "v1.2", "_job", "A_b-c.d", "0", "x-", "a..b", "x" * LONGEST_NAME]
)
def test_names_that_work(name: str) -> None:
    require_writer_name(name)


@pytest.mark.parametrize("name", ODD)
def test_names_that_are_refused(name: str) -> None:
    with pytest.raises(InvalidOption):
        require_writer_name(name)


@given(st.text())
def test_a_good_name_is_a_plain_name_of_a_file(name: str) -> None:
    with suppress(InvalidOption):
        require_writer_name(name)
        assert re.fullmatch(r"[A-Za-z0-9_.-]+", name)
        assert not name.startswith((".", "-"))


def view(floor: int, manifests: str, marks: str = "") -> LogView:
    """Each digit of `manifests` and of `marks` is an epoch."""
    return LogView(
        Epoch(floor),
        tuple(Epoch(int(digit)) for digit in manifests),
        {Epoch(int(digit)): frozenset({EpochState.PUBLISHED}) for digit in marks},
    )


@pytest.mark.parametrize(
    ("found", "gaps"),
    [
        (view(0, ""), ""),
        (view(0, "12", "12"), ""),
        (view(4, "56", "5"), ""),
        (view(0, "3"), "12"),
        (view(4, "7"), "56"),
        (view(4, "589", "8"), "67"),
        (view(4, "56", "567"), "7"),
        (view(4, "56", "9"), "789"),
        (view(0, "", "2"), "12"),
        (view(4, "", "5"), "5"),
        (view(4, ""), ""),
    ],
)
def test_what_is_missing(found: LogView, gaps: str) -> None:
    assert "".join(map(str, found.missing)) == gaps


@pytest.mark.parametrize("found", [view(0, ""), view(0, "12", "12"), view(4, "589", "8"), view(4, "7")])
def test_a_log_can_do_without_what_is_settled(found: LogView) -> None:
    require_whole("/log", found, Epoch(7))


@pytest.mark.parametrize(
    ("found", "settled", "reason"),
    [
        (view(4, "589"), 6, "the manifest of epoch 7 is missing"),
        (view(0, "3"), 0, "the manifest of epoch 1 is missing"),
        (view(4, "56", "567"), 5, "the manifest of epoch 7 is missing, while marks of epoch 7 are there"),
        (view(4, "56", "8"), 5, "the manifest of epoch 7 is missing, while marks of epoch 8 are there"),
        (view(0, "", "1"), 0, "the manifest of epoch 1 is missing, while marks of epoch 1 are there"),
        (view(4, ""), 0, "its floor says that the log was past epoch 4, but every manifest above it is missing"),
    ],
)
def test_a_log_that_lacks_what_it_needs_is_damaged(found: LogView, settled: int, reason: str) -> None:
    with pytest.raises(LogDamaged) as told:
        require_whole("/log", found, Epoch(settled))
    assert f"/log is damaged ({reason}); " in str(told.value)


def test_a_manifest_of_another_log_is_damage_that_names_both_uids() -> None:
    require_own("/log/1.json", small(1), "0a1b2c3d")
    with pytest.raises(LogDamaged, match=r"/log/1\.json .*uid is 0a1b2c3d, this log's is ffff"):
        require_own("/log/1.json", small(1), "ffff")


RECORD = RootRecord("1d", "thrift://a:9083", "demo.t", "/w/t")


@pytest.mark.parametrize(("happened", "table", "files", "besides", "verdict"), cases("ownership.txt"))
def test_whose_log_it_is(happened: str, table: str, files: Any, besides: str, verdict: str) -> None:
    stated, name, location = table.split()
    named = ("demo.other",) if "named" in besides else ()
    evidence = Evidence(files, pending="pending" in besides, left_behind="left" in besides, named_by=named)
    said = same_table(None if stated == "-" else stated, RECORD, name, location, lambda: evidence)
    assert said is Verdict(verdict), happened


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
    with pytest.raises(LogDamaged, match=r"f is damaged \(format version 2"):
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
