"""The records of a workload, chunk by chunk: the bytes that go into the topic, and the rows that are due for them."""

from __future__ import annotations

import io
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from shutil import copyfileobj
from urllib.parse import urlsplit

import duckdb
import fastavro
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds

from bench.ground import DATABASE, Ground
from bench.workloads import ALL_FLIGHTS, AVRO, AVRO_SCHEMA, FLIGHTS, SEED, Workload, duckdb_type
from hivesink.core.partfile import Finished
from hivesink.core.partition import scheme
from hivesink.core.table import TableName
from hivesink.core.typetext import parse_type
from hivesink.errors import UnknownTable
from hivesink.formats import adapter
from hivesink.logs import file_store
from hivesink.metastore import connect
from hivesink.ports import FileStore, Metastore
from hivesink.storage.local import posix
from jobs.cluster.kafka import create_topic, end_offsets
from jobs.demo.flights import MONTHS, Flights


@dataclass(frozen=True, slots=True)
class Chunk:
    """`texts` are JSON, or Avro; `rows` has a column for each field that is due in the table, and its partition's."""

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
    if workload.name == AVRO:
        values = _avro(fields)
    else:
        values = sliced(_column(connection, "SELECT to_json(fields)::VARCHAR::BLOB FROM fields", fields))
    good = _spoil(values, workload, start) if workload.bad else None
    partition = f'{workload.partition.duckdb} AS "{workload.partition.column}"'
    own = ", ".join(f'"{name}"' for name in workload.fields if name != workload.partition.column)
    table = connection.sql(f"SELECT {own}, {partition} FROM fields").to_arrow_table()
    table = table.rename_columns([name.lower() for name in table.column_names])
    return Chunk(values, table if good is None else table.filter(good))


def _avro(fields: pa.Table) -> list[bytes]:
    schema, stream = fastavro.parse_schema(json.loads(AVRO_SCHEMA.read_text())), io.BytesIO()
    place = fields.column_names.index("ts")
    values = list[bytes]()
    for row in fields.set_column(place, "ts", fields["ts"].cast(pa.timestamp("us", "UTC"))).to_pylist():
        stream.seek(0)
        stream.truncate()
        fastavro.schemaless_writer(stream, schema, row)
        values.append(stream.getvalue())
    return values


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


PARTITIONS = 4
CLIENT = {"linger.ms": 50, "batch.size": 1 << 20, "queue.buffering.max.messages": 2_000_000, "log_level": 3}


@dataclass(frozen=True, slots=True)
class Topic:
    """`rows` records, of which `figures` are due in the table."""

    name: str
    rows: int
    figures: Figures

    def rejected(self) -> int:
        return self.rows - self.figures["rows"]


def topic(servers: str, folder: Path, workload: Workload, rows: int, login: Mapping[str, str]) -> Topic:
    """The topic of the workload's first `rows` records; `folder` remembers what is in it, `login` as `create_topic`.

    One that was not filled to its end (its making was stopped) is made anew.
    """
    name = f"{workload.topic}-{rows}"
    note = folder / f"{name}.json"
    if note.exists() and not create_topic(servers, name, PARTITIONS, login=login):
        return Topic(**json.loads(note.read_text()))
    if not note.exists():
        _delete(servers, name, login)
        create_topic(servers, name, PARTITIONS, login=login)
    print(f"making the topic {name}", file=sys.stderr, flush=True)
    made = Topic(name, rows, total(_produce(servers, name, workload, rows, login)))
    found = sum(end_offsets(servers, name, PARTITIONS, login=login).values())
    if found != rows:
        message = f"the topic {name} has {found} records where {rows} were sent; see the broker's log"
        raise SystemExit(message)
    folder.mkdir(parents=True, exist_ok=True)
    note.write_text(json.dumps(asdict(made)))
    return made


def partitions(workload: Workload, start: int, count: int) -> list[int]:
    """Which partition of the topic each of `count` records goes to, the first being number `start` of all."""
    others = PARTITIONS - 1
    if workload.skew is None:
        return [number % PARTITIONS for number in range(start, start + count)]
    every = round(1 / (1 - workload.skew))
    return [1 + number // every % others if number % every == 0 else 0 for number in range(start, start + count)]


def _produce(servers: str, name: str, workload: Workload, rows: int, login: Mapping[str, str]) -> Iterator[Figures]:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers, **CLIENT, **login})
    start = 0
    for chunk in chunks(workload, rows):
        for value, partition in zip(chunk.texts, partitions(workload, start, len(chunk.texts)), strict=True):
            producer.produce(name, value, partition=partition)
        start += len(chunk.texts)
        yield due(chunk, workload)
        producer.flush()


