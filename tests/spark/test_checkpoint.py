from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timezone

import pytest

from hivesink.core.epoch import BatchId, BatchRef, NextBatch
from hivesink.core.offsets import FilesOffset, KafkaOffset, NoOffset, OtherOffset, SourceOffset, TopicIds
from hivesink.errors import CheckpointUnreadable
from hivesink.spark.checkpoint import Checkpoint, batch_ref, next_batch, next_watermark
from hivesink.spark.rebuild import files_of
from tests.inmemory.filesystem import MemoryFileSystem

FOUR = datetime(2024, 1, 2, 4, tzinfo=timezone.utc)
METADATA = '{"batchWatermarkMs":17,"batchTimestampMs":1763692800000,"conf":{}}'


def offsets(*sources: str) -> bytes:
    return "\n".join(["v1", METADATA, *sources]).encode()


def stored(files: Mapping[str, bytes | None]) -> Checkpoint:
    """A checkpoint in memory, without those files that are None."""
    fs = MemoryFileSystem()
    for name, data in files.items():
        if data is not None:
            fs.write_new(f"/c/{name}", data)
    return Checkpoint(fs, "/c")


def test_the_ids_of_the_topics_that_a_query_began_with_are_replaced_as_a_whole() -> None:
    files = stored({})
    assert (files.topics(), files.names("offsets")) == (None, [])
    known: list[TopicIds] = [({"t": "1"}, {}), ({"t": "2"},)]
    for ids in known:
        files.put_topics(ids)
        assert files.topics() == ids
    assert files.names("") == ["hivesink-topics"]
    with pytest.raises(CheckpointUnreadable, match="/c/hivesink-topics"):
        stored({"hivesink-topics": b""}).topics()


def at(offset: int) -> tuple[KafkaOffset, ...]:
    return (KafkaOffset.of({"t": {"0": offset}}),)


def entry(path: str, batch: int) -> str:
    return json.dumps({"path": path, "timestamp": 1, "batchId": batch})


READ = {
    "offsets/0": offsets('{"logOffset":0}'),
    "offsets/1": offsets('{"logOffset":2}'),
    "sources/0/1": f"v1\n{entry('b', 1)}".encode(),
    "sources/0/2": f"v1\n{entry('c', 2)}\n{entry('d', 2)}".encode(),
}
COMPACT = {**READ, "sources/0/2.compact": "\n".join(["v1", *map(entry, "abcd", (0, 1, 2, 2))]).encode()}
del COMPACT["sources/0/1"], COMPACT["sources/0/2"]
PATHS = FilesOffset.of(2, ((1, "b"), (2, "c"), (2, "d")))


@pytest.mark.parametrize(
    ("batch", "files", "start", "end"),
    [
        (
            4,
            {"offsets/3": offsets('{"t":{"0":5,"1":7}}'), "offsets/4": offsets('{"t":{"1":9,"0":6}}')},
            KafkaOffset.of({"t": {"0": 5, "1": 7}}),
            KafkaOffset.of({"t": {"0": 6, "1": 9}}),
        ),
        # The first batch starts where the source says that it began, or at the beginning.
        (0, {"offsets/0": offsets('{"t":{"0":5}}'), "sources/0/0": b'v1\n{"t":{"0":2}}'}, at(2)[0], at(5)[0]),
        (0, {"offsets/0": offsets('{"t":{"0":5}}'), "sources/0/0": b'\0v1\n{"t":{"0":2}}'}, at(2)[0], at(5)[0]),
        (0, {"offsets/0": offsets('{"t":{"0":5}}')}, NoOffset(), at(5)[0]),
        # Other sources' offsets are compared as JSON; a dash is none.
        (0, {"offsets/0": offsets('{"b": 1, "a": 2}')}, NoOffset(), OtherOffset('{"a":2,"b":1}')),
        (0, {"offsets/0": offsets("-")}, NoOffset(), NoOffset()),
        # Files are known by their paths, compacted or not.
        (1, READ, FilesOffset(0, "", 0), PATHS),
        (1, COMPACT, FilesOffset(0, "", 0), PATHS),
    ],
)
def test_what_a_batch_covers(batch: int, files: Mapping[str, bytes], start: SourceOffset, end: SourceOffset) -> None:
    ref = batch_ref("q", BatchId(batch), stored(files))
    assert (ref.start, ref.end) == ((start,), (end,))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"v2\n{}\n", "its version is 'v2', known is 'v1'"),
        (b"v1", "its line ''"),
        (b"v1\nnonsense\n", "its line 'nonsense'"),
        (b'v1\n{}\n{"logOff', "its line '{.logOff'"),
        (b"", "it is empty"),
        (None, "it is missing"),
    ],
)
def test_an_unknown_form_is_refused_by_name(data: bytes, reason: str) -> None:
    with pytest.raises(CheckpointUnreadable, match=reason) as caught:
        batch_ref("q", BatchId(0), stored({"offsets/0": data}))
    assert str(caught.value).startswith("/c/offsets/0 ")
    assert "--checkpoint /c`" in str(caught.value)


@pytest.mark.parametrize(
    ("commit", "want"),
    [
        (b'v1\n{"nextBatchWatermarkMs":1704168000000}', FOUR),
        (b'v2\n{"nextBatchWatermarkMs":1704168000000,"stateUniqueIds":{}}', FOUR),
        (b'v1\n{"nextBatchWatermarkMs":0}', None),
        (b"v1\n{}", None),
        (None, None),
        (b"v3\n{}", "known is 'v1' or 'v2'"),
        (b"v1\n", "its line"),
    ],
)
def test_a_batchs_end_says_what_watermark_comes_next(commit: bytes | None, want: datetime | str | None) -> None:
    files = stored({"commits/7": commit})
    if not isinstance(want, str):
        assert next_watermark(BatchId(7), files) == want
        return
    with pytest.raises(CheckpointUnreadable, match=f"commits/7.*{want}"):
        next_watermark(BatchId(7), files)


