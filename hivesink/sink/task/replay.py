"""Dead letters decoded again: those that fit are rows, the others of their files are dead letters as before.

A file of which nothing fits stays as it is. All others are replaced whole, in the epoch that has their records.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hivesink.core.column_source import Metadata
from hivesink.core.manifest import PartEntry, Rows
from hivesink.sink.task.assign import assigner_for
from hivesink.sink.task.attempt import Task, open_parts, targets
from hivesink.sink.task.messages import TaskReport
from hivesink.sink.task.rejects import as_stream
from hivesink.sink.task.route import assign, by_partition, of_input

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from hivesink.config.options import SinkConfig
    from hivesink.ports import BadRow, Routed, RowReader
    from hivesink.sink.task.attempt import TaskTools
    from hivesink.sink.task.messages import TaskPlan

_ANY = datetime(1970, 1, 1)  # noqa: DTZ001  as Arrow has it
"""The arrival of records that don't depend on it."""


@dataclass(frozen=True, slots=True)
class Letters:
    """Dead letters of one `part`, with the columns of `SCHEMA`; `chosen` are the rows to decode."""

    part: PartEntry
    rows: pa.RecordBatch
    chosen: NDArray[np.int64]


@dataclass(slots=True)
class Replayed:
    """What becomes of the chosen records: how many are rows now or would be, are skipped, and fail again.

    `failing` counts field and reason, `examples` has an id for each. `parts` are the names of those with a row.
    """

    rows: int = 0
    skipped: int = 0
    failing: Counter[tuple[str | None, str]] = field(default_factory=Counter)
    examples: dict[tuple[str | None, str], str] = field(default_factory=dict)
    parts: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class ReplayRouter:
    """Decodes letters by the table of today. `mended` has new values by id; None: the record has none."""

    plan: TaskPlan
    reader: Callable[[TaskPlan], RowReader]
    mended: Mapping[str, bytes | None]
    replayed: Replayed = field(default_factory=Replayed)

    def route(self, letters: Letters) -> Iterator[Routed]:
        """The rows of those that fit; the others are dead letters still."""
        assigner = assigner_for(self.plan.target.spec, self.plan.config)
        is_left = np.ones(letters.rows.num_rows, np.bool_)
        for arrival, places in self._by_arrival(letters):
            records = as_stream(letters.rows.take(pa.array(places)), self.mended)
            then = replace(self.plan, arrival=arrival.replace(tzinfo=timezone.utc))
            decoded, assigned = assign(records, then, self.reader(then), assigner)
            ids = letters.rows.column("id").take(pa.array(places))
            for row in (*decoded.bad, *of_input(assigned.unfit, decoded.good)):
                self._fails(row, ids)
            good = places if decoded.good is None else places[decoded.good.to_numpy()]
            is_left[good[assigned.codes >= 0]] = False
            self.replayed.skipped += decoded.skipped
            yield from by_partition(self.plan.target, decoded.table, assigned)
        left = pa.Table.from_batches([letters.rows.filter(pa.array(is_left))])
        if left.num_rows < len(is_left):
            self.replayed.rows += len(is_left) - left.num_rows
            self.replayed.parts.add(letters.part.name)
        if left.num_rows:
            yield self.plan.dead_letters(letters.part.partition, left)

    def _by_arrival(self, letters: Letters) -> Iterator[tuple[datetime, NDArray[np.int64]]]:
        if not _uses_arrival(self.plan.config):
            yield _ANY, letters.chosen
            return
        arrivals = letters.rows.column("arrived_at").take(pa.array(letters.chosen)).dictionary_encode()
        codes = arrivals.indices.to_numpy()
        for code, arrival in enumerate(arrivals.dictionary.to_pylist()):
            yield arrival, letters.chosen[codes == code]

    def _fails(self, row: BadRow, ids: pa.Array) -> None:
        why = row.field, row.reason
        self.replayed.failing[why] += 1
        self.replayed.examples.setdefault(why, ids[row.index].as_py())


def run_replay(letters: Iterable[Letters], plan: TaskPlan, tools: TaskTools, router: ReplayRouter) -> TaskReport:
    """Write the rows of `letters`, and those that are dead letters still, as pending parts."""
    files = open_parts(plan, tools, 0, 0)
    work = Task(files, targets(plan, tools))
    rows, replaced = Counter[str](), dict[str, PartEntry]()
    try:
        for some in letters:
            rows += work.write(router.route(some))
            before = replaced.get(some.part.name, some.part)
            replaced[some.part.name] = replace(before, rows=before.rows + some.rows.num_rows)
        written, read = rows[plan.target.name], rows.total()
        counts = Rows(read=read, written=written, rejected=read - written)
        return TaskReport(0, 0, counts, files.finish(), replaces=tuple(replaced.values()))
    except BaseException:
        files.abort()
        raise


def _uses_arrival(config: SinkConfig) -> bool:
    """Whether a row may depend on when its batch arrived. Each arrival costs a decoder."""
    match config["sink.bucket.assigner"]:
        case "partition-columns":
            is_used = False
        case "date-time":
            is_used = config["sink.bucket.time-column"] is None
        case _:
            is_used = True
    return is_used or Metadata.ARRIVAL in config.sources.values()
