"""A quick look at tables: a SELECT of Spark's, translated by sqlglot, over the tables' files, in DuckDB."""

from __future__ import annotations

import io
import re
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from itertools import islice, pairwise
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import sqlglot
from pyarrow import types
from pyarrow.fs import FSSpecHandler, LocalFileSystem, PyFileSystem
from sqlglot import ErrorLevel, TokenType, exp
from sqlglot.errors import SqlglotError

from hivesink.config.site import Site
from hivesink.core.partfile import Finished
from hivesink.core.partition import LivePartition, is_hidden, parse_path
from hivesink.core.table import Char, HiveType, TableName, TableSpec
from hivesink.core.typetext import known_type
from hivesink.decode.arrowtypes import arrow_type
from hivesink.errors import InvalidOption, NotCovered, Unsupported
from hivesink.formats import adapter
from hivesink.logs import storage_of
from hivesink.metastore import connect
from hivesink.ports import FileStore, LiveTable, Metastore

Answer = tuple[Sequence[str], Sequence["HiveType | None"], Sequence[Sequence[Any]]]
_SETTINGS: dict[str, Any] = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
_SPARKS_OWN = "spark.sql.sources.provider"
"""The property of a table whose columns Spark keeps in other properties."""


def ask(sql: str, address: Callable[[], str], site: Site, most: int) -> Answer:
    """The columns' names and types, and the first `most` rows. `address` gives the metastore's, if a table is named.

    Raises NotCovered for what sqlglot or DuckDB refuses, and for tables that DuckDB would read otherwise than Spark;
    UnknownTable, MetastoreUnreachable, StoreUnavailable.
    """
    with ExitStack() as resources:
        try:
            tree = _parsed(sql)
            scratch = resources.enter_context(tempfile.TemporaryDirectory(prefix="hivesink-duckdb-"))
            settings = {**_SETTINGS, "temp_directory": scratch}
            connection = resources.enter_context(closing(duckdb.connect(config=settings)))
            connection.execute("SET TimeZone = 'UTC'")
            if tables := _tables(tree):
                registrar = connect("thrift", address(), site)
                resources.enter_context(closing(registrar))
                for number, table in enumerate(tables):
                    _register(connection, f"hivesink_{number}", table, registrar, site)
            limited = tree if tree.args.get("limit") else tree.limit(most)
            answer = connection.execute(limited.sql("duckdb", identify=True, unsupported_level=ErrorLevel.RAISE))
            names, kinds = zip(*((column[0], str(column[1])) for column in answer.description), strict=True)
            # By these a FLOAT in the answer gets its own digits.
            hive = [exp.DataType.build(kind, dialect="duckdb", udt=True).sql("hive") for kind in kinds]
            return names, [known_type(kind) for kind in hive], answer.fetchmany(most)
        except (SqlglotError, duckdb.Error, pa.ArrowException, FileNotFoundError, InvalidOption, Unsupported) as error:
            raise NotCovered(str(error).strip().partition("\n")[0]) from error


def _parsed(sql: str) -> exp.Query:
    """A single SELECT, its columns named and its times without zone. Raises NotCovered, SqlglotError."""
    tokens = [token.token_type for token in sqlglot.tokenize(sql, read="spark")]
    # What isn't a query makes the parser log a warning.
    if not tokens or tokens[0] not in {TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN}:
        raise NotCovered(reason="it isn't a SELECT")
    if "\\" in sql or (TokenType.STRING, TokenType.STRING) in pairwise(tokens):
        raise NotCovered(reason="a text with a backslash or a doubled quote, which Spark's versions read differently")
    trees = sqlglot.parse(sql, read="spark")
    tree = trees[0]
    if len(trees) != 1 or not isinstance(tree, exp.Query):
        raise NotCovered(reason="it isn't a single SELECT")
    for kind in tree.find_all(exp.DataType):
        if kind.this == exp.DType.TIMESTAMPTZ:
            kind.set("this", exp.DType.TIMESTAMP)
    for projection in tree.expressions if isinstance(tree, exp.Select) else ():
        # DuckDB would name count(*) count_star().
        if not projection.output_name and not isinstance(projection, exp.Explode):
            text = projection.sql("spark", normalize_functions="lower")
            projection.replace(exp.alias_(projection.copy(), text, quoted=True))
    return tree


def _tables(tree: exp.Query) -> list[exp.Table]:
    """Where the statement names tables of the metastore. Raises NotCovered for functions and files in a FROM."""
    local = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    tables = [table for table in tree.find_all(exp.Table) if table.db or table.name.lower() not in local]
    for table in tables:
        if table.catalog or not isinstance(table.this, exp.Identifier) or "/" in table.name:
            raise NotCovered(reason=f"{table.sql('spark')} is no table of the metastore")
    return tables


