"""Beginning anew: a writer's log is put aside, and the parts that it answered for are the users' own from then on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hivesink.core.log import reset_name
from hivesink.sink.inspect.facts import list_files, read_log
from hivesink.sink.inspect.status import locations_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from hivesink.core.epoch import Epoch
    from hivesink.sink.commit.context import CommitContext


@dataclass(frozen=True, slots=True)
class Reset:
    """What is (to be) done about one writer. `tables` are those that it writes, with their locations.

    `unpublished` are rows that the log has decided and readers don't see yet: nobody publishes them after this.
    `finished` are its parts that stay in the tables.
    """

    writer: str
    uid: str | None
    log: str
    aside: str
    epoch: Epoch
    rows: int
    unpublished: int
    finished: int
    tables: Mapping[str, str]


def plan_reset(context: CommitContext, writer: str, table: str, at: datetime) -> Reset:
    """Look at `writer` of `table`. Damaged manifests are passed over: a reset is a way on from them too.

    Raises StoreUnavailable, MetastoreUnreachable; LogDamaged, NewerFormat for the uid and the floor.
    """
    facts = read_log(context.log)
    uid = facts.uid or next((manifest.uid for manifest in reversed(facts.manifests)), None)
    tables = locations_of(context, tuple({table: None, **dict.fromkeys(facts.tables)}))
    files = list_files(context.store, tables.values(), ())
    waiting = {manifest.epoch for manifest in facts.unpublished}
    return Reset(
        writer=writer,
        uid=uid,
        log=facts.location,
        aside=f"{facts.location.rpartition('/')[0]}/{reset_name(writer, at)}",
        epoch=facts.view.head,
        rows=facts.totals.written,
        unpublished=sum(part.rows for manifest, part in facts.effective() if manifest.epoch in waiting),
        finished=sum(name.uid == uid for _, name, _ in files.parts()),
        tables=tables,
    )
