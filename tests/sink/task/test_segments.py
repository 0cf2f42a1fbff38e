"""Rows that wait in a real segment, and the Parquet files that they become in the table's columns of today."""

from __future__ import annotations

import zlib
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hivesink.core.rolling import Encoding, OpenRows
from hivesink.core.table import Column
from hivesink.core.typetext import parse_type
from hivesink.decode.convert import refit
from hivesink.sink.task.attempt import run_encoding, run_task
from hivesink.sink.task.messages import InputShape, LeftSlice, TaskReport
from hivesink.sink.task.segments import held_back, lost_slices
from hivesink.storage.local import LocalFileSystem
from hivesink.storage.rename_store import RenameFileStore
from tests.contracts.manifests import small
from tests.sink.task.taskrun import Run, publish

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hivesink.core.manifest import Manifest
    from hivesink.core.records import Opened

KEY = ("db.t", "")
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
        task = run(folder, kind)
        batch = pa.RecordBatch.from_pydict({"c": [value]})
        opened += run_task([batch], task.plan, task.tools(task.plan), number, number).opened
    return tuple(opened)


def encode(folder: Path, kind: str, opened: Iterable[Opened]) -> TaskReport:
    now = run(folder, kind)
    work = [Encoding(*KEY, tuple(one.slice for one in opened))]
    return run_encoding(work, now.plan, now.tools(now.plan), 0, 0)


def read(report: TaskReport) -> list[Any]:
    return [value for path in publish(STORE, report) for value in pq.read_table(path)["c"].to_pylist()]


def path(folder: Path, one: Opened) -> Path:
    return folder / "t.segments" / one.slice.segment


def test_rows_of_the_columns_of_today_are_taken_as_they_are(tmp_path: Path) -> None:
    opened = wait(tmp_path, "string", "a", "bb")
    report = encode(tmp_path, "string", opened)
    assert (sorted(read(report)), report.left) == (["a", "bb"], ())
    for file in Path(tmp_path / "t").glob("part-*"):
        assert b"hivesink.columns" not in file.read_bytes()
        assert b"hivesink.columns" not in (pq.read_metadata(file).metadata or {})


def test_what_the_table_no_longer_has_stays_in_files_of_its_own(tmp_path: Path) -> None:
    before, at = run(tmp_path, "string", d="timestamp"), datetime.fromisoformat("2024-01-02 03:04:05")
    batch = pa.RecordBatch.from_pydict({"c": ["a"], "d": [at]})
    opened = (
        *wait(tmp_path, "string", "b", "c"),
        *run_task([batch], before.plan, before.tools(before.plan), 7, 7).opened,
    )
    report = encode(tmp_path, "string", opened)
    files = [pq.read_table(path).to_pylist() for path in publish(STORE, report)]
    # A table that has the column again finds its values.
    assert sorted(files, key=len) == [[{"c": "a", "d": at}], [{"c": "b"}, {"c": "c"}]]


def test_a_shorter_varchar_is_another_type_though_arrow_has_one_for_both(tmp_path: Path) -> None:
    first, second = wait(tmp_path, "varchar(9)", "abc", "abcdef")
    report = encode(tmp_path, "varchar(3)", [first, second])
    (left,) = report.left
    assert (read(report), left.opened, left.retryable) == (["abc"], second, False)
    assert "it was string when they came and is varchar(3) today (longer than varchar(3))" in left.reason
    assert TaskReport.decode(report.encode()) == report


def test_nothing_of_a_slice_is_added_if_one_row_does_not_fit(tmp_path: Path) -> None:
    task = run(tmp_path, "string")
    batches = [pa.RecordBatch.from_pydict({"c": ["x"] * 70_000 + ["long"]})]
    report = run_task(batches, task.plan, task.tools(task.plan), 0, 0)
    done = encode(tmp_path, "varchar(1)", report.opened)
    assert (done.parts, len(done.left)) == ((), 1)


@pytest.mark.parametrize("harm", ["missing", "short", "zeros", "flipped"])
def test_what_can_not_be_read_is_left(tmp_path: Path, harm: str) -> None:
    first, second = wait(tmp_path, "string", "a", "bb")
    file = path(tmp_path, second)
    data = file.read_bytes()
    match harm:
        case "missing":
            file.unlink()
        case "short":
            file.write_bytes(data[:-1])
        case "zeros":
            file.write_bytes(bytes(len(data)))
        case _:
            file.write_bytes(data.replace(b"bb", b"bc"))
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
    task = run(tmp_path, "string")
    opened = run_task([pa.RecordBatch.from_pydict({"c": values})], task.plan, task.tools(task.plan), 0, 0).opened
    plain, length = pa.array(values).nbytes, opened[0].slice.length
    assert (length < plain) == (share < 1)
    assert length < share * plain
    assert sorted(read(encode(tmp_path, "string", opened))) == sorted(values)


def test_the_checksum_is_that_of_the_slices_bytes(tmp_path: Path) -> None:
    for one in wait(tmp_path, "string", "a", "bb"):
        data = path(tmp_path, one).read_bytes()[one.slice.offset :][: one.slice.length]
        assert one.slice.crc32 == zlib.crc32(data)


def _opening(opened: tuple[Opened, ...]) -> Manifest:
    return replace(small(1), opened=opened)
