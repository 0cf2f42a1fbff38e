"""Each line of cases/records.txt, by every tier: a tier gives the row that the table says, or leaves the record."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hivesink.config.options import SinkConfig
from hivesink.core.table import Column, HiveType, Primitive
from hivesink.decode.arrowtypes import arrow_schema
from hivesink.decode.json.columns import JsonColumns
from hivesink.decode.json.decoder import JsonDecoder, KeyedDecoder, exact_batch
from hivesink.decode.json.exact import ExactDecoder
from hivesink.decode.json.shaped import ShapedDecoder
from hivesink.decode.values import InvalidValue
from hivesink.hiveql.parse import parse_ddl
from hivesink.ports.rows import BadRow, DecodedRows
from tests.decode.settings import PLAIN

FILE = Path(__file__).parent / "cases/records.txt"


def shown(value: Any) -> str:  # noqa: PLR0911  one for each kind of value
    """NULL, true, 1, 1.5, "text", x'6869', 2024-01-02, [list], {map: value}, (struct: value)."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case str():
            return json.dumps(value, ensure_ascii=False)
        case bytes():
            return f"x'{value.hex()}'"
        case date():
            return str(value)
        case float():
            return repr(value)
        case [tuple(), *_]:
            return "{" + ", ".join(f"{shown(key)}: {shown(item)}" for key, item in value) + "}"
        case list():
            return "[" + ", ".join(map(shown, value)) + "]"
        case dict():
            return "(" + ", ".join(f"{name}: {shown(item)}" for name, item in value.items()) + ")"
        case _:
            return str(value)


@dataclass(frozen=True)
class Case:
    columns: tuple[Column, ...]
    options: SinkConfig
    record: bytes
    expected: str

    @property
    def exact(self) -> ExactDecoder:
        return ExactDecoder(self.columns, self.options)


def cases(file: Path = FILE) -> dict[str, Case]:
    found: dict[str, Case] = {}
    kind, table = "", "TABLE"
    for line in file.read_text(encoding="utf-8").split("\n"):
        if heading := re.fullmatch(r"-- (value|records) of (.+?)(?:; (.+))?", line):
            kind, columns, properties = heading.groups()
            more = f" TBLPROPERTIES ({properties})" if properties else ""
            sql = f"CREATE TABLE t ({columns}) STORED AS PARQUET{more}"
            spec = parse_ddl(sql, "records.txt")
            options = SinkConfig.parse(dict(spec.properties))
            table = line[3:]
        elif line and not line.startswith("--"):
            text, expected = line.rsplit(" => ", 1)
            record = f'{{"{spec.columns[0].name}": {text}}}' if kind == "value" else text
            octets = ast.literal_eval(text) if text.startswith("b'") else record.encode()
            case = Case(spec.columns, options, octets, expected)
            assert found.setdefault(f"{table}: {text}", case).expected == expected
    return found


CASES = cases()


def row(batch: pa.RecordBatch | pa.Table, at: int) -> str:
    return " | ".join(shown(column[at].as_py()) for column in batch.columns)


def refusal(bad: BadRow) -> str:
    return f"! {bad.field}: {bad.reason}" if bad.field else f"! {bad.reason}"


def told(decoded: DecodedRows, at: int) -> str:
    """What became of the record at `at`."""
    for bad in decoded.bad:
        if bad.index == at:
            return refusal(bad)
    good = range(decoded.table.num_rows) if decoded.good is None else decoded.good.to_pylist()
    return row(decoded.table, list(good).index(at))


@pytest.mark.parametrize("name", CASES)
def test_exact(name: str) -> None:
    case = CASES[name]
    try:
        found = row(exact_batch([case.exact.row(case.record)], arrow_schema(case.columns)), 0)
    except InvalidValue as error:
        found = refusal(error.bad_row(0))
    assert found == case.expected


@pytest.mark.parametrize("name", CASES)
def test_keyed(name: str) -> None:
    case = CASES[name]
    keyed = KeyedDecoder(JsonColumns(case.exact))
    for before in ([], [b"{}"] * 2, [case.record] * 2):
        batch, doubt = keyed.decode(pa.array([*before, case.record], pa.binary()).view(pa.string()))
        assert doubt[-1] or row(batch, len(before)) == case.expected


@pytest.mark.parametrize("name", CASES)
def test_shaped(name: str) -> None:
    case = CASES[name]
    shaped = ShapedDecoder(JsonColumns(case.exact))
    for _ in range(2):
        for _, batch in shaped.decode(pa.array([case.record] * 3, pa.binary()).view(pa.string())):
            assert {row(batch, at) for at in range(batch.num_rows)} <= {case.expected}


@pytest.mark.parametrize("name", CASES)
def test_all_together(name: str) -> None:
    case = CASES[name]
    decoder = JsonDecoder(case.columns, case.options)
    for records in ([case.record], [case.record, b"{}"], [b"{}"] * 5 + [case.record] * 3):
        decoded = decoder.decode(pa.array(records, pa.binary()))
        at = records.index(case.record)
        assert told(decoded, at) == case.expected


P = Primitive


def decoder(kind: HiveType, options: SinkConfig = PLAIN) -> JsonDecoder:
    return JsonDecoder([Column("c", kind)], options)


def test_very_deep_and_very_long_values() -> None:
    deep = '{"c": "x", "other": ' + "[" * 100_000 + "]" * 100_000 + "}"
    long = '{"c": "' + "\\u00e4" * 1_000_000 + '"}'
    text = '{"c": ' + "[" * 5_000 + "]" * 5_000 + "}"
    decoded = decoder(P.STRING).decode(pa.array([deep, long, text, '{"c": 1' + "0" * 100_000 + "}"]))
    assert decoded.bad == ()
    lengths = [len(value) for value in decoded.table.column("c").to_pylist()]
    assert lengths == [1, 1_000_000, 10_000, 100_001]
