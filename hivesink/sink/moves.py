"""Move epochs: parts go to the folder where their partition turned out to live.

Before the decision a try is simply made again with the right folders. A partition that somebody registers
elsewhere between the last lookup and the registration, or while the metastore was down, is mended by an epoch of
its own, so that a crash in its middle is recovered like any other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hivesink.core.bucket import same_location
from hivesink.core.manifest import Manifest, Move, PartEntry, Unregistered, superseded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from hivesink.core.epoch import Epoch
    from hivesink.sink.world import Place, World


def move_manifest(
    world: World,
    *,
    head: Manifest,
    unpublished: Iterable[Manifest],
    unregistered: tuple[Unregistered, ...],
    astray: Mapping[Place, str],
    settled: Epoch,
) -> Manifest:
    """The epoch that moves every part of the `astray` places that isn't where its partition lives.

    Those are parts of unpublished epochs, and of published ones whose partition isn't registered yet.
    """
    waiting = {(found.table, found.partition): found.since for found in unregistered}
    first = min([head.epoch, *(found for place, found in waiting.items() if place in astray)])
    manifests = {manifest.epoch: manifest for manifest in unpublished}
    for number in world.log.view().manifests:
        if first <= number <= head.epoch and number not in manifests:
            manifests[number] = world.log.manifest(number)
    moves = tuple(_moves(world, [manifests[number] for number in sorted(manifests)], astray))
    following = head.follow(kind="move", attempt=world.token(), at=world.now(), settled=settled)
    return replace(
        following,
        moves=moves,
        unregistered=tuple(gap for gap in unregistered if (gap.table, gap.partition) not in astray),
    )


def _moves(world: World, manifests: list[Manifest], astray: Mapping[Place, str]) -> Iterator[Move]:
    gone = superseded(manifests)
    for manifest in manifests:
        for part in manifest.publishes():
            folder = astray.get((part.table, part.partition))
            if folder is None or part.target in gone or same_location(part.folder, folder):
                continue
            yield Move(manifest.epoch, part.target, _moved(world, part, folder.rstrip("/")))


def _moved(world: World, part: PartEntry, folder: str) -> PartEntry:
    published = world.store.find(part.target) is not None
    name = part.target.rpartition("/")[2]
    return replace(part, staged=part.target if published else part.staged, target=f"{folder}/{name}")
