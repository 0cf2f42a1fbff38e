"""The actions that a plan consists of: values that say what to do. `hivesink recover --dry-run` prints them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hivesink.core.progress import count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hivesink.core.epoch import Epoch
    from hivesink.core.log import Touched
    from hivesink.core.manifest import Manifest, PartEntry
    from hivesink.core.partition import PartitionKey
    from hivesink.core.partition_commit import CommittedPartition, PolicyKind


@dataclass(frozen=True, slots=True)
class Decide:
    """Create the manifest if there is none: the point of no return. Then look again and plan anew."""

    manifest: Manifest


@dataclass(frozen=True, slots=True)
class ClearAccurate:
    """Make Hive count the rows of these partitions itself, before rows come (HIVE-11266)."""

    table: str
    partitions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Register:
    """Make the metastore list these partitions, each with its folder, with the table's columns."""

    table: str
    partitions: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class _OfPart:
    part: PartEntry

    @property
    def key(self) -> PartitionKey:
        return self.part.key


@dataclass(frozen=True, slots=True)
class Publish(_OfPart):
    """Rename a decided part from `source`, where its bytes are, to its target."""

    source: str


@dataclass(frozen=True, slots=True)
class Keep(_OfPart):
    """A decided part is at its target already."""


@dataclass(frozen=True, slots=True)
class Refuse(_OfPart):
    """A decided part is lost: all waits until it is restored, or a person accepts the loss."""

    found: tuple[tuple[str, int], ...]
    """Paths where another file stands, with its length."""
    astray: str | None = None
    """Where its own file is instead, if somebody has moved it within the table: then its loss can't be accepted."""

    @property
    def is_hidden(self) -> bool:
        """Whether that file is still hidden. Otherwise readers may find its rows where it is."""
        return self.astray is not None and self.astray.rpartition("/")[2] != self.part.name

    @property
    def reason(self) -> str:
        wrong = ", ".join(f"{path} has {count(length, 'byte')}" for path, length in self.found)
        told = f"{wrong} where {self.part.length} were written" if wrong else "neither staged nor published"
        return told + (f", but {self.part.way_back(self.astray)}" if self.astray else "")


@dataclass(frozen=True, slots=True)
class PutAway:
    """Move the file of a part that is given up to where nothing reads, sweeps or cleans it."""

    part: PartEntry
    source: str


@dataclass(frozen=True, slots=True)
class BeginPublish:
    """Record that some parts of the epoch may be visible from now on. `names` are its own parts'."""

    epoch: Epoch
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class MarkPublished:
    """Record that every part of the epoch is published. `waited` are the folders where parts were set aside."""

    epoch: Epoch
    waited: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LookAgain:
    """The metastore may have changed: look again and plan anew."""


@dataclass(frozen=True, slots=True)
class Announce:
    """Make known that these partitions are committed, in one of the table's ways."""

    kind: PolicyKind
    partitions: tuple[CommittedPartition, ...]


@dataclass(frozen=True, slots=True)
class MarkFound:
    """Record that a look has found the parts of the epochs up to `epoch` in place after they were published."""

    epoch: Epoch


@dataclass(frozen=True, slots=True)
class MarkSettled:
    """Record that the metastore was looked at after the epochs up to `epoch` were published."""

    epoch: Epoch


@dataclass(frozen=True, slots=True)
class Discard:
    """Delete staged files that nothing can commit any more, then the `folders` that this leaves empty."""

    staged: tuple[str, ...]
    folders: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Forget:
    """Delete touched-lists that no longer lead to a file."""

    lists: tuple[Touched, ...]


@dataclass(frozen=True, slots=True)
class DropSegments:
    """Delete segments whose rows are all in part files, or were never decided."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Trim:
    """Delete the manifests up to `epoch`; the floor takes over their totals."""

    epoch: Epoch


_OnLog = Decide | BeginPublish | MarkPublished | MarkFound | MarkSettled | Forget | DropSegments | Trim
_OnFiles = Publish | Keep | Refuse | PutAway | Announce | Discard
Action = _OnLog | _OnFiles | ClearAccurate | Register | LookAgain


def describe(action: Action) -> Iterator[tuple[str, str]]:  # noqa: C901, PLR0912  one case per action
    """The action in words, by line: what is done, and to what."""
    match action:
        case Decide(manifest):
            yield manifest.kind, f"epoch {manifest.epoch}"
            yield from (("give up", f"{_name(*one.key)} ({count(one.slice.rows, 'row')})") for one in manifest.given_up)
        case ClearAccurate(table, partitions):
            yield from (("clear accurate flag", _name(table, partition)) for partition in partitions)
        case Register(table, partitions):
            yield from (("register", _name(table, partition)) for partition, _ in partitions)
        case Publish(part):
            yield "publish", part.target
        case Keep(part):
            yield "keep", part.target
        case Refuse(part):
            yield "stop at", f"{part.target} ({count(part.rows, 'row')}): {action.reason}"
        case PutAway(part, source):
            yield "put away", f"{source} as {part.put_away}"
        case BeginPublish(epoch):
            yield "mark publishing", f"epoch {epoch}"
        case MarkPublished(epoch):
            yield "mark published", f"epoch {epoch}"
        case Announce(kind, committed):
            yield from ((kind.value.replace("-", " "), _name(one.table, one.partition)) for one in committed)
        case MarkFound(epoch):
            yield "mark found", f"epoch {epoch}"
        case MarkSettled(epoch):
            yield "mark settled", f"epoch {epoch}"
        case Discard(staged):
            yield from (("discard", path) for path in staged)
        case Forget(lists):
            yield from (("forget", f"list of epoch {one.epoch}, task {one.task}") for one in lists)
        case DropSegments(names):
            yield from (("drop segment", name) for name in names)
        case Trim(epoch):
            yield "trim", f"manifests up to epoch {epoch}"


def _name(table: str, partition: str) -> str:
    return f"{table} {partition}".strip()
