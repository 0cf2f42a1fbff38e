"""Protobuf's records against google's own classes, which know no table, and against vectors of Protobuf's project."""

from __future__ import annotations

import datetime as dt
import resource
import signal
import sys
import tracemalloc
from decimal import Decimal as Number
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2
from hypothesis import given, settings
from hypothesis import strategies as st

from hivesink.config.options import SinkConfig
from hivesink.decode.protobuf import scan
from hivesink.decode.protobuf.decoder import ConfluentProtobufDecoder, ProtobufDecoder
from hivesink.decode.protobuf.schema import parsed
from hivesink.errors import InvalidOption, Unsupported
from hivesink.ports.rows import DecodedRows
from tests.decode.settings import Given, declared, with_damage

NEW = """syntax = "proto3"; package p;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/struct.proto";
import "google/type/date.proto";
import "confluent/meta.proto";
import "confluent/type/decimal.proto";
option (confluent.file_meta) = { doc: "d" };
enum K { Z = 0; A = 1; B = -5; }
message M {
  int32 i = 1; string s = 2; bytes y = 3; K k = 4; uint64 u = 5; uint32 v = 6; double d = 7; float f = 8; bool b = 9;
  sint64 z = 10; fixed64 x = 11; In in = 12; repeated int32 l = 13; repeated K ks = 14; map<string, In> m = 15;
  map<bool, uint64> mb = 16; oneof one { int32 oa = 17; In ob = 18; string oc = 19; }
  optional int32 o = 20; optional K ok = 21; google.protobuf.Timestamp t = 22; google.protobuf.Duration g = 23;
  google.protobuf.Int64Value w = 24; google.protobuf.Struct j = 25; repeated google.protobuf.Timestamp ts = 26;
  M self = 27; google.type.Date date = 28; repeated string rs = 29; google.protobuf.UInt64Value wu = 30;
  confluent.type.Decimal price = 31 [(confluent.field_meta) = { params: [ { key: "scale", value: "2" } ] }];
}
message In { int32 n = 1; string c = 2; }
"""
OLD = """syntax = "proto2"; package p;
enum K { A = 1; B = 5; }
enum V { ZERO = 0; }
message M {
  optional int32 i = 1; optional string s = 2; optional K k = 4; repeated K ks = 14;
  optional int32 d = 20 [default = 42]; optional K dk = 21 [default = B];
  optional group G = 22 { optional int32 x = 1; } map<int32, V> mk = 23;
  optional uint64 u = 24 [default = 18446744073709551615]; map<string, M> mm = 25;
  optional int32 IsInitialized = 26; optional M HasField = 27;
  repeated group Q = 28 { optional int32 x = 1; }
  extensions 100 to 200;
  optional int32 late = 300;
}
extend M { optional M more = 101; }
"""
FRAME = b"\0\0\0\0\0\0"
"""Of the first message of the schema 0."""


def decoded(schema: str, wanted: str, records: list[bytes | None], **options: str) -> DecodedRows:
    decoder = ConfluentProtobufDecoder(declared(wanted), SinkConfig.parse(options), Given(schema))
    return decoder.decode(pa.array([None if record is None else FRAME + record for record in records], pa.binary()))


def message(schema: str, name: str = "M", **values: Any) -> Any:
    """Of google's own class."""
    return parsed((schema,)).record(f"p.{name}").message(**values)


def column_of(octets: bytes, wanted: str, schema: str = NEW, **options: str) -> Any:
    """What a column becomes, or why it doesn't."""
    rows = decoded(schema, wanted, [octets], **options)
    name = wanted.partition(" ")[0]
    return rows.table[name][0].as_py() if rows.good is None else (rows.bad[0].field, rows.bad[0].reason)


LAST_NANOS = {"t": {"seconds": 253_402_300_799, "nanos": 999_999_999}}
INSTANT: dict[str, Any] = {"t": {"seconds": 1_782_909_000, "nanos": 123_456_789}}
AT = dt.datetime(2026, 7, 1, 14, 30, 0, 123456)  # noqa: DTZ001 -- a wall clock
HUGE = 2**64 - 1

