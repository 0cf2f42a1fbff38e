"""A table whose partitions are days that the watermark ends, on the real metastore, and writers of it without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timezone
from itertools import count
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from hivesink.hiveql.apply import apply
from hivesink.hiveql.parse import parse_ddl
from hivesink.metastore import catalog
from hivesink.sink.task.messages import InputShape
from tests.cli.site import Ingest

DDL = """CREATE TABLE {name} (id BIGINT)
PARTITIONED BY (dt STRING)
STORED AS PARQUET
LOCATION '{location}'
TBLPROPERTIES (
  'sink.rolling-policy.on-epoch'='false',
  'sink.partition-commit.trigger'='partition-time',
  'sink.partition-commit.delay'='1d'
)
"""
BY_HOUR = """CREATE TABLE {name} (id BIGINT, at TIMESTAMP)
PARTITIONED BY (day STRING, hour INT)
STORED AS PARQUET
LOCATION '{location}'
TBLPROPERTIES (
  'sink.rolling-policy.on-epoch'='false',
  'sink.partition-commit.trigger'='partition-time',
  'sink.bucket.assigner'='date-time',
  'sink.bucket.time-column'='at',
  'sink.bucket.time-pattern'='day=yyyy-MM-dd,hour=HH'
)
"""
BY_BROWSER = BY_HOUR.replace("(day STRING, hour INT)", "(browser STRING, dt STRING)").replace(
    "day=yyyy-MM-dd,hour=HH", "dt=yyyy-MM-dd"
)
_numbers = count(1)


def create(uri: str, folder: Path, ddl: str = DDL) -> str:
    """The name of a new table below `folder`."""
    name = f"daily{next(_numbers)}.events"
    text = ddl.format(name=name, location=(folder / "data" / "events").as_uri())
    apply([parse_ddl(text, "daily.sql")], catalog(uri))
    return name


class Daily(Ingest):
    """A writer whose rows are of days in January 2024, and wait for their ends."""

    usual: ClassVar[Mapping[str, str]] = {}

    def read(self, *days: int | str, mark: int | None) -> None:
        """Commit a batch with a row of each of these days, after which the watermark is the first moment of `mark`.

        Without `mark` it is the sink's own, by the column `at`.
        A text is the value of `dt` as it is.
        """
        shape = InputShape(value="value", topic_name="t", event_time="at")
        if mark is not None:
            shape = replace(shape, watermark=datetime(2024, 1, mark, tzinfo=timezone.utc), event_time=None)
        dates = {day: day if isinstance(day, str) else f"2024-01-{day:02d}" for day in days}
        records = [
            f'{{"id": {number}, "dt": "{dates[day]}", "at": "{dates[day]} 03:00:00", "browser": "b{number}"}}'.encode()
            for number, day in enumerate(days)
        ]
        self.put(pa.RecordBatch.from_pydict({"value": pa.array(records, pa.binary())}), shape)
