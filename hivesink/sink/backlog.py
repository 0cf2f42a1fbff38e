"""Decided epochs that are not finished yet, and the one way to finish them: first commit and recovery alike.

Order, from the design: nothing is published into an existing partition before the metastore has answered;
the accurate flag goes before rows come; files before partition; partition before success file. Every step may
be repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hivesink.core.bucket import same_location
from hivesink.core.epoch import Epoch
from hivesink.core.manifest import Manifest, PartEntry, Unregistered, superseded
from hivesink.core.partfile import Pending
from hivesink.errors import PartLost, RegistrationFailed
from hivesink.ports import LivePartition, Mark, NewPartition
from hivesink.sink.moves import move_manifest
from hivesink.sink.world import Place, World, by_table

Live = Mapping[Place, LivePartition]


@dataclass(slots=True)
class Backlog:
    """`head` is the newest manifest; `unpublished` are decided epochs without their mark, oldest first.

    `unregistered` are what `head` carries until its registration is done.
    """

    world: World
    head: Manifest
    unpublished: list[Manifest] = field(default_factory=list)
    unregistered: tuple[Unregistered, ...] = ()
    success_file: str | None = None

    @property
    def settled(self) -> Epoch:
        """Epochs up to this one need nothing more but what `unregistered` says."""
        if self.unpublished:
            return Epoch(self.unpublished[0].epoch - 1)
        return self.head.epoch

    @property
    def is_empty(self) -> bool:
        return not self.unpublished and not self.unregistered

    def decided(self, manifest: Manifest) -> None:
        """Take up an epoch that has just been decided."""
        self.head = manifest
        self.unpublished.append(manifest)
        self.unregistered = manifest.unregistered

    def finish(self, live: Live | None = None) -> None:
        """Publish and register everything. `live` is what a lookup just before the decision showed.

        Raises MetastoreUnreachable, RegistrationFailed, RegistrationUnknown (try again later: what is done
        stays done), PartLost and the other errors of `FileStore.publish`, PartitionElsewhere, FencedOut.
        """
        if self.is_empty:
            return
        found = self.world.lookup(self._places()) if live is None else live
        if self._relocate(found):
            found = self.world.lookup(self._places())
        published = self._published_places()
        self._distrust(found)
        self._publish()
        self._register(found, published)
        self._success_files(published)

    def entries(self) -> list[PartEntry]:
        """Parts of unpublished epochs that no later epoch has taken over."""
        gone = superseded(self.unpublished)
        return [part for manifest in self.unpublished for part in manifest.publishes() if part.target not in gone]

    def _places(self) -> set[Place]:
        return self._published_places() | {(found.table, found.partition) for found in self.unregistered}

    def _published_places(self) -> set[Place]:
        return {(part.table, part.partition) for part in self.entries()}

    def _relocate(self, live: Live) -> bool:
        """Decide a move epoch for parts whose partition lives elsewhere; False where there are none."""
        astray = {
            place: live[place].location
            for place, folder in self._folders().items()
            if place in live and not same_location(live[place].location, folder)
        }
        if not astray:
            return False
        world = self.world
        manifest = move_manifest(
            world,
            head=self.head,
            unpublished=self.unpublished,
            unregistered=self.unregistered,
            astray=astray,
            settled=self.settled,
        )
        world.log.create(manifest)
        self.decided(manifest)
        return True

    def _folders(self) -> dict[Place, str]:
        folders = {(found.table, found.partition): found.location for found in self.unregistered}
        folders.update({(part.table, part.partition): part.folder for part in self.entries()})
        return folders

    def _distrust(self, live: Live) -> None:
        accurate = (place for place, found in live.items() if found.accurate)
        for table, partitions in by_table(accurate).items():
            self.world.registrar.distrust(self.world.table(table), partitions)

    def _publish(self) -> None:
        gone = superseded(self.unpublished)
        while self.unpublished:
            manifest = self.unpublished[0]
            for part in manifest.parts:
                if part.target not in gone:
                    self.world.store.publish(part.pending)
            for move in manifest.moves:
                if move.part.target not in gone:
                    self._publish_moved(move.part.pending, move.was)
            self.world.log.mark(manifest.epoch, Mark.PUBLISHED)
            self.unpublished.pop(0)

    def _publish_moved(self, part: Pending, was: str) -> None:
        try:
            self.world.store.publish(part)
        except PartLost:
            # A stalled run of the older epoch may have published it at its old place meanwhile.
            if was == part.staged or self.world.store.find(was) is None:
                raise
            self.world.store.publish(Pending(was, part.target, part.length))

    def _register(self, live: Live, published: set[Place]) -> None:
        """Add what is missing, then look again: at places, columns and the flag that a user may have set."""
        folders = {place: live[place].location for place in published if place in live}
        folders |= {(found.table, found.partition): found.location for found in self.unregistered}
        self._add({place: folders[place] for place in folders if place not in live or live[place].columns_behind})
        again = self.world.lookup(folders)
        if dropped := {place: folders[place] for place in folders if place not in again}:
            # Somebody dropped it since the last lookup, but rows have been published into it.
            self._add(dropped)
            again = self.world.lookup(folders)
        for table, partition in folders:
            if (table, partition) not in again:
                raise RegistrationFailed(table, f"register partition {partition}", "it isn't there afterwards")
        if self._relocate(again):
            self.finish()
            return
        self._distrust(again)
        if self.unregistered:
            self.world.log.mark(self.head.epoch, Mark.REGISTERED)
            self.unregistered = ()

    def _add(self, places: Mapping[Place, str]) -> None:
        for table, partitions in by_table(places).items():
            new = [self._new_partition(partition, places[table, partition]) for partition in partitions]
            self.world.registrar.add(self.world.table(table), new)

    def _new_partition(self, partition: str, location: str) -> NewPartition:
        files = self.world.store.visible(location)
        return NewPartition(partition, location, len(files), sum(file.length for file in files))

    def _success_files(self, places: Iterable[Place]) -> None:
        if self.success_file is None:
            return
        found = self.world.lookup(places)
        self.world.require_head(self.head.epoch)
        for place in sorted(found):
            self.world.store.mark(f"{found[place].location.rstrip('/')}/{self.success_file}")


def unregistered_after(
    carried: Iterable[Unregistered], parts: Iterable[PartEntry], live: Live | None, epoch: Epoch
) -> tuple[Unregistered, ...]:
    """What an epoch carries: older partitions that still wait, and its own that `live` doesn't show.

    Without an answer from the metastore (`live` is None) every partition is carried: adding is idempotent.
    """
    waiting = {(found.table, found.partition): found for found in carried}
    for part in parts:
        place = (part.table, part.partition)
        if part.partition and (live is None or place not in live):
            waiting.setdefault(place, Unregistered(part.table, part.partition, part.folder, epoch))
    return tuple(waiting[place] for place in sorted(waiting))