def _register(
    connection: duckdb.DuckDBPyConnection, view: str, table: exp.Table, registrar: Metastore, site: Site
) -> None:
    """Give DuckDB the rows of `table` as `view`, and let the statement name that."""
    live = registrar.table(TableName((table.db or "default").lower(), table.name.lower()))
    if _SPARKS_OWN in live.spec.options:
        raise NotCovered(reason=f"Spark keeps another schema of {live.spec.name}")
    storage = storage_of(live.location, site)
    store = storage.tables(None)
    if storage.posix is None:
        # Python reads the files for DuckDB's scan: several threads in both can wait for each other (xarray-sql#241).
        connection.execute("SET threads = 1")
    partitions = registrar.lookup(live, _needed_partitions(connection, table, live, registrar))
    files = live_files(live, partitions, store)
    connection.register(view, table_dataset(live.spec, _used(table.root(), live.spec), files, store, storage.posix))
    alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(table.name))
    table.replace(exp.Table(**{**table.args, "this": exp.to_identifier(view), "db": None, "alias": alias}))


def _used(tree: exp.Expr, spec: TableSpec) -> set[str]:
    """The columns that a statement may need: those whose name is anywhere in it, or all if it has a `*`."""
    if any(not isinstance(star.parent, exp.Count) for star in tree.find_all(exp.Star)):
        return {column.name for column in (*spec.columns, *spec.partition_columns)}
    if any(join.method == "NATURAL" for join in tree.find_all(exp.Join)):
        raise NotCovered(reason="a NATURAL JOIN")
    return {identifier.name.lower() for identifier in tree.find_all(exp.Identifier)}


def _needed_partitions(
    connection: duckdb.DuckDBPyConnection, table: exp.Table, live: LiveTable, registrar: Metastore
) -> Sequence[str]:
    """The partitions that can have rows for the statement, by the WHERE around `table`."""
    names = registrar.names(live)
    conditions = _conditions(table, {column.name for column in live.spec.partition_columns})
    if not conditions:
        return names
    texts = [dict(parse_path(name)) for name in names]
    columns = {"place": pa.array(range(len(names)), pa.int64())}
    for column in live.spec.partition_columns:
        cells = pa.array([text[column.name] for text in texts], pa.string())
        columns[column.name] = cells.cast(arrow_type(column.type))
    connection.register("hivesink_partitions", pa.table(columns))
    query = exp.select("place").from_(exp.alias_(exp.to_table("hivesink_partitions"), table.alias_or_name, table=True))
    places = connection.execute(query.where(*conditions).sql("duckdb", identify=True)).fetchall()
    return [names[place] for (place,) in places]


def _conditions(table: exp.Table, columns: Collection[str]) -> list[exp.Expr]:
    """Those of the WHERE around `table` that are on `columns` of it alone, and that each of its rows must meet."""
    select = table.parent_select
    if not isinstance(select, exp.Select) or table.parent is None or table.parent.parent is not select:
        return []
    where = select.args.get("where")
    if where is None or table.args.get("pivots"):
        return []
    joins = select.args.get("joins") or []
    # An outer join makes rows of nulls, which meet conditions by themselves.
    if any(join.side for join in joins):
        return []
    alias, is_alone = table.alias_or_name.lower(), not joins and not select.args.get("laterals")

    def is_own(column: exp.Column) -> bool:
        owner = column.table.lower()
        return column.name.lower() in columns and (owner == alias or (is_alone and not owner))

    parts = where.this.flatten() if isinstance(where.this, exp.And) else [where.this]
    named = [(part, list(part.find_all(exp.Column))) for part in parts if not part.find(exp.Query)]
    return [part.copy() for part, inner in named if inner and all(map(is_own, inner))]


Files = Sequence[tuple[str, "Finished"]]
_COPYING = "._COPYING_"
"""What `hdfs dfs -put` is still writing."""


def live_files(table: LiveTable, partitions: Mapping[str, LivePartition], store: FileStore) -> Files:
    """The files that readers of `partitions` see, each with its partition's name.

    Raises NotCovered where Hive's readers would see others, or another format; StoreUnavailable.
    """

    def listed(name: str, partition: LivePartition) -> Files:
        if partition.format is not None:
            raise NotCovered(reason=f"the partition {name} of {table.spec.name} is of another format")
        inner = () if table.spec.is_partitioned else islice(store.walk(partition.location), 1, None)
        if any(not is_hidden(folder.removeprefix(partition.location)) for folder in inner):
            raise NotCovered(reason=f"there are folders in {partition.location}")
        files = store.visible(partition.location)
        return [(name, file) for file in files if file.length and not file.path.endswith(_COPYING)]

    lists = store.run_parallel([partial(listed, *named) for named in partitions.items()])
    return [file for files in lists for file in files]


