from __future__ import annotations

import gc
import os
import random
import resource
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from secrets import token_hex
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hivesink.config.formats import FORMATS
from hivesink.core.manifest import Manifest, Opened, PartEntry
from hivesink.core.partfile import PartName
from hivesink.core.rolling import OpenRows
from hivesink.core.table import Column, SortKey, TableName, TableSpec
from hivesink.core.typetext import parse_type
from hivesink.errors import StoreUnavailable
from hivesink.formats import adapter
from hivesink.formats.parquet import ParquetFormat
from hivesink.ports import FileStore
from hivesink.ports.rows import FileFormat
from hivesink.sink.task.attempt import run_encoding
from hivesink.sink.task.messages import InputShape, LeftSlice, TablePlan, TaskReport
from hivesink.sink.task.parts import MAX_OPEN_FILES, Parts, Target
from hivesink.sink.task.segments import held_back, lost_slices
from hivesink.storage.local import LocalFileSystem
from hivesink.storage.rename_store import RenameFileStore
from hivesink.wiring import refit
from tests.contracts.manifests import small
from tests.ingest import Wrapped
from tests.inmemory.filesystem import MemoryFileSystem
from tests.sink.task.taskrun import Run, publish

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])
MB = 1 << 20


@dataclass(frozen=True)
class Spy(ParquetFormat):
    """A real format that notes each write: its rows and bytes."""

    notes: list[tuple[int, int]] = field(default_factory=list)

    def open(self, stream: BinaryIO) -> Any:
        def write(to_file: Callable[[pa.Table], None], rows: pa.Table) -> None:
            self.notes.append((rows.num_rows, rows.nbytes))
            to_file(rows)

        return Wrapped(super().open(stream), write=write)


def parts_of(
    store: FileStore, *, memory: int = 64 * MB, file_size: int = 64 * MB
) -> tuple[Parts, list[tuple[str, ...]]]:
    touched: list[tuple[str, ...]] = []

    def name(n: int, extension: str) -> PartName:
        return PartName("0123456789ab", 1, "00ff00ff00", 0, 0, n, suffix=extension)

    parts = Parts(store=store, name=name, touch=touched.append, memory=memory, file_size=file_size)
    return parts, touched


def target(location: str, form: FileFormat | None = None) -> Target:
    made = form or ParquetFormat(SCHEMA)
    return Target(TablePlan(TableSpec(TableName("db", "t"), ()), location), lambda: made)


def rows(start: int, size: int, width: int = 100) -> pa.Table:
    ids = list(range(start, start + size))
    return pa.table({"id": ids, "text": [f"{n:0{width}d}" for n in ids]}, schema=SCHEMA)


def ids_of(store: FileStore, done: tuple[PartEntry, ...]) -> list[int]:
    found: list[int] = []
    for part in done:
        with store.open(part.staged) as stream:
            table = pq.read_table(pa.BufferReader(stream.read()))
        assert table.num_rows == part.rows
        found += table.column("id").to_pylist()
    return sorted(found)


@pytest.fixture
def store() -> FileStore:
    return RenameFileStore(MemoryFileSystem())


def test_held_bytes_stay_below_the_cap(store: FileStore) -> None:
    parts, _ = parts_of(store, memory=MB)
    spy = Spy(SCHEMA)
    place = target("/t", spy)
    most = 0
    for n in range(400):
        parts.add(place, f"dt={n % 40}", rows(n * 100, 100))
        held = sum(fragment.nbytes for bucket in parts._buckets.values() for fragment in bucket.fragments)
        assert held <= parts._held
        most = max(most, parts._held)
    assert MB * 0.9 < most <= MB
    assert ids_of(store, parts.finish()) == list(range(40_000))
    assert parts._held == 0


