from __future__ import annotations

from collections.abc import Sequence

# ruff: noqa: DTZ001  wall clocks without a zone are what a Hive TIMESTAMP holds
# ruff: noqa: E501  a case a line
from datetime import date, datetime, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivesink.config.options import OnNull, SinkConfig
from hivesink.core.table import Char, Column, Decimal, HiveType, Primitive, TableName, TableSpec, Varchar
from hivesink.errors import InvalidOption
from hivesink.sink.task.assign import Moment, assigner_for, row_columns
from hivesink.sink.task.buckets import buckets

P = Primitive
ARRIVAL = datetime(2026, 11, 21, 23, 30, tzinfo=timezone.utc)
DT = (Column("dt", P.STRING),)
INSTANT = pa.timestamp("us", "UTC")


def spec(columns: Sequence[Column], partitions: Sequence[Column] = DT) -> TableSpec:
    return TableSpec(TableName("db", "t"), tuple(columns), tuple(partitions))


def paths(table: TableSpec, rows: pa.Table, record_times: pa.Array | None = None, **options: str) -> list[str | None]:
    """Each row's partition, None for an unfit row. Underscores in `options` stand for dots."""
    config = SinkConfig.parse({f"sink.bucket.{name.replace('_', '-')}": text for name, text in options.items()})
    values, bad = assigner_for(table, config)(rows, Moment(record_times, ARRIVAL))
    found = buckets(table.partition_columns, values, rows.num_rows, config["sink.bucket.on-null"], bad)
    assert sorted(unfit.index for unfit in found.unfit) == [row for row, code in enumerate(found.codes) if code < 0]
    return [None if code < 0 else found.paths[code] for code in found.codes.tolist()]


def by_columns(kinds: Sequence[HiveType], *values: pa.Array, on_null: str = "default-partition") -> list[str | None]:
    columns = [Column(f"p{place}", kind) for place, kind in enumerate(kinds)]
    rows = pa.table(list(values), names=[column.name for column in columns])
    return paths(spec([], columns), rows, on_null=on_null)


def by_time(
    times: list[Any], kind: pa.DataType, hive: HiveType, pattern: str = "yyyy-MM-dd--HH", zone: str = "UTC"
) -> list[str | None]:
    rows = pa.table({"at": pa.array(times, kind)})
    return paths(
        spec([Column("at", hive)]), rows,
        assigner="date-time", time_column="at", time_pattern=pattern, time_zone=zone,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "array", "folder"),
    [
        (P.BOOLEAN, pa.array([True]), "true"),
        (P.TINYINT, pa.array([-128], pa.int8()), "-128"),
        (P.DATE, pa.array([date(2024, 1, 2)]), "2024-01-02"),
        (P.TIMESTAMP, pa.array([datetime(2024, 1, 2, 3, 4, 5, 60)], pa.timestamp("us")), "2024-01-02 03%3A04%3A05.00006"),
        (P.DOUBLE, pa.array([1e10]), "1.0E10"),
        (Decimal(9, 2), pa.array([150], pa.int64()).cast(pa.decimal128(21, 2)).cast(pa.decimal128(9, 2), safe=False), "150"),
        (Char(5), pa.array(["ab   "]), "ab"),
        (Varchar(5), pa.array(["  a b"]), "  a b"),
        (P.STRING, pa.array(["a/b=c%d:e f{g}é🙂"]), "a%2Fb%3Dc%25d%3Ae f%7Bg}é🙂"),
        (P.STRING, pa.array(["x\ny"]), "x%0Ay"),
    ],
)  # fmt: skip
def test_canonical_and_escaped_values(kind: HiveType, array: pa.Array, folder: str) -> None:
    assert by_columns([kind], array) == [f"p0={folder}"]


