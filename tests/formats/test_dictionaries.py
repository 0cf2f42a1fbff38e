"""Which columns get a dictionary by themselves: those whose values repeat, however deep they are."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hivesink.formats.dictionaries import Dictionaries
from hivesink.formats.parquet import ParquetFormat
from tests.formats.test_parquet import NULLS, ROW, SCHEMA, chunks, rows, written


def having(name: str, column: list[Any]) -> tuple[str, ...]:
    return Dictionaries().of(pa.table({name: column}))


@pytest.mark.parametrize(
    ("column", "has_one"),
    [
        ([1, 2, 1, 2], True),
        ([1, 2, 3, 1], False),
        ([None, None, "a", "a"], True),
        ([None, None, None, "a"], False),
        ([None, None], False),
        ([True, True, True, True], False),
        ([float("nan")] * 4, True),
        ([1] * 2, True),
        ([], False),
    ],
)
def test_half_of_the_values_may_be_distinct(column: list[Any], has_one: bool) -> None:
    assert (having("a", column) == ("a",)) == has_one


def test_nested_values_count_alone() -> None:
    deep = [{"same": 1, "list": [{"own": n, "same": "x"}, {"own": -n, "same": "x"}]} for n in range(1, 20)]
    assert having("a", deep) == ("a.same", "a.list.list.element.same")


def test_every_type_has_one_where_a_file_says_so() -> None:
    table = rows(*[ROW] * 100, NULLS)
    form = ParquetFormat(SCHEMA)
    stream = written(table, form=form)
    paths = {path for path, column in chunks(stream).items() if column.has_dictionary_page}
    others = {path for path, column in chunks(stream).items() if column.physical_type == "BOOLEAN"}
    assert paths == chunks(stream).keys() - others - {"rec.d"}  # which is null in all rows
    assert set(Dictionaries().of(table)) == paths
    assert pq.read_table(stream, coerce_int96_timestamp_unit="us").equals(table)


def test_a_larger_sample_decides_again_and_a_slice_counts_alone() -> None:
    found = Dictionaries()
    assert found.of(pa.table({"a": [[1, 1]]})) == ("a.list.element",)
    assert found.of(pa.table({"a": [[1, 2], [3, 4]]})) == ("a.list.element",)
    assert found.of(pa.table({"a": [[1, 2], [3, 4], [5, 6]]})) == ()
    repeated = pa.table({"a": [[n] for n in range(100)] + [[7]] * 100})
    assert found.of(repeated.slice(100)) == ("a.list.element",)
    assert found.of(repeated.slice(0, 100)) == ("a.list.element",)


def test_maps_count_in_their_slice() -> None:
    kind = pa.map_(pa.string(), pa.int32())
    # Distinct in the first rows, repeated in the whole.
    table = pa.table({"m": pa.array([[(f"k{n}", n)] for n in range(50)] + [[("k", 7)]] * 100, kind)})
    assert Dictionaries().of(table.slice(0, 50)) == ()
    assert Dictionaries().of(table.slice(50)) == ("m.key_value.key", "m.key_value.value")
    assert Dictionaries().of(table) == ("m.key_value.key", "m.key_value.value")
