"""Manifests and floors as bytes. A newer format is refused."""

from __future__ import annotations

import json
import re
import zlib
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from hivesink.core import offsets
from hivesink.core.epoch import BatchId, BatchRef, Epoch, LastBatch
from hivesink.core.manifest import FORMAT, Floor, Manifest, PartEntry, Rows
from hivesink.core.partition_commit import Watermark
from hivesink.core.records import Commit, OpenBucket, Opened, Recorded, Slice
from hivesink.errors import LogDamaged, NewerFormat

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
            "opened": [_opened(opened) for opened in manifest.opened],
            "rolled": [{"table": table, "partition": partition} for table, partition in manifest.rolled],
            "waiting": None if manifest.waiting is None else [_bucket(*item) for item in manifest.waiting],
            "watermark": _watermark(manifest.watermark),
        }
    )


def decode(data: bytes, file: str) -> Manifest:
    """The inverse of `encode`. Raises NewerFormat or LogDamaged, both naming `file`."""
    with _reading(data, file) as fields:
        waiting = fields["waiting"]
        return Manifest(
            writer=str(fields["writer"]),
            uid=str(fields["uid"]),
            epoch=Epoch(int(fields["epoch"])),
            attempt=str(fields["attempt"]),
            kind=str(fields["kind"]),
            at=_to_time(fields["at"]),
            settled=Epoch(int(fields["settled"])),
            last_batch=_to_last_batch(fields["last_batch"]),
            rows=_to_rows(fields["rows"]),
            add=tuple(_to_part(part) for part in fields["add"]),
            remove=tuple(str(target) for target in fields["remove"]),
            replaces=tuple(_to_part(part) for part in fields["replaces"]),
            forgotten=int(fields["forgotten"]),
            tables=tuple(str(table) for table in fields["tables"]),
            zones=tuple(sorted((str(table), str(zone)) for table, zone in fields["zones"].items())),
            log=str(fields["log"]),
            options=_texts(fields["options"]),
            settings=_texts(fields["settings"]),
            opened=tuple(_to_opened(item) for item in fields["opened"]),
            rolled=tuple(_key(item) for item in fields["rolled"]),
            waiting=None if waiting is None else tuple((_key(item), _to_bucket(item)) for item in waiting),
            commits=tuple(_to_commit(item) for item in fields["commits"]),
            watermark=_to_watermark(fields["watermark"]),
        )


def encode_records(records: Iterable[Recorded]) -> bytes:
    """In the form of `encode`. The partitions of an epoch share its fields."""
    epochs, commits = dict[str, Any](), []
    for record in records:
        end = [offsets.to_json(offset) for offset in record.end]
        epochs[str(record.epoch)] = {"at": record.at, "watermark": record.watermark, "end": end}
        commits.append({**_fields(record.commit), "epoch": record.epoch})
    return _bytes({"format": FORMAT, "epochs": epochs, "commits": commits})


def decode_records(data: bytes, file: str) -> tuple[Recorded, ...]:
    """The inverse of `encode_records`. Raises NewerFormat or LogDamaged, both naming `file`."""
    with _reading(data, file) as fields:
        return tuple(_to_recorded(item, fields["epochs"][str(item["epoch"])]) for item in fields["commits"])


def encode_floor(floor: Floor) -> bytes:
    """In the form of `encode`."""
    fields = {"files": floor.files, "forgotten": floor.forgotten, "replaced": floor.replaced}
    return _bytes({"format": FORMAT, "floor": floor.epoch, "totals": floor.totals, **fields})


def decode_floor(data: bytes, file: str) -> Floor:
    """The inverse of `encode_floor`. Raises NewerFormat or LogDamaged, both naming `file`."""
    with _reading(data, file) as fields:
        files, forgotten = int(fields["files"]), int(fields["forgotten"])
        replaced = tuple(_to_part(part) for part in fields["replaced"])
        return Floor(Epoch(int(fields["floor"])), _to_rows(fields["totals"]), files, forgotten, replaced)


@contextmanager
def _reading(data: bytes, file: str) -> Iterator[dict[str, Any]]:
    fields = _parse(data, file)
    try:
        yield fields
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise LogDamaged(file, f"{type(error).__name__}: {error}") from error


def _parse(data: bytes, file: str) -> dict[str, Any]:
    """The fields in `data`, whose first line has their checksum."""
    sealed = _SEAL.match(data)
    rest = b"{" + data[sealed.end() :] if sealed else data
    if sealed and zlib.crc32(rest) != int(sealed[1]):
        raise LogDamaged(file, "its bytes don't match its crc32")
    try:
        fields = json.loads(rest)
    except ValueError as error:
        raise LogDamaged(file, f"not JSON ({error})") from error
    if not isinstance(fields, dict) or not isinstance(fields.get("format"), int):
        raise LogDamaged(file, "no format version")
    if fields["format"] > FORMAT:
        raise NewerFormat(file, fields["format"], FORMAT)
    if sealed is None:
        raise LogDamaged(file, "its first line has no crc32")
    return fields