def test_null_and_empty_are_one_partition_or_bad_records() -> None:
    values = pa.array(["", None, "x"])
    assert by_columns([P.STRING], values) == [
        "p0=__HIVE_DEFAULT_PARTITION__",
        "p0=__HIVE_DEFAULT_PARTITION__",
        "p0=x",
    ]
    assert by_columns([P.STRING], values, on_null="bad-record") == [None, None, "p0=x"]
    # CHAR's blanks are none.
    assert by_columns([Char(3)], pa.array(["  "])) == ["p0=__HIVE_DEFAULT_PARTITION__"]


@pytest.mark.parametrize(
    ("value", "reason"),
    [("x" * 254, "a folder name of 256 bytes"), ("__HIVE_DEFAULT_PARTITION__", "Hive keeps this text for null")],
)
def test_a_value_that_can_not_be_a_folder_makes_its_rows_bad(value: str, reason: str) -> None:
    column = Column("p", P.STRING)
    found = buckets([column], [pa.array(["ok", value, "ok", value])], 4, OnNull.DEFAULT_PARTITION)
    assert [(unfit.index, unfit.field) for unfit in found.unfit] == [(1, "p"), (3, "p")]
    assert all(reason in unfit.reason for unfit in found.unfit)
    assert found.codes.tolist()[1::2] == [-1, -1]
    assert [found.paths[code] for code in found.codes.tolist()[::2]] == ["p=ok", "p=ok"]
    assert by_columns([P.STRING], pa.array(["x" * 252])) == ["p0=" + "x" * 252]


def test_partitions_that_the_metastore_can_not_hold_make_their_rows_bad() -> None:
    columns = [Column("p", P.STRING), Column("q", P.STRING)]
    values = [pa.array(["a ", "a", "a ", "a"]), pa.array(["b", "b ", "b", "b"])]
    found = buckets(columns, values, 4, OnNull.DEFAULT_PARTITION)
    assert [(unfit.index, unfit.field) for unfit in found.unfit] == [(1, None)]
    assert "'p=a/q=b ' ends in a blank" in found.unfit[0].reason
    assert [found.paths[code] for code in found.codes.tolist() if code >= 0] == ["p=a /q=b", "p=a /q=b", "p=a/q=b"]
    assert by_columns([P.STRING] * 4, *[pa.array(["x" * 200, "x"])] * 4) == [None, "p0=x/p1=x/p2=x/p3=x"]


def test_many_partition_columns_of_many_values() -> None:
    """Eight columns of 512 values each: 2^72 combinations, of which 512 occur."""
    column = pa.array([f"{value:03d}" for value in range(512)])
    found = by_columns([P.STRING] * 8, *[column] * 8)
    assert found == ["/".join(f"p{place}={value:03d}" for place in range(8)) for value in range(512)]


@given(
    st.lists(
        st.tuples(st.sampled_from(["", "a", "a ", "ä", "x" * 300, None]), st.integers(0, 3), st.none() | st.booleans()),
        max_size=30,
    )
)
def test_buckets_are_those_of_each_row_alone(rows: list[tuple[str | None, int, bool | None]]) -> None:
    columns = [Column("s", P.STRING), Column("n", P.BIGINT), Column("b", P.BOOLEAN)]
    kinds = [pa.string(), pa.int64(), pa.bool_()]

    def of(some: list[tuple[str | None, int, bool | None]]) -> list[str | None]:
        values = [pa.array([row[place] for row in some], kind) for place, kind in enumerate(kinds)]
        found = buckets(columns, values, len(some), OnNull.DEFAULT_PARTITION)
        return [None if code < 0 else found.paths[code] for code in found.codes.tolist()]

    assert of(rows) == [of([row])[0] for row in rows]


def test_an_unpartitioned_table_has_one_bucket() -> None:
    found = buckets([], [], 3, OnNull.BAD_RECORD)
    assert (found.paths, found.codes.tolist(), found.unfit) == (("",), [0, 0, 0], ())


