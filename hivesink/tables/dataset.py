"""The rows of a table as Hive's readers see them: an Arrow dataset of the files of its live partitions."""

from __future__ import annotations

import io
from functools import partial, reduce
from itertools import islice
from operator import and_
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa
import pyarrow.dataset as ds
from fsspec import AbstractFileSystem
from pyarrow import types
from pyarrow.fs import FSSpecHandler, PyFileSystem

from hivesink.core.bucket import is_hidden
from hivesink.core.partition import parse_path
from hivesink.core.table import Char
from hivesink.decode.arrowtypes import arrow_type, spark_name
from hivesink.errors import NotCovered
from hivesink.formats import adapter

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from hivesink.core.partfile import Finished
    from hivesink.core.partition import LivePartition
    from hivesink.core.table import Column, TableSpec
    from hivesink.ports import FileStore, LiveTable

    Files = Sequence[tuple[str, Finished]]

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


def partition_values(spec: TableSpec, names: Sequence[str]) -> pa.Table:
    """The values of the partition columns by `place` in `names`. Raises ArrowInvalid where a text isn't of its type."""
    texts = [dict(parse_path(name)) for name in names]
    columns = {
        column.name: pa.array([text[column.name] for text in texts], pa.string()).cast(arrow_type(column.type))
        for column in spec.partition_columns
    }
    return pa.table({"place": pa.array(range(len(names)), pa.int64()), **columns})


def table_dataset(spec: TableSpec, used: Collection[str], files: Files, store: FileStore) -> ds.Dataset:
    """The `used` columns of `files` with the types that the table declares; null what a file lacks.

    Reads all footers. Raises NotCovered for a file with another type than the declared one, and for CHAR, which Spark
    pads; ArrowInvalid, StoreUnavailable, FileNotFoundError.
    """
    columns = [column for column in (*spec.columns, *spec.partition_columns) if column.name in used]
    # Rows can be counted by any column; a partition's has no bytes.
    columns = columns or [(*spec.columns, *spec.partition_columns)[-1]]
    if padded := [column.name for column in columns if isinstance(column.type, Char)]:
        raise NotCovered(reason=f"the column {padded[0]} of {spec.name} is a CHAR")
    schema = pa.schema([pa.field(column.name, arrow_type(column.type)) for column in columns])
    keys = [column for column in columns if column in spec.partition_columns]
    kind = adapter(spec.format).dataset()
    system = PyFileSystem(FSSpecHandler(_Stored(store, {file.path: file.length for _, file in files})))

    def fragment(name: str, file: Finished) -> ds.FileFragment:
        made = kind.make_fragment(file.path, filesystem=system, partition_expression=_values(name, keys))
        _require_declared(file.path, made.physical_schema, schema, keys)
        return made

    fragments = store.run_parallel([partial(fragment, *named) for named in files])
    return ds.FileSystemDataset(fragments, schema, kind, filesystem=system)


def _values(name: str, keys: Sequence[Column]) -> ds.Expression | None:
    """What holds for each row of the partition `name`."""
    texts = dict(parse_path(name)) if keys else {}
    fields = [(ds.field(key.name), pa.scalar(texts[key.name], pa.string()).cast(arrow_type(key.type))) for key in keys]
    facts = [field == value if value.is_valid else field.is_null() for field, value in fields]
    return reduce(and_, facts) if facts else None


def _require_declared(path: str, file: pa.Schema, schema: pa.Schema, keys: Sequence[Column]) -> None:
    """Raise NotCovered where Arrow would read a column otherwise than Spark, or, by its name in another case, not."""
    for field in file:
        if (index := schema.get_field_index(field.name.lower())) >= 0:
            declared, is_key = schema.field(index), index >= len(schema) - len(keys)
            if is_key or field.name != declared.name or not _reads_as(field.type, declared.type):
                wanted = f"the {'partition ' if is_key else ''}column {declared.name} {spark_name(declared.type)}"
                raise NotCovered(reason=f"the file {path} has {field.name} {spark_name(field.type)} for {wanted}")


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


class _Stored(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """A table's files to Arrow, through the store's own way to open them."""

    cachable = False

    def __init__(self, store: FileStore, lengths: Mapping[str, int]) -> None:
        super().__init__()
        self._store = store
        self._lengths = lengths

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        return {"name": path, "size": self._lengths[path], "type": "file"}

    def _open(self, path: str, *_: Any, **__: Any) -> BinaryIO:
        return _File(self._store.open(path))  # type: ignore[arg-type]  # every store's has readinto


class _File(io.BufferedReader):
    """Arrow forgets files without closing them."""

    def __del__(self) -> None:
        self.close()
