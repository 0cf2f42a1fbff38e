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
from hivesink.core.manifest import Rows
from hivesink.sink.task.attempt import assign, of_input, open_task
from hivesink.sink.task.messages import TaskReport
from hivesink.sink.task.parts import Parts
from hivesink.sink.task.rejects import as_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from hivesink.config.options import SinkConfig
    from hivesink.core.manifest import PartEntry
    from hivesink.ports import BadRow, DecodedRows, RowReader
    from hivesink.sink.task.assign import BucketAssigner
    from hivesink.sink.task.attempt import TaskTools
    from hivesink.sink.task.buckets import Buckets
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
class Judge:
    """Decodes letters by the table of today. `mended` has new values by id; None: the record has none."""

    plan: TaskPlan
    reader: Callable[[TaskPlan], RowReader]
    assigner: BucketAssigner
    mended: Mapping[str, bytes | None]
    replayed: Replayed

    def decode(self, letters: Letters) -> Iterator[tuple[DecodedRows, Buckets, NDArray[np.int64]]]:
        """The rows with their buckets, and the places in `letters` of those that fit; all of one arrival."""
        for arrival, places in self._by_arrival(letters):
            records = as_stream(letters.rows.take(pa.array(places)), self.mended)
            then = replace(self.plan, arrival=arrival.replace(tzinfo=timezone.utc))
            decoded, assigned = assign(records, then, self.reader(then), self.assigner)
            ids = letters.rows.column("id").take(pa.array(places))
            for row in (*decoded.bad, *of_input(assigned.unfit, decoded.good)):
                self._fails(row, ids)
            good = places if decoded.good is None else places[decoded.good.to_numpy()]
            fit = good[assigned.codes >= 0]
            self.replayed.skipped += decoded.skipped
            self.replayed.rows += len(fit)
            if len(fit):
                self.replayed.parts.add(letters.part.name)
            yield decoded, assigned, fit

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


def run_replay(letters: Iterable[Letters], plan: TaskPlan, tools: TaskTools, judge: Judge) -> TaskReport:
    """Write the rows of `letters`, and those that are dead letters still, as pending parts."""
    work = open_task(plan, tools, 0, 0)
    if work.rejects is None or not isinstance(work.files, Parts):
        message = "a replay without dead letters, or with rows that wait"
        raise AssertionError(message)
    columns = [column.name for column in work.rejects.columns]
    replaced: dict[str, PartEntry] = {}
    try:
        for some in letters:
            is_left = np.ones(some.rows.num_rows, np.bool_)
            for decoded, assigned, fit in judge.decode(some):
                work.write(decoded.table, assigned)
                is_left[fit] = False
            left = pa.Table.from_batches([some.rows.filter(pa.array(is_left))])
            if left.num_rows:
                work.files.add(work.rejects, some.part.partition, left.select(columns))
            before = replaced.get(some.part.name, some.part)
            replaced[some.part.name] = replace(before, rows=before.rows + some.rows.num_rows)
            work.counts += Counter(read=some.rows.num_rows, rejected=left.num_rows)
        return TaskReport(0, 0, Rows(**work.counts), work.files.finish(), replaces=tuple(replaced.values()))
    except BaseException:
        work.files.abort()
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
