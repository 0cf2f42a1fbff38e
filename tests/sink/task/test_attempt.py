from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivesink.core.manifest import Rows
from hivesink.core.partition import DEFAULT_PARTITION, aside
from hivesink.core.table import Column, Primitive
from hivesink.decode.json import explode
from hivesink.errors import StoreUnavailable
from hivesink.sink.task.attempt import ROUTE, route, run_task
from hivesink.sink.task.messages import BadReport, InputShape, TaskFailure, TaskReport
from hivesink.sink.task.route import LineNumbers, lines_before
from hivesink.storage.local import LocalFileSystem
from hivesink.storage.rename_store import RenameFileStore
from tests.inmemory.filesystem import MemoryFileSystem
from tests.sink.task.taskrun import RAW, Run, balanced

# ruff: noqa: DTZ001  wall clocks without a zone are what a Hive TIMESTAMP holds
# ruff: noqa: E501  a case a line


ID = (Column("id", Primitive.INT),)
DT = (Column("dt", Primitive.STRING),)
INSTANT = pa.timestamp("us", "UTC")
KAFKA = InputShape(value="value", timestamp="timestamp", partition="partition", offset="offset", topic_name="users")
ASIDES = (aside("/w/t", "00ff00ff00"), aside("/w/t__rejected", "00ff00ff00"))
GOOD, BAD, TOMBSTONE = b'{"ID": 1, "dt": "a"}', b'{"id": "x", "dt": "a"}', None
EXPLODED: dict[str, Any] = {"json.explode": "$.r"}
UNFIT = b'{"id": 1, "dt": "' + b"y" * 300 + b'"}'


def run(values: list[bytes | None], store: RenameFileStore | None = None, **options: str) -> tuple[Run, TaskReport]:
    made = make(store, RAW, **options)
    return made, made(raw(values))


def make(store: RenameFileStore | None = None, shape: InputShape = RAW, **options: str) -> Run:
    """Underscores in `options` stand for hyphens."""
    settings = {f"sink.{name.replace('_', '-')}": text for name, text in options.items()}
    return Run(store or RenameFileStore(MemoryFileSystem()), "/w/t", ID, DT, settings, shape)


def raw(values: list[bytes | None]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(values, pa.binary())], ["value"])


def rows_of(made: Run, report: TaskReport, table: str = "db.t") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for part in report.parts:
        if part.table == table:
            with made.store.open(part.staged) as stream:
                content = pq.read_table(pa.BufferReader(stream.read()), coerce_int96_timestamp_unit="us")
            assert content.num_rows == part.rows
            found += content.to_pylist()
    return found


def test_rows_go_to_their_partitions_and_partition_columns_stay_out_of_the_files() -> None:
    made, report = run([GOOD, b'{"id": 2, "dt": "b"}', GOOD, TOMBSTONE])
    assert balanced(report)
    assert (report.rows.read, report.rows.written, report.rows.skipped) == (4, 3, 1)
    assert sorted((part.partition, part.rows) for part in report.parts) == [("dt=a", 2), ("dt=b", 1)]
    assert rows_of(made, report) == [{"id": 1}, {"id": 1}, {"id": 2}]
    assert [touched.folders for touched in made.touched] == [("/w/t/dt=a", "/w/t/dt=b", *ASIDES)]
    # Pending, and named after the attempt.
    assert report.parts[0].staged == "/w/t/dt=a/.part-0123456789ab-1-00ff00ff00t7-0-0.snappy.parquet.pending"
    assert report.parts[0].target == "/w/t/dt=a/part-0123456789ab-1-00ff00ff00t7-0-0.snappy.parquet"


@pytest.mark.parametrize(("value", "field"), [(BAD, "id"), (b"{", None), (UNFIT, "dt")])
def test_the_first_bad_record_stops_the_task_and_leaves_nothing(
    tmp_path: Path, value: bytes, field: str | None
) -> None:
    made = make(RenameFileStore(LocalFileSystem()), on_bad_record="fail", task_memory="1")
    made.location = str(tmp_path / "t")
    made.shape = KAFKA
    batch = kafka([GOOD, value, BAD])
    report = made(kafka([GOOD]), batch)
    assert report.bad is not None
    assert (report.bad.position, report.bad.field) == ("topic users partition 3 offset 101", field)
    assert report.parts == ()
    assert report.rows.read == 0
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert made.touched