def test_over_the_cap_the_largest_bucket_writes_out_first(store: FileStore) -> None:
    parts, touched = parts_of(store, memory=100_000)
    spy = Spy(SCHEMA)
    place = target("/t", spy)
    parts.add(place, "dt=small", rows(0, 100))
    parts.add(place, "dt=large", rows(100, 500))
    parts.add(place, "dt=middle", rows(600, 200))
    assert spy.notes == []
    parts.add(place, "dt=small", rows(800, 150))
    assert [size for size, _ in spy.notes] == [500]
    # All folders that wait are named before the first file, in one list.
    assert touched == [("/t/dt=large", "/t/dt=middle", "/t/dt=small")]
    assert ids_of(store, parts.finish()) == list(range(950))


def test_rows_with_columns_that_are_gone_have_an_open_file_of_their_own(store: FileStore) -> None:
    parts, _ = parts_of(store, memory=1000)
    parts.add(target("/t"), "dt=1", rows(0, 1000))
    more = rows(1000, 1000).append_column("gone", pa.array(range(1000)))
    parts.add(replace(target("/t"), gone="gone"), "dt=1", more)
    assert len(parts._open) == 2
    assert [part.rows for part in parts.finish()] == [1000, 1000]


def test_a_full_row_group_is_written_while_there_is_memory_left(store: FileStore) -> None:
    parts, _ = parts_of(store)
    spy = Spy(SCHEMA, row_group=20_000)
    place = target("/t", spy)
    parts.add(place, "dt=1", rows(0, 100))
    assert spy.notes == []
    parts.add(place, "dt=1", rows(100, 100))
    assert sum(size for size, _ in spy.notes) == 200
    assert parts._held == 0


def test_row_groups_have_the_declared_size(store: FileStore) -> None:
    parts, _ = parts_of(store)
    spy = Spy(SCHEMA, row_group=50_000)
    parts.add(target("/t", spy), "dt=1", rows(0, 5000))
    parts.finish()
    assert len(spy.notes) > 10
    assert all(size <= 51_000 for _, size in spy.notes)


def test_a_file_that_has_reached_its_size_is_followed_by_another(store: FileStore) -> None:
    parts, _ = parts_of(store, file_size=100_000)
    place = target("/t", ParquetFormat(SCHEMA, row_group=60_000))
    for n in range(40):
        parts.add(place, "dt=1", rows(n * 1000, 1000))
    done = parts.finish()
    assert len(done) > 3
    assert all(part.length >= 100_000 for part in done[:-1])
    assert all(part.length < 200_000 for part in done)
    assert len({part.target for part in done}) == len(done)
    assert ids_of(store, done) == list(range(40_000))


def sorted_target(*keys: SortKey, row_group: int = 64 * MB) -> Target:
    return replace(target("/t", ParquetFormat(SCHEMA, order=keys, row_group=row_group)), order=keys)


def groups_of(store: FileStore, part: PartEntry) -> list[list[int | None]]:
    """The ids of each row group."""
    with store.open(part.staged) as stream:
        file = pq.ParquetFile(pa.BufferReader(stream.read()))
    return [file.read_row_group(group).column("id").to_pylist() for group in range(file.num_row_groups)]


def shuffled(size: int) -> Iterator[pa.Table]:
    """Rows of ids below `size` in no order, in tables of 100."""
    ids = list(range(size))
    random.Random(7).shuffle(ids)  # noqa: S311  no secret
    whole = rows(0, size)
    for start in range(0, size, 100):
        yield whole.take(ids[start : start + 100])


def test_a_file_whose_rows_fit_into_memory_is_sorted_as_a_whole(store: FileStore) -> None:
    parts, _ = parts_of(store)
    place = sorted_target(SortKey("id", descending=True), row_group=50_000)
    for table in shuffled(5000):
        parts.add(place, "dt=1", table)
    (done,) = parts.finish()
    groups = groups_of(store, done)
    assert len(groups) > 10
    assert [number for group in groups for number in group] == list(reversed(range(5000)))


