"""What every commit log promises, also of the partition commits of trimmed epochs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from hivesink.core.epoch import Epoch
from hivesink.core.lifecycle import MARKS, EpochState, Floor
from hivesink.core.log import StagingIntent
from hivesink.core.manifest import Commit, Recorded, Rows, newest
from hivesink.core.manifest_json import encode
from hivesink.core.offsets import KafkaOffset
from hivesink.errors import (
    EpochTaken,
    FencedOut,
    LogDamaged,
    LogMissing,
    OutcomeUnknown,
    StoreUnavailable,
)
from hivesink.logs import commit_log
from hivesink.ports import CommitLog
from hivesink.storage.commit_log import FileCommitLog
from hivesink.storage.fs import Entry, Files, FileSystem
from hivesink.storage.local import LocalFileSystem
from tests.contracts.manifests import AT, full, small
from tests.crash.faults import FaultyFileSystem, Kill, Mode, Plan, faults
from tests.inmemory.filesystem import MemoryFileSystem


@pytest.fixture
def fs(kept: tuple[Files, str]) -> Files:
    return kept[0]


@pytest.fixture
def folder(kept: tuple[Files, str]) -> str:
    return f"{kept[1]}/.hivesink/demo.flights/w"


@pytest.fixture
def empty(folder: str) -> CommitLog:
    return commit_log(folder)


@pytest.fixture
def log(empty: CommitLog) -> CommitLog:
    empty.uid("0a1b2c3d")
    return empty


def filled(log: CommitLog, epochs: int) -> None:
    for epoch in range(1, epochs + 1):
        log.create(small(epoch))


def slot(log: CommitLog, epoch: int) -> str:
    return f"{log.location}/manifests/{epoch:010d}.json"


def temporaries(fs: Files, log: CommitLog) -> list[str]:
    return [entry.name for entry in fs.list(f"{log.location}/manifests") if entry.name.endswith(".tmp")]


def test_an_empty_log_and_its_first_uid(empty: CommitLog) -> None:
    view = empty.view()
    assert (view.head, view.floor, view.manifests, dict(view.marks)) == (0, 0, (), {})
    assert (empty.floor(), empty.uid(None), empty.touched()) == (None, None, [])
    assert [empty.uid(fresh) for fresh in ("0a1b2c3d", "ffffffff", None)] == ["0a1b2c3d"] * 3


def test_a_lost_uid_is_that_of_the_manifests(fs: Files, log: CommitLog, folder: str) -> None:
    log.uid("0a1b2c3d")
    filled(log, 2)
    fs.delete(f"{folder}/uid")
    again = FileCommitLog(fs, folder)
    assert again.uid(None) == "0a1b2c3d"
    assert fs.read(f"{folder}/uid") is None
    assert again.uid("ffffffff") == "0a1b2c3d"
    assert fs.read(f"{folder}/uid") == b"0a1b2c3d\n"


def _damage(fs: Files, log: CommitLog) -> None:
    fs.delete(slot(log, 2))
    fs.create(slot(log, 2), b"{")


def _lose(fs: Files, log: CommitLog) -> None:
    log.mark(Epoch(2), EpochState.PUBLISHED)
    fs.delete(slot(log, 2))


def _lose_all_above_the_floor(fs: Files, log: CommitLog) -> None:
    log.trim(Floor(Epoch(1), Rows()))
    fs.delete(slot(log, 2))


def _copy_another_ones(fs: Files, log: CommitLog) -> None:
    fs.delete(slot(log, 2))
    fs.create(slot(log, 2), encode(replace(small(2), uid="eeeeeeee")))


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        (_damage, r"0000000002\.json is damaged \(not JSON"),
        (_lose, "epoch 2 is missing, while marks"),
        (
            _lose_all_above_the_floor,
            r"every manifest above it is missing\).* move manifests/floor-\d{10} away",
        ),
        (_copy_another_ones, r"0000000002\.json is damaged \(its uid is eeeeeeee, this log's is 0a1b2c3d"),
    ],
)
def test_a_lost_uid_is_not_made_up_beside_a_damaged_log(
    fs: Files,
    log: CommitLog,
    folder: str,
    act: Callable[[Files, CommitLog], None],
    reason: str,
) -> None:
    filled(log, 2)
    fs.delete(f"{folder}/uid")
    act(fs, log)
    for fresh in (None, "ffffffff"):
        with pytest.raises(LogDamaged, match=reason):
            FileCommitLog(fs, folder).uid(fresh)
    assert fs.read(f"{folder}/uid") is None


def test_a_damaged_uid_is_told_apart_by_the_way_out(fs: Files, log: CommitLog, folder: str) -> None:
    filled(log, 2)
    uid = log.manifest(Epoch(1)).uid
    fs.delete(f"{folder}/uid")
    fs.create(f"{folder}/uid", b"eeeeeeee\n")
    with pytest.raises(LogDamaged, match=r"if all manifests here have that uid, the file `uid` of this log is damaged"):
        FileCommitLog(fs, folder).manifest(Epoch(2))
    fs.delete(f"{folder}/uid")
    assert FileCommitLog(fs, folder).uid("ffffffff") == uid


def test_a_manifest_is_read_back_as_it_was_written(fs: Files, log: CommitLog) -> None:
    fs.create(slot(log, full().epoch - 1), b"")
    log.create(full())
    assert log.manifest(Epoch(12)) == full()
    assert log.view().head == 12


def test_an_epoch_is_decided_once(fs: Files, log: CommitLog) -> None:
    for _ in range(2):
        log.create(small(1))
    with pytest.raises(EpochTaken, match="epoch 1"):
        log.create(small(1, "ccccdddd"))
    assert log.manifest(Epoch(1)).attempt == "aaaabbbb"
    assert (log.view().manifests, temporaries(fs, log)) == ((1,), [])


def test_of_racing_runs_just_one_wins_each_epoch(log: CommitLog) -> None:
    wins: list[int] = []
    taken: list[int] = []

    def run(epoch: int, attempt: str, start: threading.Barrier) -> None:
        start.wait()
        try:
            log.create(small(epoch, attempt))
            wins.append(epoch)
        except EpochTaken:
            taken.append(epoch)

    with ThreadPoolExecutor(3) as pool:
        for epoch in range(1, 41):
            start = threading.Barrier(3)
            list(pool.map(lambda digit: run(epoch, 8 * digit, start), "abc"))  # noqa: B023  it ends before the next
    assert wins == list(range(1, 41))
    assert len(taken) == 80


def test_a_slot_reopened_by_clean_up_is_no_slot(fs: Files, log: CommitLog) -> None:
    filled(log, 4)
    log.trim(Floor(Epoch(3), Rows()))
    with pytest.raises(EpochTaken):
        log.create(small(2, "ccccdddd"))
    assert fs.read(slot(log, 2)) is None
    assert log.view().manifests == (4,)


def test_a_higher_number_alone_means_decided_and_fenced_out(fs: Files, log: CommitLog) -> None:
    filled(log, 2)
    fs.delete(slot(log, 1))
    with pytest.raises(FencedOut):
        log.create(small(1, "ccccdddd"))
    assert log.manifest(Epoch(1)).attempt == "ccccdddd"


def test_floors_hide_what_is_at_or_below_them_even_undeleted(fs: Files, log: CommitLog) -> None:
    filled(log, 5)
    log.mark(Epoch(3), EpochState.PUBLISHED)
    below = fs.read(slot(log, 3))
    log.trim(Floor(Epoch(2), Rows(read=2, written=2), 2))
    log.trim(Floor(Epoch(3), Rows(read=3, written=3), 3))
    assert below is not None
    fs.create(slot(log, 3), below)
    view = log.view()
    assert (view.floor, view.manifests, dict(view.marks)) == (3, (4, 5), {})
    assert log.floor() == Floor(Epoch(3), Rows(read=3, written=3), 3)
    names = [entry.name for entry in fs.list(f"{log.location}/manifests")]
    assert [name for name in names if name.startswith("floor")] == ["floor-0000000003"]


def test_trimming_again_or_lower_only_cleans_and_never_takes_the_head(fs: Files, log: CommitLog) -> None:
    filled(log, 4)
    for torn in ("json", "publishing"):
        fs.create(f"{log.location}/manifests/.0000000003.{torn}.abcdef01.tmp", b"{")
    for epoch in (3, 3, 1):
        log.trim(Floor(Epoch(epoch), Rows()))
        assert log.view().floor == 3
    assert temporaries(fs, log) == []
    with pytest.raises(ValueError, match="can't be the floor"):
        log.trim(Floor(Epoch(4), Rows()))
    assert log.view().manifests == (4,)


def test_marks_are_idempotent_and_by_epoch(log: CommitLog) -> None:
    filled(log, 2)
    for mark in (*MARKS, *MARKS):
        log.mark(Epoch(1), mark)
    assert log.view().marks == {1: frozenset(MARKS)}


@pytest.mark.parametrize("name", ["a b", "x=a%3Ab", "Zürich", "dt=1/hour=2"])
def test_touched_lists(log: CommitLog, name: str) -> None:
    listed = StagingIntent(Epoch(2), "aaaabbbb", 1, 0, 0, (f"/w/t/{name}",))
    later = StagingIntent(Epoch(10), "aaaabbbb", 0, 3, 1, ("/w/t/b", "/w/t/a"))
    for one in (later, listed, listed):
        log.touch(one)
    bare = StagingIntent(Epoch(2), "aaaabbbb", 1, 0, 0)
    assert log.touched() == [bare, StagingIntent(Epoch(10), "aaaabbbb", 0, 3, 1)]
    assert log.folders(bare) == (f"/w/t/{name}",)
    log.forget([listed, listed])
    assert log.folders(bare) == ()
    assert len(log.touched()) == 1


def test_a_run_decides_nothing_in_a_log_that_was_put_aside(log: CommitLog) -> None:
    filled(log, 2)
    for _ in range(2):
        log.end(AT)
    view = log.view()
    assert (view.is_over, view.head, view.missing, log.ended()) == (True, 2, (), AT)
    for _ in range(2):
        with pytest.raises(LogMissing, match="reset"):
            log.create(small(3))
    # Late files of that run are in no later log, so they change nothing.
    log.mark(Epoch(2), EpochState.PUBLISHED)
    log.touch(StagingIntent(Epoch(3), "aaaabbbb", 0, 0, 0, ("/w/t",)))
    log.trim(Floor(Epoch(1), Rows()))
    assert (log.view().floor, log.view().manifests, log.view().is_over) == (1, (2,), True)


def test_a_reset_and_the_mark_of_an_epoch_exclude_each_other(fs: Files, log: CommitLog) -> None:
    filled(log, 3)
    log.mark(Epoch(1), EpochState.SETTLED)
    log.mark(Epoch(2), EpochState.PUBLISHING)
    for _ in range(2):
        log.end(AT)
        assert [log.view().has(Epoch(epoch), EpochState.PUBLISHING) for epoch in (1, 2, 3)] == [False, True, False]
        log.mark(Epoch(2), EpochState.PUBLISHING)
        with pytest.raises(LogMissing, match="reset"):
            log.mark(Epoch(3), EpochState.PUBLISHING)
    # A person takes the reset back.
    fs.delete(f"{log.location}/manifests/over")
    log.mark(Epoch(3), EpochState.PUBLISHING)
    assert log.view().has(Epoch(3), EpochState.PUBLISHING)


def test_a_log_that_was_deleted_is_not_begun_anew_by_a_run_that_had_it(fs: Files, log: CommitLog) -> None:
    filled(log, 2)
    for epoch in (1, 2):
        fs.delete(slot(log, epoch))
    with pytest.raises(LogMissing, match="deleted"):
        log.create(small(3))
    assert log.view().head == 0


def test_a_first_epoch_is_not_decided_in_a_log_that_was_deleted(fs: Files, log: CommitLog, folder: str) -> None:
    """Its rows may wait in a segment that went with the log."""
    fs.delete(f"{folder}/uid")
    with pytest.raises(LogMissing, match="deleted"):
        log.create(small(1))
    assert log.view().head == 0


def test_a_torn_touched_list_names_no_folder(fs: Files, log: CommitLog) -> None:
    torn = StagingIntent(Epoch(1), "aaaabbbb", 0, 0, 0, ("/w/t/dt=1",))
    fs.create(f"{log.location}/touched/1-aaaabbbbt0-0-0", b'["/w/t/d')
    assert log.folders(torn) == ()
    log.touch(torn)
    assert log.folders(torn) == ("/w/t/dt=1",)


@pytest.mark.parametrize(
    ("data", "error", "reason"),
    [
        (None, LogDamaged, "missing"),
        (b"{", LogDamaged, r"0000000001\.json"),
        (b"[]", LogDamaged, r"0000000001\.json"),
        (b'{"format": 1}', LogDamaged, r"0000000001\.json"),
        (b'{"format": 2}', LogDamaged, r"0000000001\.json"),
        (encode(small(2)), LogDamaged, "holds epoch 2"),
        (encode(replace(small(1), uid="eeeeeeee")), LogDamaged, "its uid is eeeeeeee, this log's is 0a1b2c3d"),
    ],
)
def test_what_cannot_be_read_is_named_and_left(
    fs: Files, log: CommitLog, data: bytes | None, error: type[Exception], reason: str
) -> None:
    if data is not None:
        fs.create(slot(log, 1), data)
    with pytest.raises(error, match=reason):
        log.manifest(Epoch(1))
    assert fs.read(slot(log, 1)) == data


class Vanishing(FaultyFileSystem):
    """The rename has no answer, and by the time anybody looks its source has gone."""

    def rename(self, source: str, target: str) -> None:
        self.inner.delete(source)
        raise OutcomeUnknown(source, target, "time-out")


class Arriving(FaultyFileSystem):
    """The rename arrives between the first look and the deletion of its source."""

    def delete(self, path: str) -> bool:
        self.apply_late()
        return bool(super().delete(path))


class Unreachable(FaultyFileSystem):
    """Can't be listed, and so fails after the decision."""

    def list(self, folder: str) -> Sequence[Entry]:
        raise StoreUnavailable(folder, folder, "away")


