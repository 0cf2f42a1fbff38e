"""Manifests and floors as bytes. A newer format is refused."""

from __future__ import annotations

import json
import re
import zlib
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from hivesink.core import offsets
from hivesink.core.epoch import BatchId, BatchRef, Epoch, LastBatch
from hivesink.core.manifest import FORMAT, Floor, Manifest, PartEntry, Rows
from hivesink.core.partition_commit import Recorded
from hivesink.core.records import Commit, OpenBucket, Opened, Slice
from hivesink.core.watermark import Watermark
from hivesink.errors import LogDamaged, NewerFormat

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hivesink.core.partition import PartitionKey

_SEAL = re.compile(rb'\{\n "crc32": (\d+),')


def encode(manifest: Manifest) -> bytes:
    """Sorted, indented ASCII JSON that ends with a newline: people read these files too. Golden files pin it.

    Before the sorted fields, the first line has `crc32`, that of the bytes without this line.
    """
    return _bytes(
        {
            **_fields(manifest),
            "format": FORMAT,
            "last_batch": last_batch_fields(manifest.last_batch),
            "zones": dict(manifest.zones),
            "options": dict(manifest.options),
            "settings": dict(manifest.settings),
            "opened": [_opened(one) for one in manifest.opened],
            "rolled": [{"table": table, "partition": partition} for table, partition in manifest.rolled],
            "waiting": None if manifest.waiting is None else [_bucket(*item) for item in manifest.waiting],
            "watermark": _watermark(manifest.watermark),
        }
    )


