"""What every store of segments promises: rows that wait are durable, and read back slice by slice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hivesink.errors import LogMissing, SegmentLost, StoreUnavailable
from hivesink.logs import commit_log

if TYPE_CHECKING:
    from hivesink.ports import CommitLog, SegmentStore
    from hivesink.storage.fs import Files

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
    file.close()


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
        segments.create(NAME)
    assert segments.read(NAME, 0, 3) == b"one"


def test_what_is_aborted_or_dropped_is_gone(segments: SegmentStore) -> None:
    write(segments, NAME, b"one")
    file = segments.create(OTHER)
    file.stream.write(b"two")
    file.abort()
    assert set(segments.lengths()) == {NAME}
    segments.drop([NAME, OTHER])
    assert segments.lengths() == {}


def test_a_segment_makes_no_log_anew(kept: tuple[Files, str], log: CommitLog) -> None:
    file = log.segments.create(NAME)
    file.stream.write(b"one")
    fs = kept[0]
    fs.rename_folder(log.location, f"{log.location}.reset-20261123T000000Z")
    other = log.segments.create(OTHER)
    other.stream.write(b"two")
    with pytest.raises(LogMissing):
        other.close()
    assert fs.list(f"{log.location}/segments") == []
    file.abort()
