"""What every root of a table's log promises."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timezone

import pytest

from hivesink.core.epoch import Epoch
from hivesink.core.log import RootRecord
from hivesink.errors import LogDamaged, SegmentLost, StoreUnavailable
from hivesink.logs import commit_log, log_root
from hivesink.ports import CommitLog, LogRoot, SegmentStore
from hivesink.storage.fs import Files
from tests.contracts.manifests import small

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
RECORD = RootRecord("1d", "thrift://a:9083", "demo.flights", "/w/flights")


@pytest.fixture
def root(kept: tuple[Files, str]) -> LogRoot:
    return log_root(f"{kept[1]}/.hivesink/demo.flights")


def test_the_first_claim_stays_and_the_newest_change_counts(root: LogRoot) -> None:
    assert root.records() == ()
    for other in (RECORD, replace(RECORD, table_id="2e")):
        assert root.claim(other) == RECORD
    renamed, again = replace(RECORD, table="demo.renamed"), replace(RECORD, location="/w/elsewhere")
    for change in (renamed, again, again, RECORD):
        root.update(change)
    assert root.records() == (RECORD, renamed, again, again, RECORD)
    assert root.claim(replace(RECORD, table_id="3f")) == RECORD


def test_of_claims_at_once_one_wins(root: LogRoot) -> None:
    with ThreadPoolExecutor(6) as pool:
        won = list(pool.map(lambda n: root.claim(replace(RECORD, table_id=f"{n:02x}")), range(6)))
    assert set(won) == set(root.records())
    assert len(root.records()) == 1


def test_a_consumers_newest_receipt_counts_and_of_two_at_once_the_first(root: LogRoot) -> None:
    receipts = root.receipts("daily")
    assert receipts.newest() == (0, None)
    for number, data in ((1, b"one"), (2, b"two"), (2, b"two"), (3, b"three")):
        receipts.add(number, data)
    assert receipts.newest() == (3, b"three")
    # The receipt that had number 2 is deleted.
    for number in (3, 2):
        with pytest.raises(StoreUnavailable, match="another call has acknowledged"):
            receipts.add(number, b"other")
    assert (receipts.newest(), root.receipts("hourly").newest()) == ((3, b"three"), (0, None))
    assert root.logs() == root.ended() == {}


def test_a_damaged_record_is_named(kept: tuple[Files, str], root: LogRoot) -> None:
    root.claim(RECORD)
    kept[0].create(f"{root.location}/table-000002.json", b"torn")
    with pytest.raises(LogDamaged, match="table-000002"):
        root.records()


def test_logs_are_put_aside_whole_and_uids_accepted(root: LogRoot) -> None:
    assert (root.logs(), root.ended()) == ({}, {})
    root.claim(RECORD)
    for number, writer in enumerate(("one", "two")):
        root.log(writer).uid(f"0a1b2c3{number}")
    first = root.log("one")
    first.create(replace(small(1), uid="0a1b2c30"))
    assert {name: log.uid(None) for name, log in root.logs().items()} == {"one": "0a1b2c30", "two": "0a1b2c31"}
    for _ in range(2):
        first.end(NOW)
    assert list(root.logs()) == ["two"]
    second = root.log("one")
    assert (second.view().head, second.uid(None)) == (0, None)
    second.uid("0a1b2c32")
    assert root.logs()["one"].uid(None) == "0a1b2c32"
    second.end(NOW)
    assert {name: log.uid(None) for name, log in root.ended().items()} == {"one/1": "0a1b2c30", "one/2": "0a1b2c32"}
    assert root.ended()["one/1"].manifest(Epoch(1)).epoch == 1
    assert root.accepted() == []
    for _ in range(2):
        root.accept("00ab")
    assert (root.accepted(), list(root.logs())) == (["00ab"], ["two"])
    # What a run of a deleted log still sends is in no later log.
    assert root.log("three").location == f"{root.location}/three/2"
    assert root.records() == (RECORD,)


NAME, OTHER = "1-00ff00ff00t0-0.arrow", "1-00ff00ff00t1-1.arrow"


@pytest.fixture
def log(kept: tuple[Files, str]) -> CommitLog:
    log = commit_log(f"{kept[1]}/.hivesink/demo.flights/w")
    log.uid("0a1b2c3d")
    return log


@pytest.fixture
def segments(log: CommitLog) -> SegmentStore:
    return log.segments


def write(segments: SegmentStore, name: str, data: bytes) -> None:
    file = segments.create(name)
    file.stream.write(data)
    assert file.stream.tell() == len(data)
    file.close_for_commit()


def test_a_log_without_segments(segments: SegmentStore) -> None:
    assert segments.lengths() == {}
    segments.drop([NAME])
    with pytest.raises(SegmentLost, match=f"{NAME} holds committed rows .*, but it is missing"):
        segments.read(NAME, 0, 1)


def test_slices_are_read_back(segments: SegmentStore) -> None:
    write(segments, NAME, b"one" + bytes(2_000_000) + b"two")
    assert segments.read(NAME, 0, 3) == b"one"
    assert segments.read(NAME, 2_000_003, 3) == b"two"
    assert segments.lengths() == {NAME: 2_000_006}


def test_a_segment_that_was_cut_short_is_lost(segments: SegmentStore) -> None:
    write(segments, NAME, b"one")
    with pytest.raises(SegmentLost, match="but it has 3 bytes of 5"):
        segments.read(NAME, 1, 4)


def test_a_name_is_used_once(segments: SegmentStore) -> None:
    write(segments, NAME, b"one")
    with pytest.raises(StoreUnavailable):
        write(segments, NAME, b"two")
    assert segments.read(NAME, 0, 3) == b"one"


def test_what_is_aborted_or_dropped_is_gone(segments: SegmentStore) -> None:
    write(segments, NAME, b"one")
    file = segments.create(OTHER)
    file.stream.write(b"two")
    file.abort()
    assert set(segments.lengths()) == {NAME}
    segments.drop([NAME, OTHER])
    assert segments.lengths() == {}


def test_a_schema_is_stored_once_for_good(root: LogRoot) -> None:
    schemas = root.schemas
    assert schemas.get("7.json") is None
    assert schemas.put("7.json", b"first") == b"first"
    assert schemas.put("7.json", b"second") == b"first"
    assert schemas.get("7.json") == b"first"
    assert dict(root.logs()) == {}


def test_tasks_may_store_a_schema_at_once(root: LogRoot) -> None:
    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(lambda _: root.schemas.put("7.json", b"same"), range(6))) == [b"same"] * 6
