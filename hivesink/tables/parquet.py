"""The rows of a Parquet table as a view in DuckDB: as the metastore declares them, whatever the files hold.

A file's column is read only if it has the very type that Spark writes for the declared one.
"""

# Statements are put together from quoted names and paths; values are parameters.
# ruff: noqa: S608

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hivesink.core.partition import parse_path
from hivesink.core.table import INTEGERS, HiveType, Primitive, Varchar
from hivesink.errors import NotCovered
from hivesink.sparksql.typed import duckdb_type, failing_unless, literal, quoted
from hivesink.storage.local_files import posix

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from duckdb import DuckDBPyConnection

    from hivesink.core.partition import LivePartition
    from hivesink.ports import FileStore, LiveTable, Registrar
    from hivesink.sparksql.scope import Relation

_PHYSICAL = {
    Primitive.BOOLEAN: "BOOLEAN",
    Primitive.TINYINT: "INT32",
    Primitive.SMALLINT: "INT32",
    Primitive.INT: "INT32",
    Primitive.BIGINT: "INT64",
    Primitive.FLOAT: "FLOAT",
    Primitive.DOUBLE: "DOUBLE",
    Primitive.STRING: "BYTE_ARRAY",
    Primitive.BINARY: "BYTE_ARRAY",
    Primitive.DATE: "INT32",
    # Spark shifts INT64 by the session's zone or not, as the file says.
    Primitive.TIMESTAMP: "INT96",
}
_PARTITION_TEXT = {
    Primitive.STRING: ".*",
    Primitive.DATE: r"\d{4}-\d\d-\d\d",
    **dict.fromkeys(INTEGERS, r"-?\d{1,19}"),
}
"""What each type's partition values look like where both engines read them alike."""
_COPYING = "._COPYING_"
_FIRST, _END = "DATE '1900-01-01'", "DATE '10000-01-01'"
"""Before the first, what Spark shows depends on the calendar and the zone of the Spark that wrote the file. Of later
years DuckDB gives another text."""


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file that readers see, and the partition that it is in, by its place in a list."""

    path: str
    partition: int


def create_view(
    connection: DuckDBPyConnection,
    relation: Relation,
    table: LiveTable,
    registrar: Registrar,
    store: FileStore,
) -> list[str]:
    """Make the view of `relation`, and return the paths of its files.

    The metastore is asked for the folders of those partitions only that the statement can need. Raises NotCovered,
    StoreUnavailable, MetastoreUnreachable, UnknownTable, TableReplaced.
    """
    names = registrar.names(table)
    wanted = _pruned(connection, relation, names) if table.spec.is_partitioned else [0]
    live = registrar.lookup(table, [names[place] for place in wanted])
    there = [(live[names[place]], place) for place in wanted if names[place] in live]
    files = [file for partition, place in there for file in _files(partition, place, store, table)]
    types = {name: kind for name, kind in relation.types.items() if name in relation.used}
    own = {name: kind for name, kind in types.items() if name not in relation.partition_columns}
    selects = [
        _select(connection, relation, types, fields, some, name=f"{relation.view}.{number}")
        for number, (fields, some) in enumerate(_by_fields(connection, files, own))
    ]
    empty = ", ".join(f"CAST(NULL AS {duckdb_type(kind)}) AS {quoted(name)}" for name, kind in types.items()) or "1"
    query = " UNION ALL ".join(selects) or f"SELECT {empty} WHERE false"
    connection.execute(f"CREATE TEMP VIEW {quoted(relation.view)} AS {query}")
    return [file.path for file in files]


def _pruned(connection: DuckDBPyConnection, relation: Relation, names: Sequence[str]) -> Sequence[int]:
    """Put the partitions' values into a table, and return the places of those that the statement can need."""
    used = [column for column in relation.table.partition_columns if column.name in relation.used]
    texts = [dict(parse_path(name)) for name in names]
    columns, values = ["unnest($1::BIGINT[]) AS place"], []
    for column in used:
        own = [text[column.name] for text in texts]
        kind = Primitive.STRING if isinstance(column.type, Varchar) else column.type
        pattern = _PARTITION_TEXT.get(kind) if isinstance(kind, Primitive) else None
        if pattern is None or not all(text is None or re.fullmatch(pattern, text, re.DOTALL) for text in own):
            raise NotCovered(reason=f"the values of the partition column {column.name} of type {column.type}")
        values.append(own)
        columns.append(f"CAST(unnest(${len(values) + 1}::VARCHAR[]) AS {duckdb_type(kind)}) AS {quoted(column.name)}")
    name = quoted(f"{relation.view}.partitions")
    connection.execute(f"CREATE TEMP TABLE {name} AS SELECT {', '.join(columns)}", [list(range(len(names))), *values])
    where = f" WHERE {' AND '.join(relation.pruning)}" if relation.pruning else ""
    found = connection.execute(f"SELECT place FROM {name} AS {quoted(relation.alias)}{where} ORDER BY place").fetchall()
    return [place for (place,) in found]


