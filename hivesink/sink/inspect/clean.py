"""Leftovers anywhere below a table: what recovery's touched-lists no longer lead to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from hivesink.core.bucket import normal
from hivesink.core.epoch import Epoch
from hivesink.core.leftovers import leftovers
from hivesink.sink.commit.cleanup import prune
from hivesink.sink.commit.observe import load
from hivesink.sink.inspect.admission import parts_below
from hivesink.sink.inspect.checks import strays
from hivesink.sink.inspect.facts import read_log
from hivesink.sink.inspect.verify import gather

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from hivesink.ports import FileStore
    from hivesink.sink.commit.context import CommitContext


@dataclass(frozen=True, slots=True)
class Cleaning:
    """What is (to be) removed of one writer."""

    writer: str
    head: Epoch
    staged: tuple[str, ...]


def find_leftovers(context: CommitContext, writer: str, table: str) -> Cleaning:
    """The staged files of `writer` below `table` that nothing can commit any more, by looking alone.

    Those are of epochs up to the head of its log, and in no unsettled manifest. A writer whose log has no uid
    has none. Raises LogDamaged, NewerFormat, StoreUnavailable.
    """
    uid = context.log.uid(None)
    history = load(context)
    if uid is None or history.head is None:
        return Cleaning(writer, Epoch(0), ())
    folders = {context.store.canonical(folder): folder for folder in context.store.walk(context.table(table).location)}
    for _, part in read_log(context.log).effective():
        # A partition may live outside of the table's folder, and even where this store can't look.
        place = context.store.canonical(part.folder)
        if part.table == table and place not in folders and context.unreachable(part.folder) is None:
            folders[place] = part.folder
    listed = context.store.run_parallel(partial(context.store.staged, folder) for folder in folders.values())
    found = leftovers((path for inside in listed for path in inside), uid, history)
    return Cleaning(writer, history.epoch, tuple(sorted(found)))


def clean(context: CommitContext, cleaning: Cleaning, table: str) -> tuple[str, ...]:
    """Delete what was found, and the folders that this empties; those folders are returned.

    Raises StoreUnavailable, and MetastoreUnreachable before any folder goes.
    """
    if not cleaning.staged:
        return ()
    # A head that has moved on makes more files leftovers, never fewer: no need to be the newest.
    context.store.discard(cleaning.staged)
    emptied = {path.rpartition("/")[0] for path in cleaning.staged}
    return _prune(context, table, emptied)


def _prune(context: CommitContext, table: str, emptied: Iterable[str]) -> tuple[str, ...]:
    """Remove emptied folders, but neither the table's own nor one that the metastore lists."""
    base = normal(context.table(table).location)
    below = {normal(folder)[len(base) + 1 :]: folder for folder in emptied if normal(folder).startswith(f"{base}/")}
    # A partition that was moved may live in a folder of any name, which is then left alone.
    partitions = {partition: folder for partition, folder in below.items() if context.is_partition(table, partition)}
    registered = context.lookup((table, partition) for partition in partitions) if partitions else {}
    unused = sorted(folder for partition, folder in partitions.items() if (table, partition) not in registered)
    prune(context, unused)
    left = {normal(folder) for folder in context.store.walk(context.table(table).location)}
    return tuple(folder for folder in unused if normal(folder) not in left)


@dataclass(frozen=True, slots=True)
class Stranger:
    """The parts below a table of a uid that no log there has: never deleted, only told."""

    uid: str
    finished: tuple[str, ...]
    staged: tuple[str, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        return (*self.finished, *self.staged)


def strangers(store: FileStore, location: str, uids: Callable[[], Collection[str]]) -> tuple[Stranger, ...]:
    """Those below `location` whose uid is none of `uids`, which is asked afterwards: a writer may begin meanwhile."""
    found = [part for some in parts_below(store, location) for part in some]
    unknown = sorted({part.uid for part in found} - set(uids()))
    return tuple(
        Stranger(
            uid,
            tuple(sorted(part.path for part in found if part.uid == uid and not part.staged)),
            tuple(sorted(part.path for part in found if part.uid == uid and part.staged)),
        )
        for uid in unknown
    )


@dataclass(frozen=True, slots=True)
class Stray:
    """A visible file of a writer that no epoch answers for; `partition` is where readers find it."""

    path: str
    partition: str


def find_strays(context: CommitContext, table: str) -> tuple[Stray, ...]:
    """What `verify` calls doubled, by looking alone, where a partition of the table lives or would.

    Raises LogDamaged, NewerFormat where a manifest can't be read: it might be the one that lists them.
    """
    evidence = gather(context, table, None)
    evidence.log.require_readable()
    base = evidence.place(context.table(table).location)
    homes = {evidence.place(found.location): place[1] for place, found in evidence.live.items() if place[0] == table}
    found = []
    for _, path in strays(evidence):
        folder = path.rpartition("/")[0]
        below = folder[len(base) + 1 :] if f"{folder}/".startswith(f"{base}/") else None
        # A folder of another shape may be a partition's that this writer doesn't know: its statistics would stay.
        if folder in homes or (below is not None and context.is_partition(table, below)):
            found.append(Stray(path, homes.get(folder, below or "")))
    return tuple(sorted(found, key=lambda stray: stray.path))


def throw_away(context: CommitContext, table: str, found: Sequence[Stray]) -> tuple[tuple[str, str], ...]:
    """Move files to the trash; each that was there, with where it is now. Hive counts their partitions itself then.

    What another look doesn't show again stays. Raises Unsupported where there is no trash, StoreUnavailable,
    LogDamaged and NewerFormat, and the metastore's errors before any file goes.
    """
    if not found:
        return ()
    # A part that a run was moving while the folders were listed had one name too many, or stood where the log that
    # was read before did not have it yet.
    again = set(find_strays(context, table))
    found = [stray for stray in found if stray in again]
    live = context.lookup((table, stray.partition) for stray in found)
    context.registrar.clear_accurate(context.table(table), [place[1] for place, home in live.items() if home.accurate])
    moved = ((stray.path, context.store.trash(stray.path)) for stray in found)
    return tuple((path, place) for path, place in moved if place is not None)