MINE, OTHERS = "ccccdddd", "aaaabbbb"


@pytest.mark.parametrize(
    ("kind", "mode", "before", "error", "decided", "late"),
    [
        (FaultyFileSystem, Mode.LOST, False, None, MINE, 0),
        (FaultyFileSystem, Mode.LATE, True, EpochTaken, OTHERS, 1),
        # Given up only once it can't come any more.
        (FaultyFileSystem, Mode.LATE, False, StoreUnavailable, None, 1),
        (Arriving, Mode.LATE, False, None, MINE, 0),
        (Vanishing, None, False, OutcomeUnknown, None, 0),
        # Never called undecided.
        (Unreachable, None, False, OutcomeUnknown, MINE, 0),
    ],
)
def test_a_rename_without_an_answer(  # noqa: PLR0917  a table's columns
    opened: tuple[FileSystem, str],
    kind: type[FaultyFileSystem],
    mode: Mode | None,
    before: bool,
    error: type[Exception] | None,
    decided: str | None,
    late: int,
) -> None:
    fs, log = opened[0], FileCommitLog(opened[0], f"{opened[1]}/log")
    log.uid("0a1b2c3d")
    probe = FaultyFileSystem(MemoryFileSystem())
    FileCommitLog(probe.inner, "/w/log").uid("0a1b2c3d")
    FileCommitLog(probe, "/w/log").create(small(1))
    step = next(call.number for call in probe.calls if call.name == "rename")
    if before:
        log.create(small(1, OTHERS))
    faulty = kind(fs, Plan(step, mode) if mode else None)
    with pytest.raises(error) if error else contextlib.nullcontext():
        FileCommitLog(faulty, log.location).create(small(1, MINE))
    assert faulty.apply_late() == late
    assert (log.manifest(Epoch(1)).attempt if log.view().head else None) == decided
    assert temporaries(fs, log) == []