def table_dataset(
    spec: TableSpec, used: Collection[str], files: Files, store: FileStore, posix: Callable[[str], str] | None = None
) -> ds.Dataset:
    """The `used` columns of `files` with the types that the table declares; null what a file lacks.

    With `posix`, a file's path on this machine, Arrow opens them itself.
    Reads all footers. Raises NotCovered for a file with another type than the declared one, or with no declared column,
    and for CHAR, which Spark pads; ArrowInvalid, StoreUnavailable, FileNotFoundError.
    """
    every = (*spec.columns, *spec.partition_columns)
    # Rows can be counted by any column; a partition's has no bytes.
    columns = [column for column in every if column.name in used] or [every[-1]]
    if padded := [column for column in columns if re.search(r"\bchar\(", str(column.type))]:
        has = "is" if isinstance(padded[0].type, Char) else "has"
        raise NotCovered(reason=f"the column {padded[0].name} of {spec.name} {has} a CHAR")
    schema = pa.schema([pa.field(column.name, arrow_type(column.type)) for column in columns])
    keys = [column for column in columns if column in spec.partition_columns]
    kind, declared = adapter(spec.format).dataset(), {column.name for column in spec.columns}
    system = LocalFileSystem() if posix else PyFileSystem(_Stored(store))

    def fragment(name: str, file: Finished) -> ds.FileFragment:
        # What holds for each row of the partition.
        texts, holds = dict(parse_path(name)) if keys else {}, None
        for key in keys:
            value, column = pa.scalar(texts[key.name], pa.string()).cast(arrow_type(key.type)), ds.field(key.name)
            own = column == value if value.is_valid else column.is_null()
            holds = own if holds is None else holds & own
        made = kind.make_fragment(
            posix(file.path) if posix else file.path, filesystem=system, partition_expression=holds
        )
        if declared.isdisjoint(map(str.lower, made.physical_schema.names)):
            # Spark takes ORC's columns by their places if they are called `_col0`, as by Hive 1.
            raise NotCovered(reason=f"the file {file.path} has no column of {spec.name}")
        _require_declared(file.path, made.physical_schema, schema, len(keys))
        return made

    fragments = store.run_parallel([partial(fragment, *named) for named in files])
    return ds.FileSystemDataset(fragments, schema, kind, filesystem=system)


def _require_declared(path: str, file: pa.Schema, schema: pa.Schema, keys: int) -> None:
    """Raise NotCovered where Arrow would read a column otherwise than Spark, or, by its name in another case, not."""
    for field in file:
        if (index := schema.get_field_index(field.name.lower())) >= 0:
            declared, is_key = schema.field(index), index >= len(schema) - keys
            if is_key or field.name != declared.name or not _reads_as(field.type, declared.type):
                wanted = f"the {'partition ' if is_key else ''}column {declared.name} {declared.type}"
                raise NotCovered(reason=f"the file {path} has {field.name} {field.type} for {wanted}")


def _reads_as(kind: pa.DataType, declared: pa.DataType) -> bool:
    """The same type; a file's STRUCT may lack the declared one's last fields, which are null then."""
    if types.is_struct(kind) and types.is_struct(declared):
        pairs = list(zip(kind, declared, strict=False))
        return len(pairs) == kind.num_fields and all(a.name == b.name and _reads_as(a.type, b.type) for a, b in pairs)
    if types.is_list(kind) and types.is_list(declared):
        return _reads_as(kind.value_type, declared.value_type)
    if types.is_map(kind) and types.is_map(declared):
        return _reads_as(kind.key_type, declared.key_type) and _reads_as(kind.item_type, declared.item_type)
    if types.is_timestamp(kind) and types.is_timestamp(declared):
        return True
    return bool(kind == declared)


class _Stored(FSSpecHandler):  # type: ignore[misc]  # pyarrow has no types
    """A table's files to Arrow, through the store's own way to open them."""

    def get_type_name(self) -> str:
        return "hivesink"

    def open_input_file(self, path: str) -> pa.PythonFile:
        return pa.PythonFile(_File(self.fs.open(path)), mode="r")


class _File(io.BufferedReader):
    """Arrow forgets files without closing them."""

    def __del__(self) -> None:
        self.close()
