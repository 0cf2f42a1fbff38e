"""How a table's logs are found: each writer leaves a pointer beside the table's default log folder.

<parent of the table's location>/.hivesink/<db>.<table>/<writer>            the default log
<parent of the table's location>/.hivesink/<db>.<table>/<writer>.pointer    where that writer's log is
<parent of the table's location>/.hivesink/<db>.<table>/.accepted/<uid>     parts that a person has accepted
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import asdict, dataclass
from posixpath import basename, dirname
from typing import TYPE_CHECKING, Any

from hivesink.core.log import POINTER, is_reset
from hivesink.errors import FileSystemUnknown, HiveSinkError, LogDamaged, NewerFormat, PointerCopied, Unsupported
from hivesink.storage.fs import FileSystem, delete, join, put_once

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hivesink.core.table import TableName

FORMAT = 1
_ACCEPTED = ".accepted"
_POINTER_WAY = "delete it: that writer's next start writes it again"


@dataclass(frozen=True, slots=True)
class Accepted:
    """A person's decision that a table's parts of `uid` are the users' own, and no writer's any more.

    `writer` and `log` are those that `hivesink reset` set aside; None if only parts were found. `written`: the batch,
    QUERY/BATCH, of which a person has said that it is in the table; `""`: that no batch that comes again is.
    """

    uid: str
    at: str
    writer: str | None = None
    log: str | None = None
    written: str | None = None


def default_log_location(table_location: str, table: TableName, writer: str) -> str:
    """Outside the table's own folder, which DROP, TRUNCATE and INSERT OVERWRITE empty, hidden files too."""
    return join(_beside(table_location, table), writer)


def pointer_path(table_location: str, table: TableName, writer: str) -> str:
    """Beside the default log folder, wherever the log is."""
    return join(_beside(table_location, table), f"{writer}{POINTER}")


def encode_pointer(log: str, table_location: str) -> bytes:
    """Versioned, sorted JSON."""
    return _encode({"log": log, "beside": _logs(table_location)})


def decode_pointer(fs: FileSystem, data: bytes, file: str) -> str:
    """The log's folder. A log below the `.hivesink` that the pointer is in stays below it when both are copied.

    Raises PointerCopied, NewerFormat, LogDamaged, all naming `file`; StoreUnavailable.
    """
    here = dirname(dirname(file))
    match _decode(data, file, _POINTER_WAY):
        case {"log": str(log), "beside": str(beside)}:
            if _same(fs, beside, here):
                return log
            if not log.startswith(f"{beside}/"):
                raise PointerCopied(file, log, None)
            return f"{here}{log.removeprefix(beside)}"
        case {"log": str(log)}:
            # Older ones don't say where they stood.
            own = join(here, log.partition("/.hivesink/")[2])
            if not _same(fs, own, log) and fs.list(join(own, "manifests")):
                raise PointerCopied(file, log, own)
            return log
    raise LogDamaged(file, "it does not say where the log is", _POINTER_WAY)


def _same(fs: FileSystem, one: str, other: str) -> bool:
    try:
        return fs.canonical(one) == fs.canonical(other)
    except (FileSystemUnknown, Unsupported):
        return False


def logs_of(fs: FileSystem, table: TableName, table_location: str) -> Mapping[str, str]:
    """Each writer's log folder, by its pointer. Raises PointerCopied, LogDamaged, NewerFormat, StoreUnavailable."""
    files = _files(fs, _beside(table_location, table), POINTER)
    return {name.removesuffix(POINTER): decode_pointer(fs, data, path) for name, path, data in files}


def siblings(fs: FileSystem, table_location: str) -> Iterator[str]:
    """Every folder that may hold a log of this table or of one beside it: a renamed table's log is there."""
    for folder in tables_beside(fs, table_location):
        yield from logs_in(fs, folder)


def tables_beside(fs: FileSystem, table_location: str) -> Iterator[str]:
    """The folders with the logs and pointers of this table, of those beside it, and of those in other databases.

    Hive moves a managed table into another database with its folder, and its log stays.
    """
    own, above = _logs(table_location), dirname(dirname(table_location.rstrip("/")))
    yield from _tables_in(fs, own)
    with suppress(HiveSinkError):
        databases = [join(above, one.name) for one in fs.list(above) if one.is_folder and one.name.endswith(".db")]
        for base in (join(folder, ".hivesink") for folder in (above, *databases)):
            with suppress(HiveSinkError):
                yield from _tables_in(fs, base) if base != own else ()


