"""A column of every Hive type, with values at its edges, and wall clocks from all of the range that Hive keeps.

One list for every reader: what the same files must give through Hive 2.3's SerDe and through Hive 4.
"""

from __future__ import annotations

# ruff: noqa: DTZ001  wall clocks without a zone are what a Hive TIMESTAMP holds
# ruff: noqa: E501  a case a line
import random
from datetime import datetime, timedelta, timezone
from decimal import Decimal as Number
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pyarrow as pa

NAN, INF = float("nan"), float("inf")
LONG = "x" * 70_000
JSON = "to_json({}, map('ignoreNullFields', 'false'))"


class Typed(NamedTuple):
    """A column: its Hive type, the Arrow type of the stream, and values with the text that Hive's reader gives.

    `text` makes that text; where Hive 4 writes the same value otherwise, `hive4` are its texts.
    """

    hive: str
    source: pa.DataType
    values: list[tuple[Any, str | None]]
    text: str = "CAST({} AS STRING)"
    hive4: list[str | None] | None = None

    @property
    def nested(self) -> bool:
        return self.text == JSON


EVERYTHING: dict[str, Typed] = {
    "a_boolean": Typed("boolean", pa.bool_(), [(True, "true"), (False, "false"), (None, None)], hive4=["TRUE", "FALSE", None]),
    "a_tinyint": Typed("tinyint", pa.int8(), [(-128, "-128"), (127, "127"), (None, None)]),
    "a_smallint": Typed("smallint", pa.int16(), [(-32768, "-32768"), (32767, "32767"), (None, None)]),
    "an_int": Typed("int", pa.int32(), [(-(2**31), "-2147483648"), (2**31 - 1, "2147483647"), (None, None)]),
    "a_bigint": Typed(
        "bigint", pa.int64(), [(-(2**63), "-9223372036854775808"), (2**63 - 1, "9223372036854775807"), (None, None)]
    ),
    "a_float": Typed(
        "float", pa.float32(), [(3.4028234663852886e38, "3.4028235E38"), (-INF, "-Infinity"), (NAN, "NaN"), (0.1, "0.1")]
    ),
    "a_double": Typed(
        "double",
        pa.float64(),
        [(1.7976931348623157e308, "1.7976931348623157E308"), (INF, "Infinity"), (-INF, "-Infinity"), (NAN, "NaN"),
         (5e-324, "4.9E-324"), (-0.0, "-0.0"), (None, None)],
    ),
    "a_small_decimal": Typed(
        "decimal(9,2)", pa.decimal128(9, 2),
        [(Number("9999999.99"), "9999999.99"), (Number("-9999999.99"), "-9999999.99"), (Number("0.01"), "0.01"), (None, None)],
    ),
    "a_decimal": Typed(
        "decimal(38,18)", pa.decimal128(38, 18),
        [(Number("9" * 20 + "." + "9" * 18), "9" * 20 + "." + "9" * 18), (Number("-" + "9" * 20 + "." + "9" * 18), "-" + "9" * 20 + "." + "9" * 18),
         (Number("0.000000000000000001"), "0.000000000000000001"), (None, None)],
    ),
    "a_wide_decimal": Typed("decimal(38,0)", pa.decimal128(38, 0), [(Number("9" * 38), "9" * 38), (None, None)]),
    "a_string": Typed("string", pa.string(), [("", ""), ("äß漢字🙂", "äß漢字🙂"), (LONG, LONG), ("a\nb\0c", "a\nb\0c"), (None, None)]),
    "a_varchar": Typed("varchar(5)", pa.string(), [("", ""), ("äß漢字🙂", "äß漢字🙂"), ("ab  ", "ab  "), (None, None)]),
    # CHAR is padded by whoever reads it.
    "a_char": Typed("char(5)", pa.string(), [("ab", "ab   "), ("äß漢字🙂", "äß漢字🙂"), (None, None)], hive4=["ab", "äß漢字🙂", None]),
    "a_binary": Typed("binary", pa.binary(), [(b"", ""), (b"\x00\xff\x80", "00FF80"), (None, None)], "hex({})"),
    "a_date": Typed(
        "date", pa.date32(),
        [(datetime(1582, 10, 15).date(), "1582-10-15"), (datetime(9999, 12, 31).date(), "9999-12-31"), (None, None)],
    ),
    "an_array": Typed("array<int>", pa.list_(pa.int32()), [([], "[]"), ([1, None, -1], "[1,null,-1]"), (None, None)], JSON),
    "a_map": Typed(
        "map<string,double>", pa.map_(pa.string(), pa.float64()), [([], "{}"), ([("é", 0.5), ("", None)], '{"é":0.5,"":null}'), (None, None)], JSON
    ),
    "a_struct": Typed(
        "struct<x:int,y:string>", pa.struct([("X", pa.int32()), ("y", pa.string())]),
        [({"X": 1, "y": "é"}, '{"x":1,"y":"é"}'), ({"X": None, "y": None}, '{"x":null,"y":null}'), (None, None)], JSON,
    ),
    "arrays_of_maps": Typed(
        "array<map<string,decimal(9,2)>>", pa.list_(pa.map_(pa.string(), pa.decimal128(9, 2))),
        [([[("a", Number("1.50"))], [], None], '[{"a":1.50},{},null]'), ([], "[]"), (None, None)], JSON,
        hive4=['[{"a":1.5},{},null]', "[]", None],
    ),
    "maps_of_structs": Typed(
        "map<int,struct<at:date,tags:array<string>>>",
        pa.map_(pa.int32(), pa.struct([("at", pa.date32()), ("tags", pa.list_(pa.string()))])),
        [([(1, {"at": datetime(2024, 2, 29).date(), "tags": ["a", None]}), (2, None)],
          '{"1":{"at":"2024-02-29","tags":["a",null]},"2":null}'), (None, None)], JSON,
        hive4=['{1:{"at":"2024-02-29","tags":["a",null]},2:null}', None],
    ),
    "structs_of_arrays": Typed(
        "struct<within:struct<list:array<bigint>>,n:tinyint>",
        pa.struct([("within", pa.struct([("list", pa.list_(pa.int64()))])), ("n", pa.int8())]),
        [({"within": {"list": [2**63 - 1]}, "n": -128}, '{"within":{"list":[9223372036854775807]},"n":-128}'),
         ({"within": None, "n": None}, '{"within":null,"n":null}'), (None, None)], JSON,
    ),
}  # fmt: skip

