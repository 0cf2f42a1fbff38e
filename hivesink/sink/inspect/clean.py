"""What a person clears away: leftovers below a table, files of no log, and whole logs."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from hivesink.core.actions import leftovers
from hivesink.errors import InvalidOption, LogOfAnotherTable, TableMadeAgain
from hivesink.sink.commit.observe import load
from hivesink.sink.inspect.evidence import FoundPart, gather
from hivesink.sink.inspect.facts import read_log

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from datetime import datetime

    from hivesink.core.epoch import Epoch
    from hivesink.ports import CommitLog, LiveTable
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
    evidence = gather(context, table)
    base = f"{evidence.canonical(context.table(table).location)}/"
    # A partition may live, or have been written, outside the table's folder.
    folders = {home for (name, _), home in evidence.homes.items() if name == table}
    folders |= {evidence.canonical(part.folder) for _, part in evidence.log.parts if part.table == table}
    staged = (part.path for part in evidence.staged)
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
    context.table(table)
    emptied = {path.rpartition("/")[0] for path in staged}
    unused = sorted(folder for place, folder in context.unregistered(emptied).items() if place[0] == table)
    context.prune(unused)
    return tuple(folder for folder in unused if next(iter(context.store.walk(folder)), None) is None)


def strangers(owner: Ownership, live: LiveTable) -> dict[str, list[FoundPart]]:
    """By uid, the parts below `live` whose uid belongs to no log there, finished ones first: never deleted."""
    parts = owner.unknown_parts(live, staged=True)
    ordered = sorted(parts, key=lambda part: (part.name.uid, part.stage is not None, part.path))
    return {uid: list(own) for uid, own in groupby(ordered, key=lambda part: part.name.uid)}


@dataclass(frozen=True, slots=True)
class Reset:
    """What a reset does to one writer: its log is put aside, and `unpublished` of its rows are given up.

    `unreadable` are the epochs whose manifests can't be read or are missing: what they hold isn't counted.
    """

    writer: str
    log: str
    epoch: Epoch
    rows: int
    unpublished: int
    unreadable: tuple[Epoch, ...] = ()


def plan_reset(writer: str, log: CommitLog) -> Reset:
    """The reset of `writer`. Skips damaged manifests: a reset is a way out of them too. Raises StoreUnavailable."""
    facts = read_log(log)
    unreadable = tuple(sorted({*facts.unreadable, *facts.view.missing}))
    return Reset(writer, log.location, facts.view.head, facts.totals.written, facts.unpublished_rows, unreadable)


def require_free(owner: Ownership, live: LiveTable, resets: Iterable[Reset], discard: int) -> None:
    """Raise InvalidOption unless `discard` rows are given up, LogOfAnotherTable while another table names the log."""
    if records := owner.root.records():
        for other in owner.others(live, records[-1]):
            raise LogOfAnotherTable(str(live.spec.name), owner.root.location, other, records[-1].location)
    rows = sum(reset.unpublished for reset in resets)
    if rows != discard:
        table = live.spec.name
        state = f"{rows} rows of {table} are in its log alone, or not known to be published"
        way = f"make them readable with `hivesink recover {table}`, or add --discard {rows} to give them up"
        raise InvalidOption((f"{state}: {way}",))


def unknown_uids(owner: Ownership, live: LiveTable) -> tuple[str, ...]:
    """The uids of finished files in the table of which no log is in the root."""
    return tuple(sorted({part.name.uid for part in owner.unknown_parts(live)}))


def is_made_again(owner: Ownership, live: LiveTable) -> bool:
    """Whether the table is another one than the log's. Raises LogOfAnotherTable."""
    try:
        if records := owner.root.records():
            owner.verdict(live, records[-1])
    except TableMadeAgain:
        return True
    return False


def reset(owner: Ownership, live: LiveTable, writers: Iterable[str], uids: Iterable[str], at: datetime) -> list[str]:
    """Put the logs of `writers` aside, and accept the files of `uids`. Returns the logs' new folders.

    An interruption anywhere leaves what another call completes. Raises StoreUnavailable, NotWritable.
    """
    is_other = is_made_again(owner, live)
    folders = [owner.root.archive(writer, at) for writer in writers]
    for uid in uids:
        owner.root.accept(uid, at)
    if is_other:
        # The logs of the table that was here are aside: from now on the root is this table's.
        owner.root.update(owner.record(live, owner.token()))
        owner.require(live)
    return folders
