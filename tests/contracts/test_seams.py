"""A decoder and a file format are a file and a line in a registry each: made-up ones go the whole way of a row."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import hivesink
from hivesink.config.formats import FORMATS, Format, format_name
from hivesink.config.options import SinkConfig
from hivesink.core.epoch import Epoch
from hivesink.core.manifest import PartEntry
from hivesink.core.table import Column, Primitive
from hivesink.decode.reader import DECODERS
from hivesink.formats import adapter
from hivesink.hiveql.parse import parse_ddl
from hivesink.hiveql.render import render
from hivesink.metastore.thrift_calls import thrift_table
from hivesink.ports.rows import BadRow, FileContent, Routed
from hivesink.sink.task.attempt import Letters, ReplayRouter, run_task
from hivesink.sink.task.messages import InputShape, TablePlan, TaskPlan
from hivesink.sink.task.rejects import SCHEMA, rejected_spec
from hivesink.sink.task.route import TableRouter
from hivesink.storage.local import LocalFileSystem
from hivesink.storage.rename_store import RenameFileStore
from hivesink.wiring import ToolsSpec
from tests.contracts.test_decoder import TabsDecoder
from tests.sink.task.taskrun import ARRIVAL, ATTEMPT, UID, Run

DDL = """CREATE TABLE db.t (id INT NOT NULL, name STRING) STORED AS {format} LOCATION '{location}'
TBLPROPERTIES ('sink.value.format'='tabs', 'sink.rolling-policy.on-epoch'='true', 'sink.on-bad-record'='drop')"""


class StreamFormat:
    """A sketch of another file format: Arrow's own."""

    extension = ".arrows"
    row_group = open_bytes = 1 << 20

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    @classmethod
    def of(cls, schema: pa.Schema, config: SinkConfig, order: Any = (), *, ids: Any = None) -> StreamFormat:  # noqa: ARG003
        return cls(schema)

    def unfit(self, rows: pa.Table) -> Iterator[BadRow]:
        negative = np.flatnonzero(np.asarray(rows.column("id")) < 0)
        return (BadRow(row, "id", "negative") for row in negative.tolist())

    def open(self, stream: BinaryIO) -> StreamRecords:
        return StreamRecords(pa.ipc.new_stream(stream, self._schema))

    @staticmethod
    def read(stream: BinaryIO, schema: pa.Schema, most: int) -> Iterator[pa.RecordBatch]:  # noqa: ARG004
        yield from pa.ipc.open_stream(stream)

    @staticmethod
    def measure(stream: BinaryIO, /) -> FileContent:
        table = pa.ipc.open_stream(stream).read_all()
        return FileContent(table.num_rows, table.nbytes)

    @staticmethod
    def dataset() -> ds.FileFormat:
        return ds.IpcFileFormat()


class StreamRecords:
    def __init__(self, writer: pa.RecordBatchStreamWriter) -> None:
        self._writer = writer
        self.write, self.close = writer.write_table, writer.close


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> Format:
    monkeypatch.setitem(DECODERS, "tabs", TabsDecoder)
    made = Format("STREAM", "made.In", "made.Out", "made.Serde", f"{__name__}:{StreamFormat.__name__}")
    monkeypatch.setitem(FORMATS, made.name, made)
    return made


def test_a_line_each_takes_a_row_from_its_bytes_to_a_file(made_up: Format, tmp_path: Path) -> None:
    spec = parse_ddl(DDL.format(format=made_up.name, location=tmp_path / "t"), "t.sql")
    assert parse_ddl(render(spec), "t.sql") == spec
    classes = thrift_table(spec, "me").sd
    assert (classes.inputFormat, classes.outputFormat, classes.serdeInfo.serializationLib) == (
        *("made.In", "made.Out"),
        "made.Serde",
    )
    assert format_name(classes.inputFormat) == spec.format

    target = TablePlan(spec, str(tmp_path / "t"))
    rejected = TablePlan(rejected_spec(spec.name, None, external=False), str(tmp_path / "rejected"))
    config = SinkConfig.parse(spec.options)
    plan = TaskPlan(target, rejected, config, InputShape(value="value"), UID, Epoch(1), ATTEMPT, ARRIVAL)
    records = pa.RecordBatch.from_pydict({"value": [b"1\tone", b"odd", b"-1\t", b"2\t"]})
    tools = replace(ToolsSpec(str(tmp_path / "log")).open(plan), touch=lambda _: None)
    report = run_task([records], plan, tools, task=0, task_attempt=0)

    (part,) = report.parts
    assert (part.rows, report.rows.dropped, part.target.endswith(".arrows")) == (2, 2, True)
    form = adapter(spec.format)
    with Path(part.staged).open("rb") as stream:
        assert form.measure(stream).rows == 2
    with Path(part.staged).open("rb") as stream:
        (batch,) = form.read(stream, pa.schema([]), 10)
    assert batch.to_pylist() == [{"id": 1, "name": "one"}, {"id": 2, "name": None}]


@pytest.mark.parametrize(
    ("name", "places"),
    [
        ("hivesink.formats.parquet|ParquetFormat", {"config/formats.py", "formats/parquet.py"}),
        ("DebeziumDecoder", {"decode/reader.py", "decode/json/debezium.py"}),
    ],
)
def test_an_adapter_is_named_in_two_places(name: str, places: set[str]) -> None:
    root = Path(hivesink.__file__).parent
    named = {str(file.relative_to(root)) for file in root.rglob("*.py") if re.search(name, file.read_text("utf-8"))}
    assert named == places


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