def _files(partition: LivePartition, place: int, store: FileStore, table: LiveTable) -> Iterator[TableFile]:
    """Those that Spark reads: it passes over empty ones, and those that `hdfs dfs -put` is still writing."""
    if partition.format is not None:
        raise NotCovered(reason=f"the partition {partition.partition}, which is no Parquet")
    if not partition.location.startswith("file:"):
        raise NotCovered(reason=f"files that aren't on this machine ({partition.location})")
    look = store.visible if table.spec.is_partitioned else store.visible_alone
    files = look(partition.location)
    if files is None:
        raise NotCovered(reason=f"folders inside of {partition.location}")
    for file in files:
        if file.length and not file.path.endswith(_COPYING):
            path = posix(file.path)
            if re.search(r"[*?\[\]{}]", path):
                raise NotCovered(reason=f"the path {path}, which is a pattern to DuckDB")
            yield TableFile(path, place)


def _by_fields(
    connection: DuckDBPyConnection, files: Sequence[TableFile], own: Mapping[str, HiveType]
) -> Iterator[tuple[set[str], list[TableFile]]]:
    """The files by which of the columns in `own` they have. Raises NotCovered for a column of another type."""
    if not own or not files:
        if files:
            yield set(), list(files)
        return
    found = connection.execute(
        "SELECT fields, list(file_name) FROM (SELECT file_name, list((name, coalesce(type, ''), duckdb_type, "
        "coalesce(num_children, 0)) ORDER BY column_id) AS fields FROM parquet_schema(?) GROUP BY file_name) "
        "GROUP BY fields",
        [[file.path for file in files]],
    ).fetchall()
    by_path = {file.path: file for file in files}
    for fields, paths in found:
        there: set[str] = set()
        for name, physical, kind in _top_level(fields):
            column = name.lower()
            if column in there or column == "file_index":
                raise NotCovered(reason=f"a file with a second column {name} ({paths[0]})")
            there.add(column)
            if column in own and not _fits(own[column], physical, kind):
                raise NotCovered(reason=f"the column {column} of {paths[0]}, {kind} ({physical}) for {own[column]}")
        yield there, [by_path[path] for path in sorted(paths)]


def _top_level(fields: Sequence[tuple[str, str, str, int]]) -> Iterator[tuple[str, str, str]]:
    """Without the root and the insides of nested columns: depth first, each field is followed by its children."""
    inside = 0
    for name, physical, kind, children in fields[1:]:
        if inside == 0:
            yield name, physical, kind
        else:
            inside -= 1
        inside += children


def _fits(declared: HiveType, physical: str, kind: str) -> bool:
    """Whether a file's column is of Parquet's and DuckDB's types for the declared one."""
    if isinstance(declared, Varchar):
        declared = Primitive.STRING
    # A decimal has any of three types in Parquet; precision and scale tell.
    right = not isinstance(declared, Primitive) or physical == _PHYSICAL[declared]
    return right and kind == duckdb_type(declared)


def _select(
    connection: DuckDBPyConnection,
    relation: Relation,
    types: Mapping[str, HiveType],
    there: set[str],
    files: Sequence[TableFile],
    *,
    name: str,
) -> str:
    """The rows of files that have the same columns."""
    values, joined = [], False
    for column, kind in types.items():
        if column in relation.partition_columns:
            joined, value = True, f"p.{quoted(column)}"
        elif column not in there:
            value = f"CAST(NULL AS {duckdb_type(kind)})"
        elif kind in {Primitive.DATE, Primitive.TIMESTAMP}:
            own = f"f.{quoted(column)}"
            value = failing_unless(f"{own} >= {_FIRST} AND {own} < {_END}", own, "a time before 1900 or after 9999")
        else:
            value = f"f.{quoted(column)}"
        values.append(f"{value} AS {quoted(column)}")
    paths = ", ".join(literal(file.path) for file in files)
    origin = f"read_parquet([{paths}], hive_partitioning = false) AS f"
    if joined:
        connection.execute(
            f"CREATE TEMP TABLE {quoted(name)} AS SELECT number, p.* FROM (SELECT unnest($1::BIGINT[]) AS number, "
            f"unnest($2::BIGINT[]) AS place) JOIN {quoted(f'{relation.view}.partitions')} AS p USING (place)",
            [list(range(len(files))), [file.partition for file in files]],
        )
        origin += f" JOIN {quoted(name)} AS p ON f.file_index = p.number"
    return f"SELECT {', '.join(values) or '1'} FROM {origin}"