@pytest.mark.parametrize("value", [BAD, b"{", UNFIT])
@pytest.mark.parametrize("answer", ["fail", "dead-letter"])
def test_a_bad_record_without_its_place_asks_for_another_try(tmp_path: Path, value: bytes, answer: str) -> None:
    made = make(RenameFileStore(LocalFileSystem()), on_bad_record=answer, task_memory="1")
    made.location, made.places = str(tmp_path / "t"), False
    report = made(raw([GOOD]), raw([GOOD, value]))
    assert (report.unplaced, report.bad, report.parts, report.rows.read) == (True, None, (), 0)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_the_largest_record_is_told() -> None:
    long = b'{"id": 2, "dt": "2026-01-01"}' + b" " * 1000
    made = make()
    assert made(raw([GOOD, long]), raw([TOMBSTONE])).largest == len(long)
    assert made(raw([TOMBSTONE])).largest == 0


def test_a_dropped_record_needs_no_place() -> None:
    made = make(on_bad_record="drop")
    made.places = False
    report = made(raw([GOOD, BAD, UNFIT]))
    assert (report.unplaced, report.rows.dropped, rows_of(made, report)) == (False, 2, [{"id": 1}])


def test_dead_letters_keep_the_bytes_the_reason_and_the_place() -> None:
    made = make(shape=KAFKA, on_bad_record="dead-letter")
    report = made(kafka([GOOD, BAD, UNFIT, b"\xff\x00"]))
    assert balanced(report)
    assert (report.rows.written, report.rows.rejected) == (1, 3)
    (part,) = [part for part in report.parts if part.table == "db.t__rejected"]
    assert part.partition == "dt=2026-11-21"
    assert part.target.startswith("/w/t__rejected/dt=2026-11-21/part-")
    found = rows_of(made, report, "db.t__rejected")
    assert [(row["value"], row["field"], row["record_offset"]) for row in found] == [
        (BAD, "id", 101),
        (UNFIT, "dt", 102),
        (b"\xff\x00", None, 103),
    ]
    assert {(row["topic"], row["partition_id"], row["arrived_at"]) for row in found} == {
        ("users", 3, datetime(2026, 11, 21, 23, 30))
    }
    assert all(row["reason"] for row in found)


