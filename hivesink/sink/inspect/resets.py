"""What a reset of a table's writers puts aside, and what it gives up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hivesink.core.ownership import RootRecord, Verdict
from hivesink.errors import InvalidOption, LogOfAnotherTable, TableMadeAgain
from hivesink.sink.inspect.facts import read_log
from hivesink.sink.inspect.ownership import unpublished_rows

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from hivesink.core.epoch import Epoch
    from hivesink.ports import CommitLog, LiveTable
    from hivesink.sink.inspect.ownership import Ownership


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
    unreadable = tuple(sorted({*facts.unreadable, *facts.missing}))
    return Reset(writer, log.location, facts.view.head, facts.totals.written, unpublished_rows(facts), unreadable)


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
    records = owner.root.records()
    try:
        return bool(records) and owner.verdict(live, records[-1]) not in {Verdict.OURS, Verdict.SET_AGAIN}
    except TableMadeAgain:
        return True


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
        record = RootRecord(owner.token(), owner.registrar.address, str(live.spec.name), live.location)
        owner.root.update(record)
        owner.require(live)
    return folders
