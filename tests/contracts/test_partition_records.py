"""What every commit log promises of the partition commits of trimmed epochs, over each file system."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from hivesink.core.epoch import Epoch
from hivesink.core.lifecycle import Floor
from hivesink.core.manifest import Commit, Recorded, Rows, newest
from hivesink.core.manifest_json import encode
from hivesink.core.offsets import KafkaOffset
from hivesink.errors import LogDamaged
from hivesink.storage.commit_log import FileCommitLog
from tests.contracts.manifests import AT, small
from tests.contracts.test_commit_log import slot
from tests.crash.faults import FaultyFileSystem, faults
from tests.inmemory.filesystem import MemoryFileSystem

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hivesink.storage.fs import Files


HEAD = 30


@pytest.fixture
def log(kept: tuple[Files, str]) -> FileCommitLog:
    return begun(kept[0], f"{kept[1]}/.hivesink/demo.flights/w")


def begun(fs: Files, folder: str) -> FileCommitLog:
    log = FileCommitLog(fs, folder)
    log.uid("0a1b2c3d")
    # Only its number counts here: every floor is below it.
    fs.create(slot(log, HEAD), encode(small(HEAD)))
    return log


def record(epoch: int, partition: str, revision: int = 1) -> Recorded:
    end = (KafkaOffset.of({"t": {"0": 10 * epoch}}),)
    commit = Commit("demo.flights", f"dt={partition}", revision, 10 * revision, revision)
    return Recorded(commit, Epoch(epoch), AT + timedelta(seconds=epoch), AT, end)


def trim(log: FileCommitLog, floor: int, records: Iterable[Recorded] = ()) -> None:
    log.trim(Floor(Epoch(floor), Rows()), list(records))


def held(log: FileCommitLog) -> dict[str, Recorded]:
    return {one.commit.partition: one for one in log.records()}


def files(fs: Files, log: FileCommitLog) -> list[str]:
    return sorted(entry.name for entry in fs.list(f"{log.location}/commits"))


def test_the_newest_record_of_each_partition_stays(kept: tuple[Files, str], log: FileCommitLog) -> None:
    assert list(log.records()) == []
    given = [record(3, "a"), record(4, "ü %2F"), record(4, "b", 2)]
    trim(log, 5, given)
    assert held(log) == {each.commit.partition: each for each in given}
    trim(log, 9, [record(8, "a", 2)])
    newest_of = {"dt=a": record(8, "a", 2), "dt=ü %2F": given[1], "dt=b": given[2]}
    assert held(log) == newest_of
    # One that is repeated, one that is lower, and one without records.
    before = files(kept[0], log)
    trim(log, 9, [record(8, "a", 2)])
    trim(log, 5, [record(3, "a")])
    trim(log, 12)
    assert (held(log), files(kept[0], log)) == (newest_of, before)


def test_there_are_few_files_however_often_it_trims(kept: tuple[Files, str], log: FileCommitLog) -> None:
    for floor in range(1, HEAD):
        trim(log, floor, [record(floor, f"{floor:02d}"), record(floor, "all", floor)])
        assert held(log)["dt=all"].commit.revision == floor
    assert len(held(log)) == HEAD
    assert len(files(kept[0], log)) <= 5


def test_a_damaged_file_is_named(kept: tuple[Files, str], log: FileCommitLog) -> None:
    trim(log, 5, [record(3, "a")])
    (name,) = files(kept[0], log)
    path = f"{log.location}/commits/{name}"
    kept[0].delete(path)
    kept[0].create(path, b"{")
    with pytest.raises(LogDamaged, match=name):
        log.records()


TRIMS = [
    (5, [record(3, "a"), record(4, "b")]),
    (9, [record(8, "a", 2)]),
    (12, [record(11, "c"), record(12, "b", 2), record(12, "d")]),
]
FOLDER = "/w/.hivesink/demo.flights/w"


def story(log: FileCommitLog) -> None:
    for floor, records in TRIMS:
        trim(log, floor, records)


def test_a_fault_at_every_step_of_a_merge_loses_no_record_that_a_floor_covers() -> None:
    def make() -> MemoryFileSystem:
        fs = MemoryFileSystem()
        begun(fs, FOLDER)
        return fs

    def merge(_: MemoryFileSystem, faulty: FaultyFileSystem) -> None:
        story(FileCommitLog(faulty, FOLDER))

    for fs, faulty, case in faults(make, FaultyFileSystem, merge):
        log = FileCommitLog(fs, FOLDER)
        floor = log.view().floor
        covered = newest(each for upto, records in TRIMS if upto <= floor for each in records)
        kept = held(log)
        assert all(kept[key[1]].epoch >= each.epoch for key, each in covered.items()), case
        # What the next trim gathers begins above the floor.
        for upto, records in TRIMS:
            if upto > floor:
                trim(log, upto, records)
        faulty.apply_late()
        assert held(log) == {
            each.commit.partition: each for each in newest(r for _, own in TRIMS for r in own).values()
        }
        trim(log, 20, [record(19, "e")])
        assert held(log)["dt=e"] == record(19, "e"), case


def test_a_file_that_another_run_merges_meanwhile_is_looked_for_again() -> None:
    class Merging(MemoryFileSystem):
        """Another run merges at the first read of a listed file."""

        other: FileCommitLog | None = None

        def read(self, path: str) -> bytes | None:
            if self.other is not None and path.endswith("/commits/0000000005.json"):
                other, self.other = self.other, None
                trim(other, 12, [record(11, "c"), record(12, "b", 2)])
            return super().read(path)

    for act in (held, lambda log: trim(log, 9, [record(8, "a", 2)])):
        fs = Merging()
        log = begun(fs, FOLDER)
        trim(log, 5, [record(3, "a"), record(4, "b")])
        fs.other = FileCommitLog(fs, FOLDER)
        act(log)
        assert held(log)["dt=c"] == record(11, "c")
        assert held(log)["dt=b"] == record(12, "b", 2)
