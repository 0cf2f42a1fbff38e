"""Dead letters decoded again: rows of the table, and beside each one a row which says that its record was replayed.

Both go into one epoch. So a record is in the table if, and only if, the dead letters say so.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from hivesink.core.column_source import LINE, PATH
from hivesink.core.manifest import Rows
from hivesink.sink.task.attempt import assign, of_input, open_task
from hivesink.sink.task.messages import InputShape, TaskReport
from hivesink.sink.task.parts import Parts
from hivesink.sink.task.rejects import mark_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    import pyarrow as pa

    from hivesink.ports import BadRow, DecodedRows, RowReader
    from hivesink.sink.task.assign import BucketAssigner
    from hivesink.sink.task.attempt import TaskTools
    from hivesink.sink.task.buckets import Buckets
    from hivesink.sink.task.messages import TaskPlan

QUERY = "hivesink rejects replay"
"""Stands for the query in the manifests of replays; no query of Spark's has such an id."""
SHAPE = InputShape(
    value="value",
    timestamp="timestamp",
    topic="topic",
    partition="partition",
    offset="offset",
    path=PATH,
    line=LINE,
)
"""The columns of `Letters.records`, beside `key` and `headers`."""


@dataclass(frozen=True, slots=True)
class Letters:
    """Dead letters of one day of the dead-letter table and, where rows depend on it, of one arrival (UTC).

    `records` are as the stream had them, with the columns of `SHAPE`; `ids` has one for each.
    """

    day: str
    arrival: datetime
    ids: tuple[str, ...]
    records: pa.RecordBatch


@dataclass(slots=True)
class Replayed:
    """What became of the records: how many are rows now or would be, are skipped, and fail again.

    `failing` counts field and reason, `examples` has an id for each.
    """

    rows: int = 0
    skipped: int = 0
    failing: Counter[tuple[str | None, str]] = field(default_factory=Counter)
    examples: dict[tuple[str | None, str], str] = field(default_factory=dict)

    def fails(self, letters: Letters, row: BadRow) -> None:
        """Count one that fails again."""
        why = row.field, row.reason
        self.failing[why] += 1
        self.examples.setdefault(why, letters.ids[row.index])


def judge(
    letters: Letters,
    plan: TaskPlan,
    reader: Callable[[TaskPlan], RowReader],
    assigner: BucketAssigner,
    found: Replayed,
) -> tuple[DecodedRows, Buckets, list[str]]:
    """Decode `letters` by the table of today. Returns the rows, their buckets, and the ids of those that fit."""
    then = replace(plan, arrival=letters.arrival)
    decoded, assigned = assign(letters.records, then, reader(then), assigner)
    for row in (*decoded.bad, *of_input(assigned.unfit, decoded.good)):
        found.fails(letters, row)
    rows = np.arange(letters.records.num_rows) if decoded.good is None else decoded.good.to_numpy()
    ids = [letters.ids[row] for row in rows[assigned.codes >= 0].tolist()]
    found.rows += len(ids)
    found.skipped += decoded.skipped
    return decoded, assigned, ids


def run_replay(
    letters: Iterable[Letters],
    plan: TaskPlan,
    tools: TaskTools,
    reader: Callable[[TaskPlan], RowReader],
    found: Replayed,
) -> TaskReport:
    """Write those of `letters` that fit, and the rows that say so, as pending parts; count them in `found`.

    `reader` makes what decodes. Records that fail again are only counted: they are dead letters already.
    """
    work = open_task(plan, tools, 0, 0)
    if work.rejects is None or not isinstance(work.files, Parts):
        message = "a replay without dead letters, or with rows that wait"
        raise AssertionError(message)
    try:
        for some in letters:
            decoded, assigned, ids = judge(some, plan, reader, work.assigner, found)
            work.write(decoded.table, assigned)
            if ids:
                marks = mark_rows(ids, plan.arrival).select([column.name for column in work.rejects.columns])
                work.files.add(work.rejects, some.day, marks)
            work.counts["read"] += some.records.num_rows
        rest = work.counts["read"] - work.counts["written"]
        rows = Rows(read=work.counts["read"], written=work.counts["written"], skipped=rest)
        return TaskReport(0, 0, rows, work.files.finish())
    except BaseException:
        work.files.abort()
        raise