def decode(data: bytes, file: str) -> Manifest:
    """The inverse of `encode`. Raises NewerFormat or LogDamaged, both naming `file`."""
    found = _parse(data, file)
    try:
        waiting = found["waiting"]
        return Manifest(
            writer=str(found["writer"]),
            uid=str(found["uid"]),
            epoch=Epoch(int(found["epoch"])),
            attempt=str(found["attempt"]),
            kind=str(found["kind"]),
            at=_to_time(found["at"]),
            settled=Epoch(int(found["settled"])),
            last_batch=_to_last_batch(found["last_batch"]),
            rows=_to_rows(found["rows"]),
            add=tuple(_to_part(part) for part in found["add"]),
            remove=tuple(str(target) for target in found["remove"]),
            replaces=tuple(_to_part(part) for part in found["replaces"]),
            forgotten=int(found["forgotten"]),
            tables=tuple(str(table) for table in found["tables"]),
            zones=tuple(sorted((str(table), str(zone)) for table, zone in found["zones"].items())),
            log=str(found["log"]),
            options=_texts(found["options"]),
            settings=_texts(found["settings"]),
            opened=tuple(_to_opened(one) for one in found["opened"]),
            rolled=tuple(_key(one) for one in found["rolled"]),
            waiting=None if waiting is None else tuple((_key(one), _to_bucket(one)) for one in waiting),
            commits=tuple(_to_commit(one) for one in found["commits"]),
            watermark=_to_watermark(found["watermark"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise LogDamaged(file, f"{type(error).__name__}: {error}") from error


def encode_records(records: Iterable[Recorded]) -> bytes:
    """In the form of `encode`. Partitions that one epoch committed share its fields."""
    epochs, commits = dict[str, Any](), []
    for one in records:
        end = [offsets.to_json(offset) for offset in one.end]
        epochs[str(one.epoch)] = {"at": one.at, "watermark": one.watermark, "end": end}
        commits.append({**_fields(one.commit), "epoch": one.epoch})
    return _bytes({"format": FORMAT, "epochs": epochs, "commits": commits})


def decode_records(data: bytes, file: str) -> tuple[Recorded, ...]:
    """The inverse of `encode_records`. Raises NewerFormat or LogDamaged, both naming `file`."""
    found = _parse(data, file)
    try:
        return tuple(_to_recorded(one, found["epochs"][str(one["epoch"])]) for one in found["commits"])
    except (KeyError, TypeError, ValueError) as error:
        raise LogDamaged(file, f"{type(error).__name__}: {error}") from error


def encode_floor(floor: Floor) -> bytes:
    """In the form of `encode`."""
    fields = {"files": floor.files, "forgotten": floor.forgotten, "replaced": floor.replaced}
    return _bytes({"format": FORMAT, "floor": floor.epoch, "totals": floor.totals, **fields})


def decode_floor(data: bytes, file: str) -> Floor:
    """The inverse of `encode_floor`. Raises NewerFormat or LogDamaged, both naming `file`."""
    found = _parse(data, file)
    try:
        files, forgotten = int(found["files"]), int(found["forgotten"])
        replaced = tuple(_to_part(part) for part in found["replaced"])
        return Floor(Epoch(int(found["floor"])), _to_rows(found["totals"]), files, forgotten, replaced)
    except (KeyError, TypeError, ValueError) as error:
        raise LogDamaged(file, f"{type(error).__name__}: {error}") from error


def _parse(data: bytes, file: str) -> dict[str, Any]:
    """The fields in `data`, whose first line has their checksum."""
    sealed = _SEAL.match(data)
    rest = b"{" + data[sealed.end() :] if sealed else data
    if sealed and zlib.crc32(rest) != int(sealed[1]):
        raise LogDamaged(file, "its bytes don't match its crc32")
    try:
        found = json.loads(rest)
    except ValueError as error:
        raise LogDamaged(file, f"not JSON ({error})") from error
    if not isinstance(found, dict) or not isinstance(found.get("format"), int):
        raise LogDamaged(file, "no format version")
    if found["format"] > FORMAT:
        raise NewerFormat(file, found["format"], FORMAT)
    if sealed is None:
        raise LogDamaged(file, "its first line has no crc32")
    return found


def _bytes(value: dict[str, Any]) -> bytes:
    plain = (json.dumps(value, sort_keys=True, indent=1, default=_plain) + "\n").encode()
    # A local disk notices no flipped bit, which may be one of a partition's name.
    return b'{\n "crc32": %d,' % zlib.crc32(plain) + plain[1:]


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat(timespec="microseconds")
    return _fields(value)


def _fields(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__slots__}


def _texts(found: Any) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((str(name), str(text)) for name, text in found.items()))


def _to_rows(found: Any) -> Rows:
    return Rows(**{name: int(found[name]) for name in Rows.__slots__})


def _to_part(found: Any) -> PartEntry:
    paths = str(found["staged"]), str(found["target"])
    return PartEntry(*_key(found), *paths, length=int(found["length"]), rows=int(found["rows"]))


def _opened(one: Opened) -> dict[str, Any]:
    return {"table": one.table, "partition": one.partition, **_slice(one.slice)}


def _to_opened(found: Any) -> Opened:
    return Opened(*_key(found), _to_slice(found))


def _slice(one: Slice) -> dict[str, Any]:
    return _fields(one)


def _slice_line(one: Slice) -> str:
    return f"{one.segment} {one.offset} {one.length} {one.rows} {one.crc32}"


def _bucket(key: PartitionKey, bucket: OpenBucket) -> dict[str, Any]:
    # A snapshot may hold thousands of slices: each is one line.
    slices = [_slice_line(one) for one in bucket.slices]
    known = {"first": bucket.first, "last": bucket.last, "published": bucket.published, "files": bucket.files}
    return {"table": key[0], "partition": key[1], **known, "slices": slices}


def _key(found: Any) -> PartitionKey:
    return str(found["table"]), str(found["partition"])


def _to_slice(found: Any) -> Slice:
    return Slice(str(found["segment"]), *(int(found[name]) for name in ("offset", "length", "rows", "crc32")))


def _to_bucket(found: Any) -> OpenBucket:
    slices = (text.split(" ") for text in found["slices"])
    known = tuple(Slice(name, *map(int, numbers)) for name, *numbers in slices)
    bucket = OpenBucket.of(known, _to_time(found["first"]), _to_time(found["last"]))
    return replace(bucket, published=int(found["published"]), files=int(found["files"]))


def _to_commit(found: Any) -> Commit:
    return Commit(*_key(found), int(found["revision"]), int(found["rows"]), int(found["files"]))


def _to_recorded(found: Any, epoch: Any) -> Recorded:
    mark = None if epoch["watermark"] is None else _to_time(epoch["watermark"])
    end = tuple(offsets.from_json(offset) for offset in epoch["end"])
    return Recorded(_to_commit(found), Epoch(int(found["epoch"])), _to_time(epoch["at"]), mark, end)


def _watermark(mark: Watermark | None) -> dict[str, Any] | None:
    if mark is None:
        return None
    quiet: dict[str, Any] = {"quiet": dict(mark.quiet)} if mark.quiet else {}
    clock: dict[str, Any] = {"clock": mark.clock} if mark.clock else {}
    goes_on: dict[str, Any] = {} if mark.goes_on else {"goes_on": False}
    return {"at": mark.at, "newest": dict(mark.newest), **quiet, **goes_on, **clock}


def _to_watermark(found: Any) -> Watermark | None:
    if found is None:
        return None
    times = {str(name): None if time is None else _to_time(time) for name, time in found["newest"].items()}
    quiet = {str(name): _to_time(time) for name, time in found.get("quiet", {}).items()}
    at = None if found["at"] is None else _to_time(found["at"])
    clock = _to_time(found["clock"]) if "clock" in found else None
    return Watermark(at, times, quiet, bool(found.get("goes_on", True)), clock)


def _to_time(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(timezone.utc)


def last_batch_fields(last: LastBatch | None) -> dict[str, Any] | None:
    """As a manifest has them."""
    if last is None:
        return None
    return {
        "epoch": last.epoch,
        "appended": last.appended,
        "raw": last.raw,
        "query": last.ref.query,
        "batch": last.ref.batch,
        "start": [offsets.to_json(offset) for offset in last.ref.start],
        "end": [offsets.to_json(offset) for offset in last.ref.end],
        "sources": last.ref.sources,
        "head": last.ref.head,
        "keeps_state": last.ref.keeps_state,
    }


def _to_last_batch(found: Any) -> LastBatch | None:
    if found is None:
        return None
    start, end = (tuple(offsets.from_json(offset) for offset in found[name]) for name in ("start", "end"))
    query, number, sources = str(found["query"]), BatchId(int(found["batch"])), tuple(map(str, found["sources"]))
    ref = BatchRef(query, number, start, end, sources, str(found["head"]), bool(found["keeps_state"]))
    return LastBatch(Epoch(int(found["epoch"])), ref, appended=bool(found["appended"]), raw=bool(found["raw"]))
