"""One look at the world, and what it makes of the parts that a writer has decided."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hivesink.core.actions import Keep, Publish, Refuse
from hivesink.core.bucket import same_location

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hivesink.core.leftovers import Tracks
    from hivesink.core.lifecycle import History
    from hivesink.core.manifest import PartEntry
    from hivesink.core.partition import LivePartition, Place


@dataclass(frozen=True, slots=True)
class Seen:
    """One look at the world. `files` are the lengths of what stands at the places that `places_to_look` names.

    `partitions` None: the metastore was not asked, or doesn't answer. `tracks` None: nobody has looked. `refused` are
    partitions that the metastore has just refused to list: their epochs stay open, all others go on.
    """

    files: Mapping[str, int] = field(default_factory=dict)
    partitions: Mapping[Place, LivePartition] | None = None
    tracks: Tracks | None = None
    refused: frozenset[Place] = frozenset()


def losses(
    history: History, files: Mapping[str, int], live: Mapping[Place, LivePartition] | None = None
) -> tuple[Refuse, ...]:
    """The decided parts that no publish can bring back, and published ones that no reader can have seen.

    Those of format 1: from format 2 on, nothing is published before its partition is listed, so what is missing
    later was taken by a user who may.
    """
    earlier = history.earlier_places()
    found = [locate(part, earlier.get(part.name, ()), files) for part in history.waiting()]
    unseen = [part for part in unlisted(history, live or {}) if part.target not in files] if live is not None else []
    return (*(one for one in found if isinstance(one, Refuse)), *(Refuse(part, ()) for part in unseen))


def unlisted(history: History, live: Mapping[Place, LivePartition]) -> list[PartEntry]:
    """Parts that an older hivesink published into partitions that it hadn't registered yet."""
    return [
        part
        for epoch, part in history.standing()
        if epoch.is_published
        and epoch.manifest.log is None
        and part.partition
        and (part.table, part.partition) not in live
    ]


def locate(part: PartEntry, earlier: Iterable[str], files: Mapping[str, int]) -> Publish | Keep | Refuse:
    """Where a decided part's bytes are, and what that makes of it: the one judgement on a rename.

    They may be where its task or its driver left them; at the target; where a person has brought them by their hidden
    name; or at an earlier place, where a stalled run has published them meanwhile.
    """
    places = dict.fromkeys((part.staged, part.target, part.brought, *earlier))
    there = {path: files[path] for path in places if path in files}
    right = [path for path, length in there.items() if length == part.length]
    if part.staged != part.target and part.staged in right:
        return Publish(part, part.staged)
    if part.target in right:
        return Keep(part)
    if right and part.target not in there:
        return Publish(part, right[0])
    return Refuse(part, tuple((path, length) for path, length in there.items() if length != part.length))


def places_to_look(history: History, live: Mapping[Place, LivePartition], *, far: bool = False) -> set[str]:
    """The paths whose lengths `plan` needs. `far`: every place where a part could be, for those not found near."""
    found, earlier = {part.target for part in unlisted(history, live)}, history.earlier_places()
    for epoch, part in history.standing():
        home = live.get((part.table, part.partition))
        if not epoch.is_published:
            found |= {part.staged, part.target}
            if far:
                found |= {part.brought, *earlier.get(part.name, ())}
        elif home is not None and not same_location(part.folder, home.location):
            found.add(part.target)
    return found
