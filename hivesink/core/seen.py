"""One look at the world, and what it makes of the parts that a writer has decided."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hivesink.core.actions import Keep, Publish, Refuse
from hivesink.core.bucket import is_aside, same_location

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hivesink.core.leftovers import Tracks
    from hivesink.core.lifecycle import History
    from hivesink.core.manifest import PartEntry
    from hivesink.core.partition import LivePartition, PartitionKey


@dataclass(frozen=True, slots=True)
class Seen:
    """One look at the world. `files` are the lengths of what stands at the places that `places_to_look` names.

    `partitions` None: the metastore was not asked, or doesn't answer. `tracks` None: nobody has looked. `refused` are
    partitions that the metastore has just refused to list: their epochs stay open, all others go on.
    """

    files: Mapping[str, int] = field(default_factory=dict)
    partitions: Mapping[PartitionKey, LivePartition] | None = None
    tracks: Tracks | None = None
    refused: frozenset[PartitionKey] = frozenset()


def losses(
    history: History, files: Mapping[str, int], live: Mapping[PartitionKey, LivePartition] | None = None
) -> tuple[Refuse, ...]:
    """The decided parts that no publish can bring back, and published ones that nobody had a right to take yet."""
    earlier = history.earlier_places()
    found = [locate(part, earlier.get(part.name, ()), files) for part in history.waiting()]
    published = [] if live is None else unproven(history, live)
    gone = (Refuse(part, ()) for part in published if part.target not in files)
    return (*(one for one in found if isinstance(one, Refuse)), *gone)


def unproven(history: History, live: Mapping[PartitionKey, LivePartition]) -> list[PartEntry]:
    """Published parts of new partitions, which must be where they were put, until their epoch is settled.

    An INSERT that looked for the partition before it was registered deletes what it finds there, however late. Format 1
    published before it registered: what an INSERT took in between is missing where the partition is still not listed.
    """
    found = []
    for epoch, part in history.standing():
        home = live.get((part.table, part.partition))
        if not epoch.is_published or not part.partition:
            continue
        if epoch.manifest.log is None:
            found += [part] if home is None else []
        elif home is not None and same_location(home.location, part.folder):
            found += [part] if is_aside(part.staged.rpartition("/")[0]) else []
    return found


def locate(part: PartEntry, earlier: Iterable[str], files: Mapping[str, int]) -> Publish | Keep | Refuse:
    """Where a decided part's bytes are, and what that makes of it: the one judgement on a rename.

    They may be where its task or its driver left them; at the target; where a person has brought them by their hidden
    name; where giving them up, cut short, has put them away; or at an earlier place, where a stalled run has published
    them meanwhile.
    """
    places = dict.fromkeys((part.staged, part.target, part.restored, part.put_away, *earlier))
    there = {path: files[path] for path in places if path in files}
    right = [path for path, length in there.items() if length == part.length]
    if part.staged != part.target and part.staged in right:
        return Publish(part, part.staged)
    if part.target in right:
        return Keep(part)
    if right and part.target not in there:
        return Publish(part, right[0])
    return Refuse(part, tuple((path, length) for path, length in there.items() if length != part.length))


def places_to_look(history: History, live: Mapping[PartitionKey, LivePartition], *, far: bool = False) -> set[str]:
    """The paths whose lengths `plan` needs. `far`: every place where a part could be, for those not found near."""
    found, earlier = {part.target for part in unproven(history, live)}, history.earlier_places()
    for epoch, part in history.standing():
        home = live.get((part.table, part.partition))
        if not epoch.is_published:
            found |= {part.staged, part.target}
            if far:
                found |= {part.restored, part.put_away, *earlier.get(part.name, ())}
        elif home is not None and not same_location(part.folder, home.location):
            found.add(part.target)
    return found
