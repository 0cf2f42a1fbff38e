"""The change log of Debezium and the view of its latest state, as they are printed."""

from __future__ import annotations

import duckdb
import pyarrow as pa
from sqlglot import transpile

from hivesink.config.options import SinkConfig
from hivesink.core.table import Column
from hivesink.core.typetext import parse_type
from hivesink.decode.reader import RowsReader
from tests.decode.test_debezium import ADA, PEOPLE_FIELDS, event, texts, with_schema
from tests.docs.pages import blocks_run_by


def test_the_latest_state_has_each_row_that_is_left_as_it_was_changed_last() -> None:
    (view,) = (block.text for block in blocks_run_by(__file__, "docs/recipes.md"))
    columns = {"id": "int", "name": "string", "balance": "decimal(6,2)", "op": "string", "record_offset": "bigint"}
    sources = {"op": "$.op", "record_offset": "kafka.offset"}
    config = SinkConfig.parse(
        {"sink.value.format": "debezium-json", **{f"sink.column.{at}.from": path for at, path in sources.items()}}
    )
    bob, renamed = {**ADA, "id": 2, "name": "Bob"}, {**ADA, "name": "Ada King"}
    changes = [event("r", None, ADA), event("c", None, bob), event("u", ADA, renamed), event("d", bob, None), None]
    values = pa.array(texts([change and with_schema(change, PEOPLE_FIELDS) for change in changes]), pa.binary())
    batch = pa.RecordBatch.from_pydict({"value": values, "offset": range(5)})
    rows = RowsReader([Column(name, parse_type(kind)) for name, kind in columns.items()], "value", config).read(batch)
    assert (rows.table["op"].to_pylist(), rows.skipped) == (["r", "c", "u", "d"], 1)
    with duckdb.connect() as connection:
        connection.execute("CREATE SCHEMA demo")
        connection.register("log", rows.table)
        connection.execute("CREATE TABLE demo.people_log AS SELECT * FROM log")
        connection.execute(transpile(view, "hive", "duckdb")[0])
        assert connection.execute("FROM demo.people").fetchall() == [(1, "Ada King")]