CONVERSIONS: list[tuple[dict[str, Any], str, Any]] = [
    ({}, "i int", 0),
    ({}, "s string", ""),
    ({}, "k string", "Z"),
    ({}, "in struct<n:int>", None),
    ({}, "l array<int>", []),
    ({}, "m map<string,struct<n:int>>", []),
    ({}, "oa int", None),
    ({}, "o int", None),
    ({}, "ok string", None),
    ({}, "t timestamp", None),
    ({}, "w bigint", None),
    ({}, "unheard int", None),
    ({"o": 0}, "o int", 0),
    ({"oc": ""}, "oc string", ""),
    ({"ok": 0}, "ok string", "Z"),
    ({"i": -1}, "I bigint", -1),
    ({"i": 300}, "i tinyint", ("i", "out of range for tinyint")),
    ({"i": 7}, "i double", 7.0),
    ({"i": 7}, "i string", ("i", "wrong type: int32 into string")),
    ({"s": "ä"}, "s string", "ä"),
    ({"s": "abcd"}, "s varchar(3)", ("s", "longer than varchar(3)")),
    ({"y": b"\xff"}, "y binary", b"\xff"),
    ({"y": b"a"}, "y string", ("y", "wrong type: bytes into string")),
    ({"k": -5}, "k string", "B"),
    ({"k": 7}, "k string", ("k", "unknown enum number")),
    ({"k": 7}, "k int", 7),
    ({"k": 1}, "k double", ("k", "wrong type: enum into double")),
    ({"ks": [1, 7, 8]}, "ks array<string>", ("ks.1", "unknown enum number")),
    ({"u": 5}, "u bigint", 5),
    ({"u": HUGE}, "u bigint", ("u", "out of range for bigint")),
    ({"u": HUGE}, "u decimal(20,0)", Number(HUGE)),
    ({"u": HUGE}, "u decimal(19,0)", ("u", "out of range for decimal(19,0)")),
    ({"wu": {"value": HUGE}}, "wu decimal(22,2)", Number(HUGE)),
    ({"mb": {True: HUGE}}, "mb map<boolean,bigint>", ("mb.0", "out of range for bigint")),
    ({"mb": {True: 1}}, "mb map<boolean,bigint>", [(True, 1)]),
    ({"v": 2**32 - 1}, "v int", ("v", "out of range for int")),
    ({"v": 2**32 - 1}, "v bigint", 2**32 - 1),
    ({"x": 2**63}, "x bigint", ("x", "out of range for bigint")),
    ({"z": -(2**63)}, "z bigint", -(2**63)),
    ({"d": float("inf")}, "d double", float("inf")),
    ({"d": 0.5}, "d float", ("d", "wrong type: double into float")),
    ({"f": 0.5}, "f double", 0.5),
    ({"b": True}, "b boolean", True),
    ({"in": {"n": 3}}, "in struct<c:string,n:bigint,gone:int>", {"c": "", "n": 3, "gone": None}),
    ({"in": {"n": 300}}, "in struct<n:tinyint>", ("in.n", "out of range for tinyint")),
    ({"in": {}}, "in string", ("in", "wrong type: message into string")),
    ({"m": {"k": {"n": 1}}}, "m map<string,struct<n:int>>", [("k", {"n": 1})]),
    ({"m": {"k": {"n": 1}}}, "m map<int,struct<n:int>>", ("m.0", "wrong type: string into int")),
    ({"m": {}}, "m array<int>", ("m", "wrong type: map into array<int>")),
    ({"l": [1, 200]}, "l array<tinyint>", ("l.1", "out of range for tinyint")),
    ({"l": [1]}, "l int", ("l", "wrong type: array into int")),
    (INSTANT, "t timestamp", AT),
    (INSTANT, "t struct<nanos:int>", {"nanos": 123_456_789}),
    (INSTANT, "t date", ("t", "wrong type: message into date")),
    (LAST_NANOS, "t timestamp", ("t", "out of range for timestamp")),
    ({"t": {"seconds": 2**62}}, "t timestamp", ("t", "out of range for timestamp")),
    ({"t": {"nanos": -1}}, "t timestamp", ("t", "out of range for timestamp")),
    ({"ts": [INSTANT["t"]]}, "ts array<timestamp>", [AT]),
    ({"g": {"seconds": -1, "nanos": -500}}, "g string", '"-1.000000500s"'),
    ({"g": {"seconds": 1, "nanos": -1}}, "g string", ("g", "no value that JSON has")),
    ({"g": {"seconds": -1}}, "g struct<seconds:bigint>", {"seconds": -1}),
    ({"w": {}}, "w bigint", 0),
    ({"w": {"value": 5}}, "w struct<value:bigint>", {"value": 5}),
    ({"w": {"value": 5}}, "w string", ("w", "wrong type: int64 into string")),
    ({"j": {"ä": [None, 1.5]}}, "j string", '{"ä": [null, 1.5]}'),
    ({"j": {"a": float("nan")}}, "j string", ("j", "no value that JSON has")),
    (
        {"self": {"self": {"i": 2}}},
        "self struct<self:struct<i:int,self:struct<i:int>>>",
        {"self": {"i": 2, "self": None}},
    ),
    ({"date": {"year": 2026}}, "date struct<year:int,day:int>", {"year": 2026, "day": 0}),
    ({"price": {"value": b"\xfb\x2e", "scale": 2}}, "price decimal(10,3)", Number("-12.340")),
    (
        {"price": {"value": b"\xfb\x2e", "scale": 2}},
        "price decimal(10,1)",
        ("price", "more decimal places than decimal(10,1)"),
    ),
    ({"price": {"scale": 2}}, "price decimal(10,1)", ("price", "not a number: no bytes")),
    ({"price": {"value": b"\1"}}, "price struct<value:binary,scale:int>", {"value": b"\1", "scale": 0}),
]


