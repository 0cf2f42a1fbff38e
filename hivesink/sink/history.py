"""A writer's history as its log holds it, and recovery: finish what was decided, throw away what was not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hivesink.core.epoch import Epoch
from hivesink.core.log import LogView, Mark
from hivesink.core.logview import missing, require_whole
from hivesink.core.manifest import Manifest
from hivesink.errors import EpochTaken, LogDamaged
from hivesink.sink.backlog import Backlog
from hivesink.sink.sweep import newest, sweep

if TYPE_CHECKING:
    from collections.abc import Callable

    from hivesink.sink.world import World


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that recovery does; `hivesink recover --dry-run` prints the same list."""

    what: str
    subject: str

    def __str__(self) -> str:
        return f"{self.what} {self.subject}"


@dataclass(frozen=True, slots=True)
class Identity:
    """Who writes: the writer's name and uid, its tables with their bucket zones."""

    writer: str
    uid: str
    tables: tuple[str, ...]
    zones: tuple[tuple[str, str], ...]


def first_manifest(world: World, identity: Identity, kind: str) -> Manifest:
    """Epoch 1's manifest, with nothing in it yet."""
    return Manifest(
        writer=identity.writer,
        uid=identity.uid,
        epoch=Epoch(1),
        attempt=world.token(),
        kind=kind,
        at=world.now(),
        settled=Epoch(0),
        tables=identity.tables,
        zones=identity.zones,
    )


def load(world: World, success_file: str | None = None) -> Backlog | None:
    """The backlog that the log shows; None where the log holds no manifest. Raises LogDamaged, NewerFormat."""
    while True:
        view = world.log.view()
        try:
            return _load(world, view, success_file)
        except LogDamaged:
            # A run at work may have let go of what the listing showed, or created what it didn't: look again.
            now = world.log.view()
            if (now.floor, now.head, missing(now)) == (view.floor, view.head, missing(view)):
                raise


def _load(world: World, view: LogView, success_file: str | None) -> Backlog | None:
    head = world.log.manifest(view.head) if view.manifests else None
    require_whole(world.log.location, view, head.settled if head else Epoch(0))
    if head is None:
        return None
    found = Backlog(world, head, [], head.unregistered, success_file)
    for epoch in (epoch for epoch in view.manifests if epoch > head.settled):
        manifest = head if epoch == head.epoch else world.log.manifest(epoch)
        if Mark.PUBLISHED not in view.marks.get(epoch, frozenset()):
            found.unpublished.append(manifest)
        elif manifest.publishes() or manifest.lost:
            found.unconfirmed.append(manifest)
    if Mark.REGISTERED in view.marks.get(head.epoch, frozenset()):
        found.unregistered = ()
        found.unconfirmed.clear()
    return found


def recover(
    world: World, identity: Identity, success_file: str | None, defer: Callable[[Backlog], None]
) -> Backlog | None:
    """Bring everything to what the log decided; None for a writer without history.

    `defer` finishes the backlog, and decides what a metastore that is down means. Raises what it raises,
    EpochTaken where another run is at work, LogDamaged.
    """
    try:
        return _recover(world, identity, success_file, defer)
    except EpochTaken:
        # A manifest to which the run before this one got no answer has arrived between a look and a decision here.
        return _recover(world, identity, success_file, defer)


def _recover(
    world: World, identity: Identity, success_file: str | None, defer: Callable[[Backlog], None]
) -> Backlog | None:
    backlog = _fenced(world, identity, success_file)
    if backlog is None:
        return None
    defer(backlog)
    sweep(world, identity.uid, backlog.head.epoch, backlog.entries())
    return backlog


def _fenced(world: World, identity: Identity, success_file: str | None) -> Backlog | None:
    """The backlog, with no older try that could still decide an epoch above it."""
    # The lists first: a run at work beside this one may go on to its next epoch between the two looks.
    begun = newest(world.log.touched())
    backlog = load(world, success_file)
    head = backlog.head.epoch if backlog else Epoch(0)
    if begun > head + 1:
        raise LogDamaged(world.log.location, f"tasks have begun epoch {begun}, but its newest manifest is {head}")
    return _fence(world, identity, backlog, success_file) if begun > head else backlog


def _fence(world: World, identity: Identity, backlog: Backlog | None, success_file: str | None) -> Backlog:
    """Decide the epoch that an older try has begun, without a batch: that try can't commit any more."""
    if backlog is None:
        manifest = first_manifest(world, identity, "fence")
        world.log.create(manifest)
        return Backlog(world, manifest, [manifest], (), success_file)
    following = backlog.head.follow(kind="fence", attempt=world.token(), at=world.now(), settled=backlog.settled)
    manifest = replace(following, unregistered=backlog.unregistered)
    world.log.create(manifest)
    backlog.decided(manifest)
    return backlog


def pending_actions(world: World) -> list[Action]:
    """What `recover` would do, by looking alone."""
    touched = world.log.touched()
    backlog = load(world)
    actions: list[Action] = []
    head = backlog.head.epoch if backlog else Epoch(0)
    if newest(touched) > head:
        actions.append(Action("fence", f"epoch {newest(touched)} against its earlier try"))
    if backlog:
        for part in backlog.entries():
            found = world.store.find(part.target)
            actions.append(Action("keep" if found else "publish", part.target))
        actions += [Action("register", f"{gap.table} {gap.partition}") for gap in backlog.unregistered]
    kept = {part.staged.rpartition("/")[2] for part in backlog.entries()} if backlog else set()
    folders = sorted({folder for found in touched for folder in world.log.folders(found)})
    staged = (path for folder in folders for path in world.store.staged(folder))
    return actions + [Action("discard", path) for path in staged if path.rpartition("/")[2] not in kept]