def test_over_the_cap_each_row_group_is_sorted(store: FileStore) -> None:
    parts, _ = parts_of(store, memory=200_000)
    place = sorted_target(SortKey("id"), row_group=50_000)
    for table in shuffled(5000):
        parts.add(place, "dt=1", table)
        assert parts._held <= 200_000
    (done,) = parts.finish()
    groups: list[list[Any]] = groups_of(store, done)
    assert len(groups) > 10
    assert all(group == sorted(group) for group in groups)
    assert sorted(number for group in groups for number in group) == list(range(5000))
    # As many rows as fit into memory are sorted across row groups.
    runs = sum(before[-1] > after[0] for before, after in pairwise(groups))
    assert runs < len(groups) / 2


@pytest.mark.parametrize("descending", [False, True])
def test_nulls_come_last_and_equal_keys_keep_their_order(store: FileStore, descending: bool) -> None:
    parts, _ = parts_of(store)
    place = sorted_target(SortKey("text", descending))
    parts.add(place, "dt=1", pa.table({"id": [1, 2, 3, 4, 5], "text": ["b", None, "a", None, "b"]}, schema=SCHEMA))
    (done,) = parts.finish()
    assert groups_of(store, done) == [[1, 5, 3, 2, 4] if descending else [3, 1, 5, 2, 4]]