# Two rows, 0 and 1, whose files have bounds and bloom filters: what a predicate must find by them.
FILTERED: dict[str, tuple[str, list[Any], dict[str, list[int]]]] = {
    "padded": ("char(5)", ["ab", "ab"], {"padded = 'ab'": [0, 1], "padded < 'b'": [0, 1]}),
    "text": ("string", ["ab", "äß"], {"text = 'äß'": [1], "text IN ('ab', 'x')": [0]}),
    "nan_last": ("double", [1.0, NAN], {"nan_last > 5": [1], "nan_last = 1": [0]}),
    "nan_first": ("double", [NAN, 1.0], {"nan_first > 5": [0], "nan_first = 1": [1]}),
    "small": ("smallint", [-32768, 5], {"small = -32768": [0], "small = 5": [1]}),
    "large": ("bigint", [-(2**63), 5], {"large < 0": [0], "large = 5": [1]}),
    "number": ("decimal(38,18)", [Number("1.5"), -Number("9" * 20)], {"number = 1.5": [0], "number < 0": [1]}),
    "day": ("date", [datetime(2024, 3, 31).date(), datetime(1500, 1, 1).date()],
        {"day = DATE '2024-03-31'": [0], "day = DATE '1500-01-01'": [1]}),
    "clock": ("timestamp", [datetime(1950, 1, 1, 12), datetime(2024, 6, 30, 2, 30, 0, 500000)],
        {"clock = TIMESTAMP '1950-01-01 12:00:00'": [0], "clock >= TIMESTAMP '2024-06-30 02:30:00.5'": [1]}),
}  # fmt: skip

EDGES = [
    "1582-10-15 00:00:00",
    "1582-10-15 12:34:56.123456",
    "1883-11-18 12:05:00",
    "1893-04-01 00:00:00",
    "1899-12-31 23:59:59.999999",
    "1900-01-01 00:00:00",
    "1969-12-31 23:59:59.999999",
    "1970-01-01 00:00:00",
    "2024-10-27 02:30:00",
    "2024-11-03 01:30:00",
    "2038-01-19 03:14:08",
    "2050-07-01 12:00:00",
    "2262-04-11 23:47:16.854776",
    "9999-12-31 23:59:59.999999",
]
# In Berlin and Los Angeles: the hour that is left out, at which nobody's clock stands.
GAPS = {"Europe/Berlin": "2024-03-31 02:30:00", "America/Los_Angeles": "2024-03-10 02:30:00"}
BEFORE = {
    "0001-01-01 00:00:00": "0001-01-03 00:00:00",
    "1500-01-01 00:00:00": "1499-12-23 00:00:00",
    "1582-10-04 12:00:00": "1582-09-24 12:00:00",
}


def exists(text: str, zone: str) -> bool:
    """Whether a clock in `zone` ever shows this."""
    wall = datetime.fromisoformat(text)
    try:
        there = wall.replace(tzinfo=ZoneInfo(zone)).astimezone(timezone.utc)
        return there.astimezone(ZoneInfo(zone)).replace(tzinfo=None) == wall
    except OverflowError:
        return True


def held(text: str, form: str) -> bool:
    """Whether files of this format can hold a wall clock: ORC's have no fraction of a second before 1970."""
    return form != "ORC" or text >= "1970" or "." not in text


def drawn() -> list[str]:
    """Wall clocks from all of the range, most of them off the full second."""
    chance = random.Random(1582)  # noqa: S311  the same clocks in every run
    first = datetime(1582, 10, 15)
    seconds = int((datetime(9999, 12, 31) - first).total_seconds())
    clocks = (
        first + timedelta(seconds=chance.randrange(seconds), microseconds=chance.randrange(10**6)) for _ in range(400)
    )
    return [shown(clock) for clock in clocks]


def shown(clock: datetime) -> str:
    text = clock.isoformat(sep=" ")
    return text.rstrip("0") if "." in text else text


CLOCKS = sorted({*EDGES, *GAPS.values(), *BEFORE, *drawn()})
