"""`make bench WORKLOADS=decoders`: rows per CPU second of the decoders alone, and Avro beside Spark's `from_avro`.

Spark's `from_protobuf` isn't compared: no registry here has its jar.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from bench.ground import spark_avro
from bench.records import chunks
from bench.workloads import AVRO_SCHEMA, EVENTS
from hivesink.config.options import SinkConfig
from hivesink.core.table import Column, Primitive
from hivesink.core.typetext import parse_type
from hivesink.decode.avro.decoder import AvroDecoder, ConfluentDecoder
from hivesink.decode.csv import CsvDecoder
from hivesink.decode.json.decoder import JsonDecoder
from hivesink.decode.protobuf.decoder import ConfluentProtobufDecoder
from hivesink.decode.protobuf.schema import parsed
from hivesink.ports.rows import Decoder
from hivesink.spark.session import session_for_kafka
from hivesink.spark.settings import JARS

P = Primitive
NAME = "decoders"
BATCH, ROWS, COPIES = 10_000, 200_000, 10
USERS = [Column("userid", P.INT), Column("username", P.STRING), Column("ts", P.BIGINT)]
USERS_TIME = [*USERS[:2], Column("ts", P.TIMESTAMP)]
FLIGHTS = [
    *(Column(name, P.INT) for name in ("year", "month", "day", "dep_time", "sched_dep_time", "dep_delay")),
    *(Column(name, P.INT) for name in ("arr_time", "sched_arr_time", "arr_delay")),
    Column("carrier", P.STRING),
    Column("flight", P.INT),
    *(Column(name, P.STRING) for name in ("tailnum", "origin", "dest")),
    *(Column(name, P.DOUBLE) for name in ("air_time", "distance")),
    *(Column(name, P.INT) for name in ("hour", "minute")),
    Column("time_hour", P.TIMESTAMP),
]


class Given:
    """The schema of all records."""

    texts = (AVRO_SCHEMA.read_text(),)

    def file(self) -> tuple[str, Sequence[str]]:
        return "", self.texts

    def registered(self, numbers: Sequence[int]) -> Mapping[int, Sequence[str]]:
        return dict.fromkeys(numbers, self.texts)


PROTO = """syntax = "proto3"; import "google/protobuf/timestamp.proto"; enum K { A = 0; B = 1; C = 2; }
message E { int64 id = 1; string name = 2; optional string note = 3; uint64 amount = 4; double score = 5; bool ok = 6;
  google.protobuf.Timestamp ts = 7; int32 day = 8; K kind = 9; optional int32 n = 10; }"""


class GivenText(Given):
    texts = (PROTO,)


def messages(rows: int) -> list[bytes]:
    make = parsed((PROTO,)).record("E").message
    made = []
    for row in range(rows):
        seconds, micros = divmod(1_767_225_600_000_000 + row * 1001, 10**6)
        value: dict[str, Any] = {"id": row, "name": f"u{row % 997}", "amount": row % 100_000, "score": row / 7}
        value |= {"ok": row % 2 == 0, "day": 20_454 + row % 30, "kind": row % 3}
        value |= {"ts": {"seconds": seconds, "nanos": 1000 * micros}, "n": row % 1000 if row % 5 else None}
        made.append(b"\0\0\0\0\7\0" + make(**value, note=None if row % 3 else f"n{row}").SerializeToString())
    return made


def user(row: int, name: str = "", more: str = "") -> str:
    return f'{{"userId": {row}, "userName": "{name}user_{row * 7919 % 1_000_003}", "ts": {1795132800000 + row}{more}}}'


def flight(row: int) -> str:
    delay = "null" if row % 40 == 0 else str(row % 300 - 20)
    return (
        f'{{"year": 2013, "month": {row % 12 + 1}, "day": {row % 28 + 1}, "dep_time": {delay}, "sched_dep_time": 515, '
        f'"dep_delay": {delay}, "arr_time": {delay}, "sched_arr_time": 819, "arr_delay": {delay}, "carrier": "UA", '
        f'"flight": {row % 5000}, "tailnum": "N{row % 9999}", "origin": "EWR", "dest": "IAH", "air_time": 227.0, '
        f'"distance": 1400.0, "hour": 5, "minute": 15, "time_hour": "2013-01-01T{row % 24:02d}:00:00Z"}}'
    )


def measure(
    title: str,
    columns: list[Column],
    records: Sequence[str | bytes],
    options: SinkConfig,
    bad: int = 0,
    *,
    made: Callable[[list[Column], SinkConfig], Decoder] = JsonDecoder,
) -> None:
    batches = [pa.array(records[at : at + BATCH], pa.binary()) for at in range(0, len(records), BATCH)]
    best = float("inf")
    for _ in range(3):
        decoder = made(columns, options)
        start = time.process_time()
        decoded = [decoder.decode(batch) for batch in batches]
        best = min(best, time.process_time() - start)
        refused = sum(len(one.bad) for one in decoded)
        if refused != bad:
            message = f"{title}: {refused} bad records where {bad} were expected: {decoded[0].bad[:3]}"
            raise SystemExit(message)
    print(f"{title:44s} {len(records) / best:>12,.0f} rows per CPU second")


def beside_spark(events: Sequence[bytes], columns: list[Column], rounds: int) -> None:
    """Rows/s of two jobs on one thread that decode the same file of records: into Spark's rows, and into Arrow's.

    Neither writes them anywhere. The way to Python is part of the second.
    """
    from pyspark.sql.avro.functions import from_avro

    # Spark's Python workers import this module.
    os.environ["PYTHONPATH"] = str(Path(__file__).resolve().parents[1])
    spark = session_for_kafka(NAME, {JARS: spark_avro()})
    own = AvroDecoder(columns, SinkConfig.parse({}), Given())

    def decoded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"rows": [len(own.decode(batch.column(0)).table)]})

    with TemporaryDirectory() as folder:
        path = Path(folder) / "events.parquet"
        # Of fewer, a job's own start takes most of the time.
        table = pa.concat_tables([pa.table({"value": pa.array(events, pa.binary())})] * COPIES)
        pq.write_table(table, path, row_group_size=len(events))
        records = spark.read.parquet(path.as_uri()).coalesce(1)
        theirs = records.select(from_avro("value", AVRO_SCHEMA.read_text()).alias("row")).select("row.*")
        ours = records.mapInArrow(decoded, "rows bigint")
        jvm = psutil.Process(spark.sparkContext._gateway.proc.pid)  # type: ignore[union-attr]
        ratios = list[tuple[float, float]]()
        for number in range(rounds + 1):
            took = dict[str, tuple[float, float]]()
            for name, frame in sorted({"hivesink": ours, "from_avro": theirs}.items(), reverse=number % 2 == 1):
                start, cpu = time.perf_counter(), _cpu(jvm)
                frame.write.format("noop").mode("overwrite").save()
                took[name] = time.perf_counter() - start, _cpu(jvm) - cpu
            # The first round warms both.
            if number:
                ratios.append((took["from_avro"][0] / took["hivesink"][0], took["hivesink"][1] / took["from_avro"][1]))
                for name, (seconds, cpu) in took.items():
                    million = 10**6 / len(table)
                    print(f"avro, {name}: {seconds * million:.2f} s, {cpu * million:.2f} CPU s a million rows")
    spark.stop()
    for metric, values in zip(("rows_per_s", "cpu_s_per_mrow"), zip(*ratios, strict=True), strict=True):
        print(f"ratio {NAME} {metric} from_avro {median(values):.2f}")


def _cpu(jvm: psutil.Process) -> float:
    """CPU seconds of Spark and its Python workers."""
    every = [process.cpu_times() for process in (jvm, *jvm.children(recursive=True))]
    return sum(times.user + times.system for times in every)


def main(rows: int, rounds: int) -> None:
    plain = SinkConfig.parse({})
    epoch = SinkConfig.parse({"sink.timestamp-format": "ts=epoch-millis"})
    every = range(rows)
    measure("userinfo", USERS, [user(row) for row in every], plain)
    measure("userinfo, ts as TIMESTAMP", USERS_TIME, [user(row) for row in every], epoch)
    measure("userinfo, an unknown field", USERS, [user(row, more=', "x": "y"') for row in every], plain)
    measure("userinfo, escaped quotes", USERS, [user(row, r"\"q\" ") for row in every], plain)
    measure("userinfo, 1 in 1000 bad", USERS, [user(row) if row % 1000 else "x" for row in every], plain, rows // 1000)
    numbers = [f'{{"userId": {row}, "userName": {row}, "ts": {row}}}' for row in every]
    measure("userinfo, numbers for the STRING", USERS, numbers, plain)
    texts = [f'{{"userId": "{row}", "userName": "a", "ts": "{row}"}}' for row in every]
    measure("userinfo, text for the INT and the BIGINT", USERS, texts, plain)
    spread = ['{\n "userId": %d,\n "userName": "a",\n "ts": 5\n}\n' % row for row in every]  # noqa: UP031
    measure("userinfo, pretty-printed", USERS, spread, plain)
    flights = [flight(row) for row in every]
    measure("flights, 19 fields with nulls", FLIGHTS, flights, plain)
    cells = [["" if value is None else str(value) for value in json.loads(record).values()] for record in flights]
    empty = SinkConfig.parse({"sink.value.csv.null-literal": ""})
    measure("the same in CSV", FLIGHTS, [",".join(row) for row in cells], empty, made=CsvDecoder)
    quoted = ['"' + '","'.join(row) + '"' for row in cells if "" not in row]
    measure("the same in CSV, all quoted", FLIGHTS, quoted, plain, made=CsvDecoder)
    events = [text for chunk in chunks(EVENTS, rows) for text in chunk.texts]
    columns = [Column(name, parse_type(kind)) for name, kind in EVENTS.columns.items()]
    measure(
        "avro, 10 fields", columns, events, plain, made=lambda columns, config: AvroDecoder(columns, config, Given())
    )
    framed = [b"\0\0\0\0\7" + record if row % 1000 else b"x" for row, record in enumerate(events)]
    measure(
        *("avro-confluent, 1 in 1000 bad", columns, framed, plain, -(-rows // 1000)),
        made=lambda columns, config: ConfluentDecoder(columns, config, Given()),
    )
    other = {"amount": P.BIGINT, "day": P.INT}
    measure(
        "protobuf-confluent, 10 fields",
        [Column(column.name, other.get(column.name, column.type)) for column in columns],
        messages(rows),
        plain,
        made=lambda columns, config: ConfluentProtobufDecoder(columns, config, GivenText()),
    )
    beside_spark(events, columns, rounds)