def story(log: CommitLog, table: str) -> None:
    """Everything that a writer does to its log; each step may have been done before."""
    log.uid("0a1b2c3d")
    log.touch(StagingIntent(Epoch(1), "aaaabbbb", 0, 0, 0, (table,)))
    for epoch in range(log.view().head + 1, 4):
        log.create(small(epoch))
        log.mark(Epoch(epoch), EpochState.PUBLISHED)
    log.mark(Epoch(3), EpochState.PUBLISHED)
    log.forget(log.touched())
    log.trim(Floor(Epoch(2), Rows()))


@pytest.mark.parametrize("mode", Mode)
def test_a_fault_at_every_step_and_then_a_second_run(tmp_path: Path, mode: Mode) -> None:
    probe = FaultyFileSystem(MemoryFileSystem())
    story(FileCommitLog(probe, "/w/log"), "/w/flights")
    for step in range(1, len(probe.calls) + 1):
        local = step % 2 == 0
        fs: FileSystem = LocalFileSystem() if local else MemoryFileSystem()
        root = f"{tmp_path}/{mode.name}{step}" if local else "/w"
        faulty = FaultyFileSystem(fs, Plan(step, mode))
        with contextlib.suppress(Kill, OutcomeUnknown, StoreUnavailable):
            story(FileCommitLog(faulty, f"{root}/log"), f"{root}/flights")
        log = FileCommitLog(fs, f"{root}/log")
        story(log, f"{root}/flights")
        faulty.apply_late()
        log.trim(Floor(Epoch(2), Rows()))
        view = log.view()
        assert (view.floor, view.manifests) == (2, (3,)), probe.calls[step - 1]
        assert view.marks == {3: frozenset({EpochState.PUBLISHED})}
        assert log.uid(None) == "0a1b2c3d"
        assert temporaries(fs, log) == []


