"""The types that a sample shows: rules one by one, and whatever JSON comes."""

from __future__ import annotations

import json
from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivesink.config.options import check
from hivesink.core.table import Column, Primitive, TableName, TableSpec
from hivesink.errors import InvalidOption
from hivesink.hiveql.parse import parse_ddl
from hivesink.hiveql.render import render
from hivesink.sample.infer import MOST_COLUMNS, Inferred, infer
from hivesink.sample.preview import preview, settings_of
from hivesink.sample.records import Line, Sample, of_lines

NOW = datetime(2026, 11, 23, tzinfo=timezone.utc)


def sample_of(*records: bytes) -> Sample:
    return of_lines([Line("f", number, record) for number, record in enumerate(records, 1)], len(records))


def _column(*values: str) -> tuple[str, str | None]:
    """The type and comment of a column with these JSON values."""
    (column,) = infer(f'{{"c": {value}}}'.encode() for value in values).columns
    return str(column.type), column.comment


@pytest.mark.parametrize(
    ("values", "kind", "comment"),
    [
        (["1", "null", "-0"], "bigint", None),
        (["9223372036854775807"], "bigint", None),
        (["1", "2.5", "1e3"], "double", None),
        ([*["1"] * 9, "2.5"], "double", None),
        ([*["1"] * 10, "2.5"], "double", "fractions (1) among whole numbers (10)"),
        (['{"n": 2.5}', *['{"n": 1}'] * 10], "struct<n:double>", "n: fractions (1) among whole numbers (10)"),
        (["9223372036854775808"], "string", "numbers beyond BIGINT or DOUBLE"),
        (["1e400"], "string", "numbers beyond BIGINT or DOUBLE"),
        (["9007199254740993", "0.5"], "string", "mixed: whole numbers beyond 2^53 (1), fractions (1)"),
        (["true", "false"], "boolean", None),
        (["1", "true", "2"], "string", "mixed: whole numbers (2), booleans (1)"),
        (['"a"', '"7"'], "string", None),
        (['"2024-01-02T03:04:05Z"', '"2024-01-02 03:04"'], "timestamp", None),
        (['"2024-01-02"'], "date", None),
        (['"2024-01-02"', '"2024-01-02 03:04"'], "string", "mixed: dates (1), timestamps (1)"),
        (['"2024-02-30"'], "string", None),
        (["null"], "string", "only null in the sample"),
        (["[]", "[null]"], "array<string>", "no value in any array of the sample"),
        (["[1]", "[2.5, null]"], "array<double>", None),
        (['[[1], ["a"]]'], "array<array<string>>", "[][]: mixed: whole numbers (1), texts (1)"),
        (["{}"], "map<string,string>", "only empty objects in the sample"),
        (
            ['{"A": 1}', '{"a": 2.5, "select": null}'],
            "struct<a:double,select:string>",
            "select: only null in the sample",
        ),
        (
            ['{"2024-01-01": 1, "x y": 2, "z": 2.5}'],
            "map<string,double>",
            (
                "a map: 2 of 3 keys can't be names of a STRUCT's fields; for types of their own: a STRUCT of the "
                "others, and sink.column.<name>.from for each of these"
            ),
        ),
        (
            ['{"a": 1, "A": 2, "num": true}'],
            "map<string,string>",
            "a map: keys of one object differ only in case; *: mixed: whole numbers (2), booleans (1)",
        ),
        (['{"u1": 1}', '{"u2": 2, "u3": 1}', "{}"], "struct<u1:bigint,u2:bigint,u3:bigint>", None),
        (
            ['{"u1": 1}', '{"u2": 2, "u3": 1}', '{"u4": 4}'],
            "map<string,bigint>",
            "a map: no key comes twice in 3 objects",
        ),
        (['{"a": 1}', '{"a": 1}', '{"b": 2}'], "struct<a:bigint,b:bigint>", None),
        (['{"a": 1, "a": 2}'], "string", "JSON text: a key comes twice in 1 of 1 objects"),
        (["{}", "[]"], "string", "mixed: objects (1), arrays (1)"),
    ],
)
def test_types(values: list[str], kind: str, comment: str | None) -> None:
    assert _column(*values) == (kind, comment)


def test_times_and_numbers_have_a_way_to_a_timestamp() -> None:
    kind, comment = _column('"2024-01-02 03:04"', "1704164640000")
    assert (kind, comment and comment.partition("; ")[::2]) == (
        "string",
        (
            "mixed: timestamps (1), whole numbers (1)",
            "a TIMESTAMP holds both if the numbers are milliseconds, not seconds: sink.timestamp-format = epoch-millis",
        ),
    )


def test_many_keys_that_each_come_seldom_are_data() -> None:
    kind, _ = _column(*(f'{{"user{number}": {number}}}' for number in range(30)))
    assert kind == "map<string,bigint>"
    kind, _ = _column(*("{" + ",".join(f'"f{number}": 1' for number in range(30)) + "}" for _ in range(3)))
    assert kind.startswith("struct<f0:bigint,")


def test_deep_nesting_ends_as_text() -> None:
    kind, comment = _column('{"a":' * 3000 + "1" + "}" * 3000)
    assert kind.count("struct") == 20
    assert comment is not None
    assert comment.endswith("…") or "nested deeper than 20 levels" in comment


