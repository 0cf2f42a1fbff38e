"""Publishing where the file system fails: unknown outcomes, renames that come late, a process that dies."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hdfs_native import Client, WriteOptions

from hivesink.config.site import NO_SITE
from hivesink.core.partfile import Finished, InProgress, PartName, Pending
from hivesink.core.partition import file_system_of, scheme, with_scheme
from hivesink.errors import HiveSinkError, InvalidOption, NotWritable, OutcomeUnknown, StoreUnavailable, TargetTaken
from hivesink.logs import storage_of
from hivesink.storage.fs import FileSystem, put_once
from hivesink.storage.hdfs import HdfsFileSystem
from hivesink.storage.local import LocalFileSystem
from hivesink.storage.part_store import run_parallel
from hivesink.storage.rename_store import RenameFileStore
from tests.crash.faults import FaultyFileSystem, Kill, Mode, Plan
from tests.ingest import Wrapped
from tests.inmemory.filesystem import MemoryFileSystem
from tests.storage.realhdfs import hdfs_folder

MOVED_NAME = "part-00c0ffee0001-1-aaaaaaaaaat0-0-0.snappy.parquet"
NAME = PartName("0a1b2c3d", 1, "aaaabbbb", 0, 0, 0)
FILE_SYSTEMS: dict[str, Callable[[], FileSystem]] = {"local": LocalFileSystem, "memory": MemoryFileSystem}


def stage(fs: FileSystem, folder: str) -> Pending:
    file = RenameFileStore(fs).create(InProgress(folder, NAME))
    file.stream.write(b"rows")
    return file.close_for_commit()


@pytest.mark.parametrize("kind", FILE_SYSTEMS)
@pytest.mark.parametrize("mode", Mode)
def test_a_fault_at_every_step_of_publish(kind: str, mode: Mode, tmp_path: Path) -> None:
    probe = FaultyFileSystem(MemoryFileSystem())
    RenameFileStore(probe).publish(stage(probe.inner, "/w"))
    for step in range(1, len(probe.calls) + 1):
        fs, folder = FILE_SYSTEMS[kind](), f"{tmp_path}/{step}/dt=1"
        part = stage(fs, folder)
        faulty = FaultyFileSystem(fs, Plan(step, mode))
        try:
            RenameFileStore(faulty).publish(part)
        except Kill:
            assert mode in {Mode.BEFORE, Mode.AFTER, Mode.TORN}
        store = RenameFileStore(fs)
        assert store.publish(part) == Finished(part.target, 4)
        faulty.apply_late()
        assert store.visible(folder) == [Finished(part.target, 4)]
        assert store.staged(folder) == []


@pytest.mark.parametrize("kind", FILE_SYSTEMS)
@pytest.mark.parametrize("mode", Mode)
def test_a_fault_at_every_step_of_writing_shows_nothing(kind: str, mode: Mode, tmp_path: Path) -> None:
    probe = FaultyFileSystem(MemoryFileSystem())
    stage(probe, "/w")
    left: list[int] = []
    for step in range(1, len(probe.calls) + 1):
        fs, folder = FILE_SYSTEMS[kind](), f"{tmp_path}/{step}/dt=1"
        faulty = FaultyFileSystem(fs, Plan(step, mode))
        try:
            stage(faulty, folder)
        except (Kill, StoreUnavailable):
            left.append(step)
        faulty.apply_late()
        faulty.release()
        store = RenameFileStore(fs)
        assert store.visible(folder) == []
        store.discard(store.staged(folder))
        assert store.staged(folder) == []
    assert left


def test_a_part_that_a_truncate_takes_while_it_is_written_was_not_committed() -> None:
    fs = MemoryFileSystem()
    file = RenameFileStore(fs).create(InProgress("/t", NAME))
    file.stream.write(b"rows")
    fs.delete(file.part.staged)
    with pytest.raises(StoreUnavailable, match=r"while it was written.* nothing was committed: start the job again"):
        file.close_for_commit()


@pytest.mark.parametrize(
    ("error", "tries"), [(OutcomeUnknown("rename", "/w/a", "time-out"), 5), (NotWritable("/w/a", "no"), 1)]
)
def test_a_rename_that_never_happens_is_tried_again_a_few_times_if_nobody_knows(
    error: HiveSinkError, tries: int
) -> None:
    fs, tried = MemoryFileSystem(), list[str]()
    part = stage(fs, "/w")

    def rename(_: object, source: str, __: str) -> None:
        tried.append(source)
        raise error

    with pytest.raises(type(error)):
        RenameFileStore(Wrapped(fs, rename=rename)).publish(part)
    assert len(tried) == tries


@pytest.mark.parametrize("parallelism", [1, 3, 16])
def test_results_come_in_the_order_of_the_calls(parallelism: int) -> None:
    assert run_parallel([partial(int, str(n)) for n in range(20)], parallelism) == list(range(20))
    assert run_parallel([], parallelism) == []


def test_calls_wait_for_each_other_only_where_one_at_a_time_is_asked_for() -> None:
    meet = threading.Barrier(4, timeout=60)
    assert sorted(run_parallel([meet.wait] * 4, 4)) == [0, 1, 2, 3]


@pytest.mark.parametrize("parallelism", [1, 4])
def test_the_first_error_in_order_is_raised_when_all_that_were_begun_have_ended(parallelism: int) -> None:
    begun: list[int] = []
    ended: list[int] = []
    never = threading.Event()

    def call(number: int) -> Callable[[], None]:
        def run() -> None:
            begun.append(number)
            if number > 2:
                never.wait(0.2)
            ended.append(number)
            if number in {1, 2}:
                raise ValueError(number)

        return run

    with pytest.raises(ValueError, match=r"^1$"):
        run_parallel([call(number) for number in range(1000)], parallelism)
    assert sorted(ended) == sorted(begun)
    assert len(begun) < 100


@pytest.mark.parametrize("fs", [LocalFileSystem(), MemoryFileSystem()], ids=["local", "memory"])
def test_a_part_that_is_at_its_place_already_stays(fs: FileSystem, tmp_path: Path) -> None:
    """A partition that was moved and moved back: the move's two ends are one name."""
    path = f"{tmp_path}/dt=1/{MOVED_NAME}"
    fs.write_new(path, b"rows")
    store = RenameFileStore(fs)
    assert store.publish(Pending(path, path, 4)) == Finished(path, 4)
    assert fs.read(path) == b"rows"


