"""`hivesink query`: SQL over the tables, by DuckDB, a local Spark session or HiveServer2."""

from __future__ import annotations

import os
import time
from typing import Annotated, Any, Literal

import typer

from hivesink import kerberos
from hivesink.cli.codes import summary
from hivesink.cli.command import Metastore, command
from hivesink.cli.output import Grid, Line, Output, plain, shown, tell
from hivesink.core.progress import count
from hivesink.errors import InvalidOption, NotCovered, QueryFailed
from hivesink.hive import Answer, Hive

Sql = Annotated[str, typer.Argument(help="One SQL statement.", metavar="SQL")]


@command
def query(
    out: Output,
    sql: Sql,
    *,
    engine: Literal["duckdb", "spark", "hiveserver2"] | None = None,
    hiveserver2: str | None = None,
    limit: int = 1000,
    metastore: Metastore = None,
) -> None:
    """Run one SQL statement and print its rows.

    DuckDB answers a SELECT over Parquet tables in a few seconds; its casts and overflows aren't Spark's. For all else a
    local Spark session starts, which takes longer. In JSON, times are ISO 8601, decimals are text, bytes are base64.

    Example: hivesink query "SELECT count(*) FROM demo.flights"

    --engine duckdb|spark|hiveserver2: Who answers. Default: duckdb, or spark where duckdb can't.
    --hiveserver2 HOST:PORT: Ask this HiveServer2, also without --engine; hive-site.xml has its authentication.
    --limit N: How many rows to fetch at most.
    """
    if engine is not None and (engine == "hiveserver2") != (hiveserver2 is not None):
        raise InvalidOption(("--engine hiveserver2 and --hiveserver2 HOST:PORT go together: add or leave out one",))
    by, site = engine or "duckdb", kerberos.site_of(os.environ)
    if hiveserver2 is not None:
        with Hive(hiveserver2, site.hive) as hive:
            by, answer = "hiveserver2", hive.query(sql, most=limit + 1)
    elif by == "spark":
        answer = _ask_spark(sql, metastore, limit + 1)
    else:
        from hivesink.tables.duck import ask
        from hivesink.tables.opened import metastore_address

        try:
            answer = Answer(*ask(sql, lambda: metastore_address(metastore, site), site, limit + 1))
        except NotCovered as error:
            if engine is not None:
                raise
            tell(f"duckdb doesn't answer this, and Spark starts: {error.reason}")
            by, answer = "spark", _ask_spark(sql, metastore, limit + 1)
    tell(f"engine: {by}")
    out.show(*_report(by, answer, limit))


def _ask_spark(sql: str, metastore: str | None, most: int) -> Answer:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from hivesink.spark.session import answer, session

    # A TIMESTAMP is a wall clock: Spark would shift it from UTC to the zone of its JVM.
    os.environ["TZ"] = "UTC"
    time.tzset()
    spark = session("hivesink query", metastore=metastore, quiet=True)
    try:
        frame = spark.sql(sql)
        types, rows = answer(frame, most)
        return Answer(frame.columns, types, rows)
    except (PySparkException, Py4JError) as error:
        raise QueryFailed(summary(error)) from error
    finally:
        spark.stop()


def _report(by: str, answer: Answer, limit: int) -> tuple[dict[str, Any], list[Grid | Line]]:
    more = len(answer.rows) > limit
    rows = [[plain(cell, kind) for cell, kind in zip(row, answer.types, strict=True)] for row in answer.rows[:limit]]
    end = Line(f"{count(len(rows), 'row')} ({by})")
    if more:
        end = Line(f"only the first {count(len(rows), 'row')} ({by}); raise --limit to see more", "yellow")
    grid = Grid("", [*map(shown, answer.columns)], [[shown(cell) for cell in row] for row in rows])
    return {"columns": answer.columns, "rows": rows, "more": more, "engine": by}, [grid, end]