HEAD = 30


@pytest.fixture
def tall(kept: tuple[Files, str]) -> FileCommitLog:
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


def test_the_newest_record_of_each_partition_stays(fs: Files, tall: FileCommitLog) -> None:
    assert list(tall.records()) == []
    given = [record(3, "a"), record(4, "ü %2F"), record(4, "b", 2)]
    trim(tall, 5, given)
    assert held(tall) == {each.commit.partition: each for each in given}
    trim(tall, 9, [record(8, "a", 2)])
    newest_of = {"dt=a": record(8, "a", 2), "dt=ü %2F": given[1], "dt=b": given[2]}
    assert held(tall) == newest_of
    # One that is repeated, one that is lower, and one without records.
    before = files(fs, tall)
    trim(tall, 9, [record(8, "a", 2)])
    trim(tall, 5, [record(3, "a")])
    trim(tall, 12)
    assert (held(tall), files(fs, tall)) == (newest_of, before)


def test_there_are_few_files_however_often_it_trims(fs: Files, tall: FileCommitLog) -> None:
    for floor in range(1, HEAD):
        trim(tall, floor, [record(floor, f"{floor:02d}"), record(floor, "all", floor)])
        assert held(tall)["dt=all"].commit.revision == floor
    assert len(held(tall)) == HEAD
    assert len(files(fs, tall)) <= 5


def test_a_damaged_file_is_named(fs: Files, tall: FileCommitLog) -> None:
    trim(tall, 5, [record(3, "a")])
    (name,) = files(fs, tall)
    path = f"{tall.location}/commits/{name}"
    fs.delete(path)
    fs.create(path, b"{")
    with pytest.raises(LogDamaged, match=name):
        tall.records()


TRIMS = [
    (5, [record(3, "a"), record(4, "b")]),
    (9, [record(8, "a", 2)]),
    (12, [record(11, "c"), record(12, "b", 2), record(12, "d")]),
]
FOLDER = "/w/.hivesink/demo.flights/w"


def trims(log: FileCommitLog) -> None:
    for floor, records in TRIMS:
        trim(log, floor, records)


def test_a_fault_at_every_step_of_a_merge_loses_no_record_that_a_floor_covers() -> None:
    def make() -> MemoryFileSystem:
        fs = MemoryFileSystem()
        begun(fs, FOLDER)
        return fs

    def merge(_: MemoryFileSystem, faulty: FaultyFileSystem) -> None:
        trims(FileCommitLog(faulty, FOLDER))

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
