from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivesink.core.epoch import Epoch
from hivesink.core.lifecycle import Floor, History, Identity, Stamp, floor_over
from hivesink.core.manifest import Commit, Manifest, PartEntry, Recorded, Rows, live_parts
from hivesink.core.manifest_json import decode, decode_floor, decode_records, encode, encode_floor, encode_records
from hivesink.core.offsets import FilesOffset, KafkaOffset
from hivesink.core.partition_commit import Watermark
from hivesink.errors import LogDamaged
from hivesink.storage.commit_log import FileCommitLog
from hivesink.storage.local import LocalFileSystem
from tests.contracts.manifests import AT, edited, full, small

GOLDEN = Path(__file__).parents[1] / "golden"
FLOOR = Floor(Epoch(7), Rows(21, 6, 5, 4, 3, 3), 9, 2, full().replaces, 11, 12000, {"batch": 5, "roll": 2})
RECORDS = (
    Recorded(Commit("demo.flights", "dt=2013-01-01", 1, 20, 2), Epoch(5), AT, None, ()),
    Recorded(
        Commit("demo.flights", "dt=a%3Ab ü", 3, 40, 5),
        Epoch(7),
        AT + timedelta(minutes=1),
        AT - timedelta(hours=2),
        (KafkaOffset.of({"t": {"0": 10, "1": 20}}), FilesOffset(1, "cd" * 32, 2)),
    ),
)
CODECS: dict[str, tuple[Any, Callable[[Any], bytes], Callable[[bytes, str], Any]]] = {
    "manifest-1.json": (full(), encode, decode),
    "floor-1.json": (FLOOR, encode_floor, decode_floor),
    "commits-1.json": (RECORDS, encode_records, decode_records),
}
counts = st.builds(Rows, *[st.integers(0, 2**53)] * 6)


@st.composite
def manifests(draw: st.DrawFn) -> Manifest:
    """Any part of the full one, with text of every kind in its place."""
    base = full()
    text = st.text(max_size=20)
    part = st.sampled_from(base.add)
    parts = draw(st.lists(st.builds(replace, part, partition=text, target=text, rows=st.integers(0, 2**60))))
    return replace(
        base,
        writer=draw(text),
        epoch=Epoch(draw(st.integers(1, 10**12))),
        at=AT + timedelta(microseconds=draw(st.integers(-(10**15), 10**15))),
        last_batch=draw(st.sampled_from([None, base.last_batch])),
        rows=draw(counts),
        add=tuple(parts),
        remove=tuple(draw(st.lists(text))),
        replaces=draw(st.sampled_from([(), base.replaces])),
        forgotten=draw(st.integers(0, 2**60)),
        zones=tuple(sorted(draw(st.dictionaries(text, text)).items())),
        log=draw(text),
        options=tuple(sorted(draw(st.dictionaries(text, text)).items())),
        settings=tuple(sorted(draw(st.dictionaries(text, text)).items())),
        opened=draw(st.sampled_from([(), base.opened])),
        rolled=tuple(draw(st.lists(st.tuples(text, text)))),
        waiting=draw(st.sampled_from([None, (), base.waiting])),
        reads=draw(st.sampled_from([(), base.reads])),
        commits=draw(st.sampled_from([(), base.commits])),
        watermark=draw(st.sampled_from([None, Watermark(clock=base.at), base.watermark])),
    )


@given(manifests())
def test_a_manifest_round_trips(manifest: Manifest) -> None:
    assert decode(encode(manifest), "m") == manifest


@pytest.mark.parametrize("name", CODECS)
def test_the_bytes_are_pinned(name: str) -> None:
    value, write, read = CODECS[name]
    data = (GOLDEN / name).read_bytes()
    assert write(value) == data
    assert read(data, "m") == value


@given(st.integers(0, 2**16), st.integers(0, 7))
def test_a_flipped_bit_changes_nothing_that_is_read(place: int, bit: int) -> None:
    for value, write, read in CODECS.values():
        data = write(value)
        flipped = bytearray(data)
        flipped[place % len(data)] ^= 1 << bit
        with suppress(LogDamaged):
            assert read(bytes(flipped), "m") == read(data, "m")


def test_a_file_that_was_edited_is_told_from_a_whole_one() -> None:
    data = encode(full())
    for damaged in (data.replace(b"demo.flights", b"demo.fl1ghts"), json.dumps(json.loads(data)).encode()):
        with pytest.raises(LogDamaged, match="crc32"):
            decode(damaged, "m")


