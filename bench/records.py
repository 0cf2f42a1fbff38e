"""The records of a workload, chunk by chunk: the bytes that go into the topic, and the rows that are due for them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa

from bench.content import figures, total
from bench.dialects import duckdb_type
from bench.workloads import ALL_FLIGHTS, FLIGHTS, SEED, Workload
from hivesink.core.typetext import parse_type
from jobs.demo.flights import MONTHS, Flights

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.content import Figures


@dataclass(frozen=True, slots=True)
class Chunk:
    """`texts` are JSON; `rows` has a column for each field that is due in the table, and its partition's."""

    texts: list[bytes]
    rows: pa.Table


def chunks(workload: Workload, rows: int) -> Iterator[Chunk]:
    """The records in order, the same in every run."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    source = _flights(connection, workload) if workload.name == FLIGHTS else None
    for start in range(0, rows, workload.chunk):
        count = min(workload.chunk, rows - start)
        if source is not None:
            yield source if count == ALL_FLIGHTS else Chunk(source.texts[:count], source.rows[:count])
        else:
            yield _made(connection, workload, start, count)


def due(chunk: Chunk, workload: Workload) -> Figures:
    """What the content check must find of these records."""
    connection = duckdb.connect()
    connection.register("chunk", chunk.rows)
    return figures(connection, "chunk", workload)


def all_due(workload: Workload, rows: int) -> Figures:
    return total(due(chunk, workload) for chunk in chunks(workload, rows))


def _made(connection: duckdb.DuckDBPyConnection, workload: Workload, start: int, rows: int) -> Chunk:
    fields = connection.sql(
        f"SELECT {workload.made} FROM range({start}, {start + rows}) AS numbers(i)"
    ).to_arrow_table()
    values = sliced(_column(connection, "SELECT to_json(fields)::VARCHAR::BLOB FROM fields", fields))
    good = _spoil(values, workload, start) if workload.bad else None
    partition = f'{workload.partition.duckdb} AS "{workload.partition.column}"'
    own = ", ".join(f'"{name}"' for name in workload.fields if name != workload.partition.column)
    table = connection.sql(f"SELECT {own}, {partition} FROM fields").to_arrow_table()
    table = table.rename_columns([name.lower() for name in table.column_names])
    return Chunk(values, table if good is None else table.filter(good))


def _column(connection: duckdb.DuckDBPyConnection, query: str, fields: pa.Table) -> pa.Array:
    connection.register("fields", fields)
    return connection.sql(query).to_arrow_table().column(0).combine_chunks()


def sliced(texts: pa.Array) -> list[bytes]:
    """The values of a binary array without nulls, at a fifth of the time of `to_pylist`."""
    ends = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1].tolist()
    data = texts.buffers()[2].to_pybytes()
    return [data[start:end] for start, end in pairwise(ends)]


def _spoil(values: list[bytes], workload: Workload, start: int) -> pa.Array:
    """Spoil a share of the records, half of them cut short, half with a text for a number; which ones are whole."""
    random = np.random.default_rng((SEED, start))
    bad = random.random(len(values)) < workload.bad
    for n in np.flatnonzero(bad).tolist():
        values[n] = values[n][:-9] if n % 2 else values[n].replace(b'{"userId":', b'{"userId":"none","was":')
    return pa.array(~bad)


def _flights(connection: duckdb.DuckDBPyConnection, workload: Workload) -> Chunk:
    """Each flight once, as `jobs/demo` sends them."""
    flights = Flights.load()
    connection.register("flown", pd.concat(flights.table[flights.table["month"] == month] for month in MONTHS))
    kinds = {name: duckdb_type(parse_type(kind)) for name, kind in workload.columns.items()}
    listed = ", ".join(f"CAST({name} AS {kind}) AS {name}" for name, kind in kinds.items())
    rows = connection.sql(f"SELECT *, {workload.partition.duckdb} AS dt FROM (SELECT {listed} FROM flown)")
    values = [line.encode() for month in MONTHS for line in flights.events(month)]
    return Chunk(values, rows.to_arrow_table())