def test_by_arrival_every_row_of_a_batch_goes_to_one_place() -> None:
    rows = pa.table({"id": [1, 2]})
    table = spec([Column("id", P.BIGINT)])
    assert paths(table, rows, assigner="date-time") == ["dt=2026-11-21--23"] * 2
    assert paths(table, rows, assigner="date-time", time_zone="Europe/Berlin") == ["dt=2026-11-22--00"] * 2


INSTANTS = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29), timezones=st.just(timezone.utc)) | st.datetimes(
    datetime(2023, 1, 1), datetime(2045, 1, 1), timezones=st.just(timezone.utc)
)


@given(
    st.lists(INSTANTS | st.none(), max_size=20),
    st.sampled_from(["UTC", "Europe/Berlin", "America/Los_Angeles", "Asia/Kathmandu", "Australia/Lord_Howe", "Africa/Monrovia"]),
    st.sampled_from([("yyyy-MM-dd--HH", "%Y-%m-%d--%H"), ("yyyyMM", "%Y%m"), ("HH:mm", "%H:%M"), ("mm:ss", "%M:%S")]),
)  # fmt: skip
def test_by_time_agrees_with_pythons_zones(
    instants: list[datetime | None], zone: str, pattern: tuple[str, str]
) -> None:
    rows = pa.table({"id": pa.array(range(len(instants)))})
    found = paths(
        spec([Column("id", P.BIGINT)]), rows, pa.array(instants, INSTANT),
        assigner="date-time", time_column="timestamp", time_zone=zone, time_pattern=pattern[0],
    )  # fmt: skip

    def expected(at: datetime | None) -> str:
        if at is None:
            return "dt=__HIVE_DEFAULT_PARTITION__"
        local = at.astimezone(ZoneInfo(zone))
        text = local.strftime(pattern[1].replace("%Y", f"{local.year:04d}"))
        return f"dt={text.replace(':', '%3A')}"

    assert found == [expected(at) for at in instants]


@pytest.mark.parametrize(
    ("times", "kind", "hive", "zone", "found"),
    [
        # A wall clock of a table whose sink.timestamp-zone is UTC, shown in another zone.
        ([datetime(2026, 7, 1, 23)], pa.timestamp("us"), P.TIMESTAMP, "Europe/Berlin", "2026-07-02--01"),
        ([datetime(2026, 7, 1, 23)], pa.timestamp("us"), P.TIMESTAMP, "UTC", "2026-07-01--23"),
        # A date is no instant: no zone moves it.
        ([date(2026, 7, 1)], pa.date32(), P.DATE, "America/Los_Angeles", "2026-07-01--00"),
        ([1_782_946_799_999], pa.int64(), P.BIGINT, "Europe/Berlin", "2026-07-02--00"),
        ([datetime(2050, 7, 1, 12)], pa.timestamp("us"), P.TIMESTAMP, "Europe/Berlin", "2050-07-01--14"),
        ([None], pa.int64(), P.BIGINT, "UTC", "__HIVE_DEFAULT_PARTITION__"),
        # No calendar has it; it must not stop the job.
        ([datetime(9999, 12, 31, 23)], pa.timestamp("us"), P.TIMESTAMP, "Europe/Berlin", "__HIVE_DEFAULT_PARTITION__"),
    ],
)  # fmt: skip
def test_by_a_column_of_the_table(times: list[Any], kind: pa.DataType, hive: HiveType, zone: str, found: str) -> None:
    assert by_time(times, kind, hive, zone=zone) == [f"dt={found}"]


