"""What every decoder promises; one joins by its line in `DECODERS`, and by how its records are written here."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from hivesink.config.options import SinkConfig
from hivesink.core.table import Column, Primitive
from hivesink.decode.arrowtypes import arrow_schema
from hivesink.decode.avro.schema import parse
from hivesink.decode.protobuf.schema import described, parsed
from hivesink.decode.reader import DECODERS, RowsReader, decoder_of
from hivesink.errors import InvalidOption
from hivesink.ports.rows import BadRow, DecodedRows, Decoder

NAMED = {"sink.value.protobuf.message-name": "R"}
COLUMNS = [Column("id", Primitive.INT, nullable=False), Column("name", Primitive.STRING)]


class TabsDecoder:
    """A sketch of another format: an INT and a STRING with a tab between them."""

    def __init__(self, columns: Sequence[Column], options: SinkConfig) -> None:
        self._schema = arrow_schema(columns)
        self._skips = options["sink.on-tombstone"].value == "skip"

    def decode(self, records: pa.Array) -> DecodedRows:
        rows, good, bad, skipped = [], list[int](), list[BadRow](), 0
        for index, record in enumerate(records.cast(pa.large_binary()).to_pylist()):
            if record is None:
                skipped += self._skips
                bad += [] if self._skips else [BadRow(index, None, "no value (tombstone)")]
                continue
            number, tab, name = record.partition(b"\t")
            if tab and number.isdigit():
                rows.append({"id": int(number), "name": name.decode() or None})
                good.append(index)
            else:
                bad.append(BadRow(index, "id", "no number"))
        table = pa.Table.from_pylist(rows, schema=self._schema)
        everything = table.num_rows == len(records)
        return DecodedRows(table, None if everything else pa.array(good, pa.int32()), tuple(bad), skipped)


def _json(number: int | None, name: str | None) -> bytes:
    return json.dumps({"id": number, "name": name}, ensure_ascii=False).encode()


def _separated(sign: str, number: int | None, name: str | None) -> bytes:
    return f"{'' if number is None else number}{sign}{name or ''}".encode()


def _avro(number: int | None, name: str | None) -> bytes:
    zigzag = b"\0" if number is None else b"\2" + varint(number << 1)
    text = b"\0" if name is None else b"\2" + varint(2 * len(name.encode())) + name.encode()
    return zigzag + text


def varint(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def _schema(**fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}


def _protobuf(number: int | None, name: str | None) -> bytes:
    octets = (name or "").encode()
    text = b"" if name is None else b"\x12" + varint(len(octets)) + octets
    return (b"" if number is None else b"\x08" + varint(number)) + text


_ROW = _schema(id=["null", "int"], name=["null", "string"])
_FIELDS = [{"name": "id", "number": 1, "label": 1, "type": 5}, {"name": "name", "number": 2, "label": 1, "type": 9}]
_FILE = {"name": "a", "message_type": [{"name": "R", "field": _FIELDS}]}
TEXTS: dict[Any, str] = {
    parse: json.dumps(_ROW),
    described: FileDescriptorSet(file=[_FILE]).SerializeToString().decode(),
    parsed: 'syntax = "proto2"; message R { optional int32 id = 1; optional string name = 2; }',
}


class Both:
    """The schemas of what `_avro` writes, and of its changes, or what else `parse` can read, from wherever."""

    change = (json.dumps({**_schema(after=["null", _ROW], before=["null", "R"], op="string"), "name": "E"}),)

    def __init__(self, _: SinkConfig, parse: Any) -> None:
        self.texts = (TEXTS[parse],)

    def file(self) -> tuple[str, Sequence[str]]:
        return "", self.texts

    def registered(self, numbers: Sequence[int]) -> Mapping[int, Sequence[str]]:
        return {number: texts for number, texts in ((7, self.texts), (8, self.change)) if number in numbers}


WRITTEN: dict[str, Callable[[int | None, str | None], bytes]] = {
    "json": _json,
    "tabs": partial(_separated, "\t"),
    "csv": partial(_separated, ","),
    "avro": _avro,
    "avro-confluent": lambda *row: b"\0\0\0\0\7" + _avro(*row),
    "debezium-json": lambda *row: b'{"op":"c","after":%b}' % _json(*row),
    "debezium-avro-confluent": lambda *row: b"\0\0\0\0\x08\2" + _avro(*row) + b"\0\2c",
    "protobuf": _protobuf,
    "protobuf-confluent": lambda *row: b"\0\0\0\0\7\0" + _protobuf(*row),
}


@pytest.fixture(params=WRITTEN)
def format_name(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(DECODERS, "tabs", TabsDecoder)
    assert set(WRITTEN) == {*DECODERS}
    return str(request.param)


def read(format_name: str, records: Any, **settings: str) -> DecodedRows:
    config = SinkConfig.parse(
        {"sink.value.format": format_name, "sink.value.csv.null-literal": "", **NAMED, **settings}
    )
    reader = RowsReader(COLUMNS, "value", config, schemas=Both)
    return reader.read(pa.RecordBatch.from_arrays([records], ["value"]))


def made(format_name: str) -> Decoder:
    return decoder_of(COLUMNS, SinkConfig.parse({"sink.value.format": format_name, **NAMED}), Both)


@pytest.mark.parametrize("kind", [pa.binary(), pa.string(), pa.large_binary(), pa.large_string()])
def test_each_record_is_a_row_or_bad_or_skipped_in_order(format_name: str, kind: pa.DataType) -> None:
    write = WRITTEN[format_name]
    records = [write(1, "ä"), None, write(None, "x"), write(2, None), b"secret", None, write(3, "a b")]
    decoded = read(format_name, pa.array(records, pa.binary()).cast(kind))
    assert decoded.table.to_pylist() == [{"id": 1, "name": "ä"}, {"id": 2, "name": None}, {"id": 3, "name": "a b"}]
    assert decoded.table.schema.equals(arrow_schema(COLUMNS))
    assert decoded.good is not None
    assert decoded.good.to_pylist() == [0, 3, 6]
    assert decoded.good.type == pa.int32()
    assert [bad.index for bad in decoded.bad] == [2, 4]
    assert decoded.skipped == 2
    assert not any("secret" in bad.reason for bad in decoded.bad)


def test_tombstones_may_be_bad(format_name: str) -> None:
    decoded = read(format_name, pa.array([None, WRITTEN[format_name](1, "x")]), **{"sink.on-tombstone": "bad-record"})
    assert [(bad.index, bad.field) for bad in decoded.bad] == [(0, None)]
    assert decoded.skipped == 0


@pytest.mark.parametrize("records", [pa.array([], pa.binary()), pa.array([None, None], pa.binary())])
def test_no_rows_have_the_schema(format_name: str, records: pa.Array) -> None:
    decoded = read(format_name, records)
    assert decoded.table.num_rows == 0
    assert decoded.table.schema.equals(arrow_schema(COLUMNS))
    assert decoded.skipped == len(records)


def test_all_good_says_so(format_name: str) -> None:
    assert read(format_name, pa.array([WRITTEN[format_name](1, "x")])).good is None


def test_what_it_learns_changes_no_row(format_name: str) -> None:
    """One decoder for slices of all sizes, against a new one for each record."""
    write = WRITTEN[format_name]
    random = np.random.default_rng(7)
    numbers = [int(number) for number in random.integers(0, 1000, 400)]
    records = [write(n, f"n{n}") if n % 7 else b"odd" if n % 2 else write(None, None) for n in numbers]
    alone = [made(format_name).decode(pa.array([record])) for record in records]
    decoder = made(format_name)
    whole = pa.array(records)
    for given in (whole.slice(0, 10), whole, whole.slice(0, 0)):
        decoded = decoder.decode(given)
        assert decoded.table.to_pylist() == [row for one in alone[: len(given)] for row in one.table.to_pylist()]
        expected = [(at, bad.field, bad.reason) for at, one in enumerate(alone[: len(given)]) for bad in one.bad]
        assert [(bad.index, bad.field, bad.reason) for bad in decoded.bad] == expected


def test_a_format_without_a_decoder_is_refused() -> None:
    with pytest.raises(InvalidOption, match=r"sink.value.format = 'morse': write one of json"):
        read("morse", pa.array([b"x"]))
