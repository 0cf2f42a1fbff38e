"""What DuckDB reads of a table's files, and what only Spark does: tests/integration/test_query_engines.py asks both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hivesink.config.options import SinkConfig
from hivesink.core.partfile import Finished
from hivesink.core.table import Column, TableName, TableSpec
from hivesink.core.typetext import parse_type
from hivesink.errors import NotCovered
from hivesink.formats import adapter
from hivesink.storage.local import LocalFileSystem, posix
from hivesink.storage.rename_store import RenameFileStore
from hivesink.tables.duck import table_dataset


def read(folder: Path, form: str, kinds: dict[str, str], rows: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """What a table of these columns has of a file of `rows`."""
    path, table = folder / "file", pa.table(rows)
    with path.open("wb") as stream:
        records = adapter(form).of(table.schema, SinkConfig.parse({})).open(stream)
        records.write(table)
        records.close()
    spec = TableSpec(
        TableName("d", "t"), tuple(Column(name, parse_type(kind)) for name, kind in kinds.items()), format=form
    )
    store, file = RenameFileStore(LocalFileSystem()), Finished(str(path), path.stat().st_size)
    by_store, by_arrow = (
        table_dataset(spec, {"text"}, [("", file)], store, path_of).to_table().to_pylist() for path_of in (None, posix)
    )
    assert by_store == by_arrow
    return list(by_store)


@pytest.mark.parametrize("form", ["ORC", "PARQUET"])
def test_a_file_without_any_of_the_columns_is_left_to_spark(form: str, tmp_path: Path) -> None:
    kinds = {"id": "int", "text": "string"}
    assert read(tmp_path, form, kinds, {"id": [1], "_col0": ["a"]}) == [{"text": None}]
    assert read(tmp_path, form, kinds, {"text": ["a"]}) == [{"text": "a"}]
    with pytest.raises(NotCovered, match=r"file has no column of d\.t"):
        read(tmp_path, form, kinds, {"_col0": [1], "_col1": ["a"]})


@pytest.mark.parametrize(
    ("kind", "has"),
    [
        ("char(3)", "is a CHAR"),
        ("array<char(3)>", "has a CHAR"),
        ("struct<a:map<char(3),int>>", "has a CHAR"),
        ("struct<char:varchar(3)>", None),
    ],
)
def test_a_char_is_padded_by_spark_alone(kind: str, has: str | None, tmp_path: Path) -> None:
    if has is None:
        assert read(tmp_path, "ORC", {"id": "int", "text": kind}, {"id": [1]}) == [{"text": None}]
    else:
        with pytest.raises(NotCovered, match=f"text of d.t {has}"):
            read(tmp_path, "ORC", {"id": "int", "text": kind}, {"id": [1]})