def _bytes(value: dict[str, Any]) -> bytes:
    plain = (json.dumps(value, sort_keys=True, indent=1, default=_plain) + "\n").encode()
    # A local disk notices no flipped bit, even in a partition's name.
    return b'{\n "crc32": %d,' % zlib.crc32(plain) + plain[1:]


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat(timespec="microseconds")
    return _fields(value)


def _fields(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__slots__}


def _texts(fields: Any) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((str(name), str(text)) for name, text in fields.items()))


def _to_rows(fields: Any) -> Rows:
    return Rows(**{name: int(fields[name]) for name in Rows.__slots__})


def _to_part(fields: Any) -> PartEntry:
    paths = str(fields["staged"]), str(fields["target"])
    return PartEntry(*_key(fields), *paths, length=int(fields["length"]), rows=int(fields["rows"]))


def _opened(opened: Opened) -> dict[str, Any]:
    return {"table": opened.table, "partition": opened.partition, **_fields(opened.slice)}


def _to_opened(fields: Any) -> Opened:
    return Opened(*_key(fields), _to_slice(fields))


def _bucket(key: PartitionKey, bucket: OpenBucket) -> dict[str, Any]:
    # A snapshot may hold thousands of slices: each is a line.
    slices = [f"{s.segment} {s.offset} {s.length} {s.rows} {s.crc32}" for s in bucket.slices]
    counts = {"first": bucket.first, "last": bucket.last, "published": bucket.published, "files": bucket.files}
    return {"table": key[0], "partition": key[1], **counts, "slices": slices}


def _key(fields: Any) -> PartitionKey:
    return str(fields["table"]), str(fields["partition"])


def _to_slice(fields: Any) -> Slice:
    return Slice(str(fields["segment"]), *(int(fields[name]) for name in ("offset", "length", "rows", "crc32")))


def _to_bucket(fields: Any) -> OpenBucket:
    slices = (text.split(" ") for text in fields["slices"])
    read = tuple(Slice(name, *map(int, numbers)) for name, *numbers in slices)
    bucket = OpenBucket.of(read, _to_time(fields["first"]), _to_time(fields["last"]))
    return replace(bucket, published=int(fields["published"]), files=int(fields["files"]))


def _to_commit(fields: Any) -> Commit:
    return Commit(*_key(fields), int(fields["revision"]), int(fields["rows"]), int(fields["files"]))


def _to_recorded(fields: Any, epoch: Any) -> Recorded:
    mark = None if epoch["watermark"] is None else _to_time(epoch["watermark"])
    end = tuple(offsets.from_json(offset) for offset in epoch["end"])
    return Recorded(_to_commit(fields), Epoch(int(fields["epoch"])), _to_time(epoch["at"]), mark, end)


def _watermark(mark: Watermark | None) -> dict[str, Any] | None:
    if mark is None:
        return None
    quiet: dict[str, Any] = {"quiet": dict(mark.quiet)} if mark.quiet else {}
    clock: dict[str, Any] = {"clock": mark.clock} if mark.clock else {}
    goes_on: dict[str, Any] = {} if mark.goes_on else {"goes_on": False}
    return {"at": mark.at, "newest": dict(mark.newest), **quiet, **goes_on, **clock}


def _to_watermark(fields: Any) -> Watermark | None:
    if fields is None:
        return None
    times = {str(name): None if time is None else _to_time(time) for name, time in fields["newest"].items()}
    quiet = {str(name): _to_time(time) for name, time in fields.get("quiet", {}).items()}
    at = None if fields["at"] is None else _to_time(fields["at"])
    clock = _to_time(fields["clock"]) if "clock" in fields else None
    return Watermark(at, times, quiet, bool(fields.get("goes_on", True)), clock)


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


def _to_last_batch(fields: Any) -> LastBatch | None:
    if fields is None:
        return None
    start, end = (tuple(offsets.from_json(offset) for offset in fields[name]) for name in ("start", "end"))
    query, number, sources = str(fields["query"]), BatchId(int(fields["batch"])), tuple(map(str, fields["sources"]))
    ref = BatchRef(query, number, start, end, sources, str(fields["head"]), bool(fields["keeps_state"]))
    return LastBatch(Epoch(int(fields["epoch"])), ref, appended=bool(fields["appended"]), raw=bool(fields["raw"]))
