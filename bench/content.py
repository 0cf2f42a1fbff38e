"""What readers find after a drain, beside what the records say must be there.

A column's figures are a sum of hashes, which the order of rows doesn't change, the number of its values, and, of whole
numbers, their sum. Those of two sets of rows add up to those of both.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfileobj
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import duckdb

from bench.ground import DATABASE
from hivesink import wiring
from hivesink.core.table import TableName
from hivesink.errors import UnknownTable
from hivesink.logs import file_store
from hivesink.storage.local import posix

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bench.ground import Ground
    from bench.workloads import Workload
    from hivesink.core.partfile import Finished
    from hivesink.ports import FileStore, Metastore

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
    with closing(wiring.MetastoreAddress.at("thrift", ground.metastore, site).registrar) as registrar:
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


@contextmanager
def _connection(store: FileStore, files: Sequence[Finished]) -> Iterator[tuple[duckdb.DuckDBPyConnection, str]]:
    """DuckDB, and the relation that has the rows of `files`; those that aren't on this machine are copied to it."""
    with tempfile.TemporaryDirectory(prefix="hivesink-bench-") as scratch, closing(duckdb.connect()) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        paths = []
        for file in files:
            path = file.path
            if path.startswith("hdfs:"):
                path = f"{scratch}/{urlsplit(path).path}"
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                with store.open(file.path) as source, Path(path).open("wb") as target:
                    copyfileobj(source, target)
            paths.append(posix(path))
        listed = ", ".join(f"'{path}'" for path in paths)
        yield (connection, f"read_parquet([{listed}], hive_partitioning = true, hive_types_autocast = false)")
