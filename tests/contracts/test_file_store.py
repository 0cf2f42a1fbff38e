"""What every file store promises."""

from __future__ import annotations

from pathlib import Path

import pytest

from hivesink.core.partfile import Finished, InProgress, PartName, Pending, parse_staged
from hivesink.errors import PartLost, StoreUnavailable, TargetTaken
from hivesink.logs import file_store
from hivesink.ports import FileStore
from hivesink.storage.fs import Entry, FileSystem
from tests.contracts.storages import PLACES

ROWS = b"rows and rows"
ODD = ["dt=2026-01-01--00", "with space=a b", "x=a%3Ab", "name=Zürich", "a=1/b=2", "k=__HIVE_DEFAULT_PARTITION__"]


@pytest.fixture(params=PLACES)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"{PLACES[request.param](request, tmp_path)}/t"


@pytest.fixture
def store(table: str) -> FileStore:
    return file_store(table)


def name(task: int = 0) -> PartName:
    return PartName("0a1b2c3d", 1, "aaaabbbb", 0, task, 0)


def stage(store: FileStore, folder: str, task: int = 0, data: bytes = ROWS) -> Pending:
    file = store.create(InProgress(folder, name(task)))
    file.stream.write(data)
    return file.close_for_commit()


@pytest.mark.parametrize("partition", ODD)
def test_a_part_is_hidden_until_it_is_published_and_then_whole(store: FileStore, table: str, partition: str) -> None:
    folder = f"{table}/{partition}"
    part = stage(store, folder)
    assert store.visible(folder) == []
    assert store.staged(folder) == [part.staged]
    assert store.publish(part) == Finished(f"{folder}/{name()}", len(ROWS))
    assert store.visible(folder) == [Finished(part.target, len(ROWS))]
    assert store.staged(folder) == []
    with store.open(part.target) as stream:
        assert stream.read() == ROWS


def test_publishing_again_changes_nothing_and_an_empty_part_is_one(store: FileStore, table: str) -> None:
    part = stage(store, table)
    assert store.publish(part) == store.publish(part)
    assert store.visible(table) == [Finished(part.target, len(ROWS))]
    assert store.publish(stage(store, table, 1, data=b"")).length == 0


def test_a_part_in_progress_is_staged_and_not_visible(store: FileStore, table: str) -> None:
    file = store.create(InProgress(table, name()))
    (staged,) = store.staged(table)
    assert parse_staged(staged.rpartition("/")[2]) is not None
    assert store.visible(table) == []
    file.abort()
    assert store.staged(table) == []


def test_a_target_in_another_folder(store: FileStore, table: str) -> None:
    part = stage(store, f"{table}/dt=1")
    moved = Pending(part.staged, f"{table}-elsewhere/x/{name()}", part.length)
    store.publish(moved)
    assert store.visible(f"{table}/dt=1") == []
    assert store.visible(f"{table}-elsewhere/x") == [moved.finish()]


def test_both_places_empty_is_a_lost_part(store: FileStore, table: str) -> None:
    part = stage(store, table)
    store.discard([part.staged])
    with pytest.raises(PartLost, match="are both missing"):
        store.publish(part)


@pytest.mark.parametrize("published", [False, True])
def test_another_length_is_refused(store: FileStore, table: str, published: bool) -> None:
    part = stage(store, table)
    if published:
        store.publish(part)
    with pytest.raises(PartLost, match=f"has {len(ROWS)} bytes where 5 were"):
        store.publish(Pending(part.staged, part.target, 5))


def test_a_taken_target_is_never_overwritten(store: FileStore, table: str) -> None:
    part = stage(store, table)
    store.mark(part.target)
    with pytest.raises(TargetTaken):
        store.publish(part)
    assert store.find(part.target) == Finished(part.target, 0)
    assert store.staged(table) == [part.staged]


def test_discarding_is_repeatable_and_only_for_staged_parts(store: FileStore, table: str) -> None:
    part, other = stage(store, table), stage(store, table, 1)
    store.publish(other)
    with pytest.raises(ValueError, match="not a staged part"):
        store.discard([part.staged, other.target])
    assert store.staged(table) == [part.staged]
    store.discard([part.staged])
    store.discard([part.staged])
    assert store.staged(table) == []
    assert store.find(other.target) is not None