@pytest.mark.parametrize(("values", "wanted", "expected"), CONVERSIONS)
def test_each_conversion_is_exact_or_a_bad_record(values: dict[str, Any], wanted: str, expected: Any) -> None:
    octets = message(NEW, **values).SerializeToString()
    result = column_of(octets, wanted.lower(), **{"sink.timestamp-zone": "Europe/Berlin"})
    assert (result, type(result)) == (expected, type(expected))


def test_times_may_have_to_be_exact_or_be_numbers() -> None:
    octets = message(NEW, u=1_782_909_000, **INSTANT).SerializeToString()
    exact = {"sink.json.timestamp-precision": "exact"}
    assert column_of(octets, "t timestamp", **exact) == ("t", "finer than microseconds")
    assert column_of(octets, "u date", **{"sink.timestamp-format": "epoch-seconds"}) == dt.date(2026, 7, 1)


def test_paths_lead_through_messages_and_into_lists() -> None:
    octets = message(NEW, l=[7, 8], self={"in": {"n": 3}}).SerializeToString()
    for path, expected in (
        ("$.l[1]", 8),
        ("$.l[2]", None),
        ("$.self.In.n", 3),
        ("$.in.n, $.self.in.n", 3),
        ("$.i.n", ("i", "wrong type: int32, not a record")),
        ("$.self[0]", ("self", "wrong type: message, not an array")),
        ("$.m[0]", ("m", "wrong type: map, not a record")),
    ):
        assert column_of(octets, "a int", **{"sink.column.a.from": path}) == expected


@pytest.mark.parametrize("depth", range(48, 54))
def test_a_path_leads_as_deep_as_messages_go(depth: int) -> None:
    outer = inner = message(NEW)
    for _ in range(depth):
        inner = inner.self
        inner.SetInParent()
    path = {"sink.column.a.from": f"$.{'self.' * depth}i"}
    assert column_of(outer.SerializeToString(), "a int", **path) == 0


