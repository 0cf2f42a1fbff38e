"""Manifests, floors and partition commits as bytes. A newer format is refused."""

from __future__ import annotations

import dataclasses
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any

from hivesink.core import offsets
from hivesink.core.epoch import BatchRef, Epoch, LastBatch
from hivesink.core.lifecycle import Floor
from hivesink.core.manifest import Commit, Manifest, OpenBucket, Opened, PartEntry, Read, Recorded, Rows, Slice
from hivesink.core.partition import PartitionKey
from hivesink.core.partition_commit import Watermark
from hivesink.errors import LogDamaged

FORMAT = 1
_SILENT: dict[str, Any] = {"quiet": {}, "clock": None, "extra": 0, "reads": (), "columns": {}}
"""Fields of a manifest, of a watermark and of row counts that files have only where they say something else."""
_SEAL = re.compile(rb'\{\n "crc32": (\d+),')


def encode(manifest: Manifest) -> bytes:
    """Sorted, indented ASCII JSON that ends with a newline: people read these files too. Golden files pin it.

    Before the sorted fields, the first line has `crc32`, that of the bytes without this line.
    """
    waiting, fields = manifest.waiting, _fields(manifest) | {"columns": dict(manifest.columns)}
    for name in ("columns", "reads"):
        if not fields[name]:
            del fields[name]
    return _bytes(
        {
            **fields,
            "format": FORMAT,
            "zones": dict(manifest.zones),
            "options": dict(manifest.options),
            "settings": dict(manifest.settings),
            "opened": [
                {"table": new.table, "partition": new.partition, **_fields(new.slice)} for new in manifest.opened
            ],
            "rolled": [{"table": table, "partition": partition} for table, partition in manifest.rolled],
            "waiting": waiting and [{"table": key[0], "partition": key[1], **_bucket(rows)} for key, rows in waiting],
        }
    )


def encode_records(records: Iterable[Recorded]) -> bytes:
    """In the form of `encode`. The partitions of an epoch share its fields."""
    epochs, commits = dict[str, Any](), []
    for record in records:
        epochs[str(record.epoch)] = {"at": record.at, "watermark": record.watermark, "end": record.end}
        commits.append({**_fields(record.commit), "epoch": record.epoch})
    return _bytes({"format": FORMAT, "epochs": epochs, "commits": commits})


def encode_floor(floor: Floor) -> bytes:
    """In the form of `encode`."""
    fields = {**_fields(floor), "floor": floor.epoch, "kinds": dict(floor.kinds)}
    del fields["epoch"]
    return _bytes({"format": FORMAT, **fields})


def _plain(value: Any) -> Any:
    write: Callable[[Any], Any] = _PLAIN.get(type(value), offsets.to_json)
    return write(value)


def _bytes(value: dict[str, Any]) -> bytes:
    plain = (json.dumps(value, sort_keys=True, indent=1, default=_plain) + "\n").encode()
    # A local disk notices no flipped bit, even in a partition's name.
    return b'{\n "crc32": %d,' % zlib.crc32(plain) + plain[1:]