def test_removing_is_repeatable_and_takes_only_the_very_file(store: FileStore, table: str) -> None:
    gone, other, staged = stage(store, table), stage(store, table, 1), stage(store, table, 2)
    store.publish(gone)
    store.publish(other)
    for _ in range(2):
        store.remove([gone.finish(), Finished(other.target, other.length + 1), Finished(f"{table}/none", 1)])
    assert (store.visible(table), store.staged(table)) == ([other.finish()], [staged.staged])


def test_marks_are_created_once_are_no_data_and_leave_what_is_there(store: FileStore, table: str) -> None:
    for _ in range(2):
        store.mark(f"{table}/dt=1/_SUCCESS")
    assert store.find(f"{table}/dt=1/_SUCCESS") == Finished(f"{table}/dt=1/_SUCCESS", 0)
    assert store.visible(f"{table}/dt=1") == []
    part = stage(store, table)
    store.publish(part)
    store.mark(part.target)
    assert store.find(part.target) == part.finish()


def test_visible_is_sorted_and_not_recursive(store: FileStore, table: str) -> None:
    for task in (2, 0, 1):
        store.publish(stage(store, table, task))
    store.publish(stage(store, f"{table}/dt=1"))
    assert [found.path for found in store.visible(table)] == [f"{table}/{name(task)}" for task in range(3)]
    store.publish(stage(store, f"{table}/dt=1/.hidden"))


def test_walk_shows_every_folder_and_nothing_where_there_is_none(store: FileStore, table: str) -> None:
    assert list(store.walk(table)) == []
    for folder in ("a=1/b=2", ".hidden"):
        store.publish(stage(store, f"{table}/{folder}"))
    expected = [table, f"{table}/.hidden", f"{table}/a=1", f"{table}/a=1/b=2"]
    assert sorted(store.walk(table)) == sorted(expected)


def test_prune_takes_empty_folders_only_which_come_back_with_their_next_part(store: FileStore, table: str) -> None:
    part, kept = stage(store, f"{table}/a=1/b=2"), stage(store, f"{table}/a=2")
    store.discard([part.staged])
    store.prune([f"{table}/a=1", f"{table}/a=1/b=2", f"{table}/a=2", f"{table}/none"])
    assert list(store.walk(table)) == [table, f"{table}/a=2"]
    assert store.staged(f"{table}/a=2") == [kept.staged]
    store.publish(stage(store, f"{table}/a=1/b=2", 1))
    assert len(store.visible(f"{table}/a=1/b=2")) == 1


def test_missing_things(store: FileStore, table: str) -> None:
    assert store.staged(f"{table}/none") == []
    assert store.visible(f"{table}/none") == []
    assert store.find(f"{table}/none") is None
    with pytest.raises(StoreUnavailable, match="not there"):
        store.open(f"{table}/none")


def test_rename_neither_overwrites_nor_invents_and_makes_folders(opened: tuple[FileSystem, str]) -> None:
    fs, place = opened
    fs.write_new(f"{place}/a", b"a")
    fs.write_new(f"{place}/b", b"b")
    with pytest.raises(FileExistsError):
        fs.rename(f"{place}/a", f"{place}/b")
    with pytest.raises(FileNotFoundError):
        fs.rename(f"{place}/none", f"{place}/c/d")
    fs.rename(f"{place}/a", f"{place}/new/folder/a")
    assert (fs.read(f"{place}/b"), fs.read(f"{place}/new/folder/a")) == (b"b", b"a")
    with pytest.raises(FileExistsError):
        fs.rename(f"{place}/b", f"{place}/new")


def test_a_file_is_no_folder(opened: tuple[FileSystem, str]) -> None:
    fs, place = opened
    fs.write_new(f"{place}/f", b"x")
    assert [list(fs.list(f"{place}/{name}")) for name in ("f", "f/g", "none")] == [[], [], []]
    assert (fs.length(f"{place}/f/g"), fs.read(f"{place}/f/g"), fs.delete(f"{place}/f/g")) == (None, None, False)
    assert not fs.remove_empty(f"{place}/f")
    assert not fs.remove_empty(place)
    assert list(fs.list(place)) == [Entry("f", 1)]


def test_a_folder_that_others_remove_is_made_again(opened: tuple[FileSystem, str]) -> None:
    fs, place = opened
    fs.write_new(f"{place}/a=1/b=2/f", b"x")
    fs.delete(f"{place}/a=1/b=2/f")
    assert [fs.remove_empty(f"{place}/{folder}") for folder in ("a=1/b=2", "a=1")] == [True, True]
    fs.write_new(f"{place}/a=1/b=2/g", b"x")
    assert list(fs.list(f"{place}/a=1/b=2")) == [Entry("g", 1)]