OF_PROTO2: list[tuple[str, str, Any]] = [
    ("", "i int", None),
    ("", "d int", 42),
    ("", "dk string", "B"),
    ("2001", "k string", "A"),
    ("2007", "k string", ("k", "unknown enum number")),
    ("2007", "k bigint", 7),
    ("700170077005", "ks array<string>", ("ks.1", "unknown enum number")),
    ("ba010408011007", "mk map<int,string>", ("mk.0", "unknown enum number")),
    ("1201ff", "s string", ("s", "not UTF-8")),
    ("1201ff", "i int", None),
    ("b3010805b401", "g struct<x:int>", {"x": 5}),
    ("e3010801e401e301e401", "q array<struct<x:int>>", [{"x": 1}, {"x": None}]),
    ("e3010801", "q array<struct<x:int>>", (None, "not of its schema")),
    ("e3010801dc01", "q array<struct<x:int>>", (None, "not of its schema")),
    ("e3014affffffff0fe401", "i int", (None, "not of its schema")),
    ("b3014affffffffffffffffff01b401", "i int", (None, "not of its schema")),
    ("0801aa06020802", "i int", 1),
    # An extension is an unknown field.
    ("0801aa060108", "i int", 1),
    ("0801aa0602", "i int", (None, "not of its schema")),
    ("0801e01207aa06020802", "late int", 7),
    ("0801aa06020802e01207", "late int", 7),
    ("ca01050a01ff1200", "mm map<string,struct<i:int>>", ("mm.0", "not UTF-8")),
    ("ca01050a01ff1200", "i int", None),
    ("", "u decimal(20,0)", Number(HUGE)),
    ("", "u bigint", ("u", "out of range for bigint")),
    ("da01070a010861ca010000", "hasfield struct<i:int>", (None, "not of its schema")),
    ("da01020807" + "d00105", "isinitialized int", 5),
    ("da01020807" + "d00105", "hasfield struct<i:int>", {"i": 7}),
]


@pytest.mark.parametrize(("octets", "wanted", "expected"), OF_PROTO2)
def test_proto2_has_presence_defaults_closed_enums_and_groups(octets: str, wanted: str, expected: Any) -> None:
    assert column_of(bytes.fromhex(octets), wanted, OLD) == expected


def test_a_default_beyond_arrows_numbers_is_beside_a_value() -> None:
    rows = decoded(OLD, "u decimal(20,0)", [b"", bytes.fromhex("c00105"), b""]).table
    assert rows["u"].to_pylist() == [Number(HUGE), Number(5), Number(HUGE)]


VECTORS = [
    ("0801" + "0802", {"i": 2}),
    ("08ffffffff1f", {"i": -1}),
    ("08ffffffffffffffffff01", {"i": -1}),
    ("08808080808080808080" + "8001", None),
    ("6a020102" + "6801" + "6a0103", {"l": [1, 2, 1, 3]}),
    ("6a01", None),
    ("6a0180", None),
    ("620208016203120161", {"in": {"n": 1, "c": "a"}}),
    ("8801019201020802" + "880103", {"oa": 3, "ob": None}),
    ("920102" + "0801" + "920103120161", {"ob": {"n": 1, "c": "a"}, "oa": None}),
    ("7a070a01611202080" + "1" + "7a030a0161", {"m": [("a", {"n": 0})]}),
    ("0001", None),
    ("0700", None),
    ("0c", None),
    ("0b0801", None),
    ("0b0c", {"i": 0}),
    ("0d00000000", {"i": 0}),
    ("12ffffffff0f", None),
    ("12ffffffffffffffffff01", None),
    ("1201ff", None),
    ("12818080808000" + "61", None),
    ("f8ff01", None),
    ("da0700", {"i": 0}),
]
"""After the cases of Protobuf's conformance suite (binary_json_conformance_suite.cc): premature ends, tags that can't
be, unmatched groups, overlong varints, the last of many, messages merged, packed or not."""


@pytest.mark.parametrize(("octets", "expected"), VECTORS)
def test_the_wire_is_read_as_the_conformance_suite_says(octets: str, expected: dict[str, Any] | None) -> None:
    wanted = (
        "i int, l array<int>, in struct<n:int,c:string>, oa int, ob struct<n:int,c:string>, m map<string,struct<n:int>>"
    )
    rows = decoded(NEW, wanted, [bytes.fromhex(octets), b"\x08\7"])
    if expected is None:
        assert [(bad.index, bad.field, bad.reason) for bad in rows.bad] == [(0, None, "not of its schema")]
    else:
        first = rows.table.to_pylist()[0]
        assert {name: first[name] for name in expected} == expected
    assert rows.table["i"][-1].as_py() == 7


