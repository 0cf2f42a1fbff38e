"""A writer's log: its name, what it holds beside its manifests, and whether a listing of it can be all of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from posixpath import dirname
from typing import Literal
from urllib.parse import quote, unquote

from hivesink.core.epoch import Epoch
from hivesink.core.lifecycle import EpochState
from hivesink.core.manifest import Manifest
from hivesink.core.table import TableName
from hivesink.errors import InvalidOption, LogDamaged

LONGEST_NAME = 100
_NAME = re.compile(r"\w(?:[\w.-]*[\w-])?", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class StagingIntent:
    """Written by a task attempt before it creates files of `epoch` in `folders` (empty in a listing)."""

    epoch: Epoch
    attempt: str
    task_attempt: int
    task: int
    chunk: int
    folders: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LogView:
    """A listing of a log. `manifests` are those above the floor, sorted; `is_over` if a reset has put it aside."""

    floor: Epoch
    manifests: tuple[Epoch, ...]
    marks: Mapping[Epoch, frozenset[EpochState]]
    is_over: bool = False

    @property
    def head(self) -> Epoch:
        return self.manifests[-1] if self.manifests else self.floor

    def has(self, epoch: Epoch, mark: EpochState) -> bool:
        return mark in self.marks.get(epoch, frozenset())

    def settled(self, newest: Epoch) -> Epoch:
        """Epochs up to this one are settled: by a mark, or by `newest`, which is `settled` in the newest manifest."""
        return max((newest, *(epoch for epoch, marks in self.marks.items() if EpochState.SETTLED in marks)))

    def state(self, epoch: Epoch) -> EpochState:
        """That of a decided epoch that isn't settled."""
        if not self.has(epoch, EpochState.PUBLISHED):
            return EpochState.PUBLISHING if self.has(epoch, EpochState.PUBLISHING) else EpochState.DECIDED
        is_verified = any(later >= epoch and self.has(later, EpochState.VERIFIED) for later in self.marks)
        return EpochState.VERIFIED if is_verified else EpochState.PUBLISHED

    @property
    def missing(self) -> tuple[Epoch, ...]:
        """Epochs above the floor that have no manifest, though a later manifest or a mark shows that they were decided.

        A listing isn't a snapshot: a manifest that a listing lacks may have been created or deleted meanwhile.
        """
        decided = set(range(self.floor + 1, max((self.floor, *self.manifests, *self.marks)) + 1))
        return tuple(map(Epoch, sorted(decided - set(self.manifests))))


def require_whole(location: str, view: LogView, settled: Epoch) -> None:
    """Raise LogDamaged if a manifest above `settled` (which the newest manifest holds) is missing.

    A settled epoch is finished: a log can do without its manifest, and `verify` names it, unless rows that wait are
    known by it.
    """
    for epoch in view.missing:
        if epoch > view.head:
            reason = f"the manifest of epoch {epoch} is missing, while marks of epoch {max(view.marks)} are there"
            raise LogDamaged(location, reason)
        if epoch > settled:
            raise LogDamaged(location, f"the manifest of epoch {epoch} is missing")
    if stray := stray_floor(location, view):
        raise stray


def stray_floor(location: str, view: LogView) -> LogDamaged | None:
    """What is wrong with a log whose floor is above each of its manifests: a log's own is below the newest."""
    if not view.floor or view.manifests:
        return None
    reason = f"its floor says that the log was past epoch {view.floor}, but every manifest above it is missing"
    way = (
        "hivesink leaves it alone: restore these manifests from a snapshot or backup. If the log never came so far, "
        f"that floor is not its own: move manifests/floor-{view.floor:010d} away, then run `hivesink verify TABLE`"
    )
    return LogDamaged(location, reason, way)


def require_own(file: str, manifest: Manifest, uid: str) -> None:
    """Raise LogDamaged if the manifest belongs to another log than that of `uid`, as after a copy."""
    if manifest.uid != uid:
        advice = (
            "if it doesn't belong here, move it away; but if all manifests here have that uid, the file `uid` of this "
            "log is damaged: delete that file"
        )
        raise LogDamaged(file, f"its uid is {manifest.uid}, this log's is {uid}: it is another log's", advice)


def require_writer_name(name: str, whose: str = "writer") -> None:
    """Raise InvalidOption if no writer can be called `name`: its log's folder and files beside it have this name."""
    if len(name) > LONGEST_NAME or not _NAME.fullmatch(name):
        problem = (
            f"the {whose}'s name {name!r} can't be used: use up to {LONGEST_NAME} letters (a-z, A-Z), digits, `_` and "
            "`-`, with `.` only inside and `-` not first"
        )
        raise InvalidOption((problem,))


PROPERTY = "hivesink_log"
"""Without a dot: the metastore's filter for tables refuses keys that have it."""
_FORMAT = 1


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
        return (json.dumps({"format": _FORMAT, **asdict(self)}, sort_keys=True, indent=1) + "\n").encode()

    @classmethod
    def decode(cls, data: bytes, file: str) -> RootRecord:
        """The inverse of `encode`. Raises LogDamaged, which names `file`."""
        advice = "restore it from a backup, or delete it: the table's newest files then show whose log it is"
        try:
            fields = json.loads(data)
        except ValueError as error:
            raise LogDamaged(file, f"not JSON ({error})", advice) from error
        match fields:
            case {"format": int(version)} if version != _FORMAT:
                raise LogDamaged.other_format(file, version, _FORMAT, advice)
            case {"table_id": str(), "metastore": str(), "table": str(), "location": str()}:
                return cls(fields["table_id"], fields["metastore"], fields["table"], fields["location"])
        raise LogDamaged(file, "it doesn't say whose log this is", advice)


def default_root(table_location: str, table: TableName) -> str:
    """Outside the table's own folder, which DROP, TRUNCATE and INSERT OVERWRITE empty, hidden files too."""
    return f"{dirname(table_location.rstrip('/')).rstrip('/')}/.hivesink/{table}"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What shows whose log it is where name, location and id don't agree.

    `parts`: whether the newest files that the log has published lie in the table's folders; `none` if there are none.
    `pending`: rows wait in the log, or parts are unpublished. `left_behind`: the folder where the table was is still
    there, while RENAME takes a managed table's folder along. `named_by`: other tables, by name, that name the same log.
    """

    parts: Literal["none", "in place", "gone"]
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
    is_in_place, is_same_place = shown.parts == "in place", is_there or not shown.left_behind
    if agrees:
        return Verdict.OURS if is_in_place or is_same_place else Verdict.COPY
    # An id can only get lost before the first file is published if nothing has happened yet.
    is_new = shown.parts == "none" and not shown.pending and is_same_place
    return Verdict.SET_AGAIN if is_in_place or is_new else Verdict.MADE_AGAIN


def rebased(path: str, old: str, new: str) -> str:
    """`path`, which may lie in a table's folder `old`, in its folder `new`."""
    return f"{new}{path.removeprefix(old)}" if path.startswith(f"{old}/") else path
