"""The actions that a plan consists of: values that say what to do. `hivesink recover --dry-run` lists them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hivesink.core.epoch import Epoch
    from hivesink.core.lifecycle import Mark
    from hivesink.core.log import StagingIntent
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
class AlreadyPublished(_OfPart):
    """A decided part is at its target."""


@dataclass(frozen=True, slots=True)
class PartMissing(_OfPart):
    """A part is nowhere: all waits until it is restored, or a person accepts the loss."""

    wrong: tuple[tuple[str, int], ...] = ()
    """Paths where another file stands, with its length."""


@dataclass(frozen=True, slots=True)
class SetMark:
    """Record what is done about the epoch. `waited` are the folders where parts of a published one were set aside."""

    mark: Mark
    epoch: Epoch
    waited: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LookAgain:
    """The metastore may have changed: look again and plan anew."""


@dataclass(frozen=True, slots=True)
class DeleteReplaced:
    """Delete published parts that published epochs replace."""

    parts: tuple[PartEntry, ...]


@dataclass(frozen=True, slots=True)
class Announce:
    """Make known that these partitions are committed, in a way of the table's."""

    kind: PolicyKind
    partitions: tuple[CommittedPartition, ...]


@dataclass(frozen=True, slots=True)
class Discard:
    """Delete staged files that nothing can commit any more, then the `folders` that this leaves empty."""

    staged: tuple[str, ...]
    folders: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Forget:
    """Delete touched-lists that no longer lead to a file."""

    lists: tuple[StagingIntent, ...]


@dataclass(frozen=True, slots=True)
class DropSegments:
    """Delete segments whose rows are all in part files, or were never decided."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Trim:
    """Delete the manifests up to `epoch`; the floor takes over their totals."""

    epoch: Epoch


_OnLog = Decide | SetMark | Forget | DropSegments | Trim
_OnFiles = Publish | AlreadyPublished | PartMissing | DeleteReplaced | Announce | Discard
Action = _OnLog | _OnFiles | ClearAccurate | Register | LookAgain