@pytest.mark.parametrize("most", [explode._MOST_BYTES, 1])
def test_a_record_that_holds_many_is_many_rows_and_one_record(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken element is a dead letter of its own: also one that no partition can hold. Also record by record."""
    monkeypatch.setattr(explode, "_MOST_BYTES", most)
    made = make(shape=KAFKA, on_bad_record="dead-letter", **EXPLODED)
    listed: list[Any] = [
        b'{"n": 1, "r": [%b, %b, %b]}' % (GOOD, UNFIT, BAD),
        b'{"r": []}',
        b'{"r": 5}',
        b'{"r": [%b]}' % GOOD,
        b'{"n": "%b", "r": [%b, %b]}' % (b"n" * 1000, b",".join([BAD] * 30), GOOD),
    ]
    report = made(kafka(listed))
    assert balanced(report)
    rows = report.rows
    assert (rows.read, rows.written, rows.rejected, rows.skipped, rows.records) == (8, 3, 4, 1, 5)
    letters = [
        (letter["record_offset"], letter["element"], letter["value"], letter["field"])
        for letter in rows_of(made, report, "db.t__rejected")
    ]
    assert letters == [
        (100, 1, b'{"n": 1, "r": [%b]}' % UNFIT, "dt"),
        (100, 2, b'{"n": 1, "r": [%b]}' % BAD, "id"),
        (102, None, b'{"r": 5}', "r"),
        # Thirty times what is beside the list would be too much.
        (104, None, b'{"n": "%b", "r": [%b]}' % (b"n" * 1000, b",".join([BAD] * 30)), "id"),
    ]
    assert report.largest == max(map(len, listed))


def test_the_first_broken_element_stops_the_task_with_its_place() -> None:
    made = make(on_bad_record="fail", **EXPLODED)
    report = made(raw([b'{"r": [%b, %b]}' % (GOOD, BAD)]))
    assert report.bad is not None
    shown = '{"r": [{"id": "x", "dt": "a"}]}'
    assert (report.bad.position, report.bad.field) == (f"the stream element 1: {shown}", "id")


@pytest.mark.parametrize("most", [explode._MOST_BYTES, 1])
def test_a_record_that_holds_many_is_routed_whole(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explode, "_MOST_BYTES", most)
    made = make(**EXPLODED)
    given = raw([b'{"r": [%b, {"id": 2, "dt": "b"}]}' % GOOD, b"{", b'{"r": []}', b'{"r": [%b]}' % GOOD])
    slices = list(route([given], made.plan, made.tools(made.plan)))
    # What is broken, or has no element, takes no room.
    assert [batch.num_rows for batch in slices] == ([4] if most > 1 else [1, 2, 1])
    routed = pa.Table.from_batches(slices)
    assert routed[ROUTE].to_pylist() == ["dt=b", None, None, "dt=a"]
    assert routed["value"].to_pylist() == given.column("value").to_pylist()


def test_a_dead_letter_of_a_decoded_row_is_its_columns_as_json() -> None:
    made = make(shape=InputShape(path="_path"), on_bad_record="dead-letter")
    far = pa.array([None, 2**62], pa.int64()).cast(pa.timestamp("us"))
    batch = pa.RecordBatch.from_arrays([pa.array([1, 2**40]), far, pa.array(["a", "a"])], ["Id", "at", "dt"])
    report = made(batch)
    assert balanced(report)
    assert rows_of(made, report) == [{"id": 1}]
    (found,) = rows_of(made, report, "db.t__rejected")
    assert (found["field"], found["reason"], found["source"]) == ("id", "out of range for int", None)
    letter = json.loads(found["value"])
    assert (letter["Id"], letter["dt"]) == (2**40, "a")
    # No calendar has this time; what it was is still told.
    assert str(2**62) in letter["at"]


CUT = b'{"id": 1, "dt": "a", "name": "J\xfcrgen"}'


def lines(*values: bytes) -> pa.RecordBatch:
    """As Spark's text source has them: text, whatever the file's bytes are."""
    texts = pa.array([GOOD, *values], pa.binary()).view(pa.string())
    return pa.RecordBatch.from_arrays([texts, pa.array(["file:/in/x.json"] * len(texts))], ["value", "_path"])


def test_a_line_that_is_not_utf_8_stops_the_task_with_its_file_and_its_text() -> None:
    made = make(shape=InputShape(value="value", path="_path"), on_bad_record="fail")
    stopped = made(lines(CUT)).bad
    assert stopped is not None
    assert stopped.position == '/in/x.json: {"id": 1, "dt": "a", "name": "J\ufffdrgen"}'
    assert (stopped.field, stopped.reason) == (None, "not UTF-8")
    blank = made(lines(b" \t")).bad
    assert blank is not None
    assert blank.position == "/in/x.json: an empty line"


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_a_line_that_is_not_utf_8_is_dropped_or_kept_byte_by_byte(kind: pa.DataType) -> None:
    odd = [CUT, b"\xff\xfe{\x00}\x00", BAD, "J\xfcrgen".encode()]
    batch = lines(*odd)
    batch = batch.set_column(0, "value", batch.column(0).cast(kind))
    made = make(shape=InputShape(value="value", path="_path"), on_bad_record="dead-letter")
    report = made(batch)
    assert balanced(report)
    assert report.rows.written == 1
    found = rows_of(made, report, "db.t__rejected")
    assert [(row["value"], row["source"]) for row in found] == [(value, "file:/in/x.json") for value in odd]
    made.options = {"sink.on-bad-record": "drop"}
    assert made(batch).rows.dropped == 4


def test_a_decoded_row_keeps_the_bytes_of_texts_that_are_not_utf_8() -> None:
    made = make(on_bad_record="dead-letter")
    made.columns = (Column("id", Primitive.INT), Column("name", Primitive.STRING))
    made.shape = InputShape(path="_path")
    texts = pa.array([b"whole", b"J\xfcrgen", "J\xfcrgen".encode()], pa.binary()).view(pa.string())
    tags = pa.MapArray.from_arrays([0, 1, 2, 3], texts, pa.StructArray.from_arrays([texts], ["x"]))
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), texts)
    batch = pa.RecordBatch.from_arrays(
        [pa.array([1, 2, 2**40]), texts, tags, lists, texts, texts], ["id", "name", "tags", "lists", "dt", "_path"]
    )
    report = made(batch)
    assert balanced(report)
    assert rows_of(made, report) == [{"id": 1, "name": "whole"}]
    first, second = rows_of(made, report, "db.t__rejected")
    assert (first["field"], first["reason"], first["source"]) == ("name", "not UTF-8", "J\ufffdrgen")
    assert first["value"] == (
        b'{"id": 2, "name": "J\xfcrgen", "tags": {"J\xfcrgen": {"x": "J\xfcrgen"}}, "lists": ["J\xfcrgen"], '
        b'"dt": "J\xfcrgen", "_path": "J\xfcrgen"}'
    )
    assert json.loads(second["value"])["lists"] == ["J\xfcrgen"]
    made.options = {"sink.on-bad-record": "fail"}
    stopped = made(batch).bad
    assert stopped is not None
    assert stopped.position.startswith('J\ufffdrgen: {"id": 2, "name": "J\ufffdrgen"')


HOUR = datetime(2026, 1, 1, 10, tzinfo=timezone.utc)


def kafka(values: list[bytes | None]) -> pa.RecordBatch:
    """Records of an hour each."""
    size = len(values)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(values, pa.binary()),
            pa.array([HOUR + timedelta(hours=n) for n in range(size)], INSTANT),
            pa.array([3] * size, pa.int32()),
            pa.array(range(100, 100 + size), pa.int64()),
        ],
        ["value", "timestamp", "partition", "offset"],
    )


def test_the_records_own_time_decides_also_where_others_are_bad() -> None:
    """The good rows keep their own times."""
    made = make(shape=KAFKA, on_bad_record="drop")
    made.options = {
        **made.options,
        "sink.bucket.assigner": "date-time",
        "sink.bucket.time-column": "timestamp",
        "sink.bucket.time-zone": "Europe/Berlin",
    }
    values = [b'{"id": 0}', BAD, None, b'{"id": 3}']
    report = made(kafka(values))
    assert balanced(report)
    assert {part.partition: part.rows for part in report.parts} == {
        "dt=2026-01-01--11": 1,
        "dt=2026-01-01--14": 1,
    }


def test_a_streams_own_time_column_beside_decoded_rows() -> None:
    made = make(shape=InputShape())
    made.options = {"sink.bucket.assigner": "date-time", "sink.bucket.time-column": "seen"}
    seen = pa.array([datetime(2026, 1, 1, 10), datetime(2026, 1, 1, 11)], INSTANT)
    report = made(pa.RecordBatch.from_arrays([pa.array([1, 2], pa.int32()), seen], ["id", "Seen"]))
    assert sorted(part.partition for part in report.parts) == ["dt=2026-01-01--10", "dt=2026-01-01--11"]


def test_rows_are_routed_by_their_partitions_and_stay_as_they_came() -> None:
    values = [GOOD, BAD, b'{"id": 2, "dt": "b"}', TOMBSTONE, UNFIT, b'{"id": 3}', GOOD]
    made = make(on_bad_record="drop")
    (batch,) = route([raw(values)], made.plan, made.tools(made.plan))
    paths = batch.column(batch.schema.get_field_index(ROUTE)).to_pylist()
    default = f"dt={DEFAULT_PARTITION}"
    assert paths == ["dt=a", None, "dt=b", None, None, default, "dt=a"]
    assert batch.drop_columns([ROUTE]).equals(raw(values))
    assert made.touched == []


def test_dead_letters_are_not_laid_out_as_the_tables_rows_are() -> None:
    made, report = run([GOOD, BAD], on_bad_record="dead-letter", sort_by="id")
    orders = {}
    for part in report.parts:
        with made.store.open(part.staged) as stream:
            metadata = pq.ParquetFile(pa.BufferReader(stream.read())).metadata
        orders[part.table] = len(metadata.row_group(0).sorting_columns)
    assert orders == {"db.t": 1, "db.t__rejected": 0}


def test_no_rows_no_files() -> None:
    made = make()
    report = made(raw([]), raw([TOMBSTONE]))
    assert (report.parts, report.rows.read, report.rows.skipped, made.touched) == ((), 1, 1, [])


def test_a_task_that_dies_half_way_leaves_no_part(tmp_path: Path) -> None:
    made = make(RenameFileStore(LocalFileSystem()), task_memory="1")
    made.location = str(tmp_path)

    def batches() -> Iterator[pa.RecordBatch]:
        yield raw([GOOD])
        # The first rows are on disk by now: the cap is one byte.
        assert [path.suffix for path in tmp_path.rglob("*") if path.is_file()] == [".inprogress"]
        message = "the executor goes away"
        raise KeyboardInterrupt(message)

    plan = made.plan
    with pytest.raises(KeyboardInterrupt, match="goes away"):
        run_task(batches(), plan, made.tools(plan), task=0, task_attempt=0)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@given(
    st.lists(st.lists(st.sampled_from([GOOD, BAD, UNFIT, TOMBSTONE, b"[]", b'{"id": 7, "dt": null}']), max_size=8), max_size=5),
    st.sampled_from(["fail", "drop", "dead-letter"]),
    st.sampled_from(["default-partition", "bad-record"]),
    st.sampled_from(["skip", "bad-record"]),
)  # fmt: skip
def test_every_row_is_accounted_for(
    batches: list[list[bytes | None]], on_bad: str, on_null: str, on_tombstone: str
) -> None:
    made = make(on_bad_record=on_bad, on_tombstone=on_tombstone)
    made.options = {**made.options, "sink.bucket.on-null": on_null}
    report = made(*map(raw, batches))
    assert balanced(report)
    values = [value for batch in batches for value in batch]
    bad = sum(
        value in {BAD, UNFIT, b"[]"}
        or (value is TOMBSTONE and on_tombstone == "bad-record")
        or (value == b'{"id": 7, "dt": null}' and on_null == "bad-record")
        for value in values
    )
    if on_bad == "fail" and bad:
        assert report.bad is not None
        assert report.parts == ()
        return
    assert report.rows.read == len(values)
    assert report.rows.rejected + report.rows.dropped == bad
    assert report.rows.skipped == (values.count(TOMBSTONE) if on_tombstone == "skip" else 0)


def test_a_report_survives_the_way_to_the_driver() -> None:
    _, report = run([GOOD, BAD], on_bad_record="drop")
    assert TaskReport.decode(report.encode()) == report
    _, stopped = run([BAD])
    assert isinstance(stopped.bad, BadReport)
    assert TaskReport.decode(stopped.encode()) == stopped
    failed = TaskReport(0, 1, Rows(), failure=TaskFailure("the disk is full", retryable=True))
    assert TaskReport.decode(failed.encode()) == failed


CONTENT = b"1\n2\r\n3\r4\n5\n6\n"
Row = tuple[str, int]


def source(path: str) -> BinaryIO:
    assert path in {"file:/in/a b", "file:/in/c", "file:/in/d.bz2"}
    return io.BytesIO(CONTENT)


def numbers(open_source: Callable[[str], BinaryIO] = source) -> LineNumbers:
    return LineNumbers(InputShape(value="value", path="_path", block="_block"), open_source)


def batch(rows: Sequence[Row]) -> pa.RecordBatch:
    paths, blocks = [path for path, _ in rows], [block for _, block in rows]
    return pa.RecordBatch.from_pydict({"_path": pa.array(paths, pa.string()), "_block": pa.array(blocks, pa.int64())})


def numbers_of(rows: Sequence[Row], size: int = 2, made: LineNumbers | None = None) -> list[int | None]:
    """The line of each row, where they come in batches of `size`."""
    of = made or numbers()
    found = []
    for at in range(0, len(rows), size):
        some = of.follow(batch(rows[at : at + size]))
        found += of.of(some)
    return found


A, C = "file:/in/a%20b", "file:/in/c"
WHOLE = [(A, 0), (A, 0), (A, 0), (C, 5), (C, 5), (A, 5), (C, 0)]


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_rows_are_counted_from_their_block_and_blocks_from_the_file(size: int) -> None:
    # The line that begins at byte 5 is of the block before.
    assert numbers_of(WHOLE, size) == [1, 2, 3, 4, 5, 4, 1]


def test_rows_that_were_followed_before_they_were_moved() -> None:
    followed = numbers().follow(batch(WHOLE))
    moved = followed.take(pa.array([4, 0, 6, 2]))
    second = numbers()
    assert second.of(second.follow(moved)) == [5, 1, 1, 3]


def test_what_can_not_be_read_again_has_no_number_and_is_asked_for_once() -> None:
    asked = []

    def away(path: str) -> BinaryIO:
        asked.append(path)
        raise StoreUnavailable(action="read", path=path, reason="no answer")

    assert numbers_of(WHOLE, made=numbers(away)) == [1, 2, 3, None, None, None, 1]
    assert len(asked) == 2
    packed = "file:/in/d.bz2"
    assert numbers_of([(packed, 0), (packed, 5)]) == [1, None]
    assert numbers_of([(A, 0), (A, 1 << 31)]) == [1, None]


class Slow(io.BytesIO):
    """Gives some bytes at a time."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(size if size and size > 0 else 3, 3))


@given(st.lists(st.sampled_from([b"a", b"\r", b"\n", b"\r\n", b"xyz"]), min_size=2).map(b"".join), st.data())
def test_lines_before_a_block(content: bytes, data: st.DataObject) -> None:
    block = data.draw(st.integers(1, len(content)))
    ends = [found.end() for found in re.finditer(rb"\r\n|\r|\n", content)]
    begins = [0, *ends]
    for stream in (io.BytesIO(content), Slow(content)):
        assert lines_before(stream, block) == sum(begin <= block for begin in begins)
