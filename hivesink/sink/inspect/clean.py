"""What to remove below a table: leftovers that no touched-list leads to any more, and strays."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from hivesink.core.bucket import normal
from hivesink.core.snapshot import leftovers
from hivesink.sink.commit.observe import load
from hivesink.sink.inspect.checks import strays
from hivesink.sink.inspect.facts import read_log
from hivesink.sink.inspect.ownership import parts_of
from hivesink.sink.inspect.status import homes_elsewhere, partitions_of
from hivesink.sink.inspect.verify import gather

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from hivesink.ports import FileStore, LiveTable, Metastore
    from hivesink.sink.commit.context import CommitContext


def find_leftovers(context: CommitContext, table: str) -> tuple[str, ...]:
    """The staged files of a writer below `table` that nothing can commit any more. Changes nothing.

    They are of epochs up to the head of its log, and in no unsettled manifest. A writer whose log has no uid has none.
    Raises LogDamaged, NewerFormat, StoreUnavailable.
    """
    uid = context.log.uid(None)
    history = load(context)
    if uid is None or history.head is None:
        return ()
    store = context.store
    location = {table: context.table(table).location}
    # A partition may live outside the table's folder, even where this store can't look.
    written = {part.folder for _, part in read_log(context.log).effective() if part.table == table}
    away = homes_elsewhere(context, location, partitions_of(context, location), written)
    folders = {store.canonical(folder): folder for folder in (*store.walk(location[table]), *away)}
    listed = store.run_parallel(partial(store.staged, folder) for folder in folders.values())
    return tuple(sorted(leftovers((path for paths in listed for path in paths), uid, history)))


def clean(context: CommitContext, staged: Collection[str], table: str) -> tuple[str, ...]:
    """Delete leftovers of `table`, and the partitions' folders that this empties; return those folders.

    Neither the table's own folder nor one that the metastore lists goes. Raises StoreUnavailable, and
    MetastoreUnreachable before any folder goes.
    """
    if not staged:
        return ()
    # A head that has moved on makes more files leftovers, never fewer: no need to be the newest.
    context.store.discard(staged)
    location, emptied = context.table(table).location, {path.rpartition("/")[0] for path in staged}
    unused = sorted(folder for place, folder in context.unregistered(emptied).items() if place[0] == table)
    context.prune(unused)
    left = {normal(folder) for folder in context.store.walk(location)}
    return tuple(folder for folder in unused if normal(folder) not in left)


@dataclass(frozen=True, slots=True)
class Stranger:
    """The parts below a table whose uid belongs to no log there: reported, never deleted."""

    uid: str
    finished: tuple[str, ...]
    staged: tuple[str, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        return (*self.finished, *self.staged)


def strangers(
    store: FileStore, registrar: Metastore, live: LiveTable, uids: Callable[[], Collection[str]]
) -> tuple[Stranger, ...]:
    """Those in the table `live` whose uid is none of `uids`, called afterwards: a writer may begin meanwhile."""
    groups = parts_of(store, registrar, live)
    parts = sorted(chain.from_iterable(groups), key=lambda part: part.path)
    return tuple(
        Stranger(
            uid,
            finished=tuple(part.path for part in parts if part.name.uid == uid and part.stage is None),
            staged=tuple(part.path for part in parts if part.name.uid == uid and part.stage is not None),
        )
        for uid in sorted({part.name.uid for part in parts} - set(uids()))
    )


@dataclass(frozen=True, slots=True)
class Stray:
    """A visible file of a writer that belongs to no epoch; `partition` is where readers find it."""

    path: str
    partition: str


def find_strays(context: CommitContext, table: str) -> tuple[Stray, ...]:
    """What `verify` calls doubled, in the folders where the table's partitions are or would be. Changes nothing.

    Raises LogDamaged, NewerFormat if a manifest can't be read: it might be the one that lists them.
    """
    evidence = gather(context, table, None)
    evidence.log.require_readable()
    base = evidence.files.canonical(context.table(table).location)
    homes = {home: partition for (name, partition), home in evidence.homes.items() if name == table}
    inside = []
    for _, path in strays(evidence):
        folder = path.rpartition("/")[0]
        below = folder[len(base) + 1 :] if f"{folder}/".startswith(f"{base}/") else None
        # A folder of another shape may be a partition's that this writer doesn't know: its statistics would stay.
        if folder in homes or (below is not None and context.is_partition(table, below)):
            inside.append(Stray(path, homes.get(folder, below or "")))
    return tuple(sorted(inside, key=lambda stray: stray.path))


def throw_away(context: CommitContext, table: str, wanted: Sequence[Stray]) -> tuple[tuple[str, str], ...]:
    """Move strays to the trash; return each that was there, with its new path. Hive counts their partitions itself.

    A second look must show them again, otherwise they stay. Raises Unsupported if there is no trash, StoreUnavailable,
    LogDamaged, NewerFormat, and the metastore's errors before any file goes.
    """
    if not wanted:
        return ()
    # A part that a job was moving during the first look had one name too many, or wasn't in the log yet.
    again = set(find_strays(context, table))
    strays_left = [stray for stray in wanted if stray in again]
    live = context.lookup((table, stray.partition) for stray in strays_left)
    trusted = [partition for (_, partition), home in live.items() if home.accurate]
    context.registrar.clear_accurate(context.table(table), trusted)
    moved = ((stray.path, context.store.trash(stray.path)) for stray in strays_left)
    return tuple((path, trashed) for path, trashed in moved if trashed is not None)
