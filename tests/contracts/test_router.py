"""The suite of every router: each row of a batch goes to one target, whole, or is counted."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from hivesink.core.manifest import PartEntry
from hivesink.core.table import Column, Primitive
from hivesink.sink.task.attempt import Letters, ReplayRouter
from hivesink.sink.task.rejects import SCHEMA
from hivesink.sink.task.route import TableRouter
from hivesink.storage.local import LocalFileSystem
from hivesink.storage.rename_store import RenameFileStore
from tests.sink.task.taskrun import ARRIVAL, Run

if TYPE_CHECKING:
    from collections.abc import Callable

    from hivesink.ports.rows import Routed

VALUES = [b'{"id": 1, "dt": "a"}', b'{"id": "x"}', b'{"id": 2, "dt": "b"}', None, b'{"id": 3, "dt": "a"}', b"{"]
TABLE = {"dt=a": 2, "dt=b": 1}


def new_run(**options: str) -> Run:
    columns, partitions = (Column("id", Primitive.INT),), (Column("dt", Primitive.STRING),)
    named = {f"sink.{name.replace('_', '-')}": value for name, value in options.items()}
    return Run(RenameFileStore(LocalFileSystem()), "/w/t", columns, partitions, named)


def table(on_bad_record: str) -> tuple[list[Routed], Counter[str]]:
    run = new_run(on_bad_record=on_bad_record)
    router = TableRouter(run.plan, run.tools(run.plan))
    return list(router.route(pa.RecordBatch.from_pydict({"value": pa.array(VALUES, pa.binary())}))), router.counts


def replay() -> tuple[list[Routed], Counter[str]]:
    run = new_run()
    arrived = ARRIVAL.replace(tzinfo=None)
    rows = [{"id": str(row), "value": value, "arrived_at": arrived} for row, value in enumerate(VALUES)]
    part = PartEntry("db.t__rejected", "dt=2026-11-21", "/p", "/p", 1, 0)
    router = ReplayRouter(run.plan, lambda plan: run.tools(plan).reader, {})
    batch = pa.RecordBatch.from_pylist([*rows], schema=SCHEMA)
    return list(router.route(Letters(part, batch, np.arange(len(VALUES))))), Counter(read=len(VALUES))


ROUTERS: dict[str, tuple[Callable[[], tuple[list[Routed], Counter[str]]], dict[str, int]]] = {
    "dead letters": (partial(table, "dead-letter"), {"skipped": 1}),
    "dropped": (partial(table, "drop"), {"skipped": 1, "dropped": 2}),
    "replay": (replay, {}),
}


@pytest.mark.parametrize("name", ROUTERS)
def test_each_row_has_one_target_or_is_counted(name: str) -> None:
    route, counted = ROUTERS[name]
    routed, counts = route()
    rows = Counter[tuple[str, str]]()
    for target, partition, some in routed:
        rows[target, partition] += some.num_rows
        assert some.column_names == (["id"] if target == "db.t" else SCHEMA.names)
    assert {partition: n for (target, partition), n in rows.items() if target == "db.t"} == TABLE
    assert counts == Counter({"read": len(VALUES), **counted})
    assert rows.total() + sum(counted.values()) == len(VALUES)