@pytest.mark.parametrize("data", [b"[]", b'{"format": 1}', edited(encode_records(RECORDS), b'"epochs"', b'"else"')])
def test_damaged_partition_commits_are_refused_by_file(data: bytes) -> None:
    with pytest.raises(LogDamaged, match="commits/7"):
        decode_records(data, "commits/7")


@pytest.mark.parametrize("name", CODECS)
def test_a_newer_format_is_refused_by_file_and_version(name: str) -> None:
    value, write, read = CODECS[name]
    with pytest.raises(LogDamaged, match=r"^m is damaged \(format version 2, this hivesink knows 1"):
        read(edited(write(value), b'"format": 1', b'"format": 2'), "m")


@pytest.mark.parametrize("field", [b'"log"', b'"waiting"', b'"commits"'])
def test_a_manifest_without_one_of_its_fields_is_damaged(field: bytes) -> None:
    with pytest.raises(LogDamaged, match=field.decode().strip('"')):
        decode(edited(encode(full()), field, b'"else"'), "m")


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("log-damaged", r"log-damaged/manifests/0000000002\.json is damaged"),
        ("log-newer", r"0000000002\.json is damaged \(format version 2, this hivesink knows 1"),
    ],
)
def test_a_log_on_a_disk_is_read_but_for_what_cant_be(log: str, reason: str) -> None:
    kept = FileCommitLog(LocalFileSystem(), str(GOLDEN / log))
    assert kept.manifest(Epoch(1)) == small(1)
    with pytest.raises(LogDamaged, match=reason):
        kept.manifest(kept.view().head)


@given(st.integers(0, 10_000))
def test_a_torn_manifest_is_damaged(length: int) -> None:
    data = encode(full())
    with pytest.raises(LogDamaged):
        decode(data[: length % (len(data) - 1)], "m")


def test_what_is_carried_forward_and_what_is_not() -> None:
    base = full()
    own = Identity(base.writer, base.uid, base.tables, base.zones, "/log")
    following = History(own, base).following("fence", Stamp(AT - timedelta(days=1), "ccccdddd"))
    bare = Manifest(base.writer, base.uid, Epoch(13), "ccccdddd", "fence", base.at, Epoch(12))
    carried = {name: getattr(base, name) for name in ("last_batch", "tables", "zones", "watermark")}
    assert following == replace(bare, log="/log", **carried)


def at(place: str, name: str = "x") -> PartEntry:
    return PartEntry("t", "p=1", f"/p=1/.{name}.pending", f"{place}/{name}", 1, 1)


def test_a_part_lives_until_a_later_epoch_removes_it() -> None:
    first = replace(small(1), add=(at("/a"), at("/a", "z")))
    moved = replace(small(2), add=(at("/b"),), remove=("/a/x", "/a/z"))
    back = replace(small(3), add=(at("/a"),), remove=("/b/x",))
    assert list(live_parts([first])) == [(first, at("/a")), (first, at("/a", "z"))]
    assert list(live_parts([first, moved])) == [(moved, at("/b"))]
    assert list(live_parts([first, moved, back])) == [(back, at("/a"))]
    assert [manifest.created for manifest in (first, moved, back)] == [first.add, (), ()]


@given(st.sets(st.integers(1, 6)))
def test_a_floor_sums_up_wherever_it_is_put(stops: set[int]) -> None:
    manifests = [
        replace(small(1), rows=Rows(5, 5), add=(at("/a"), at("/a", "y"))),
        replace(small(2), add=(at("/b"),), remove=("/a/x",)),
        replace(small(3), rows=Rows(1, 1), add=(at("/a", "w"),), replaces=(at("/l", "p"), at("/l", "q"))),
        replace(small(4), kind="forget", remove=("/b/x",), forgotten=4),
        replace(small(5), add=(at("/a", "v"),), replaces=(at("/l", "r"),)),
        # It was given up: its dead letter is there again.
        replace(small(6), kind="requeue", remove=("/a/v",), replaces=(at("/l", "r"),)),
    ]
    floor = None
    for stop in sorted({*stops, 6}):
        floor = floor_over(floor, [one for one in manifests if (floor.epoch if floor else 0) < one.epoch <= stop])
    replaced = (at("/l", "p"), at("/l", "q"))
    kinds = {kind: sum(one.kind == kind for one in manifests) for kind in {one.kind for one in manifests}}
    size = sum(part.length for one in manifests for part in one.created)
    assert floor == Floor(Epoch(6), Rows(6, 6), 2, 4, replaced, parts=4, bytes=size, kinds=kinds)


def test_rows_add_and_balance() -> None:
    assert full().rows.balanced
    assert not replace(full().rows, read=20).balanced
    assert (full().rows + full().rows) == Rows(42, 12, 10, 8, 6, 6)
