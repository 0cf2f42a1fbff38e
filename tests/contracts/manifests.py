"""Manifests for tests: the least there can be, and one with every field filled."""

from __future__ import annotations

import zlib
from dataclasses import replace
from datetime import datetime, timedelta, timezone

from hivesink.core.epoch import BatchId, BatchRef, Epoch, LastBatch
from hivesink.core.manifest import Commit, Manifest, OpenBucket, Opened, PartEntry, Read, Rows, Slice
from hivesink.core.offsets import FilesOffset, KafkaOffset, NoOffset, OtherOffset
from hivesink.core.partition_commit import Watermark

AT = datetime(2026, 11, 21, 4, 5, 6, 789, tzinfo=timezone.utc)
OLD, NEW = Slice("7-00112233aat0-3.arrow", 640, 320, 5), Slice("12-00112233aat0-0.arrow", 0, 340, 3, 0x1C0FFEE)
WAITS = OpenBucket.of((OLD, NEW), AT - timedelta(minutes=3), AT)


def small(epoch: int, attempt: str = "aaaabbbb") -> Manifest:
    return Manifest("w", "0a1b2c3d", Epoch(epoch), attempt, "batch", AT, Epoch(0))


BATCH = BatchRef(
    query="1f0c",
    batch=BatchId(7),
    start=(NoOffset(), FilesOffset(0, "ab" * 32, 3), OtherOffset('{"a":1}')),
    end=(KafkaOffset.of({"t": {"0": 10, "1": 20}}), FilesOffset(1, "cd" * 32, 2), OtherOffset('{"a":2}')),
    sources=("t", "/in", ""),
    head='v1\n{"batchWatermarkMs":0,"batchTimestampMs":1763692800000,"conf":{}}',
    keeps_state=True,
)


def full() -> Manifest:
    """Every field filled: open state, several tables, each kind of offset."""
    return Manifest(
        writer="flights",
        uid="0a1b2c3d",
        epoch=Epoch(12),
        attempt="00112233aa",
        kind="batch",
        at=AT,
        settled=Epoch(11),
        last_batch=LastBatch(Epoch(12), BATCH, appended=True, raw=True),
        rows=Rows(read=21, written=6, rejected=5, dropped=4, late=3, skipped=3),
        add=(
            _part("demo.flights", "dt=2013-01-01", 0),
            _part("demo.flights", "dt=a%3Ab ü", 1),
            _part("demo.flights__rejected", "", 2),
        ),
        remove=("/w/flights/dt=2/part-y",),
        replaces=(_part("demo.flights__rejected", "dt=2013-01-01", 3),),
        forgotten=7,
        tables=("demo.flights", "demo.flights__rejected"),
        zones=(("demo.flights", "Europe/Berlin"), ("demo.flights__rejected", "UTC")),
        log="/w/.hivesink/demo.flights/flights",
        options=(("sink.file.permission", "640"), ("sink.log.retained-epochs", "7")),
        settings=(
            ("sink.file.permission", "640"),
            ("sink.log.retained-epochs", "7"),
            ("sink.partition-commit.delay", "1h"),
        ),
        opened=(Opened("demo.flights", "dt=2013-01-01", NEW),),
        rolled=(("demo.flights", "dt=a%3Ab ü"),),
        waiting=((("demo.flights", "dt=2013-01-01"), replace(WAITS, published=9, files=2)),),
        reads=(Read(Epoch(7), AT - timedelta(minutes=3), KafkaOffset.of({"t": {"1": 7}})),),
        commits=(Commit("demo.flights", "dt=a%3Ab ü", 3, 40, 5),),
        watermark=Watermark(AT - timedelta(hours=2), {"t-0": AT - timedelta(hours=1), "t-1": None}),
    )


def _part(table: str, partition: str, task: int) -> PartEntry:
    folder = "/".join(filter(None, ("/w", table.partition(".")[2], partition)))
    name = f"part-0a1b2c3d-12-00112233aat0-{task}-0.snappy.parquet"
    return PartEntry(table, partition, f"{folder}/.{name}.pending", f"{folder}/{name}", 1000 + task, 2)


def edited(data: bytes, old: bytes, new: bytes, count: int = -1) -> bytes:
    """A file of the log with another text in it, under the right checksum."""
    first, seal, rest = data.split(b"\n", 2)
    assert seal.startswith(b' "crc32": ')
    assert old in rest
    plain = first + b"\n" + rest.replace(old, new, count)
    return b'{\n "crc32": %d,' % zlib.crc32(plain) + plain[1:]
