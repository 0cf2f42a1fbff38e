"""Whose log a table has: a property of the table names the log, and the log's root remembers the table.

    TBLPROPERTIES ('hivesink_log' = '<root of the log, percent-encoded>#<random id of the table>')
    <root>/table-000001.json          the same id, and where the table was; a later number counts
    <root>/<writer>/                  a writer's log

An id can get lost: a client writes back properties that it read before, a metastore is restored, an external table is
dropped and created again over its files. Then the newest files of the log show that the table is the same. And an id
can be copied, with the text of SHOW CREATE TABLE. `same_table` tells all of these apart.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import Enum
from posixpath import dirname
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from hivesink.errors import LogDamaged, NewerFormat

if TYPE_CHECKING:
    from collections.abc import Callable

    from hivesink.core.table import TableName

PROPERTY = "hivesink_log"
"""Without a dot: the metastore's filter for tables refuses keys that have it."""
FORMAT = 1


@dataclass(frozen=True, slots=True)
class LogAddress:
    """What a table says of its log: the folder that is the log's root, and the table's id in it."""

    root: str
    table_id: str

    def __str__(self) -> str:
        return f"{quote(self.root, safe='/:')}#{self.table_id}"

    @classmethod
    def parse(cls, text: str | None) -> LogAddress | None:
        """The inverse of `str`. None for any other text: it names no log."""
        root, separator, table_id = (text or "").rpartition("#")
        return cls(unquote(root), table_id) if separator and root and table_id else None


@dataclass(frozen=True, slots=True)
class RootRecord:
    """The table that a log belongs to, as its root remembers it: by id, and where it was at its newest change."""

    table_id: str
    metastore: str
    table: str
    location: str

    def encode(self) -> bytes:
        """Versioned, sorted JSON."""
        return (json.dumps({"format": FORMAT, **asdict(self)}, sort_keys=True, indent=1) + "\n").encode()

    @classmethod
    def decode(cls, data: bytes, file: str) -> RootRecord:
        """The inverse of `encode`. Raises LogDamaged, NewerFormat, which name `file`."""
        advice = "restore it from a backup, or delete it: the table's newest files then show whose log it is"
        try:
            fields = json.loads(data)
        except ValueError as error:
            raise LogDamaged(file, f"not JSON ({error})", advice) from error
        match fields:
            case {"format": int(version)} if version != FORMAT:
                raise NewerFormat(file, version, FORMAT, advice)
            case {"table_id": str(), "metastore": str(), "table": str(), "location": str()}:
                return cls(fields["table_id"], fields["metastore"], fields["table"], fields["location"])
        raise LogDamaged(file, "it doesn't say whose log this is", advice)


def default_root(table_location: str, table: TableName) -> str:
    """Outside the table's own folder, which DROP, TRUNCATE and INSERT OVERWRITE empty, hidden files too."""
    return f"{dirname(table_location.rstrip('/')).rstrip('/')}/.hivesink/{table}"


class Parts(Enum):
    """Whether the newest files that a log has published lie in the table's folders."""

    NONE = "none"
    """It has published none."""
    IN_PLACE = "in place"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What shows whose log it is where name, location and id don't agree.

    `pending`: rows wait in the log, or parts are unpublished. `left_behind`: the folder where the table was is still
    there, while RENAME takes a managed table's folder along. `named_by`: other tables, by name, that name the same log.
    """

    parts: Parts
    pending: bool = False
    left_behind: bool = False
    named_by: tuple[str, ...] = ()


class Verdict(Enum):
    """What a table is to a log."""

    OURS = "ours"
    SET_AGAIN = "set the property again"
    COPY = "copy, refused"
    MADE_AGAIN = "made again, refused"


def same_table(
    table_id: str | None, record: RootRecord, name: str, location: str, evidence: Callable[[], Evidence]
) -> Verdict:
    """Whether the table `name` at `location` is the table that `record` knows.

    `table_id` is the id in the table's property; None where it has none, or names another log. Locations are spelled
    canonically. `evidence` is asked only where id, name and location leave a doubt.
    """
    agrees, is_there = table_id == record.table_id, location == record.location
    if agrees and is_there and name == record.table:
        return Verdict.OURS
    shown = evidence()
    if shown.named_by:
        return Verdict.COPY
    is_in_place, is_same_place = shown.parts is Parts.IN_PLACE, is_there or not shown.left_behind
    if agrees:
        return Verdict.OURS if is_in_place or is_same_place else Verdict.COPY
    # An id can only get lost before the first file is published if nothing has happened yet.
    is_new = shown.parts is Parts.NONE and not shown.pending and is_same_place
    return Verdict.SET_AGAIN if is_in_place or is_new else Verdict.MADE_AGAIN


def rebased(path: str, old: str, new: str) -> str:
    """`path`, which may lie in a table's folder `old`, in its folder `new`."""
    return f"{new}{path.removeprefix(old)}" if path.startswith(f"{old}/") else path