def _fields(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def last_batch_fields(last: LastBatch) -> dict[str, Any]:
    """As a manifest has them."""
    start, end = (list(map(offsets.to_json, side)) for side in (last.ref.start, last.ref.end))
    flags = {"epoch": last.epoch, "appended": last.appended, "raw": last.raw}
    return {**_fields(last.ref), **flags, "start": start, "end": end}


def _bucket(bucket: OpenBucket) -> dict[str, Any]:
    # A snapshot may hold thousands of slices: each is a line.
    slices = [f"{s.segment} {s.offset} {s.length} {s.rows} {s.crc32}" for s in bucket.slices]
    times = {"first": bucket.first, "last": bucket.last}
    return {**times, "published": bucket.published, "files": bucket.files, "slices": slices}


def _rows(rows: Rows) -> dict[str, Any]:
    return {name: count for name, count in _fields(rows).items() if count != _SILENT.get(name)}


def _watermark(mark: Watermark) -> dict[str, Any]:
    fields = _fields(mark) | {"newest": dict(mark.newest), "quiet": dict(mark.quiet)}
    return {name: said for name, said in fields.items() if name in {"at", "newest"} or said != _SILENT[name]}


_PLAIN: dict[type, Callable[[Any], Any]] = {
    PartEntry: _fields,
    datetime: lambda at: at.astimezone(timezone.utc).isoformat(timespec="microseconds"),
    Commit: _fields,
    Rows: _rows,
    LastBatch: last_batch_fields,
    Read: _fields,
    Watermark: _watermark,
}
"""How each kind of value is written; the others are offsets."""


def decode(data: bytes, file: str) -> Manifest:
    """The inverse of `encode`. Raises LogDamaged, which names `file`."""
    with _reading(data, file) as fields:
        return _to_manifest(_SILENT | fields)


def decode_records(data: bytes, file: str) -> tuple[Recorded, ...]:
    """The inverse of `encode_records`. Raises LogDamaged, which names `file`."""
    with _reading(data, file) as fields:
        # Many partitions share an epoch.
        of_epoch = {"at": "datetime", "watermark": "datetime | None", "end": "tuple[SourceOffset, ...]"}
        epochs = {
            epoch: {name: _READ[kind](shared[name]) for name, kind in of_epoch.items()}
            for epoch, shared in fields["epochs"].items()
        }
        return tuple(
            Recorded(_to_commit(item), Epoch(int(item["epoch"])), **epochs[str(item["epoch"])])
            for item in fields["commits"]
        )


def decode_floor(data: bytes, file: str) -> Floor:
    """The inverse of `encode_floor`. Raises LogDamaged, which names `file`."""
    with _reading(data, file) as fields:
        return _to_floor({**fields, "epoch": fields["floor"]})


@contextmanager
def _reading(data: bytes, file: str) -> Iterator[dict[str, Any]]:
    """The fields in `data`, whose first line has their checksum; who takes them apart finds only sound ones."""
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
        raise LogDamaged.other_format(file, fields["format"], FORMAT)
    if sealed is None:
        raise LogDamaged(file, "its first line has no crc32")
    try:
        yield fields
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise LogDamaged(file, f"{type(error).__name__}: {error}") from error


def _list(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda items: tuple(map(read, items))


def _or_none(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else read(value)


def _texts(fields: Any) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((str(name), str(text)) for name, text in fields.items()))


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(timezone.utc)


def _key(fields: Any) -> PartitionKey:
    return str(fields["table"]), str(fields["partition"])


def _times(fields: Any) -> dict[str, Any]:
    return {name: _or_none(_time)(text) for name, text in fields.items()}


def _to_bucket(fields: Any) -> OpenBucket:
    slices = (text.split(" ") for text in fields["slices"])
    read = tuple(Slice(name, *map(int, numbers)) for name, *numbers in slices)
    bucket = OpenBucket.of(read, _time(fields["first"]), _time(fields["last"]))
    return dataclasses.replace(bucket, published=int(fields["published"]), files=int(fields["files"]))


def _to_last_batch(fields: Any) -> LastBatch:
    return LastBatch(Epoch(int(fields["epoch"])), _to_ref(fields), bool(fields["appended"]), bool(fields["raw"]))


_READ: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("int", "Epoch", "BatchId"), int),
    "str": str,
    "bool": bool,
    "datetime": _time,
    "datetime | None": _or_none(_time),
    "Mapping[str, int]": lambda counts: {str(name): int(count) for name, count in counts.items()},
    "Mapping[str, datetime]": _times,
    "Mapping[str, datetime | None]": _times,
    "LastBatch | None": _or_none(_to_last_batch),
    "tuple[str, ...]": _list(str),
    "tuple[tuple[str, str], ...]": _texts,
    "SourceOffset": offsets.from_json,
    "tuple[SourceOffset, ...]": _list(offsets.from_json),
    "tuple[PartitionKey, ...]": _list(_key),
    "tuple[tuple[PartitionKey, OpenBucket], ...] | None": _or_none(
        _list(lambda fields: (_key(fields), _to_bucket(fields)))
    ),
}
"""How a field is read, by its type as its class has it."""


def _reader(kind: Any) -> Callable[[Any], Any]:
    """Reads an object of `kind`. A field that isn't there is damage."""
    readers = {field.name: _READ[str(field.type)] for field in dataclasses.fields(kind)}
    return lambda fields: kind(**{name: read(fields[name]) for name, read in readers.items()})


_to_slice = _reader(Slice)
_to_ref = _reader(BatchRef)
_to_rows = _reader(Rows)
_to_watermark = _reader(Watermark)
_to_commit = _reader(Commit)
_READ["Rows"] = lambda fields: _to_rows(_SILENT | fields)
_READ["tuple[PartEntry, ...]"] = _list(_reader(PartEntry))
_READ["tuple[Commit, ...]"] = _list(_to_commit)
_READ["tuple[Read, ...]"] = _list(_reader(Read))
_READ["Watermark | None"] = _or_none(lambda fields: _to_watermark(_SILENT | fields))
_READ["tuple[Opened, ...]"] = _list(lambda fields: Opened(*_key(fields), _to_slice(fields)))
_to_floor: Callable[[Any], Floor] = _reader(Floor)
_to_manifest: Callable[[Any], Manifest] = _reader(Manifest)