KAFKA = {n: offsets(f'{{"t":{{"0":{n * 10}}}}}') for n in range(12)}


@pytest.mark.parametrize(
    ("files", "want"),
    [
        ({}, NextBatch(None, BatchId(0))),
        ({"metadata": b'{"id":"q"}'}, NextBatch("q", BatchId(0))),
        (
            {"metadata": b'{"id":"q"}', "offsets/0": KAFKA[1], "sources/0/0": b'v1\n{"t":{"0":5}}'},
            NextBatch("q", BatchId(0), at(5), at(10)),
        ),
        (
            {"metadata": b'{"id":"q"}', "offsets/9": KAFKA[9], "offsets/10": KAFKA[10], "offsets/.11.tmp": b""},
            NextBatch("q", BatchId(10), at(90), at(100)),
        ),
        (
            {"metadata": b'{"id":"q"}', "offsets/9": KAFKA[9], "offsets/10": KAFKA[10], "commits/10": b"v1"},
            NextBatch("q", BatchId(11), at(100)),
        ),
    ],
    ids=["fresh", "never-planned", "planned", "planned-later", "committed"],
)
def test_what_a_query_runs_first(files: Mapping[str, bytes], want: NextBatch) -> None:
    assert next_batch(stored(files)) == want


FILES = {
    "metadata": b'{"id":"q"}',
    **{f"offsets/{n}": offsets(f'{{"logOffset":{n}}}') for n in range(4)},
    **{f"commits/{n}": b"v1\n{}" for n in range(4)},
    # Spark has cleaned up what was compacted.
    "sources/0/1.compact": f"v1\n{entry('a', 0)}\n{entry('b', 1)}".encode(),
    "sources/0/2": f"v1\n{entry('c', 2)}".encode(),
    "sources/0/3": f"v1\n{entry('d', 3)}".encode(),
}


def test_a_file_that_was_compacted_and_cleaned_up_is_not_missed() -> None:
    assert next_batch(stored(FILES)).batch == 4
    (end,) = batch_ref("q", BatchId(0), stored(FILES)).end
    assert isinstance(end, FilesOffset)
    assert end.paths == ((0, "a"),)


def test_nothing_is_missed_where_a_plan_has_one_source_twice() -> None:
    """Its two offsets have one folder."""
    files = {**FILES, **{f"offsets/{n}": offsets(*[f'{{"logOffset":{n}}}'] * 2) for n in range(4)}}
    start = next_batch(stored(files)).start
    assert start == (FilesOffset(3, "", 1), FilesOffset(3, "", 0))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        *(("metadata", damaged) for damaged in (b"nonsense", b"[]", b"{}")),
        *((name, None) for name in ("metadata", "offsets/2", "sources/0/2", "sources/0/3")),
        *((name, b"") for name in ("metadata", "offsets/2", "offsets/3", "commits/3", "sources/0/2", "sources/0/3")),
        ("commits/3", b'v1\n{"next'),
        ("offsets/3", b'v1\n{}\n{"\xff":3}'),
        # Cut at a line's end.
        ("sources/0/1.compact", f"v1\n{entry('a', 0)}\n".encode()),
        ("sources/0/3", b"v1\n"),
    ],
)
def test_a_damaged_checkpoint_is_refused_by_the_files_full_path(name: str, data: bytes | None) -> None:
    files = {one: content for one, content in {**FILES, name: data}.items() if content is not None}
    with pytest.raises(CheckpointUnreadable, match=f"^/c/{name} of the query's checkpoint is missing or damaged"):
        next_batch(stored(files))


HEADS = {
    "3.5.9": '{"batchWatermarkMs":0,"batchTimestampMs":1763692800000,"conf":{"spark.sql.shuffle.partitions":"200"}}',
    "with a watermark": METADATA,
    "without metadata": "",
}


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("number", [0, 1, 7])
def test_a_checkpoint_is_written_as_spark_writes_it_and_read_back_as_the_same_batch(number: int, head: str) -> None:
    start = (at(5)[0], OtherOffset("3")) if number != 1 else (at(5)[0], NoOffset())
    start = (at(5)[0], NoOffset()) if number == 0 else start
    ref = BatchRef(
        "q", BatchId(number), start, (KafkaOffset.of({"é": {"0": 1}, "t": {"0": 9, "1": 2}}), OtherOffset("4"))
    )
    ref = replace(ref, head=f"v1\n{head}")
    files = files_of(ref)
    assert files["metadata"] == b'{"id": "q"}'
    assert files[f"offsets/{number}"].decode().split("\n")[:2] == ["v1", head]
    if number:
        assert list(files)[-1] == f"commits/{number - 1}"
        mark = 17 if head == METADATA else 0
        assert files[f"commits/{number - 1}"].decode() == f'v1\n{{"nextBatchWatermarkMs":{mark}}}'
    else:
        assert files["sources/0/0"] == b'\0v1\n{"t": {"0": 5}}'
    if head:
        assert next_batch(stored(files)) == NextBatch("q", BatchId(number), ref.start, ref.end)
        read = batch_ref("q", BatchId(number), stored(files))
        assert (read, read.head) == (ref, ref.head)
