"""Losses that a person accepts: an epoch that says which decided parts are gone, so that the log can go on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hivesink.core.manifest import standing

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from hivesink.core.manifest import Manifest, PartEntry
    from hivesink.ports import FileStore
    from hivesink.sink.backlog import Backlog


@dataclass(frozen=True, slots=True)
class Loss:
    """A decided part whose rows are neither staged nor published as they were written."""

    part: PartEntry
    reason: str


def find_losses(backlog: Backlog) -> tuple[Loss, ...]:
    """The parts of unsettled epochs that no publish can bring back. Raises StoreUnavailable."""
    store = backlog.world.store
    earlier = [move.was for manifest in backlog.unsettled for move in manifest.moves]
    found = (_loss(store, part, earlier) for part in backlog.entries())
    return tuple(loss for loss in found if loss is not None)


def _loss(store: FileStore, part: PartEntry, earlier: Iterable[str]) -> Loss | None:
    name = part.target.rpartition("/")[2]
    # A stalled run may have published a moved part at a place where it was before.
    places = (part.target, part.staged, part.brought, *(was for was in earlier if was.endswith(f"/{name}")))
    lengths = {path: None if (file := store.find(path)) is None else file.length for path in places}
    if part.length in lengths.values():
        return None
    wrong = [f"{path} has {length} bytes" for path, length in lengths.items() if length is not None]
    if not wrong:
        return Loss(part, "neither staged nor published")
    return Loss(part, f"{', '.join(wrong)} where {part.length} were written")


def accept_losses(backlog: Backlog, targets: Collection[str]) -> Manifest | None:
    """Decide an epoch that takes `targets` out of the log's hands, as far as they are losses still.

    None where nothing of it is lost. Whoever holds the backlog finishes it afterwards. Raises EpochTaken where
    another run is at work, StoreUnavailable.
    """
    lost = tuple(loss.part.target for loss in find_losses(backlog) if loss.part.target in targets)
    if not lost:
        return None
    world = backlog.world
    following = backlog.head.follow(kind="accept-lost", attempt=world.token(), at=world.now(), settled=backlog.settled)
    # A partition that holds none of the rows that are left is not to be registered, and perhaps can't be any more.
    left = {(part.table, part.partition) for _, part in standing(backlog.unsettled) if part.target not in lost}
    waiting = tuple(gap for gap in backlog.unregistered if (gap.table, gap.partition) in left)
    manifest = replace(following, unregistered=waiting, lost=lost)
    world.log.create(manifest)
    backlog.decided(manifest)
    return manifest
