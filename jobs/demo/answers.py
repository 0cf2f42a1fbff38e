"""What is in the table, asked as any reader would: the metastore, the folders, and SQL through Hive's reader."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from jobs.demo.flights import Flights
    from jobs.demo.screen import Screen

COUNT = "SELECT count(*) FROM demo.flights"
CARRIERS = "SELECT carrier, count(*) FROM demo.flights GROUP BY carrier"
DELAYS = "SELECT month, avg(dep_delay) FROM demo.flights GROUP BY month"


def finished_files(table: Path) -> list[Path]:
    """What a reader sees: files that no part of the sink's work hides behind a `.` or a `_`."""
    return sorted(file for file in table.glob("dt=*/*") if file.name[0] not in "._")


def show_partitions(spark: SparkSession, flights: Flights, screen: Screen) -> None:
    """How many partitions the metastore lists, and which are the first and the last."""
    found = [row.partition for row in spark.sql("SHOW PARTITIONS demo.flights").collect()]
    screen.step("Partitions in the metastore")
    screen.fact(f"{', '.join(found[:2])} … {', '.join(found[-2:])}")
    screen.check(f"{len(found)} partitions, one for each day", right=len(found) == flights.days)


def show_files(table: Path, screen: Screen) -> None:
    """How many files readers see, and what their names look like."""
    found = finished_files(table)
    size = sum(file.stat().st_size for file in found)
    screen.step("Finished files")
    screen.fact(f"{len(found)} files, {size / 1e6:.1f} MB in {table.name}/")
    for file in (*found[:1], *found[-1:]):
        screen.fact(f"{file.parent.name}/")
        screen.fact(f"  {file.name}")


def show_answers(spark: SparkSession, flights: Flights, screen: Screen) -> None:
    """Three queries, each against the same figure from the CSV."""
    screen.step("Answers of Hive's own reader")
    screen.fact("(spark.sql.hive.convertMetastoreParquet=false)")
    total = spark.sql(COUNT).collect()[0][0]
    screen.answer(COUNT, [f"{total:,}"], right=total == flights.total)

    carriers = {row[0]: row[1] for row in spark.sql(CARRIERS).collect()}
    most = sorted(carriers.items(), key=lambda pair: -pair[1])
    lines = _in_columns([f"{name} {count:>6,}" for name, count in most])
    screen.answer(CARRIERS, lines, right=carriers == flights.by_carrier)

    delays = {row[0]: row[1] for row in spark.sql(DELAYS).collect()}
    lines = _in_columns([f"{month:>2} {delay:>6.2f}" for month, delay in sorted(delays.items())], each=6)
    expected = flights.mean_delay_by_month
    right = delays.keys() == expected.keys() and all(
        math.isclose(delays[month], expected[month], rel_tol=1e-12) for month in expected
    )
    screen.answer(DELAYS, lines, right=right)


def _in_columns(cells: list[str], each: int = 5) -> list[str]:
    return ["   ".join(cells[start : start + each]) for start in range(0, len(cells), each)]
