"""Which time decides the partitions, and how long each is."""

from __future__ import annotations

import json
from datetime import datetime, timezone

import pytest

from hivesink.core.table import TableName
from hivesink.sample.proposal import (
    ARRIVAL,
    RECORD,
    Partitioning,
    Proposal,
    default_pattern,
    default_time,
    find,
    no_time,
    propose,
    time_choices,
)
from hivesink.sample.records import KafkaRecord, Line, Sample, of_kafka, of_lines

NOW = datetime(2026, 11, 23, tzinfo=timezone.utc)
NAME = TableName("a", "b")
AT = "2024-01-02T03:04:05Z"


def _sample(*records: dict[str, object], total: int = 1) -> Sample:
    return of_lines([Line("f", number, json.dumps(one).encode()) for number, one in enumerate(records, 1)], total)


@pytest.mark.parametrize(
    ("record", "time"),
    [
        ({"id": 1, "created_at": AT, "ts": AT}, "ts"),
        ({"updated": AT, "event_time": 1704150000000}, "event_time"),
        ({"day": "2024-01-02", "at": AT}, "at"),
        ({"runtime": 17, "day": "2024-01-02"}, "day"),
        ({"birthdate": "1980-01-02"}, ARRIVAL),
        ({"time": 1704150000}, ARRIVAL),
        ({"id": 1704150000000}, ARRIVAL),
    ],
)
def test_the_likeliest_time(record: dict[str, object], time: str) -> None:
    assert default_time(find(_sample(record), NAME, NOW), from_kafka=False) == time


def test_a_time_that_few_records_have_is_none() -> None:
    found = find(_sample({"ts": AT}, {"at": AT}, {"at": AT}), NAME, NOW)
    assert default_time(found, from_kafka=True) == "at"


def test_without_a_column_it_is_the_kafka_records_time() -> None:
    assert default_time(find(_sample({"id": 1}), NAME, NOW), from_kafka=True) == RECORD
    # The setting would name the table's column.
    # Seconds would be read as milliseconds: all rows in January 1970.
    for hidden in ("soon", 1704067200):
        found = find(_sample({"timestamp": hidden}), NAME, NOW)
        assert default_time(found, from_kafka=True) == ARRIVAL
        assert time_choices(found, from_kafka=True) == (ARRIVAL,)


@pytest.mark.parametrize(("total", "pattern"), [(10_000, "day"), (200_000, "hour")])
def test_busy_hours_get_partitions_of_their_own(total: int, pattern: str) -> None:
    sample = _sample({"ts": "2024-01-02T00:00:00Z"}, {"ts": "2024-01-02T20:00:00Z"}, total=total)
    found = find(sample, NAME, NOW)
    assert default_pattern(found, "ts", sample.total) == pattern
    assert default_pattern(found, ARRIVAL, sample.total) == "day"


def test_what_it_says_of_seconds_and_of_names_like_the_partitions() -> None:
    sample = _sample({"time": 1704150000, "dt": 1, "event_dt": 2, "x\ny": 1})
    found = find(sample, NAME, NOW)
    made = propose(sample, NAME, found, Partitioning(ARRIVAL, "day", "UTC"), source="a\nb", arrival=NOW)
    assert "`time` bigint COMMENT 'epoch seconds, by its name and values; for partitions make" in made.ddl
    assert "make a time in the job" in str(no_time(found, "time"))
    assert "(`partition_dt` string COMMENT 'day of arrival in UTC, yyyy-MM-dd')" in made.ddl
    assert "time-column'=" not in made.ddl
    assert "add it, and 'sink.column.<name>.from'='file.path', or file.line, arrival-time, batch.id.\n" in made.ddl
    assert '-- "x\\u000ay" is left out' in made.ddl
    assert made.checked.partitions == ("partition_dt=2026-11-23",)


def test_the_record_time_of_kafka_decides() -> None:
    at = datetime(2024, 1, 2, 23, 30, tzinfo=timezone.utc)
    sample = of_kafka([KafkaRecord("t", 0, 7, at, b'{"a": 1}'), KafkaRecord("t", 1, 8, at, None)], 2)
    found = find(sample, NAME, NOW)
    by = Partitioning(RECORD, "hour", "Europe/Berlin")
    made = propose(sample, NAME, found, by, source="kafka://h:1/t", arrival=NOW)
    assert "COMMENT 'hour of the Kafka record''s timestamp in Europe/Berlin" in made.ddl.replace("\\'", "''")
    kafkas = "kafka.topic, kafka.partition, kafka.offset, kafka.timestamp, kafka.headers, arrival-time, batch.id"
    assert f"'sink.column.<name>.from'='kafka.key', or {kafkas}. Headers need sources.kafka(" in made.ddl
    checked = made.checked
    assert (checked.partitions, checked.skipped, checked.bad) == (("dt=2024-01-03--00",), 1, ())


def test_a_zone_beside_times_without_an_offset_says_as_what_they_are_read() -> None:
    sample = _sample({"ts": "2024-01-01T23:30:00"})
    found = find(sample, NAME, NOW)

    def made(zone: str) -> Proposal:
        return propose(sample, NAME, found, Partitioning("ts", "day", zone), source="a", arrival=NOW)

    berlin = made("Europe/Berlin")
    assert berlin.checked.partitions == ("dt=2024-01-02",)
    assert "-- ts without an offset is read as UTC; if its clock is that of Europe/Berlin, add" in berlin.ddl
    assert "offset" not in made("UTC").ddl