def test_the_wall_clock_of_one_zone_in_another() -> None:
    # The second comes twice in Berlin, the third never.
    clocks = [datetime(2026, 1, 2, 3), datetime(2026, 10, 25, 2, 30), datetime(2026, 3, 29, 2, 30)]
    zones = {"sink.timestamp-zone": "Europe/Berlin", "sink.bucket.time-zone": "America/New_York"}
    config = SinkConfig.parse({"sink.bucket.assigner": "date-time", "sink.bucket.time-column": "at", **zones})
    rows = pa.table({"at": pa.array(clocks, pa.timestamp("us"))})
    values, _ = assigner_for(spec([Column("at", P.TIMESTAMP)]), config)(rows, Moment(None, ARRIVAL))
    assert values[0].to_pylist() == ["2026-01-01--21", "2026-10-24--20", "2026-03-28--21"]


@pytest.mark.parametrize(
    ("form", "number", "found"),
    [
        ("text", 1_709_618_828_123, "dt=2024-03-05--06"),
        ("text", 0, "dt=1970-01-01--00"),
        ("text", -(10**12), "dt=1938-04-24--22"),
        ("text", 1_709_618_828, "too close to 1970 for epoch-millis"),
        ("text", -1, "too close to 1970 for epoch-millis"),
        ("text", 2**62, "out of range for epoch-millis"),
        ("text", -(2**63), "out of range for epoch-millis"),
        ("epoch-seconds", 1_709_618_828, "dt=2024-03-05--06"),
        ("at=epoch-micros", 1_709_618_828_123_456, "dt=2024-03-05--06"),
        ("epoch-nanos", 1_709_618_828_123_456_789, "dt=2024-03-05--06"),
        ("epoch-nanos", -1_709_618_828_123_456_789, "dt=1915-10-29--17"),
        ("other=epoch-days", 1_709_618_828_123, "dt=2024-03-05--06"),
        ("epoch-days", 19_787, "dt=2024-03-05--00"),
        ("epoch-days", 1_709_618_828, "out of range for epoch-days"),
    ],
)
@pytest.mark.parametrize("of_table", [True, False])
def test_numbers_in_their_unit(form: str, number: int, found: str, *, of_table: bool) -> None:
    """Of a column of the table's, and of one that only the stream has."""
    settings = {"sink.bucket.assigner": "date-time", "sink.bucket.time-column": "at", "sink.timestamp-format": form}
    config = SinkConfig.parse(settings)
    table = spec([Column("at" if of_table else "id", P.BIGINT)])
    times = pa.array([1_000_000_000_000_000, None, number])
    rows = pa.table({"at" if of_table else "id": times})
    values, bad = assigner_for(table, config)(rows, Moment(None if of_table else times, ARRIVAL))
    made = buckets(table.partition_columns, values, 3, OnNull.DEFAULT_PARTITION, bad)
    reasons = {bad.index: bad.reason for bad in made.unfit}
    assert reasons.get(2, made.paths[made.codes[2]]) == found
    assert made.paths[made.codes[1]] == "dt=__HIVE_DEFAULT_PARTITION__"


def test_a_pattern_for_each_partition_column() -> None:
    rows = pa.table({"at": pa.array([datetime(987, 1, 2, 3)], pa.timestamp("us"))})
    table = spec([Column("at", P.TIMESTAMP)], (Column("dt", P.STRING), Column("hour", P.INT)))
    found = paths(table, rows, assigner="date-time", time_column="at", time_pattern="hour=HH,dt=yyyy-MM-dd")
    assert found == ["dt=0987-01-02/hour=3"]


def test_a_time_of_another_type_is_refused() -> None:
    with pytest.raises(InvalidOption, match="'at' is of type string, not TIMESTAMP, DATE or BIGINT"):
        by_time(["2026"], pa.string(), P.STRING)


def test_a_time_column_that_nobody_has_is_refused() -> None:
    rows = pa.table({"id": [1]})
    with pytest.raises(InvalidOption, match="'at' is a column neither of the table nor of the stream"):
        paths(spec([Column("id", P.BIGINT)]), rows, assigner="date-time", time_column="at")


BY_BROWSER = (Column("browser", P.STRING), Column("dt", P.STRING))


