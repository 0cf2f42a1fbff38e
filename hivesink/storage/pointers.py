"""How a table's logs are found: each writer leaves a pointer beside the table's default log folder.

<parent of the table's location>/.hivesink/<db>.<table>/<writer>            the default log
<parent of the table's location>/.hivesink/<db>.<table>/<writer>.pointer    where that writer's log is
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hivesink.errors import LogDamaged, NewerFormat
from hivesink.storage.fs import join, split

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hivesink.core.table import TableName
    from hivesink.storage.fs import FileSystem

FORMAT = 1
_ENDING = ".pointer"


def default_log_location(table_location: str, table: TableName, writer: str) -> str:
    """Outside the table's own folder, which DROP, TRUNCATE and INSERT OVERWRITE empty, hidden files too."""
    return join(_beside(table_location, table), writer)


def pointer_path(table_location: str, table: TableName, writer: str) -> str:
    """Beside the default log folder, wherever the log is."""
    return join(_beside(table_location, table), f"{writer}{_ENDING}")


def encode_pointer(log: str) -> bytes:
    """Versioned, sorted JSON."""
    return (json.dumps({"format": FORMAT, "log": log}, sort_keys=True, indent=1) + "\n").encode()


def decode_pointer(data: bytes, file: str) -> str:
    """The log's folder. Raises NewerFormat or LogDamaged, both naming `file`."""
    try:
        found = json.loads(data)
    except ValueError as error:
        raise LogDamaged(file, f"not JSON ({error})") from error
    match found:
        case {"format": int(version)} if version != FORMAT:
            raise NewerFormat(file, version, FORMAT)
        case {"format": int(), "log": str(log)}:
            return log
    raise LogDamaged(file, "it does not say where the log is")


def logs_of(fs: FileSystem, table: TableName, table_location: str) -> Mapping[str, str]:
    """The log folder of every writer that has a pointer at the table, by writer, sorted.

    Raises LogDamaged, NewerFormat, StoreUnavailable.
    """
    folder = _beside(table_location, table)
    found = {}
    for entry in fs.list(folder):
        hidden = entry.name.startswith(".")
        if hidden or entry.is_folder or not entry.name.endswith(_ENDING):
            continue
        path = join(folder, entry.name)
        data = fs.read(path)
        if data is not None:
            found[entry.name.removesuffix(_ENDING)] = decode_pointer(data, path)
    return found


def _beside(table_location: str, table: TableName) -> str:
    parent = split(table_location.rstrip("/"))[0]
    return f"{parent}/.hivesink/{table}"