def test_usual_records_need_no_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = parsed((NEW,)).record((0,))
    usual: dict[str, Any] = {
        "i": -1,
        "s": "ä",
        "y": b"\xff",
        "k": 7,
        "u": 1,
        "d": 0.5,
        "f": 0.5,
        "b": True,
        "z": -1,
        "x": 1,
        "v": 9,
    }
    lists: dict[str, Any] = {"l": [1, 300], "ks": [1], "rs": ["", "ä"], "ts": [INSTANT["t"]] * 3}
    maps: dict[str, Any] = {"m": {"k": {"n": 1}}, "mb": {True: HUGE, False: 0}}
    octets = message(NEW, **usual, **INSTANT, **lists, **maps, oc="", self={"in": {"c": "x"}}).SerializeToString()
    monkeypatch.setattr(type(kind), "rewritten", lambda *_: pytest.fail("parsed"))
    wanted = "i int, s string, y binary, k int, u bigint, d double, f float, b boolean, z bigint, x bigint, v bigint"
    nested = "oc string, self struct<in:struct<c:string>>, l array<int>, ks array<string>, rs array<string>"
    keyed = "ts array<timestamp>, m map<string,struct<n:int>>, mb map<boolean,decimal(20,0)>"
    for count in (2, 40):
        rows = decoded(NEW, f"{wanted}, t timestamp, {nested}, {keyed}", [octets] * count).table.to_pylist()
        for row in rows:
            row["mb"] = dict(row["mb"])
        at = AT.replace(hour=12)
        expected = {"t": at, "oc": "", "self": {"in": {"c": "x"}}, **lists, "ks": ["A"], "ts": [at] * 3}
        expected |= {"m": [("k", {"n": 1})], "mb": maps["mb"]}
        assert rows == [{**usual, **expected}] * count


@pytest.mark.parametrize("count", [1, 40])
def test_a_long_list_of_a_few_records_is_read_beside_others(count: int) -> None:
    """Each way in which a list is written."""
    schema = """syntax = "proto2"; package p; message M { repeated int32 v = 1; repeated fixed64 x = 2;
        repeated sint32 p = 3 [packed = true]; repeated string s = 4;
        repeated group G = 5 { optional int32 n = 1; } }"""

    def values(size: int) -> dict[str, Any]:
        numbers = list(range(size))
        return {"v": numbers, "x": numbers, "p": [-n for n in numbers], "s": list(map(str, numbers)), "g": size}

    given = [values(size) for size in (*[300] * count, 0, 2, 3, *[1] * count)]
    records = [message(schema, **{**row, "g": [{"n": 7}] * row["g"]}).SerializeToString() for row in given]
    wanted = "v array<int>, x array<bigint>, p array<int>, s array<string>, g array<struct<n:int>>"
    rows = decoded(schema, wanted, [*records, records[0][:-1]])
    assert rows.table.to_pylist() == [{**row, "g": [{"n": 7}] * row["g"]} for row in given]
    assert [bad.index for bad in rows.bad] == [len(records)]


def test_messages_are_told_apart_by_schema_and_place() -> None:
    inner = "message A { int32 v = 1; message N { int32 y = 1; message D { string v = 1; } map<int32, int32> m = 2; } }"
    schema = f'syntax = "proto3"; {inner} message B {{ int64 y = 1; }}'
    frames = ["000805", "02000806", "02020807", "0400000808", "060000000a0131", "0208", "", "04", "01", "ff" * 20]
    frames += ["818080808000", "fe" * 4 + "0f" + "00" * 5]
    records = [b"\0\0\0\0\0" + bytes.fromhex(frame) for frame in frames]
    rows = ConfluentProtobufDecoder(declared("v int, y int"), SinkConfig.parse({}), Given(schema)).decode(
        pa.array([*records, None, b"\0\0\0\0\1\0", b"{}"], pa.binary())
    )
    assert rows.table.to_pylist() == [
        {"v": 5, "y": None},
        {"v": 6, "y": None},
        {"v": None, "y": 7},
        {"v": None, "y": 8},
    ]
    assert rows.skipped == 1
    assert [(bad.index, bad.field) for bad in rows.bad if bad.field] == [(4, "v")]
    reasons = {bad.index: bad.reason for bad in rows.bad}
    # A reason has nothing of the record.
    assert {reasons[place] for place in (5, 6, 9, 10, 11)} == {"its schema has no message at its place"}
    assert reasons[13] == "its schema is not in the registry"
    assert reasons.keys() == {4, 5, 6, 7, 8, 9, 10, 11, 13, 14}


