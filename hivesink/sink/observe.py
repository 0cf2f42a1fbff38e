"""What a plan needs to know: a writer's history from its log, and looks at files, partitions and touched-lists."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from hivesink.core.bucket import is_aside
from hivesink.core.epoch import Epoch
from hivesink.core.leftovers import Tracks, followed, newest
from hivesink.core.lifecycle import EpochState, History, Identity, OpenEpoch
from hivesink.core.log import Mark
from hivesink.core.logview import missing, require_whole
from hivesink.core.seen import Seen, losses, places_to_look
from hivesink.errors import LogCopied, LogDamaged

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hivesink.core.leftovers import Winner
    from hivesink.core.log import LogView
    from hivesink.core.manifest import Manifest
    from hivesink.core.partition import LivePartition, Place
    from hivesink.sink.world import World


def load(world: World, identity: Identity | None = None) -> History:
    """The history that the log shows; `identity` is what its head says, where it isn't given.

    Raises LogDamaged, NewerFormat, LogCopied.
    """
    while True:
        view = world.log.view()
        try:
            return _load(world, view, identity)
        except LogDamaged:
            # A run at work may have let go of what the listing showed, or created what it didn't: look again.
            now = world.log.view()
            if (now.floor, now.head, missing(now)) == (view.floor, view.head, missing(view)):
                raise


def _load(world: World, view: LogView, identity: Identity | None) -> History:
    head = world.log.manifest(view.head) if view.manifests else None
    require_whole(world.log.location, view, head.settled if head else Epoch(0))
    if head is None:
        return History(identity or Identity("", world.log.uid(None) or "", (), (), world.log.location))
    found = History(identity or _identity(world, head), head, floor=view.floor)
    if Mark.REGISTERED in view.marks.get(head.epoch, frozenset()):
        return found
    manifests = [
        head if epoch == head.epoch else world.log.manifest(epoch) for epoch in view.manifests if epoch > head.settled
    ]
    return History(found.identity, head, tuple(_open(world, view, manifests)), view.floor)


def _open(world: World, view: LogView, manifests: Iterable[Manifest]) -> Iterable[OpenEpoch]:
    for manifest in manifests:
        published = Mark.PUBLISHED in view.marks.get(manifest.epoch, frozenset())
        epoch = OpenEpoch(manifest, EpochState.PUBLISHED if published else EpochState.DECIDED)
        if published and epoch.is_bare:
            continue
        own = world.log.location
        if manifest.log is not None and world.store.canonical(manifest.log) != world.store.canonical(own):
            raise LogCopied(own, manifest.epoch, manifest.log)
        yield epoch


def _identity(world: World, head: Manifest) -> Identity:
    return Identity(head.writer, head.uid, head.tables, head.zones, world.log.location)


def load_begun(world: World, identity: Identity | None = None) -> tuple[History, Tracks]:
    """The history, and what tasks have begun beyond it. Raises LogDamaged, NewerFormat, LogCopied."""
    # The lists first: a run at work beside this one may go on to its next epoch between the two looks.
    lists = tuple(world.log.touched())
    history = load(world, identity)
    if newest(lists) > history.epoch + 1:
        reason = f"tasks have begun epoch {newest(lists)}, but its newest manifest is {history.epoch}"
        raise LogDamaged(world.log.location, reason)
    return history, Tracks(lists)


def look(world: World, history: History) -> Seen:
    """The partitions of open epochs, and the files whose places matter.

    Raises MetastoreUnreachable, UnknownTable, StoreUnavailable.
    """
    return look_at_files(world, history, world.lookup(history.folders()))


def look_at_files(world: World, history: History, live: Mapping[Place, LivePartition] | None) -> Seen:
    """The files whose places matter. `live` None: nobody has asked. Raises StoreUnavailable."""
    files = _lengths(world, places_to_look(history, live or {}))
    if losses(history, files):
        files |= _lengths(world, places_to_look(history, live or {}, far=True) - set(files))
    return Seen(files, live)


def _lengths(world: World, paths: Iterable[str]) -> dict[str, int]:
    found = world.store.together(partial(world.find, path) for path in sorted(paths))
    return {file.path: file.length for file in found if file is not None}


def look_at_tracks(world: World, head: Epoch, winners: frozenset[Winner] = frozenset()) -> Tracks:
    """The touched-lists, and the staged files in the folders that the losers' lead to. Raises StoreUnavailable."""
    tracks = Tracks(tuple(world.log.touched()), winners=winners)
    leading = followed(tracks, head)
    if not leading:
        return tracks
    folders = sorted({folder for found in leading for folder in world.log.folders(found)})
    # Parts are set aside from their folders: who looks there last can't miss one.
    ordered = [[one for one in folders if is_aside(one) is last] for last in (False, True)]
    staged = tuple(path for places in ordered for path in _staged(world, places))
    return Tracks(tracks.lists, tuple(folders), staged, winners)


def _staged(world: World, folders: Iterable[str]) -> list[str]:
    listed = world.store.together(partial(world.store.staged, folder) for folder in folders)
    return [path for inside in listed for path in inside]
