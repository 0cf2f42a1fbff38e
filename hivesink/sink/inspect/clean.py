"""What to remove below a table: leftovers that no touched-list leads to any more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hivesink.core.bucket import normal
from hivesink.core.snapshot import leftovers
from hivesink.sink.commit.observe import load
from hivesink.sink.inspect.verify import gather

if TYPE_CHECKING:
    from collections.abc import Collection

    from hivesink.ports import LiveTable
    from hivesink.sink.commit.context import CommitContext
    from hivesink.sink.inspect.ownership import Ownership


def find_leftovers(context: CommitContext, table: str) -> tuple[str, ...]:
    """The staged files of a writer of `table` that nothing can commit any more. Changes nothing.

    They are of epochs up to the head of its log, and in no unsettled manifest. A writer whose log has no uid has none.
    Raises LogDamaged, NewerFormat, StoreUnavailable.
    """
    uid = context.log.uid(None)
    history = load(context)
    if uid is None or history.head is None:
        return ()
    evidence = gather(context, table, None)
    base = f"{evidence.files.canonical(context.table(table).location)}/"
    # A partition may live, or have been written, outside the table's folder.
    folders = {home for (name, _), home in evidence.homes.items() if name == table}
    folders |= {evidence.files.canonical(part.folder) for _, part in evidence.log.effective() if part.table == table}
    staged = (part.path for part in evidence.files.staged)
    mine = (path for path in staged if path.startswith(base) or path.rpartition("/")[0] in folders)
    return tuple(sorted(leftovers(mine, uid, history)))


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


def strangers(owner: Ownership, live: LiveTable) -> tuple[Stranger, ...]:
    """Those in the table `live`, by their uids."""
    parts = sorted(owner.unknown_parts(live, staged=True), key=lambda part: part.path)
    return tuple(
        Stranger(
            uid,
            finished=tuple(part.path for part in parts if part.name.uid == uid and part.stage is None),
            staged=tuple(part.path for part in parts if part.name.uid == uid and part.stage is not None),
        )
        for uid in sorted({part.name.uid for part in parts})
    )