def _tables_in(fs: FileSystem, base: str) -> Iterator[str]:
    yield from (join(base, table.name) for table in fs.list(base) if table.is_folder)


def pointed(fs: FileSystem, folder: str) -> Iterator[str]:
    """The logs to which the pointers in `folder` lead. Raises what `decode_pointer` raises."""
    yield from (decode_pointer(fs, data, path) for _, path, data in _files(fs, folder, POINTER))


def logs_in(fs: FileSystem, folder: str) -> Iterator[str]:
    """Every folder in `folder` that may hold a log."""
    yield from (join(folder, one.name) for one in fs.list(folder) if one.is_folder and not is_reset(one.name))


def accept(fs: FileSystem, table: TableName, table_location: str, accepted: Accepted) -> None:
    """Remember `accepted`, durably, in place of what was accepted of its uid before.

    The newer file counts before the older one goes. Raises StoreUnavailable, NotWritable.
    """
    before = accepted_paths(fs, table, table_location, accepted.uid)
    number, data = int(basename(before[-1]).partition(".")[2] or 0) if before else 0, _encode(asdict(accepted))
    name, stored = f"{_accepted(table_location, table)}/{accepted.uid}", b""
    while stored != data:
        # Of two at once, the later number counts.
        number += 1
        stored = put_once(fs, f"{name}.{number:06d}", data)
    for path in before:
        delete(fs, path)


def accepted_paths(fs: FileSystem, table: TableName, table_location: str, uid: str) -> list[str]:
    """The files that say that parts of `uid` were accepted, the newest last."""
    folder = _accepted(table_location, table)
    return [join(folder, entry.name) for entry in fs.list(folder) if _uid_of(entry.name) == uid]


def accepted_in(fs: FileSystem, table: TableName, table_location: str) -> Mapping[str, Accepted]:
    """What was accepted at the table, by uid. Raises LogDamaged, NewerFormat."""
    files = _files(fs, _accepted(table_location, table))
    return {uid: _decode_accepted(data, path) for name, path, data in files if (uid := _uid_of(name))}


def _uid_of(name: str) -> str | None:
    found = re.fullmatch(r"([^.]+)(\.\d+)?", name)
    return found and found[1]


def _decode_accepted(data: bytes, file: str) -> Accepted:
    way = (
        "restore it: it keeps a batch that Spark runs again after a reset from being written twice. Or delete it, and "
        "accept the files of that uid again: `hivesink reset TABLE --uid UID`"
    )
    match _decode(data, file, way):
        case {"uid": str(uid), "at": str(at), "writer": str() | None as writer, "log": str() | None as log} as found:
            return Accepted(uid, at, writer, log, found.get("written"))
    raise LogDamaged(file, "it does not say whose parts were accepted", way)


def _encode(fields: Mapping[str, object]) -> bytes:
    return (json.dumps({"format": FORMAT, **fields}, sort_keys=True, indent=1) + "\n").encode()


def _decode(data: bytes, file: str, way: str) -> Any:
    """The JSON in `data`; `{}` where it names no format. Raises NewerFormat, LogDamaged."""
    try:
        decoded = json.loads(data)
    except ValueError as error:
        raise LogDamaged(file, f"not JSON ({error})", way) from error
    match decoded:
        case {"format": int(version)}:
            if version != FORMAT:
                raise NewerFormat(file, version, FORMAT, way)
            return decoded
    return {}


def _files(fs: FileSystem, folder: str, suffix: str = "") -> Iterator[tuple[str, str, bytes]]:
    """Name, path and content of each file in `folder` that isn't hidden and ends in `suffix`."""
    for entry in fs.list(folder):
        if entry.is_folder or entry.name.startswith(".") or not entry.name.endswith(suffix):
            continue
        path = join(folder, entry.name)
        data = fs.read(path)
        if data is not None:
            yield entry.name, path, data


def _accepted(table_location: str, table: TableName) -> str:
    return join(_beside(table_location, table), _ACCEPTED)


def _beside(table_location: str, table: TableName) -> str:
    return join(_logs(table_location), str(table))


def _logs(table_location: str) -> str:
    return join(dirname(table_location.rstrip("/")), ".hivesink")