def _delete(servers: str, name: str, login: Mapping[str, str]) -> None:
    """Delete the topic, if there is one, and wait until its name is free."""
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": servers, "log_level": 3, **login})
    if name in admin.list_topics(timeout=30).topics:
        admin.delete_topics([name], operation_timeout=30)[name].result()


Figures = dict[str, int]
_WHOLE = ("int", "bigint")


@dataclass(frozen=True, slots=True)
class Landed:
    """Visible files, their bytes, the figures of their rows, and how many rows are in the table of dead letters."""

    files: int
    bytes: int
    figures: Figures
    rejected: int = 0


def figures(connection: duckdb.DuckDBPyConnection, relation: str, workload: Workload) -> Figures:
    """Of the table's columns and its partition column, in `relation`."""
    wanted = {"rows": "count(*)"}
    for name, value in workload.compared().items():
        wanted[f"{name} hash"] = f"sum(hash({value})::HUGEINT)"
        wanted[f"{name} values"] = f'count("{name}")'
        if workload.columns.get(name) in _WHOLE:
            wanted[f"{name} sum"] = f'sum("{name}"::HUGEINT)'
    found = connection.execute(f"SELECT {', '.join(wanted.values())} FROM {relation}").fetchone() or ()
    return {name: int(value or 0) for name, value in zip(wanted, found, strict=True)}


def total(parts: Iterable[Figures]) -> Figures:
    added: Counter[str] = Counter()
    for part in parts:
        added.update(part)
    return dict(added)


def differences(found: Figures, due: Figures) -> list[str]:
    wrong = {name: value for name, value in due.items() if found.get(name) != value}
    return [f"{name} is {found.get(name)} where {value} is due" for name, value in wrong.items()]


def land(ground: Ground, name: str, workload: Workload, *, registered: bool) -> Landed:
    """What is in the table or folder `name`: if `registered`, in the partitions that the metastore knows, no others."""
    site = ground.site()
    location = f"{ground.tables}/{DATABASE}.db/{name}"
    store = file_store(location, site)
    with closing(connect("thrift", ground.metastore, site)) as registrar:
        files = _registered(registrar, store, name) if registered else _below(store, location)
        dead = _registered(registrar, store, f"{name}__rejected") if workload.bad and registered else []
    size = sum(file.length for file in files)
    with _connection(store, files) as (connection, rows):
        found = figures(connection, rows, workload) if files else {}
    with _connection(store, dead) as (connection, rows):
        rejected = connection.execute(f"SELECT count(*) FROM {rows}").fetchone() if dead else None
    return Landed(len(files), size, found, rejected[0] if rejected else 0)


def _registered(registrar: Metastore, store: FileStore, name: str) -> list[Finished]:
    try:
        partitions = registrar.lookup(registrar.table(TableName(DATABASE, name)), None)
    except UnknownTable:
        return []
    return [file for partition in partitions.values() for file in store.visible(partition.location)]


def _below(store: FileStore, location: str) -> list[Finished]:
    folders = (folder for folder in store.walk(location) if not re.search("/[._]", folder[len(location) :]))
    return [file for folder in folders for file in store.visible(folder)]


def _is_orc(path: str) -> bool:
    """By its first bytes: Flink's names don't tell."""
    with Path(path).open("rb") as file:
        return file.read(3) == b"ORC"


@contextmanager
def _connection(store: FileStore, files: Sequence[Finished]) -> Iterator[tuple[duckdb.DuckDBPyConnection, str]]:
    """DuckDB, and the relation that has the rows of `files`; those that aren't on this machine are copied to it."""
    with tempfile.TemporaryDirectory(prefix="hivesink-bench-") as scratch, closing(duckdb.connect()) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        paths = []
        for file in files:
            path = file.path
            if scheme(path) != "file":
                path = f"{scratch}/{urlsplit(path).path}"
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                with store.open(file.path) as source, Path(path).open("wb") as target:
                    copyfileobj(source, target)
            paths.append(posix(path))
        if any(map(_is_orc, paths[:1])):
            folders = [folder.partition("=") for folder in paths[0].split("/")]
            schema = pa.schema([(name, pa.string()) for name, is_key, _ in folders if is_key])
            keys = ds.partitioning(schema, flavor="hive")
            connection.register("stored", ds.dataset(paths, format=adapter("ORC").dataset(), partitioning=keys))
            yield connection, "stored"
            return
        listed = ", ".join(f"'{path}'" for path in paths)
        yield (connection, f"read_parquet([{listed}], hive_partitioning = true, hive_types_autocast = false)")
