"""Records that hold many: each element is a row, and what is broken is a dead letter with its place."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hivesink.config.options import SinkConfig
from hivesink.core.column_source import ELEMENT, RECORD
from hivesink.decode.json.explode import ExplodedDecoder, split, split_exactly
from hivesink.decode.reader import RowsReader
from hivesink.decode.values import InvalidValue
from hivesink.errors import InvalidOption
from hivesink.ports.rows import DecodedRows
from tests.decode.settings import declared
from tests.decode.test_fast_agrees import objects, plain

WRAPPED = [
    b'{"Records": [{"id": 1, "at": "2024-03-05T06:07:08Z"}, {"id": 2, "at": "2024-03-05T06:07:09Z"}]}',
    b'{"Records":[{"id":3,"at":"2024-03-05T06:07:10Z"},{"id":4',
    b'{"Records": []}',
    b'{"Records": [{"id": 5, "at": "2024-03-05T06:07:11Z"}, {"id": "six", "at": "2024-03-05T06:07:12Z"}]}',
]


def read(records: Sequence[bytes | None], kinds: str, explode: str = "$.Records", **options: str) -> DecodedRows:
    texts = {name.replace("__", ".").replace("_", "-"): text for name, text in options.items()}
    config = SinkConfig.parse({"sink.json.explode": explode, **texts})
    batch = pa.RecordBatch.from_pydict({"value": pa.array(records, pa.binary()), "offset": range(len(records))})
    rows = RowsReader(declared(kinds), "value", config).read(batch)
    assert rows.parts is not None
    accounted = rows.table.num_rows + len(rows.bad) + rows.skipped
    assert accounted == rows.parts.num_rows
    return rows


def letters(rows: DecodedRows) -> list[tuple[Any, ...]]:
    """Record, element, what it holds, field and reason of each bad row."""
    assert rows.parts is not None
    named = {name: rows.parts.column(name).to_pylist() for name in (RECORD, ELEMENT, "value", "offset")}
    told = []
    for row in rows.bad:
        text = b"".join(part for part in named["value"][row.index].values() if part is not None)
        assert named["offset"][row.index] == named[RECORD][row.index]
        told.append((named[RECORD][row.index], named[ELEMENT][row.index], text, row.field, row.reason))
    return told


def test_each_element_is_a_row_and_what_is_broken_has_its_place() -> None:
    rows = read([*WRAPPED, None], "id int, at timestamp")
    assert rows.table.column("id").to_pylist() == [1, 2, 5]
    assert letters(rows) == [
        (1, None, WRAPPED[1], None, "not JSON"),
        (3, 1, b'{"Records": [{"id": "six", "at": "2024-03-05T06:07:12Z"}]}', "id", "wrong type: text into int"),
    ]
    # The empty list, and the tombstone.
    assert rows.skipped == 2


def test_a_dead_letter_of_an_element_gives_that_row_alone() -> None:
    """As a replay reads it, once `id` is a STRING."""
    (letter,) = (text for _, element, text, *_ in letters(read(WRAPPED, "id int")) if element is not None)
    assert read([letter], "id string").table.to_pylist() == [{"id": "six"}]


OUTER = {"sink__column__account__from": "$.account", "sink__column__arn__from": "$.Records.who.arn"}


@pytest.mark.parametrize(
    ("record", "right"),
    [
        ('{"account": 7, "Records": [{"id": 1, "who": {"arn": "a"}}, {"id": 2}]}', [(1, 7, "a"), (2, 7, None)]),
        ('{"Records" : [ {"id": 1} , {"id":2}\n] , "x": [{"id": 9}], "account":7}', [(1, 7, None), (2, 7, None)]),
        ('{"x": [{"id":1}], "records": [{"id":1}]}', [(1, None, None)]),
        ('{"account": 7, "Records": [ ]}', []),
        ('{"account": "x", "Records": [{"id": 1}, {"id": 2}]}', (None, "account", "wrong type: text into int")),
        ('{"account": "x", "Records": []}', (None, "account", "wrong type: text into int")),
        ('{"account": 7}', (None, "records", "missing")),
        ('{"Records": null}', (None, "records", "null")),
        ('{"Records": {"id": 1}}', (None, "records", "wrong type: object into array<string>")),
        ('{"Records": "[]"}', (None, "records", "wrong type: text into array<string>")),
        ('{"Records": [], "records": []}', (None, "records", "duplicate field")),
        ('{"Records": [], "Records": []}', (None, "records", "duplicate field")),
        ("[]", (None, None, "not a JSON object")),
        ("", (None, None, "empty, not JSON")),
        ('{"Records": [null]}', (0, None, "not a JSON object")),
        ('{"Records": [[{"id": 1}]]}', (0, None, "not a JSON object")),
        ('{"Records": [{"id": 1, "id": 2}]}', (0, "id", "duplicate field")),
        ('{"Records": [{"id": 1}], "a": 01}', (None, None, "not JSON")),
        ('{"Records": [{"id": 1},]}', (None, None, "not JSON")),
        ('{"Records": [{"id": 1}]} {}', (None, None, "not JSON")),
    ],
)
def test_what_a_record_beside_its_list_is(record: str, right: Any) -> None:
    rows = read([record.encode()], "id int, account int, arn string", **OUTER)
    if isinstance(right, list):
        assert (letters(rows), [tuple(row.values()) for row in rows.table.to_pylist()]) == ([], right)
        assert rows.skipped == (not right)
        return
    assert [(element, field, reason) for _, element, _, field, reason in letters(rows)] == [right]
    assert rows.table.num_rows == 0


def test_only_the_element_that_is_not_utf8_is_bad() -> None:
    rows = read([b'{"Records": [{"id": 1, "s": "\xff"}, {"id": 2, "s": "\xc3\xa4"}]}'], "id int, s string")
    assert rows.table.to_pylist() == [{"id": 2, "s": "ä"}]
    assert letters(rows) == [(0, 0, b'{"Records": [{"id": 1, "s": "\xff"}]}', None, "not UTF-8")]
    assert letters(read([b'{"Records": [], "s": "\xff"}'], "id int"))[0][1:] == (
        None, b'{"Records": [], "s": "\xff"}', None, "not UTF-8"
    )  # fmt: skip


@pytest.mark.long
def test_a_column_that_would_be_too_long_for_arrow_makes_a_bad_record() -> None:
    """It is alone in its slice, and those after it are given again."""
    long = b'{"account": "%b", "Records": [%b]}' % (b"a" * 250_000, b",".join([b'{"id": 1}'] * 9000))
    rows = read([long, WRAPPED[0]], "id int, account string", sink__column__account__from="$.account")
    assert letters(rows) == [(0, None, long, None, "a column would take more than 2 GB")]
    assert rows.parts is not None
    assert rows.parts.num_rows == 1


def test_a_record_that_is_a_list_itself() -> None:
    given = [b' [{"id": 1, "user": {"id": 7}}, {"id": "x"}] ', b"[]", b'{"id": 1}', b"[", None]
    rows = read(given, "id int, user bigint", explode="$", sink__column__user__from="$.user.id")
    assert rows.table.to_pylist() == [{"id": 1, "user": 7}]
    assert [(record, element, text, reason) for record, element, text, _, reason in letters(rows)] == [
        (0, 1, b' [{"id": "x"}] ', "wrong type: text into int"),
        (2, None, b'{"id": 1}', "not a JSON array"),
        (3, None, b"[", "not JSON"),
    ]
    assert rows.skipped == 2


def test_a_table_of_nothing_but_what_is_beside_the_list() -> None:
    rows = read(
        WRAPPED[:1] + WRAPPED[2:3], "n int, o bigint", sink__column__n__from="$.n", sink__column__o__from="kafka.offset"
    )
    assert rows.table.to_pylist() == [{"n": None, "o": 0}] * 2


def test_a_list_deep_in_the_record_and_unknown_fields() -> None:
    record = b'{"detail": [{"items": [{"id": 1}]}, 5], "more": 1}'
    assert read([record], "id int", explode="$.detail[0].items").table.to_pylist() == [{"id": 1}]
    strict = {"sink__on-unknown-field".replace("-", "_"): "bad-record"}
    assert letters(read([record], "id int", explode="$.detail[0].items", **strict))[0][3:] == ("more", "unknown field")
    given = [b'{"Records": [{"id": 1, "x": 2}, {"id": 3}]}']
    rows = read(given, "id int", **strict)
    assert (rows.table.to_pylist(), letters(rows)[0][1:]) == (
        [{"id": 3}], (0, b'{"Records": [{"id": 1, "x": 2}]}', "x", "unknown field")
    )  # fmt: skip


def test_tombstones_may_be_bad() -> None:
    rows = read([None, b'{"Records": []}'], "id int", sink__on_tombstone="bad-record")
    assert (letters(rows), rows.skipped) == ([(0, None, b"", None, "no value (tombstone)")], 1)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"sink.json.explode": "Records"}, "write the path to a list"),
        ({"sink.json.explode": "$.Records[*]"}, "not a path from"),
        ({"sink.json.explode": "$.Records", "sink.column.id.from": "$.records"}, "leads to the list"),
    ],
)
def test_what_is_refused(options: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidOption, match=told):
        RowsReader(declared("id int"), "value", SinkConfig.parse(options))


TEXTS = ["Records", "records", "x", "Re\\u0063ords", 'q\\"', "ä"]
values = st.recursive(
    st.sampled_from(["1", "01", "null", '"a"', '"\\""', '"[{}]"', "{}", "[]", '"\\q"', '"ä"', "tru", '"]"']),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{','.join(items)}]"),
        st.lists(inner, max_size=3).map(lambda items: f"[ {' , '.join(items)} ]"),
        st.lists(st.tuples(st.sampled_from(TEXTS), inner), max_size=3).map(
            lambda items: "{" + ", ".join(f'"{name}" :{value}' for name, value in items) + "}"
        ),
    ),
    max_leaves=8,
)


@given(values, st.sampled_from(["records", "x", "", "records.x", "x.records"]), st.sampled_from(["", " ", "x"]))
@example('{"x": [{}], "Records": [{}]}', "records", "")
@example('{"Re\\u0063ords": [1], "x": 1}', "records", "")
def test_a_list_is_found_as_by_the_exact_scanner(text: str, path: str, around: str) -> None:
    record, steps = f"{around}{text}{around}".encode(), tuple(filter(None, path.split(".")))
    fast, exact = split(record, steps), split_exactly(record, steps)
    if exact is None:
        assert fast is None
        return
    assert fast is not None
    assert fast._replace(elements=[bytes(part) for part in fast.elements]) == exact
    alone = [json.loads(b"%b%b%b" % (exact.before, part, exact.after)) for part in exact.elements]
    whole: Any = json.loads(record)
    for step in steps:
        whole, alone = _step(whole, step), [_step(part, step) for part in alone]
    assert alone == [[item] for item in whole]


def _step(value: dict[str, Any], step: str) -> Any:
    (found,) = (item for name, item in value.items() if name.lower() == step)
    return found


COLUMNS = declared("a int!, b string, x int")
elements = st.one_of(plain, objects, values)
wrapped = st.one_of(
    st.builds(
        '{{"x": {},{}"Records":{}[{}]}}'.format,
        st.sampled_from(["1", '"y"', "null", "01"]),
        st.sampled_from(["", " ", '"records": [], ', '"more": [{"a": 1}],']),
        st.sampled_from(["", " "]),
        st.lists(elements, max_size=3).map(", ".join),
    ),
    values,
)


@given(
    st.lists(st.lists(wrapped, min_size=1, max_size=4), min_size=1, max_size=2),
    st.sampled_from(["ignore", "bad-record"]),
)
def test_agrees_with_the_exact_decoder(batches: list[list[str]], unknown: str) -> None:
    options = {"sink.json.explode": "$.Records", "sink.column.x.from": "$.x", "sink.on-unknown-field": unknown}
    decoder = ExplodedDecoder(COLUMNS, SinkConfig.parse(options))
    for batch in batches:
        rows, refused, places, skipped = list[Any](), list[Any](), list[tuple[int, int | None]](), 0
        for place, record in enumerate(batch):
            try:
                part = split_exactly(record.encode(), ("records",))
                text = record.encode() if part is None else part.before + part.after
                beside, _ = decoder._envelopes.exact.row(text)
                assert part is not None
            except InvalidValue as error:
                error.path = ["records" if step == "\0list" else step for step in error.path]
                refused.append(error.bad_row(len(places)))
                places.append((place, None))
                continue
            skipped += not part.elements
            places += [] if part.elements else [(place, None)]
            for number, element in enumerate(part.elements):
                try:
                    rows.append([*decoder._elements.exact.row(bytes(element)), beside])
                except InvalidValue as error:
                    refused.append(error.bad_row(len(places)))
                places.append((place, number))
        decoded = decoder.decode(pa.array(batch, pa.string()))
        assert [list(row.values()) for row in decoded.table.to_pylist()] == rows
        assert (decoded.bad, decoded.skipped) == (tuple(refused), skipped)
        assert decoded.parts is not None
        found = (decoded.parts.column(name).to_pylist() for name in (RECORD, ELEMENT))
        assert list(zip(*found, strict=True)) == places
