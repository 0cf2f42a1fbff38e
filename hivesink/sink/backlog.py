"""Decided epochs that are not finished yet, and the one way to finish them: first commit and recovery alike.

Order, from the design: nothing is published into an existing partition before the metastore has answered;
the accurate flag goes before rows come; files before partition; partition before success file. Every step may
be repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from hivesink.core.epoch import Epoch
from hivesink.core.log import Mark
from hivesink.core.manifest import Manifest, PartEntry, Unregistered, standing
from hivesink.core.partfile import Pending
from hivesink.core.partname import parse_staged
from hivesink.errors import (
    LengthMismatch,
    PartitionElsewhere,
    PartLost,
    RegistrationFailed,
    TargetTaken,
    Unsupported,
)
from hivesink.ports import LivePartition, NewPartition
from hivesink.sink.moves import moves_home
from hivesink.sink.world import Place, World, by_table

Live = Mapping[Place, LivePartition]


@dataclass(slots=True)
class Backlog:
    """`head` is the newest manifest; `unpublished` are decided epochs without their mark, oldest first.

    `unregistered` are what `head` carries until its registration is done. `unconfirmed` are published epochs,
    older than the unpublished ones, whose partitions nobody has looked at since: a user may have dropped or moved
    one, or set the accurate flag, between the last lookup and the publish.
    """

    world: World
    head: Manifest
    unpublished: list[Manifest] = field(default_factory=list)
    unregistered: tuple[Unregistered, ...] = ()
    success_file: str | None = None
    unconfirmed: list[Manifest] = field(default_factory=list)

    @property
    def unsettled(self) -> tuple[Manifest, ...]:
        return (*self.unconfirmed, *self.unpublished)

    @property
    def settled(self) -> Epoch:
        """Epochs up to this one need nothing more but what `unregistered` says."""
        return Epoch(self.unsettled[0].epoch - 1) if self.unsettled else self.head.epoch

    @property
    def is_empty(self) -> bool:
        return not self.unsettled and not self.unregistered

    @property
    def places(self) -> set[Place]:
        """The partitions that wait for anything."""
        return {place for place, _ in self._folders()}

    def decided(self, manifest: Manifest) -> None:
        """Take up an epoch that has just been decided."""
        self.head = manifest
        self.unpublished.append(manifest)
        self.unregistered = manifest.unregistered

    def finish(self, live: Live | None = None) -> None:
        """Publish and register everything. `live` is what a lookup just before the decision showed.

        Raises MetastoreUnreachable, RegistrationFailed, RegistrationUnknown (try again later: what is done
        stays done), PartLost and the other errors of `FileStore.publish`, EpochTaken, FencedOut.
        """
        if self.is_empty:
            return
        found = self.world.lookup(self.places) if live is None else live
        if self._relocate(found):
            found = self.world.lookup(self.places)
        self._distrust(found)
        self._publish()
        self._register(found)

    def entries(self) -> list[PartEntry]:
        """Parts of unpublished epochs that no later epoch has taken over."""
        waiting = {manifest.epoch for manifest in self.unpublished}
        return [part for manifest, part in standing(self.unsettled) if manifest.epoch in waiting]

    def _folders(self) -> Iterator[tuple[Place, str]]:
        """Where rows of each place lie or will, the newest last; a place may have several."""
        for gap in self.unregistered:
            yield (gap.table, gap.partition), gap.location
        for _, part in standing(self.unsettled):
            yield (part.table, part.partition), part.folder

    def _relocate(self, live: Live) -> bool:
        """Decide a move epoch for parts whose partition lives elsewhere; False where there are none."""
        world = self.world
        moves = tuple(moves_home(world, self.unconfirmed, self.unpublished, live))
        if not moves:
            return False
        following = self.head.follow(kind="move", attempt=world.token(), at=world.now(), settled=self.settled)
        waiting = tuple(gap for gap in self.unregistered if (gap.table, gap.partition) not in live)
        manifest = replace(following, moves=moves, unregistered=waiting)
        world.log.create(manifest)
        self.decided(manifest)
        return True

    def _distrust(self, live: Live) -> None:
        accurate = (place for place, found in live.items() if found.accurate)
        for table, partitions in by_table(accurate).items():
            self.world.registrar.distrust(self.world.table(table), partitions)

    def _publish(self) -> None:
        parts: dict[Epoch, list[PartEntry]] = {}
        for manifest, part in standing(self.unsettled):
            parts.setdefault(manifest.epoch, []).append(part)
        while self.unpublished:
            manifest = self.unpublished[0]
            self.world.store.together(
                partial(self._publish_part, manifest, part) for part in parts.get(manifest.epoch, ())
            )
            self.world.log.mark(manifest.epoch, Mark.PUBLISHED)
            self.unconfirmed.append(self.unpublished.pop(0))

    def _publish_part(self, manifest: Manifest, part: PartEntry) -> None:
        try:
            self.world.store.publish(part.pending)
        except (PartLost, LengthMismatch, TargetTaken):
            self.world.require_head(self.head.epoch)
            if not self._is_done_otherwise(manifest, part) and not self._is_brought(part):
                raise
        except Unsupported as error:
            staged = part.staged.rpartition("/")[0]
            if staged == part.folder:
                raise
            if self._is_brought(part):
                return
            where, reason = self.world.registrar.address, str(error)
            raise PartitionElsewhere(
                part.table, part.partition, part.folder, reason, where, folder=staged, staged=True
            ) from error

    def _is_brought(self, part: PartEntry) -> bool:
        """Whether a person has copied a part, by either of its names, to where it can't be renamed to."""
        store, here = self.world.store, part.brought
        for path in (part.target, here):
            found = self.world.find(path)
            if found is not None and found.length == part.length:
                store.publish(Pending(here, part.target, part.length))
                if parse_staged(part.staged.rpartition("/")[2]):
                    # No list of touched folders leads to it any more.
                    store.discard([part.staged])
                return True
        return False

    def _is_done_otherwise(self, manifest: Manifest, part: PartEntry) -> bool:
        """Whether another run has published the epoch, or a moved part is at, or now goes from, another place."""
        if Mark.PUBLISHED in self.world.log.view().marks.get(manifest.epoch, frozenset()):
            return True
        name = part.target.rpartition("/")[2]
        earlier = [move.was for one in self.unsettled for move in one.moves if move.was.endswith(f"/{name}")]
        store = self.world.store
        found = store.find(part.target)
        if found is not None:
            # No two parts have one name: whoever moved the partition has copied its files along.
            return found.length == part.length and part.staged in earlier
        for was in earlier:
            # A stalled run of the older epoch has published it at its old place meanwhile.
            if was != part.staged and store.find(was) is not None:
                store.publish(Pending(was, part.target, part.length))
                return True
        return False

    def _register(self, live: Live) -> None:
        """Add what is missing, then look again: at places, columns and the flag that a user may have set."""
        folders = dict(self._folders())
        folders |= {place: live[place].location for place in folders if place in live}
        self._add({place: folders[place] for place in folders if place not in live or live[place].columns_behind})
        again = self.world.lookup(folders)
        if dropped := {place: folders[place] for place in folders if place not in again}:
            # Somebody dropped it since the last lookup, but rows have been published into it.
            self._add(dropped)
            again = self.world.lookup(folders)
        for table, partition in folders:
            if (table, partition) not in again:
                where = self.world.registrar.address
                raise RegistrationFailed(table, f"register partition {partition}", "it isn't there afterwards", where)
        if self._relocate(again):
            self.finish()
            return
        self._distrust(again)
        self._success_files(again)
        if folders:
            self.world.log.mark(self.head.epoch, Mark.REGISTERED)
        self.unregistered = ()
        self.unconfirmed.clear()

    def _add(self, places: Mapping[Place, str]) -> None:
        if not places:
            return
        # A run that was overtaken would bring back what a user has dropped since.
        self.world.require_head(self.head.epoch)
        for table, partitions in by_table(places).items():
            new = (partial(self._new_partition, partition, places[table, partition]) for partition in partitions)
            self.world.registrar.add(self.world.table(table), self.world.store.together(new))

    def _new_partition(self, partition: str, location: str) -> NewPartition:
        files = self.world.store.visible(location)
        return NewPartition(partition, location, len(files), sum(file.length for file in files))

    def _success_files(self, live: Live) -> None:
        if self.success_file is None or not live:
            return
        self.world.require_head(self.head.epoch)
        store = self.world.store
        store.together(
            partial(store.mark, f"{live[place].location.rstrip('/')}/{self.success_file}") for place in sorted(live)
        )


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
