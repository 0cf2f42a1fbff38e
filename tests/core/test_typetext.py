"""Hive type text to types and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivesink.core.table import Array, Char, Decimal, HiveType, Map, Primitive, Struct, Varchar
from hivesink.core.typetext import parse_type, refusal
from hivesink.errors import TypeTextInvalid

PRIMITIVES: st.SearchStrategy[HiveType] = st.one_of(
    st.sampled_from(Primitive),
    st.integers(1, 38).flatmap(lambda p: st.builds(Decimal, st.just(p), st.integers(0, p))),
    st.builds(Char, st.integers(1, 255)),
    st.builds(Varchar, st.integers(1, 65535)),
)
FIELD_NAMES = st.one_of(
    st.from_regex(r"[a-z_0-9$]([a-z0-9_$. ]{0,5}[a-z0-9_$])?", fullmatch=True),
    st.sampled_from(["struct", "array", "int", "comment", "ärger", "double precision"]),
)


def _nested(inner: st.SearchStrategy[HiveType]) -> st.SearchStrategy[HiveType]:
    fields = st.dictionaries(FIELD_NAMES, inner, min_size=1, max_size=4)
    return st.one_of(
        st.builds(Array, inner),
        st.builds(Map, PRIMITIVES, inner),
        fields.map(lambda found: Struct(tuple(found.items()))),
    )


TYPES = st.recursive(PRIMITIVES, _nested, max_leaves=8)


@given(TYPES)
def test_round_trip(kind: HiveType) -> None:
    assert parse_type(str(kind)) == kind


@given(TYPES)
def test_case_and_blanks_do_not_matter(kind: HiveType) -> None:
    spread = str(kind).upper().replace("<", " < ").replace(",", " , ").replace(">", " > ").replace(":", " : ")
    assert parse_type(f"\t{spread}\n") == kind


@given(st.text())
def test_any_text_that_is_no_type_raises_one_error_only(text: str) -> None:
    try:
        kind = parse_type(text)
    except TypeTextInvalid:
        return
    assert parse_type(str(kind)) == kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("INTEGER", Primitive.INT),
        ("Double   Precision", Primitive.DOUBLE),
        ("decimal", Decimal(10, 0)),
        ("numeric(5)", Decimal(5, 0)),
        ("dec(38,38)", Decimal(38, 38)),
        ("char(0010)", Char(10)),
        ("struct<`a``b`:int>", None),
        ("struct<`A b`:int,b.c:string>", Struct((("a b", Primitive.INT), ("b.c", Primitive.STRING)))),
        ("map<decimal(3,2),array<struct<a:char(2)>>>", Map(Decimal(3, 2), Array(Struct((("a", Char(2)),))))),
    ],
)
def test_examples(text: str, kind: HiveType | None) -> None:
    if kind is None:
        with pytest.raises(TypeTextInvalid):
            parse_type(text)
    else:
        assert parse_type(text) == kind


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "expected a type at the end"),
        ("uniontype<int,string>", "UNIONTYPE is not supported"),
        ("timestamp with local time zone", "TIMESTAMP WITH LOCAL TIME ZONE is not supported"),
        ("int64", "the sink knows no Hive type INT64"),
        ("decimal(0)", "DECIMAL(p,s) needs"),
        ("decimal(39)", "DECIMAL(p,s) needs"),
        ("decimal(3,4)", "DECIMAL(p,s) needs"),
        ("decimal(3,1,1)", "DECIMAL(p,s) needs"),
        ("decimal(" + "9" * 5000 + ")", "DECIMAL(p,s) needs"),
        ("decimal(a)", "'(a)' is left over"),
        ("char(256)", "a length from 1 to 255"),
        ("varchar(65536)", "a length from 1 to 65535"),
        ("varchar", "a length from 1 to 65535"),
        ("map<array<int>,int>", "a MAP's key must be a primitive type, not array<int>"),
        ("struct<a:int,A:string>", "two fields 'a'"),
        ("struct<a:int", "expected '>' of struct at the end"),
        ("array<int>>", "'>' is left over"),
        ("int(3)", "INT takes no length"),
        ("array<" * 51 + "int" + ">" * 51, "nested deeper than 50 levels"),
    ],
)
def test_refused(text: str, reason: str) -> None:
    with pytest.raises(TypeTextInvalid) as caught:
        parse_type(text)
    assert reason in caught.value.reason


def test_refusal_names_only_what_is_no_type() -> None:
    assert refusal("int") is None
    assert refusal("map") is None
    assert refusal(")") is None
    assert "UNIONTYPE" in (refusal("UnionType") or "")
    assert "BIGIT" in (refusal("bigit") or "")
