"""`hivesink query`: SQL over the tables, by a local Spark or through HiveServer2."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from hivesink.cli.options import Debug, Json, Metastore
from hivesink.cli.output import Grid, Line, Report
from hivesink.cli.reporting import reporting
from hivesink.errors import InvalidOption, QueryFailed, SourceUnreachable

if TYPE_CHECKING:
    from collections.abc import Sequence


class Via(str, Enum):
    """Who answers a query."""

    SPARK = "spark"
    HIVESERVER2 = "hiveserver2"


class Auth(str, Enum):
    """HiveServer2's `hive.server2.authentication`, as far as a query here needs it."""

    NONE = "NONE"
    NOSASL = "NOSASL"


Sql = Annotated[str, typer.Argument(help="One SQL statement.", metavar="SQL")]
ViaOption = Annotated[Via, typer.Option("--via", help="A Spark session of its own, or a running HiveServer2.")]
Address = Annotated[
    Optional[str],  # noqa: UP045  typer reads this at run time, on Python 3.10 too
    typer.Option("--address", metavar="HOST:PORT", help="HiveServer2's address, for --via hiveserver2."),
]
AuthOption = Annotated[Auth, typer.Option("--auth", help="HiveServer2's authentication.")]
Limit = Annotated[int, typer.Option("--limit", min=1, help="The most rows to fetch.")]


@dataclass(frozen=True, slots=True)
class Answer:
    """The first rows of a result; `more`: there were others."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    more: bool


def query(
    sql: Sql,
    *,
    via: ViaOption = Via.SPARK,
    address: Address = None,
    auth: AuthOption = Auth.NONE,
    limit: Limit = 1000,
    metastore: Metastore = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Run one SQL statement and print its rows.

    Spark is started for it, which takes some seconds. In JSON, times are ISO 8601, decimals text, bytes base64.

    Example: hivesink query "SELECT count(*) FROM demo.flights"
    """
    with reporting(as_json=json, debug=debug) as out:
        if via is Via.SPARK:
            answer = _by_spark(sql, metastore, limit)
        else:
            answer = _by_hiveserver2(sql, *_split(address), auth.value, limit)
        out.show(_report(answer, limit))


def _by_spark(sql: str, metastore: str | None, limit: int) -> Answer:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from hivesink.jobsession import session

    spark = session("hivesink query", metastore=metastore)
    try:
        frame = spark.sql(sql)
        rows = [tuple(row) for row in frame.limit(limit + 1).collect()]
        return _first(tuple(frame.columns), rows, limit)
    except (PySparkException, Py4JError) as error:
        raise QueryFailed(str(error).partition("\n")[0]) from error
    finally:
        spark.stop()


def _split(address: str | None) -> tuple[str, int]:
    host, _, port = (address or "").rpartition(":")
    if not host or not port.isdigit():
        raise InvalidOption(("--via hiveserver2 needs --address HOST:PORT, such as hive.example:10000",))
    return host, int(port)


def _by_hiveserver2(sql: str, host: str, port: int, auth: str, limit: int) -> Answer:
    from pyhive import exc, hive
    from thrift.transport.TTransport import TTransportException

    try:
        with closing(hive.connect(host=host, port=port, auth=auth)) as connection:
            cursor = connection.cursor()
            cursor.execute(sql)
            columns = tuple(column[0] for column in cursor.description or ())
            rows = cursor.fetchmany(limit + 1) if columns else []
            return _first(columns, rows, limit)
    except (TTransportException, OSError) as error:
        where = f"HiveServer2 at {host}:{port}"
        raise SourceUnreachable(where, f"{error}; is it running, and is --auth {auth} its own?") from error
    except exc.Error as error:
        raise QueryFailed(_reason(error)) from error


def _reason(error: Exception) -> str:
    """HiveServer2's own words: PyHive passes the whole Thrift answer on."""
    status = getattr(error.args[0], "status", None) if error.args else None
    message = getattr(status, "errorMessage", None) or str(error)
    return str(message).partition("\n")[0]


def _first(columns: tuple[str, ...], rows: Sequence[Sequence[Any]], limit: int) -> Answer:
    return Answer(columns, tuple(tuple(row) for row in rows[:limit]), len(rows) > limit)


def _report(answer: Answer, limit: int) -> Report:
    data = {"columns": answer.columns, "rows": answer.rows, "more": answer.more}
    blocks: list[Line | Grid] = [
        Grid("", answer.columns, [["NULL" if cell is None else cell for cell in row] for row in answer.rows])
    ]
    if answer.more:
        blocks.append(Line(f"only the first {limit} rows: --limit", "yellow"))
    else:
        blocks.append(Line(f"{len(answer.rows)} rows"))
    return Report(data, blocks)
