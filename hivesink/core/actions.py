"""The actions that a plan consists of: values that say what to do. `hivesink recover --dry-run` prints them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hivesink.core.epoch import Epoch
    from hivesink.core.log import Touched
    from hivesink.core.manifest import Manifest, PartEntry
    from hivesink.core.partition import PartitionKey

Lines = tuple[tuple[str, str], ...]
"""An action in words, by line: what is done, and to what."""


@dataclass(frozen=True, slots=True)
class Decide:
    """Create the manifest if there is none: the point of no return. Then look again and plan anew."""

    manifest: Manifest

    def describe(self) -> Lines:
        return ((self.manifest.kind, f"epoch {self.manifest.epoch}"),)


@dataclass(frozen=True, slots=True)
class ClearAccurate:
    """Make Hive count the rows of these partitions itself, before rows come (HIVE-11266)."""

    table: str
    partitions: tuple[str, ...]

    def describe(self) -> Lines:
        return tuple(("clear accurate flag", _name(self.table, partition)) for partition in self.partitions)


@dataclass(frozen=True, slots=True)
class Register:
    """Make the metastore list these partitions, each with its folder, with the table's columns."""

    table: str
    partitions: tuple[tuple[str, str], ...]

    def describe(self) -> Lines:
        return tuple(("register", _name(self.table, partition)) for partition, _ in self.partitions)


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

    def describe(self) -> Lines:
        return (("publish", self.part.target),)


@dataclass(frozen=True, slots=True)
class Keep(_OfPart):
    """A decided part is at its target already."""

    def describe(self) -> Lines:
        return (("keep", self.part.target),)


@dataclass(frozen=True, slots=True)
class Refuse(_OfPart):
    """A decided part is lost: all waits until it is restored, or a person accepts the loss."""

    found: tuple[tuple[str, int], ...]
    """Paths where another file stands, with its length."""

    @property
    def reason(self) -> str:
        if not self.found:
            return "neither staged nor published"
        wrong = ", ".join(f"{path} has {length} bytes" for path, length in self.found)
        return f"{wrong} where {self.part.length} were written"

    def describe(self) -> Lines:
        return (("stop at", f"{self.part.target} ({self.part.rows} rows): {self.reason}"),)


@dataclass(frozen=True, slots=True)
class PutAway:
    """Move the file of a part that is given up to where nothing reads, sweeps or cleans it."""

    part: PartEntry
    source: str

    def describe(self) -> Lines:
        return (("put away", f"{self.source} as {self.part.put_away}"),)


@dataclass(frozen=True, slots=True)
class MarkPublished:
    """Record that every part of the epoch is published. `waited` are the folders where parts were set aside."""

    epoch: Epoch
    waited: tuple[str, ...] = ()

    def describe(self) -> Lines:
        return (("mark published", f"epoch {self.epoch}"),)


@dataclass(frozen=True, slots=True)
class LookAgain:
    """The metastore may have changed: look again and plan anew."""

    def describe(self) -> Lines:
        return ()


@dataclass(frozen=True, slots=True)
class SuccessFiles:
    """Create success files."""

    paths: tuple[str, ...]

    def describe(self) -> Lines:
        return tuple(("success file", path) for path in self.paths)


@dataclass(frozen=True, slots=True)
class MarkSettled:
    """Record that the metastore was looked at after the epochs up to `epoch` were published."""

    epoch: Epoch

    def describe(self) -> Lines:
        return (("mark settled", f"epoch {self.epoch}"),)


@dataclass(frozen=True, slots=True)
class Discard:
    """Delete staged files that nothing can commit any more, then the `folders` that this leaves empty."""

    staged: tuple[str, ...]
    folders: tuple[str, ...]

    def describe(self) -> Lines:
        return tuple(("discard", path) for path in self.staged)


@dataclass(frozen=True, slots=True)
class Forget:
    """Delete touched-lists that no longer lead to a file."""

    lists: tuple[Touched, ...]

    def describe(self) -> Lines:
        return tuple(("forget", f"list of epoch {one.epoch}, task {one.task}") for one in self.lists)


@dataclass(frozen=True, slots=True)
class Trim:
    """Delete the manifests up to `epoch`; the floor takes over their totals."""

    epoch: Epoch

    def describe(self) -> Lines:
        return (("trim", f"manifests up to epoch {self.epoch}"),)


Action = (
    Decide
    | ClearAccurate
    | Register
    | Publish
    | Keep
    | Refuse
    | PutAway
    | MarkPublished
    | LookAgain
    | SuccessFiles
    | MarkSettled
    | Discard
    | Forget
    | Trim
)


def _name(table: str, partition: str) -> str:
    return f"{table} {partition}".strip()