@pytest.mark.parametrize(
    ("record", "name", "why"),
    [
        ('{"Id": 1, "id": 2}', "id", "most records have both Id and id, and Hive ignores case"),
        ('{"id": 1, "id": 2}', "id", "most records have it twice"),
        ('{"\\ud800": 1}', "\ud800", "its name has characters that don't print"),
        ('{"a\\nb": 1}', "a\nb", "its name has characters that don't print"),
        (f'{{"{"x" * 768}": 1}}', "x" * 768, "metastores keep 767 characters"),
    ],
)
def test_a_field_without_a_column_is_left_out(record: str, name: str, why: str) -> None:
    (left,) = infer([record.encode()]).left_out
    assert left.field == name
    assert left.why.startswith(why)


@pytest.mark.parametrize(
    ("field", "column", "path"),
    [
        ("@timestamp", "timestamp", '$["@timestamp"]'),
        ("Host.Name", "host_name", '$["host.name"]'),
        (" größe (mm) ", "größe_mm", '$[" größe (mm) "]'),
        ('a"b\\', "a_b", '$["a\\"b\\\\"]'),
        ("", "field", '$[""]'),
        ("%", "field", '$["%"]'),
        ("ROW__ID", "row__id_2", '$["row__id"]'),
    ],
)
def test_a_field_whose_name_no_column_can_have_gets_another(field: str, column: str, path: str) -> None:
    inferred = infer([json.dumps({field: 1}).encode()])
    (one,) = inferred.columns
    assert (one.name, dict(inferred.sources)) == (column, {f"sink.column.{column}.from": path})
    assert _bad([json.dumps({field: 1}).encode()], inferred) == []


def test_no_two_columns_get_one_name() -> None:
    inferred = infer([b'{"@a": 1, "a ": 2, "a_2": 3, "b.c": 4, "b_c": 5}'])
    names = [one.name for one in inferred.columns]
    assert names == ["a", "a_3", "a_2", "b_c_2", "b_c"]
    assert {one.comment for one in inferred.columns if one.name in ("a_2", "b_c")} == {None}


@pytest.mark.parametrize(
    ("odd", "why"),
    [
        (b'{"ok": "yes", "ok": 2}', "have it twice"),
        (b'{"ok": "yes", "OK": 2}', "have both ok and OK, and Hive ignores case"),
    ],
)
def test_a_field_that_few_records_have_twice_stays(odd: bytes, why: str) -> None:
    records = [odd, b'{"ok": true}', b'{"OK": false}']
    inferred = infer(records)
    (column,) = inferred.columns
    assert column == Column("ok", Primitive.BOOLEAN, f"1 of 3 records {why}: bad records")
    assert _bad(records, inferred) == [(0, "duplicate field")]


def test_a_table_has_so_many_columns() -> None:
    record = json.dumps({f"c{number}": 1 for number in range(MOST_COLUMNS + 2)})
    inferred = infer([record.encode()])
    assert (len(inferred.columns), len(inferred.left_out)) == (MOST_COLUMNS, 2)


def _bad(records: list[bytes], inferred: Inferred) -> list[tuple[int, str]]:
    """The records that don't fit; of the others nothing is lost that isn't told."""
    spec = TableSpec(TableName("a", "b"), inferred.columns, properties=tuple(sorted(inferred.sources.items())))
    try:
        assert parse_ddl(render(spec), "t.sql", check) == spec
    except InvalidOption as error:
        raise AssertionError(render(spec)) from error
    bad = preview(sample_of(*records), spec, settings_of(spec), NOW).bad
    # A bad record is kept whole.
    good = [record for index, record in enumerate(records) if index not in {row.index for row in bad}]
    unknown = preview(sample_of(*good), spec, settings_of(spec), NOW).unknown
    assert set(unknown) <= {one.field for one in inferred.left_out}
    return [(row.index, row.reason) for row in bad]


_texts = st.text(max_size=8) | st.sampled_from(
    ["2024-01-02", "2024-01-02T03:04:05Z", "0001-01-01T00:00+01:00", "9999-12-31 23:59", "7", "", "select", "NaN"]
)
_names = st.text(max_size=6) | st.sampled_from(
    ["a", "A", "b", "select", "1", "x y", "x.y", "é", "É", "ß", "İ", "\u212a", "k"]
)
_numbers = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | st.integers(-5, 5)
_scalars = st.none() | st.booleans() | _numbers | _texts
_json = st.recursive(
    _scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names, inner, max_size=4), max_leaves=8
)


@given(st.lists(st.dictionaries(_names, _json, max_size=4), max_size=6))
def test_the_columns_decode_whatever_they_were_told_from(records: list[dict[str, object]]) -> None:
    raw = [json.dumps(record).encode() for record in records]
    inferred = infer(raw)
    if inferred.columns:
        bad = _bad(raw, inferred)
        assert {reason for _, reason in bad} <= {"duplicate field"}
        assert all(len({name.lower() for name in records[index]}) < len(records[index]) for index, _ in bad)
    assert all(column.comment is None or len(column.comment) <= 255 for column in inferred.columns)


@given(st.lists(st.binary(max_size=20), max_size=3))
def test_what_is_no_json_is_no_column(records: list[bytes]) -> None:
    assert infer([*records, None]).columns == infer(records).columns