def test_partition_columns_without_a_pattern_come_from_the_rows() -> None:
    columns = (Column("build", P.INT), Column("dt", P.STRING), Column("day", P.DATE))
    rows = pa.table({
        "id": [1, 2, 3],
        "build": pa.array([7, None, 7], pa.int32()),
        "day": [date(2024, 1, 2), date(2024, 1, 2), None],
    })  # fmt: skip
    found = paths(spec([Column("id", P.BIGINT)], columns), rows, assigner="date-time", time_pattern="dt=yyyy-MM-dd")
    assert found == [
        "build=7/dt=2026-11-21/day=2024-01-02",
        "build=__HIVE_DEFAULT_PARTITION__/dt=2026-11-21/day=2024-01-02",
        "build=7/dt=2026-11-21/day=__HIVE_DEFAULT_PARTITION__",
    ]


def test_a_null_time_and_a_null_of_the_row_beside_each_other() -> None:
    rows = pa.table({
        "at": pa.array([datetime(2024, 1, 2), None, datetime(2024, 1, 2), None], pa.timestamp("us")),
        "browser": ["x", "x", "", None],
    })  # fmt: skip
    table = spec([Column("at", P.TIMESTAMP)], BY_BROWSER)
    by_day = {"assigner": "date-time", "time_column": "at", "time_pattern": "dt=yyyy-MM-dd"}
    null = "__HIVE_DEFAULT_PARTITION__"
    found = [f"browser=x/dt={null}", f"browser={null}/dt=2024-01-02", f"browser={null}/dt={null}"]
    assert paths(table, rows, **by_day) == ["browser=x/dt=2024-01-02", *found]
    assert paths(table, rows, **by_day, on_null="bad-record") == ["browser=x/dt=2024-01-02", None, None, None]


def test_a_partition_column_of_the_rows_may_be_the_time() -> None:
    rows = pa.table({"id": [1], "day": [date(2024, 1, 2)]})
    by_month = {"assigner": "date-time", "time_column": "day", "time_pattern": "month=yyyy-MM"}
    table = spec([Column("id", P.BIGINT)], (Column("month", P.STRING), Column("day", P.DATE)))
    assert paths(table, rows, **by_month) == ["month=2024-01/day=2024-01-02"]
    texts = spec([Column("id", P.BIGINT)], (Column("month", P.STRING), Column("day", P.STRING)))
    with pytest.raises(InvalidOption, match="'day' is of type string, not TIMESTAMP, DATE or BIGINT"):
        paths(texts, rows, **by_month)


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        ("yyyy", "= 'yyyy' names no column, and db.t has several partition columns: .* such as dt=yyyy"),
        (None, "= 'yyyy-MM-dd--HH' names no column"),
        ("dt=yyyy,minute=mm", "names minute, no partition column of db.t; it has browser, dt"),
        ("id=yyyy", "names id, no partition column of db.t; it has browser, dt"),
    ],
)  # fmt: skip
def test_patterns_that_name_no_partition_column_are_refused(pattern: str | None, told: str) -> None:
    table = spec([Column("id", P.BIGINT)], BY_BROWSER)
    given = {} if pattern is None else {"time_pattern": pattern}
    with pytest.raises(InvalidOption, match=f"sink.bucket.time-pattern {told}"):
        paths(table, pa.table({"id": [1]}), assigner="date-time", **given)


def test_only_partition_columns_need_columns_of_the_stream() -> None:
    table = spec([Column("s", P.STRING)])
    assert row_columns(table, SinkConfig.parse({})) == (*table.columns, *DT)
    assert row_columns(table, SinkConfig.parse({"sink.bucket.assigner": "date-time"})) == table.columns
    by_day = {"sink.bucket.assigner": "date-time", "sink.bucket.time-pattern": "dt=yyyy-MM-dd"}
    assert row_columns(spec(table.columns, BY_BROWSER), SinkConfig.parse(by_day)) == (*table.columns, BY_BROWSER[0])