@pytest.mark.parametrize("snapshot", [False, True])
def test_one_name_through_a_linked_folder_is_not_a_second_name(tmp_path: Path, snapshot: bool) -> None:
    """To unlink it would lose the rows, or leave them in a user's hard-linked snapshot only."""
    fs = LocalFileSystem()
    (tmp_path / "alias").symlink_to(tmp_path / "real")
    path = f"{tmp_path}/real/{MOVED_NAME}"
    fs.write_new(path, b"rows")
    if snapshot:
        os.link(path, tmp_path / "snapshot")
    with pytest.raises(TargetTaken):
        RenameFileStore(fs).publish(Pending(path, f"{tmp_path}/alias/{MOVED_NAME}", 4))
    assert fs.read(path) == b"rows"


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The inodes of what was fsynced."""
    found: list[int] = []
    fsync = os.fsync

    def recording(handle: int) -> None:
        found.append(os.fstat(handle).st_ino)
        fsync(handle)

    monkeypatch.setattr(os, "fsync", recording)
    return found


@pytest.mark.parametrize("leftover", [None, b"floor", b"flo", b""])
def test_a_leftover_is_durable_too(tmp_path: Path, synced: list[int], leftover: bytes | None) -> None:
    path = tmp_path / ".f.tmp"
    if leftover is not None:
        path.write_bytes(leftover)
    LocalFileSystem().put(str(path), b"floor")
    assert path.read_bytes() == b"floor"
    assert {path.stat().st_ino, tmp_path.stat().st_ino} <= set(synced)


def test_what_is_made_of_a_leftover_is_durable(tmp_path: Path, synced: list[int]) -> None:
    (tmp_path / ".uid.6856c5a3a26b5a3f.tmp").write_bytes(b"0a")
    put_once(LocalFileSystem(), str(tmp_path / "uid"), b"0a")
    assert (tmp_path / "uid").stat().st_ino in synced
    assert os.listdir(tmp_path) == ["uid"]  # noqa: PTH208


def test_a_leftover_that_vanishes_meanwhile_is_no_error(tmp_path: Path) -> None:
    LocalFileSystem().make_durable(str(tmp_path / "gone"))
    LocalFileSystem().make_durable(str(tmp_path / "gone" / "gone"))


def test_on_hdfs_a_file_that_its_writer_never_closed_is_written_anew(request: pytest.FixtureRequest) -> None:
    """Its bytes can't be read before, so a leftover of the right bytes is on the DataNodes' disks."""
    url, data = hdfs_folder(request), b"floor" * 100_000
    server, _, rest = url.removeprefix("hdfs://").partition("/")
    writer = Client(f"hdfs://{server}", {}, config_dir=os.devnull).create(f"/{rest}/.f.tmp", WriteOptions())
    writer.write(data)
    fs = HdfsFileSystem({})
    assert fs.read(f"{url}/.f.tmp") == b""
    fs.put(f"{url}/.f.tmp", data)
    assert fs.read(f"{url}/.f.tmp") == data


@pytest.mark.parametrize(
    ("location", "before", "kind"),
    [
        ("/w/t", "", "file"),
        ("file:/w/t", "file:", "file"),
        ("file:///w/t", "file://", "file"),
        ("hdfs:/w/t", "hdfs:", "hdfs"),
        ("hdfs:///w/t", "hdfs://", "hdfs"),
        ("hdfs://ns:8020/w/t", "hdfs://ns:8020", "hdfs"),
        ("s3a://bucket/t", "s3a://bucket", "s3a"),
        ("w/t", "", ""),
        ("file:w/t", "file:", ""),
        ("hdfs:w/t", "hdfs:", ""),
    ],
)
def test_the_parts_of_a_location(location: str, before: str, kind: str) -> None:
    assert (file_system_of(location), scheme(location)) == (before, kind)
    assert with_scheme(location) == ("file:/w/t" if location == "/w/t" else location)


def test_a_storage_without_an_adapter_is_refused() -> None:
    with pytest.raises(InvalidOption, match=r"s3://b/t: hivesink supports only HDFS .*, S3 .*; write s3a://b/t"):
        storage_of("s3://b/t", NO_SITE)
