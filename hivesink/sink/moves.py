"""Move epochs: parts go to the folder where their partition turned out to live.

Before the decision a try is simply made again with the right folders. A partition that somebody registers
elsewhere between the last lookup and the registration, or while the metastore was down, is mended by an epoch of
its own, so that a crash in its middle is recovered like any other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hivesink.core.bucket import same_location
from hivesink.core.manifest import Manifest, Move, standing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hivesink.ports import LivePartition
    from hivesink.sink.world import Place, World


def moves_home(
    world: World,
    unconfirmed: Sequence[Manifest],
    unpublished: Sequence[Manifest],
    live: Mapping[Place, LivePartition],
) -> Iterator[Move]:
    """The moves of all parts of unsettled epochs that aren't where `live` says that their partition is."""
    published = {manifest.epoch for manifest in unconfirmed}
    for manifest, part in standing((*unconfirmed, *unpublished)):
        home = live.get((part.table, part.partition))
        if home is None or same_location(part.folder, home.location):
            continue
        is_there = world.find(part.target) is not None
        if not is_there and manifest.epoch in published:
            continue  # It was published: whoever took it away since has done so for reasons of their own.
        name = part.target.rpartition("/")[2]
        target = f"{home.location.rstrip('/')}/{name}"
        staged = part.target if is_there else part.staged
        if same_location(staged, target):
            staged = target  # It is to come back, and has never left.
        yield Move(manifest.epoch, part.target, replace(part, staged=staged, target=target))