def test_files_import_each_other_by_their_names_and_none_leads_out() -> None:
    main = 'syntax = "proto3"; import "a/b.proto"; message M { O o = 1; }'
    other = '// a/b.proto\nsyntax = "proto3"; message O { int32 q = 1; }'
    assert parsed((other, main)).record((0,)).names.keys() == {"o"}
    named = ((f"// {name}\n", main) for name in ("", "a\0", "the schema.proto/a"))
    for texts in ((main,), (other.replace("a/", "../../"), main), ("{",), ("\ud800",), ("message",), *named):
        with pytest.raises(ValueError, match="not a Protobuf schema"):
            parsed(texts).record((0,))


@pytest.mark.parametrize(("room", "problem"), [(0, "File too large"), (1, "protoc can't write")])
def test_a_full_disk_says_nothing_about_a_schema(room: int, problem: str) -> None:
    # The descriptors of what it imports are longer than the limit.
    text = f'syntax = "proto3"; import "google/protobuf/descriptor.proto"; message M{room} {{ string s = 1; }}'
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room * 4096, limits[1]))
        with pytest.raises(OSError, match=problem):
            parsed((text,))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert parsed((text,)).record((0,)).names.keys() == {"s"}


@pytest.mark.parametrize(("octets", "count"), [(b"", 0), (b"\x08\1", 1)])
def test_a_required_field_must_be_there(octets: bytes, count: int) -> None:
    schema = 'syntax = "proto2"; message R { required int32 r = 1; optional int32 i = 2; }'
    rows = decoded(schema, "i int", [octets])
    assert (rows.table.num_rows, [bad.reason for bad in rows.bad]) == (count, ["not of its schema"] * (1 - count))


def test_a_file_of_descriptors_and_a_name_are_needed() -> None:
    file = descriptor_pb2.FileDescriptorProto.FromString(timestamp_pb2.DESCRIPTOR.serialized_pb)
    octets = descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString() + b"\x9a\x06\x01\xff"
    name = {"sink.value.format": "protobuf", "sink.value.protobuf.message-name": "google.protobuf.Timestamp"}

    def decoder(content: bytes, options: dict[str, str]) -> ProtobufDecoder:
        texts = Given(content.decode("utf-8", "surrogateescape"))
        return ProtobufDecoder(declared("seconds bigint"), SinkConfig.parse(options), texts)

    assert decoder(octets, name).decode(pa.array([b"\x08\5"])).table.to_pylist() == [{"seconds": 5}]
    lacks = descriptor_pb2.FileDescriptorProto(name="a", dependency=["b"])
    for content, options, problem in (
        (b"\xff", name, r"protobuf.schema-file: no set of descriptors"),
        (b"", name, r"protobuf.schema-file: no set of descriptors"),
        (descriptor_pb2.FileDescriptorSet(file=[lacks]).SerializeToString(), name, r"no set of descriptors with all"),
        (octets, {**name, "sink.value.protobuf.message-name": "M"}, r"no message M; it has google.protobuf.Timestamp"),
        (octets, {"sink.value.format": "protobuf"}, r"message-name is missing"),
    ):
        with pytest.raises(InvalidOption, match=problem):
            decoder(content, options)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    with pytest.raises(Unsupported, match=r"pip install 'hivesink\[protobuf\]'"):
        parsed(("syntax = 'proto3'; // never read before",))


