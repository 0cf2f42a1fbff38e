"""What a plan needs to know: a writer's history from its log, and looks at files, partitions and touched-lists."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from hivesink.core.bucket import is_aside
from hivesink.core.epoch import Epoch
from hivesink.core.leftovers import Tracks, followed, newest
from hivesink.core.lifecycle import EpochState, History, Identity, OpenEpoch
from hivesink.core.log import Mark, missing, require_whole
from hivesink.core.seen import Seen, losses, paths_to_look
from hivesink.errors import LogCopied, LogDamaged

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hivesink.core.leftovers import Winner
    from hivesink.core.log import LogView
    from hivesink.core.manifest import Manifest
    from hivesink.core.partition import LivePartition, PartitionKey
    from hivesink.sink.commit.context import CommitContext


def load(context: CommitContext, identity: Identity | None = None) -> History:
    """The history that the log shows; `identity` is what its head says, where it isn't given.

    Raises LogDamaged, NewerFormat, LogCopied.
    """
    while True:
        view = context.log.view()
        try:
            return _load(context, view, identity)
        except LogDamaged:
            # A run at work may have let go of what the listing showed, or created what it didn't: look again.
            now = context.log.view()
            if (now.floor, now.head, missing(now)) == (view.floor, view.head, missing(view)):
                raise


def _load(context: CommitContext, view: LogView, identity: Identity | None) -> History:
    head = context.log.manifest(view.head) if view.manifests else None
    require_whole(context.log.location, view, head.settled if head else Epoch(0))
    if head is None:
        return History(identity or Identity("", context.log.uid(None) or "", (), (), context.log.location))
    found = History(identity or _identity(context, head), head, floor=view.floor)
    if Mark.REGISTERED in view.marks.get(head.epoch, frozenset()):
        return found
    manifests = [
        head if epoch == head.epoch else context.log.manifest(epoch) for epoch in view.manifests if epoch > head.settled
    ]
    return History(found.identity, head, tuple(_open(context, view, manifests)), view.floor)


def _open(context: CommitContext, view: LogView, manifests: Iterable[Manifest]) -> Iterable[OpenEpoch]:
    for manifest in manifests:
        published = Mark.PUBLISHED in view.marks.get(manifest.epoch, frozenset())
        epoch = OpenEpoch(manifest, EpochState.PUBLISHED if published else EpochState.DECIDED)
        if published and epoch.is_bare:
            continue
        own = context.log.location
        if manifest.log is not None and context.store.canonical(manifest.log) != context.store.canonical(own):
            raise LogCopied(own, manifest.epoch, manifest.log)
        yield epoch


def _identity(context: CommitContext, head: Manifest) -> Identity:
    return Identity(head.writer, head.uid, head.tables, head.zones, context.log.location)


def load_begun(context: CommitContext, identity: Identity | None = None) -> tuple[History, Tracks]:
    """The history, and what tasks have begun beyond it. Raises LogDamaged, NewerFormat, LogCopied."""
    # The lists first: a run at work beside this one may go on to its next epoch between the two looks.
    lists = tuple(context.log.touched())
    history = load(context, identity)
    if newest(lists) > history.epoch + 1:
        reason = f"tasks have begun epoch {newest(lists)}, but its newest manifest is {history.epoch}"
        raise LogDamaged(context.log.location, reason)
    return history, Tracks(lists)


def look(context: CommitContext, history: History) -> Seen:
    """The partitions of open epochs, and the files whose places matter.

    Raises MetastoreUnreachable, UnknownTable, StoreUnavailable.
    """
    return look_at_files(context, history, context.lookup(history.folders()))


def look_at_files(context: CommitContext, history: History, live: Mapping[PartitionKey, LivePartition] | None) -> Seen:
    """The files whose places matter. `live` None: nobody has asked. Raises StoreUnavailable."""
    files = _lengths(context, paths_to_look(history, live or {}))
    if losses(history, files):
        files |= _lengths(context, paths_to_look(history, live or {}, far=True) - set(files))
    return Seen(files, live)


def _lengths(context: CommitContext, paths: Iterable[str]) -> dict[str, int]:
    found = context.store.run_parallel(partial(context.find, path) for path in sorted(paths))
    return {file.path: file.length for file in found if file is not None}


def look_at_tracks(context: CommitContext, head: Epoch, winners: frozenset[Winner] = frozenset()) -> Tracks:
    """The touched-lists, and the staged files in the folders that the losers' lead to. Raises StoreUnavailable."""
    tracks = Tracks(tuple(context.log.touched()), winners=winners)
    leading = followed(tracks, head)
    if not leading:
        return tracks
    folders = sorted({folder for found in leading for folder in context.log.folders(found)})
    # Parts are set aside from their folders: who looks there last can't miss one.
    ordered = [[one for one in folders if is_aside(one) is last] for last in (False, True)]
    staged = tuple(path for places in ordered for path in _staged(context, places))
    return Tracks(tracks.lists, tuple(folders), staged, winners)


def _staged(context: CommitContext, folders: Iterable[str]) -> list[str]:
    listed = context.store.run_parallel(partial(context.store.staged, folder) for folder in folders)
    return [path for inside in listed for path in inside]
