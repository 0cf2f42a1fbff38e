"""CSV: each line of cases/csv.txt, and the splitter of chunks against the exact decoder on any input."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivesink.config.options import SinkConfig
from hivesink.core.table import Column, HiveType
from hivesink.decode.csv import CsvDecoder
from hivesink.errors import InvalidOption
from tests.decode.settings import PLAIN, declared
from tests.decode.test_cases import cases, told
from tests.decode.test_fast_agrees import KINDS, OPTIONS, assert_same, values

CASES = cases(Path(__file__).parent / "cases/csv.txt")
SIGNS = ("field-delimiter", "quote-character", "escape-character", "null-literal")


@pytest.mark.parametrize("name", CASES)
def test_cases(name: str) -> None:
    """Alone, which is a chunk, and beside another record."""
    case = CASES[name]
    for records in ([case.record], [b'"', case.record, b"1,2"], [case.record] * 3):
        decoded = CsvDecoder(case.columns, case.options).decode(pa.array(records, pa.binary()))
        assert told(decoded, records.index(case.record)) == case.expected


DIALECTS = st.sampled_from(
    [
        (",", '"', "none", None),
        (";", "'", "\\", ""),
        ("\\t", "none", "none", "NULL"),
        ("|", '"', "\\", "\\N"),
        (",", '"', "none", "[1]"),
        (",", '"', "none", "true"),
    ]
)
VISIBLE = """ a 1 ä NULL \\N \\ " " "" ' '' , ; | null"""
PIECES = [*VISIBLE.split(), " ", "\t", "\n", "\r\n", "\0"]
contents = st.one_of(
    values,
    values.map(lambda text: text.strip('"')),
    st.lists(st.sampled_from(PIECES), max_size=4).map("".join),
    st.sampled_from(["true", "false", "", "[1]", "5"]),
)


@given(
    st.lists(st.tuples(st.sampled_from(KINDS), st.booleans()), min_size=1, max_size=3),
    OPTIONS,
    DIALECTS,
    st.lists(st.lists(st.tuples(contents, st.sampled_from(["", "", "'", '"'])), max_size=4), min_size=1, max_size=8),
    st.sampled_from([b"", b"", b"\xff"]),
)
def test_chunks_agree_with_the_exact_decoder(
    kinds: list[tuple[HiveType, bool]],
    options: SinkConfig,
    signs: tuple[str | None, ...],
    rows: list[list[tuple[str, str]]],
    end: bytes,
) -> None:
    columns = [Column(name, kind, nullable=free) for name, (kind, free) in zip("abc", kinds, strict=False)]
    given = {f"sink.value.csv.{name}": text for name, text in zip(SIGNS, signs, strict=True) if text is not None}
    config = SinkConfig(
        {**SinkConfig.parse(given).values, **{k: v for k, v in options.values.items() if "csv" not in k}}
    )
    delimiter = config["sink.value.csv.field-delimiter"]
    texts = [delimiter.join(f"{quote}{text}{quote}" for text, quote in row) for row in rows]
    # The end of a line is no part of a record.
    batch = [re.sub(r"[\r\n]+\Z", "", text).encode("utf-8", "replace") for text in texts]
    batch[0] += end
    assert_same(columns, config, [batch, batch], CsvDecoder)


@given(
    st.lists(st.lists(st.text() | st.sampled_from(PIECES), min_size=2, max_size=2), min_size=1, max_size=9),
    st.booleans(),
)
def test_what_python_writes_is_read_back(rows: list[list[str]], quotes_all: bool) -> None:
    records = []
    for row in rows:
        stream = io.StringIO()
        csv.writer(stream, quoting=csv.QUOTE_ALL if quotes_all else csv.QUOTE_MINIMAL).writerow(row)
        records.append(stream.getvalue())
    decoded = CsvDecoder(declared("a string, b string"), PLAIN).decode(pa.array(records))
    assert decoded.bad == ()
    assert [[row["a"], row["b"]] for row in decoded.table.to_pylist()] == rows


def test_a_header_gives_names_and_is_skipped_by_its_text() -> None:
    columns = declared("id int, who string, twice string")
    header = {
        "sink.value.csv.header": "Name,Id,Other",
        "sink.column.who.from": "$.name",
        "sink.column.twice.from": "$.id",
    }
    decoder = CsvDecoder(columns, SinkConfig.parse(header))
    records = [b"Name,Id,Other", b"a,1,x", b"Name,Id,Other\r\n", b"name,id,other", b"b,2,y\n", None, b"c,3,z"]
    decoded = decoder.decode(pa.array(records, pa.binary()))
    assert [tuple(row.values()) for row in decoded.table.to_pylist()] == [(1, "a", "1"), (2, "b", "2"), (3, "c", "3")]
    assert decoded.good is not None
    assert decoded.good.to_pylist() == [1, 4, 6]
    assert [(bad.index, bad.field) for bad in decoded.bad] == [(3, "id")]
    assert decoded.skipped == 3


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"sink.value.csv.quote-character": ","}, "must differ"),
        ({"sink.value.csv.escape-character": '"'}, "must differ"),
        ({"sink.value.csv.header": 'a,"b'}, "sink.value.csv.header: not CSV in field 2"),
        ({"sink.value.csv.header": "a,c"}, "column b: sink.value.csv.header must have its field 'b'"),
        (
            {"sink.value.csv.header": "a,b,c", "sink.on-unknown-field": "bad-record"},
            "sink.value.csv.header: no column has its field 'c'",
        ),
        ({"sink.value.csv.header": "a,b,B"}, "column b: sink.value.csv.header must have its field 'b'"),
        ({"sink.column.a.from": "$.b.c"}, "column a: .* must have its field 'b'"),
        ({"sink.column.a.from": "$.b, $.c"}, "column a: .* must have its field 'b'"),
    ],
)
def test_what_can_not_be_read_is_refused_at_the_start(options: dict[str, str], problem: str) -> None:
    with pytest.raises(InvalidOption, match=problem):
        CsvDecoder(declared("a int, b int"), SinkConfig.parse(options))
