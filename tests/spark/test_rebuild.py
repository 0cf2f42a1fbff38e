"""Which batch a lost checkpoint is rebuilt at, and into which folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hivesink.config.site import NO_SITE, Site
from hivesink.core.epoch import BatchId, BatchRef, Epoch, LastBatch
from hivesink.core.offsets import FilesOffset, KafkaOffset, NoOffset
from hivesink.errors import InvalidOption, Unsupported
from hivesink.logs import storage_of
from hivesink.spark.checkpoint import Checkpoint
from hivesink.spark.rebuild import batch_to_rebuild, checkpoint_folder, files_of, rebuild
from tests.inmemory.filesystem import MemoryFileSystem
from tests.storage.reals3 import BUCKET, s3_folder

HEAD = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}'


def last(number: int, *, at: int | None = None, head: str = HEAD, keeps_state: bool = False) -> LastBatch:
    """Batch `number`, of ten records; `at`: where it ends."""
    end = number * 10 + 10 if at is None else at
    start, stop = ((KafkaOffset.of({"t": {"0": place}}),) for place in (number * 10, end))
    ref = BatchRef("q", BatchId(number), start, stop, ("t",), head, keeps_state)
    return LastBatch(Epoch(number + 1), ref)


FILES = replace(last(4), ref=replace(last(4).ref, start=(NoOffset(),), end=(FilesOffset.of(1, ()),)))


@pytest.mark.parametrize(
    ("logs", "want"),
    [
        ([last(4)], 4),
        ([last(0)], 0),
        # Several sinks of one query: all have written the batch, or some haven't.
        ([last(4), last(4)], 4),
        ([last(4), last(3), last(4)], 4),
        ([last(4), last(2)], "and /0 at batch 2|and /1 at batch 2"),
        ([last(4), last(4, at=49)], "other offsets"),
        ([last(4), last(3, at=39)], "other offsets"),
        ([last(4, keeps_state=True)], "keeps state"),
        ([FILES], "digest"),
        ([last(4, head="")], "Spark"),
    ],
)
def test_the_batch_at_which_a_checkpoint_is_rebuilt(logs: list[LastBatch], want: int | str) -> None:
    named = {f"/{number}": log for number, log in enumerate(logs)}
    if isinstance(want, int):
        assert batch_to_rebuild(named).ref.batch == want
    else:
        with pytest.raises(Unsupported, match=rf"(?s){want}.*append=5"):
            batch_to_rebuild(named)


@pytest.mark.parametrize(
    ("there", "refused"),
    [
        ([], None),
        (["metadata", ".metadata.crc", "offsets/0", "offsets/.0.crc", "sources/0/0", "commits/.0.tmp"], None),
        (["metadata", "offsets/0", "commits/0"], "committed batches"),
        (["notes.txt"], r"no checkpoint, but holds notes\.txt"),
    ],
)
def test_only_what_a_refused_start_left_is_put_aside(there: list[str], refused: str | None) -> None:
    fs = MemoryFileSystem()
    for name in there:
        fs.write_new(f"/c/{name}", b"old")
    if refused:
        with pytest.raises(InvalidOption, match=refused):
            rebuild(last(4), fs, "/c", dry_run=False)
        assert all(fs.read(f"/c/{name}") == b"old" for name in there)
        return
    planned = rebuild(last(4), fs, "/c", dry_run=True)
    assert (planned is not None, fs.read("/c/offsets/4")) == (bool(there), None)
    aside = rebuild(last(4), fs, "file:/c/", dry_run=False)
    assert all(fs.read(f"{aside}/{name}") == b"old" for name in there)
    names = {
        f"{folder}/{entry.name}"
        for folder in ("offsets", "commits", "sources")
        for entry in fs.list(f"/c/{folder}")
        if not entry.is_folder
    }
    assert names == {"offsets/3", "offsets/4", "commits/3"}


def test_a_checkpoint_without_a_scheme_is_where_spark_looks_for_it() -> None:
    hdfs = Site({"fs.defaultFS": "hdfs://nn:8020"})
    assert checkpoint_folder("hdfs://nn/c", NO_SITE) == "hdfs://nn/c"
    assert checkpoint_folder("file:/c", hdfs) == "file:/c"
    assert checkpoint_folder("c", NO_SITE) == str(Path.cwd() / "c")
    assert checkpoint_folder("/c", hdfs) == "hdfs://nn:8020/c"
    with pytest.raises(InvalidOption, match="name its whole path"):
        checkpoint_folder("c", hdfs)


def test_on_s3_what_spark_has_left_is_read_put_aside_and_written_anew(request: pytest.FixtureRequest) -> None:
    location = f"{s3_folder(request)}/c"
    fs, bucket = storage_of(location, NO_SITE).logs(), request.getfixturevalue("s3").client()
    files = Checkpoint(fs, location)
    assert (files.names("offsets"), files.read("metadata"), files.topics()) == ([], None, None)
    key = location.partition("://")[2].partition("/")[2]
    # Hadoop keeps an object for a folder, also for an empty one.
    for name in ("", "offsets/", "commits/", "state/", "offsets/0", "offsets/.0.tmp", "metadata"):
        bucket.put_object(Bucket=BUCKET, Key=f"{key}/{name}", Body=b"" if name.endswith("/") else b"old")
    files.put_topics(({"t": "a"},))
    files.put_topics(({"t": "b"},))
    assert files.topics() == ({"t": "b"},)
    assert (files.names("offsets"), files.names("commits")) == ([".0.tmp", "0"], [])
    aside = rebuild(last(4), fs, location, dry_run=False)
    assert aside is not None
    assert Checkpoint(fs, aside).read("metadata") == b"old"
    wanted = files_of(last(4).ref)
    assert {name: files.read(name) for name in wanted} == wanted
    assert files.names("offsets") == ["3", "4"]
