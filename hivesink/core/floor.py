"""The floor: what is kept of epochs whose manifests are deleted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hivesink.core.epoch import Epoch
from hivesink.core.manifest import REQUEUE, Manifest, PartEntry, Rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True)
class Floor:
    """Epochs up to `epoch` are settled and their manifests deleted; `totals` are their row counts.

    `files` counts the parts that they created, less those that they removed, `forgotten` the rows whose loss a person
    accepted. `replaced` are the dead letters' parts that they replaced: such a file may turn up again. `parts` and
    `bytes` count all that they created, `kinds` how many epochs of each kind there were.
    """

    epoch: Epoch
    totals: Rows
    files: int = 0
    forgotten: int = 0
    replaced: tuple[PartEntry, ...] = ()
    parts: int = 0
    bytes: int = 0
    kinds: Mapping[str, int] = field(default_factory=dict)


def replaced_parts(before: Floor | None, manifests: Iterable[Manifest]) -> dict[str, PartEntry]:
    """The dead letters' parts, by name, that are no dead letters any more after `before` and these epochs."""
    replaced = {part.name: part for part in (before.replaced if before else ())}
    for manifest in manifests:
        for part in manifest.replaces:
            if manifest.kind == REQUEUE:
                replaced.pop(part.name, None)
            else:
                replaced[part.name] = part
    return replaced


def floor_over(before: Floor | None, manifests: Iterable[Manifest]) -> Floor:
    """The floor that replaces `before` and `manifests`, the ones that follow it."""
    floor = before or Floor(Epoch(0), Rows())
    for manifest in manifests:
        floor = Floor(
            epoch=manifest.epoch,
            totals=floor.totals + manifest.rows,
            files=floor.files + len(manifest.add) - len(manifest.remove),
            forgotten=floor.forgotten + manifest.forgotten,
            replaced=tuple(replaced_parts(floor, (manifest,)).values()),
            parts=floor.parts + len(manifest.created),
            bytes=floor.bytes + sum(part.length for part in manifest.created),
            kinds={**floor.kinds, manifest.kind: floor.kinds.get(manifest.kind, 0) + 1},
        )
    return floor