WANTED = (
    "i int, s string, y binary, z bigint, u decimal(20,0), o int, oc string, l array<int>, in struct<n:int,c:string>, "
    "rs array<string>, m map<string,struct<n:int,c:string>>, mb map<boolean,decimal(20,0)>"
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
INNER = st.fixed_dictionaries({}, optional={"n": st.integers(0, 9), "c": st.text("b", max_size=2)})
VALUES = st.fixed_dictionaries(
    {},
    optional={
        "i": st.integers(-(2**31), 2**31 - 1),
        "s": TEXTS,
        "y": st.binary(max_size=9),
        "z": st.integers(-(2**63), 2**63 - 1),
        "u": st.integers(0, HUGE),
        "o": st.integers(-1, 1),
        "oc": st.text("aä", max_size=2),
        "l": st.lists(st.integers(-2, 300), max_size=4),
        "in": INNER,
        "rs": st.lists(TEXTS, max_size=3),
        "m": st.dictionaries(st.text("ab", max_size=2), INNER, max_size=3),
        "mb": st.dictionaries(st.booleans(), st.integers(0, HUGE)),
    },
)


def as_row(record: Any) -> dict[str, Any]:
    """A message as the table of `WANTED` has it, by google's parser; maps as dicts."""

    def inner(of: Any) -> dict[str, Any]:
        return {"n": of.n, "c": of.c}

    row = {name: getattr(record, name) for name in ("i", "s", "y", "z")}
    row |= {name: getattr(record, name) if record.HasField(name) else None for name in ("o", "oc")}
    row |= {"in": inner(getattr(record, "in")) if record.HasField("in") else None}
    row |= {"m": {key: inner(value) for key, value in record.m.items()}}
    row |= {"mb": {key: Number(value) for key, value in record.mb.items()}}
    return {**row, "l": list(record.l), "rs": list(record.rs), "u": Number(record.u)}


def rows_of(decoded: DecodedRows) -> list[dict[str, Any]]:
    return [{**row, "m": dict(row["m"]), "mb": dict(row["mb"])} for row in decoded.table.to_pylist()]


@settings(max_examples=60, deadline=None)
@given(st.lists(VALUES, min_size=1, max_size=5), st.data())
def test_a_damaged_record_is_googles_or_bad_and_changes_no_other(
    values: list[dict[str, Any]], data: st.DataObject
) -> None:
    # Many lists are read otherwise than a few.
    values += values[:1] * data.draw(st.sampled_from([0, 40]))
    records = [message(NEW, **some).SerializeToString() for some in values]
    expected = [as_row(message(NEW, **some)) for some in values]
    assert rows_of(decoded(NEW, WANTED, list(records))) == expected
    place, octets = with_damage(records, data)
    records[place] = octets
    rows = decoded(NEW, WANTED, list(records))
    if rows.bad:
        assert [bad.index for bad in rows.bad] == [place]
        del expected[place]
    else:
        expected[place] = as_row(message(NEW).FromString(octets))
    assert rows_of(rows) == expected


@settings(max_examples=100, deadline=None)
@given(st.integers(-1, 300), st.lists(st.integers(0, 300), max_size=3), st.data())
def test_a_damaged_group_changes_no_other_record(x: int, xs: list[int], data: st.DataObject) -> None:
    records = [message(OLD, i=1, g={"x": x}, q=[{"x": each} for each in xs]).SerializeToString()] * 3
    place, records[place] = with_damage(records, data)
    rows = decoded(OLD, "i int", list(records))
    assert [bad.index for bad in rows.bad] in ([], [place])
    values = rows.table["i"].to_pylist()
    assert values == [1, 1] if rows.bad else values[:place] + values[place + 1 :] == [1, 1]


TREE = 'syntax = "proto3"; package p; message M { M l = 1; M r = 2; int32 v = 3; }'
GROUPS = """syntax = "proto2"; package p;
  message M { repeated group G = 1 { repeated group H = 1 { repeated int32 n = 2; } } }"""


def test_a_type_that_holds_itself_is_looked_into_where_a_column_is() -> None:
    """Each place of the tree would be another look at the bytes below."""
    inner = message(TREE, v=1)
    for _ in range(11):
        inner = message(TREE, l=inner, r=inner)
    with mock.patch.object(scan.Messages, "check", autospec=True, side_effect=scan.Messages.check) as looks:
        rows = decoded(TREE, "v int, l struct<r:struct<v:int>>", [inner.SerializeToString(), b"\x18\x07"]).table
    assert rows.to_pylist() == [{"v": 0, "l": {"r": {"v": 0}}}, {"v": 7, "l": None}]
    assert looks.call_count <= 301


def test_groups_within_each_other_are_passed_over_once() -> None:
    octets = message(GROUPS, g=[{"h": [{"n": [1] * 50}]}]).SerializeToString()
    after = mock.Mock(side_effect=scan._after)
    with mock.patch.object(scan, "_after", after):
        rows = decoded(GROUPS, "i int", [octets] * 3)
    assert (rows.table.num_rows, rows.bad) == (3, ())
    assert after.call_count < 3 * 60


def test_packed_numbers_take_a_few_times_their_room() -> None:
    octets = b"\x6a\x80\x80\x80\x02" + b"\1" * (4 << 20)
    tracemalloc.start()
    rows = decoded(NEW, "l array<int>", [octets])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 30 * len(octets)
    assert rows.table["l"].combine_chunks().values.to_numpy().sum() == 4 << 20
