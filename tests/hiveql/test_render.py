"""TableSpec to DDL and back."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hivesink.core.table import (
    Array,
    Char,
    Column,
    Decimal,
    HiveType,
    Map,
    Primitive,
    Struct,
    TableName,
    TableSpec,
    Varchar,
)
from hivesink.hiveql.parse import parse_ddl
from hivesink.hiveql.render import render

WORDS = ["select", "table", "comment", "date", "int", "struct", "partition", "not", "null", "default", "primary", "map"]
NAMES = st.one_of(st.from_regex(r"[a-z_][a-z0-9_]{0,5}", fullmatch=True), st.sampled_from(WORDS))
TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)
PRIMITIVES: st.SearchStrategy[HiveType] = st.one_of(
    st.sampled_from([kind for kind in Primitive if kind is not Primitive.BINARY]),
    st.builds(Decimal, st.integers(5, 38), st.integers(0, 5)),
    st.builds(Char, st.integers(1, 255)),
    st.builds(Varchar, st.integers(1, 65535)),
)


def _nested(inner: st.SearchStrategy[HiveType]) -> st.SearchStrategy[HiveType]:
    fields = st.dictionaries(NAMES, inner, min_size=1, max_size=3)
    return st.one_of(
        st.builds(Array, inner),
        st.builds(Map, PRIMITIVES, inner),
        fields.map(lambda found: Struct(tuple(found.items()))),
    )


COLUMNS = st.builds(Column, NAMES, st.recursive(PRIMITIVES, _nested, max_leaves=4), st.none() | TEXTS, st.booleans())
PARTITION_COLUMNS = st.builds(Column, NAMES.map(lambda name: f"p_{name}"), PRIMITIVES, st.none() | TEXTS)


def _by_name(column: Column) -> str:
    return column.name


SPECS = st.builds(
    TableSpec,
    st.builds(TableName, NAMES, NAMES),
    st.lists(COLUMNS, min_size=1, max_size=4, unique_by=_by_name).map(tuple),
    st.lists(PARTITION_COLUMNS, max_size=2, unique_by=_by_name).map(tuple),
    st.none() | TEXTS.map(lambda text: f"/{text}"),
    st.none() | TEXTS,
    st.booleans(),
    st.just("PARQUET"),
    st.dictionaries(TEXTS.map(lambda text: f"x.{text}"), TEXTS, max_size=3).map(
        lambda found: tuple(sorted(found.items()))
    ),
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(SPECS)
def test_round_trip(spec: TableSpec) -> None:
    assert parse_ddl(render(spec), "f.sql", lambda _: ()) == spec
