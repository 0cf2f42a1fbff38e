"""What every root of a table's log promises."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pytest

from hivesink.core.epoch import Epoch
from hivesink.core.log import RootRecord
from hivesink.errors import LogDamaged
from hivesink.logs import log_root
from tests.contracts.manifests import small

if TYPE_CHECKING:
    from hivesink.ports import LogRoot
    from hivesink.storage.fs import Files

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
    won: list[RootRecord] = []
    threads = [
        threading.Thread(target=lambda n=n: won.append(root.claim(replace(RECORD, table_id=f"{n:02x}"))))
        for n in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 6
    assert set(won) == set(root.records())
    assert len(root.records()) == 1


def test_a_damaged_record_is_named(kept: tuple[Files, str], root: LogRoot) -> None:
    root.claim(RECORD)
    kept[0].create(f"{root.location}/table-000002.json", b"torn")
    with pytest.raises(LogDamaged, match="table-000002"):
        root.records()


def test_logs_are_put_aside_whole_and_uids_accepted(root: LogRoot) -> None:
    assert (root.logs(), root.archived()) == ({}, {})
    root.claim(RECORD)
    for number, writer in enumerate(("one", "two")):
        root.log(writer).uid(f"0a1b2c3{number}")
    root.log("one").create(replace(small(1), uid="0a1b2c30"))
    assert {name: log.uid(None) for name, log in root.logs().items()} == {"one": "0a1b2c30", "two": "0a1b2c31"}
    folder = root.archive("one", NOW)
    assert root.archive("one", NOW) != folder
    assert list(root.logs()) == ["two"]
    root.log("one").uid("0a1b2c32")
    root.archive("one", NOW)
    root.accept("00ab", NOW)
    aside = root.archived()
    assert sorted(str(log.uid(None)) for log in aside.values()) == ["00ab", "0a1b2c30", "0a1b2c32"]
    assert aside[folder.rpartition("/")[2]].manifest(Epoch(1)).epoch == 1
    assert root.records() == (RECORD,)