@pytest.fixture
def few_files() -> Iterator[int]:
    """How many files may be open in this process beside those that earlier tests left open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = MAX_OPEN_FILES + 200
    highest = max(int(entry.name) for entry in os.scandir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + few, hard))
    yield few
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_thousand_open_buckets_under_a_low_limit_of_open_files(few_files: int, tmp_path: Path) -> None:
    assert few_files < 1000
    store = RenameFileStore(LocalFileSystem())
    parts, _ = parts_of(store, memory=200_000)
    place = target(str(tmp_path))
    for turn in range(2):
        for bucket in range(1000):
            parts.add(place, f"dt={bucket}", rows(turn * 10_000 + bucket * 10, 10))
            assert parts._held <= 200_000
    assert len(parts._open) <= MAX_OPEN_FILES
    done = parts.finish()
    assert {part.partition for part in done} == {f"dt={bucket}" for bucket in range(1000)}
    assert ids_of(store, done) == sorted(turn * 10_000 + n for turn in range(2) for n in range(10_000))


def staged(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


class _FarAway(MemoryFileSystem):
    """Counts what is open at once, as a store that is written to from many threads."""

    parallel = 16

    def __init__(self) -> None:
        super().__init__()
        self.open_now: set[str] = set()
        self.most = 0

    def open_new(self, path: str) -> BinaryIO:
        stream = super().open_new(path)
        with self._lock:
            self.open_now.add(path)
            self.most = max(self.most, len(self.open_now))
        return stream

    def sync_close(self, stream: BinaryIO, path: str) -> None:
        super().sync_close(stream, path)
        with self._lock:
            self.open_now.remove(path)


@pytest.mark.parametrize(("memory", "most"), [(64 * MB, 16), (4 * MB, 2)])
def test_many_files_are_opened_and_closed_at_a_time_within_the_caps(memory: int, most: int) -> None:
    fs = _FarAway()
    store = RenameFileStore(fs)
    parts, touched = parts_of(store, memory=memory)
    for start in range(50):
        parts.add(target("/w"), f"dt={start}", rows(start * 10, 10))
    done = parts.finish()
    assert sorted(ids_of(store, done)) == list(range(500))
    assert len({part.staged for part in done}) == 50
    assert {folder for folders in touched for folder in folders} == {f"/w/dt={start}" for start in range(50)}
    assert (fs.most, fs.open_now) == (most, set())


def test_abort_leaves_nothing(tmp_path: Path) -> None:
    store = RenameFileStore(LocalFileSystem())
    parts, _ = parts_of(store, memory=1, file_size=20_000)
    place = target(str(tmp_path))
    parts.add(place, "dt=pending", rows(0, 2000))
    parts.add(place, "dt=in-progress", rows(0, 10))
    parts.memory = MB
    parts.add(place, "dt=waiting", rows(0, 10))
    names = staged(tmp_path)
    assert [name.rpartition(".")[2] for name in names] == ["pending", "inprogress"]
    parts.abort()
    assert staged(tmp_path) == []
    del parts
    # A writer that is dropped must not try to finish its file.
    gc.collect()
    assert staged(tmp_path) == []


def test_a_part_that_can_not_be_closed_is_aborted_with_the_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    system = LocalFileSystem()
    store = RenameFileStore(system)
    parts, _ = parts_of(store)
    for n in range(3):
        parts.add(target(str(tmp_path)), f"dt={n}", rows(n, 1))
    closed = system.sync_close
    calls: list[str] = []

    def full(stream: Any, path: str) -> None:
        calls.append(path)
        if len(calls) == 2:
            raise StoreUnavailable(action="write", path=path, reason="no space left on device")
        closed(stream, path)

    monkeypatch.setattr(system, "sync_close", full, raising=True)
    with pytest.raises(StoreUnavailable, match="no space left"):
        parts.finish()
    assert len(staged(tmp_path)) == 2
    parts.abort()
    assert staged(tmp_path) == []


WAIT = {"sink.rolling-policy.on-epoch": "false"}
STORE = RenameFileStore(LocalFileSystem())


def run(folder: Path, kind: str, **others: str) -> Run:
    columns = {"c": kind, **others}.items()
    known = tuple(Column(name, parse_type(one)) for name, one in columns)
    return Run(STORE, str(folder / "t"), known, options=WAIT, shape=InputShape())


def wait(folder: Path, kind: str, *values: Any) -> tuple[Opened, ...]:
    """Each of `values` waits in a segment of its own."""
    opened: list[Opened] = []
    for number, value in enumerate(values):
        batch = pa.RecordBatch.from_pydict({"c": [value]})
        opened += run(folder, kind)(batch, task=number).opened
    return tuple(opened)


def encode(folder: Path, kind: str, opened: Iterable[Opened], form: str = "PARQUET") -> TaskReport:
    now = replace(run(folder, kind), format=form)
    return run_encoding(opened, now.plan, now.tools(now.plan), 0, 0)


def read(report: TaskReport) -> list[Any]:
    values: list[Any] = []
    for part in publish(STORE, report):
        with Path(part).open("rb") as stream:
            form = adapter("ORC" if part.endswith("orc") else "PARQUET")
            batches = form.read(stream, pa.schema([("c", pa.string())]), 10)
            values += [value for batch in batches for value in batch["c"].to_pylist()]
    return values


def path(folder: Path, one: Opened) -> Path:
    return folder / "t.segments" / one.slice.segment


@pytest.mark.parametrize("form", FORMATS)
def test_rows_of_the_columns_of_today_are_taken_as_they_are(tmp_path: Path, form: str) -> None:
    opened = wait(tmp_path, "string", "a", "bb")
    report = encode(tmp_path, "string", opened, form)
    assert (sorted(read(report)), report.left) == (["a", "bb"], ())
    for file in Path(tmp_path / "t").glob("part-*"):
        assert b"hivesink.columns" not in file.read_bytes()
        if form == "PARQUET":
            assert b"hivesink.columns" not in (pq.read_metadata(file).metadata or {})


def test_what_the_table_no_longer_has_stays_in_files_of_its_own(tmp_path: Path) -> None:
    before, at = run(tmp_path, "string", d="timestamp"), datetime.fromisoformat("2024-01-02 03:04:05")
    batch = pa.RecordBatch.from_pydict({"c": ["a"], "d": [at]})
    opened = (*wait(tmp_path, "string", "b", "c"), *before(batch, task=7).opened)
    report = encode(tmp_path, "string", opened)
    files = [pq.read_table(path).to_pylist() for path in publish(STORE, report)]
    # A table that has the column again finds its values.
    assert sorted(files, key=len) == [[{"c": "a", "d": at}], [{"c": "b"}, {"c": "c"}]]


def test_rows_that_waited_for_parquet_wait_on_where_orc_cannot_hold_them(tmp_path: Path) -> None:
    fits, early = wait(
        tmp_path, "timestamp", *map(datetime.fromisoformat, ("1969-12-31 23:59:58", "1969-12-31T23:59:58.5"))
    )
    report = encode(tmp_path, "timestamp", [early, fits], "ORC")
    (left,) = report.left
    assert (sum(part.rows for part in report.parts), left.opened, left.retryable) == (1, early, False)
    assert "don't fit column c: it was in another format when they came and is in ORC today (before 1970" in left.reason
    now = replace(run(tmp_path, "timestamp"), format="ORC")
    assert set(held_back(OpenRows().after(_opening((fits, early))), now.plan.target.spec, now.segments, refit)) == {
        early.key
    }
    assert encode(tmp_path, "timestamp", [early]).left == ()


def test_a_shorter_varchar_is_another_type_though_arrow_has_one_for_both(tmp_path: Path) -> None:
    first, second = wait(tmp_path, "varchar(9)", "abc", "abcdef")
    report = encode(tmp_path, "varchar(3)", [first, second])
    (left,) = report.left
    assert (read(report), left.opened, left.retryable) == (["abc"], second, False)
    assert "it was string when they came and is varchar(3) today (longer than varchar(3))" in left.reason
    assert TaskReport.decode(report.encode()) == report


def test_nothing_of_a_slice_is_added_if_one_row_does_not_fit(tmp_path: Path) -> None:
    report = run(tmp_path, "string")(pa.RecordBatch.from_pydict({"c": ["x"] * 70_000 + ["long"]}))
    done = encode(tmp_path, "varchar(1)", report.opened)
    assert (done.parts, len(done.left)) == ((), 1)


@pytest.mark.parametrize("harm", ["missing", "short", "zeros", "flipped"])
def test_what_can_not_be_read_is_left(tmp_path: Path, harm: str) -> None:
    first, second = wait(tmp_path, "string", "a", "bb")
    file = path(tmp_path, second)
    data = file.read_bytes()
    harmed = {"short": data[:-1], "zeros": bytes(len(data)), "flipped": data.replace(b"bb", b"bc")}
    file.unlink()
    if harm in harmed:
        file.write_bytes(harmed[harm])
    report = encode(tmp_path, "string", [first, second])
    assert read(report) == ["a"]
    ((opened, reason),) = ((one.opened, one.reason) for one in report.left)
    assert opened == second
    assert reason.startswith(f"{file} holds committed rows that aren't in the table yet, but it ")
    assert ("is damaged" in reason) == (harm not in {"missing", "short"})
    rows = OpenRows().after(_opening((first, second)))
    now = run(tmp_path, "string")
    store = now.segments
    assert set(lost_slices(rows, store)) == {second}
    # Not read whole: that would take long where much waits.
    assert bool(held_back(rows, now.plan.target.spec, store, refit)) == (harm in {"missing", "short", "zeros"})


def test_bytes_that_are_no_arrow_are_damage_under_a_right_checksum_too(tmp_path: Path) -> None:
    (one,) = wait(tmp_path, "string", "a")
    path(tmp_path, one).write_bytes(bytes(one.slice.length))
    damaged = replace(one, slice=replace(one.slice, crc32=zlib.crc32(bytes(one.slice.length))))
    assert [type(left) for left in encode(tmp_path, "string", [damaged]).left] == [LeftSlice]


@pytest.mark.parametrize(("text", "share"), [("the same" * 20, 0.5), (None, 1.2)])
def test_only_what_compresses_well_is_compressed(tmp_path: Path, text: str | None, share: float) -> None:
    # LZ4 would take a third off the second ones.
    values = [text or token_hex(50) + "x" * 60 for _ in range(5_000)]
    opened = run(tmp_path, "string")(pa.RecordBatch.from_pydict({"c": values})).opened
    plain, length = pa.array(values).nbytes, opened[0].slice.length
    assert (length < plain) == (share < 1)
    assert length < share * plain
    assert sorted(read(encode(tmp_path, "string", opened))) == sorted(values)


def _opening(opened: tuple[Opened, ...]) -> Manifest:
    return replace(small(1), opened=opened)
