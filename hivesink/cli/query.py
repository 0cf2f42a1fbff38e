"""`hivesink query`: SQL over the tables, by DuckDB, a local Spark session or HiveServer2."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from enum import Enum
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hivesink.cli.cells import plain, shown
from hivesink.cli.codes import OLD_CLIENT, is_old_client, reason_of
from hivesink.cli.command import Debug, Json, Metastore, existing, given, reporting
from hivesink.cli.output import Grid, Line, Report, tell
from hivesink.config.site import Site
from hivesink.core.progress import count
from hivesink.core.typetext import known_type
from hivesink.errors import NotCovered, QueryFailed, WrongUsage
from hivesink.hive import Auth, Login, connect

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hivesink.core.table import HiveType

PASSWORD = "HIVESINK_HIVESERVER2_PASSWORD"  # noqa: S105  the variable's name

# What a Spark configuration may set without another answer.
_HARMLESS = (
    "spark.sql.adaptive.",
    "spark.sql.catalogImplementation",
    "spark.sql.hive.metastore.",
    "spark.sql.shuffle.partitions",
    "spark.sql.warehouse.dir",
)
_ZONE_OF_JVM = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "SPARK_SUBMIT_OPTS")


class Engine(Enum):
    """Who answers."""

    AUTO = "auto"
    DUCKDB = "duckdb"
    SPARK = "spark"
    HIVESERVER2 = "hiveserver2"


Sql = Annotated[str, typer.Argument(help="One SQL statement.", metavar="SQL")]
HiveServer2 = Annotated[
    str | None,
    typer.Option("--hiveserver2", metavar="HOST:PORT", help="Ask this HiveServer2."),
]
EngineOption = Annotated[
    Engine | None,
    typer.Option(
        "--engine",
        help="Who answers. auto, the default: duckdb where it is sure to answer as Spark does, else Spark.",
        metavar="auto|duckdb|spark|hiveserver2",
    ),
]
AuthOption = Annotated[
    Auth | None,
    typer.Option("--auth", help="HiveServer2's authentication. Default: hive-site.xml's, or NONE.", metavar="AUTH"),
]
User = Annotated[
    str | None, typer.Option("--user", help="The user name for HiveServer2. Default: this user.", metavar="NAME")
]
PasswordFile = Annotated[
    Path | None,
    typer.Option(
        "--password-file",
        help=f"A file with the LDAP password. Or set {PASSWORD}.",
        metavar="FILE",
        dir_okay=False,
        callback=existing,
    ),
]
Service = Annotated[
    str | None,
    typer.Option("--kerberos-service", help="HiveServer2's Kerberos service. Default: `hive`.", metavar="NAME"),
]
Limit = Annotated[int, typer.Option("--limit", min=1, help="How many rows to fetch at most.")]


def query(
    sql: Sql,
    *,
    engine: EngineOption = None,
    hiveserver2: HiveServer2 = None,
    auth: AuthOption = None,
    user: User = None,
    password_file: PasswordFile = None,
    kerberos_service: Service = None,
    limit: Limit = 1000,
    metastore: Metastore = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Run one SQL statement and print its rows.

    DuckDB answers simple statements over Parquet tables in a few seconds. For all else a local Spark session starts,
    which takes longer. In JSON, times are ISO 8601, decimals are text, bytes are base64.

    Example: hivesink query "SELECT count(*) FROM demo.flights"
    """
    with reporting(as_json=json, debug=debug) as out:
        chosen = _engine(engine, hiveserver2)
        if hiveserver2 is not None:
            with given():
                hive = connect(hiveserver2, _login(auth, user, password_file, kerberos_service))
            with hive:
                result = hive.query(sql, most=limit + 1)
            types = [known_type(column.type) for column in result.columns]
            found = Found(chosen, [column.name for column in result.columns], result.rows, types)
        elif chosen is Engine.SPARK:
            found = _ask_spark(sql, metastore, limit + 1)
        elif chosen is Engine.DUCKDB:
            found = _ask_duckdb(sql, metastore, limit + 1)
        else:
            found = _ask_either(sql, metastore, limit + 1)
        out.show(_report(found, limit))


@dataclass(frozen=True, slots=True)
class Found:
    """What an engine answered: one row more than is shown, if there are more."""

    engine: Engine
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    types: Sequence[HiveType | None] = ()
    """Of the columns, by which `plain` reads what the engine gives in a form of its own."""


def _engine(chosen: Engine | None, hiveserver2: str | None) -> Engine:
    """Raises WrongUsage where the two options contradict each other."""
    if hiveserver2 is None and chosen is Engine.HIVESERVER2:
        raise WrongUsage(("--engine hiveserver2 needs an address: add --hiveserver2 HOST:PORT",))
    if hiveserver2 is not None and chosen not in {None, Engine.HIVESERVER2}:
        raise WrongUsage((f"--hiveserver2 asks HiveServer2, not {chosen.value}: leave out one of the two options",))
    return Engine.HIVESERVER2 if hiveserver2 is not None else chosen or Engine.AUTO


def _ask_either(sql: str, metastore: str | None, most: int) -> Found:
    try:
        found = _ask_duckdb(sql, metastore, most)
    except NotCovered as error:
        tell(f"engine: spark, which is starting; duckdb doesn't answer this: {error.reason}")
        return _ask_spark(sql, metastore, most)
    tell("engine: duckdb")
    return found


def _ask_duckdb(sql: str, metastore: str | None, most: int) -> Found:
    from hivesink.spark.session import given_settings
    from hivesink.tables.duck import ask
    from hivesink.tables.opened import metastore_address

    if "PYSPARK_GATEWAY_PORT" in os.environ:
        raise NotCovered(reason="what spark-submit starts, which may have any setting")
    settings = given_settings(os.environ)
    for name in settings:
        if name.startswith(("spark.sql.", "spark.hadoop.", "spark.hive.")) and not name.startswith(_HARMLESS):
            raise NotCovered(reason=f"{name} of spark-defaults.conf, by which Spark may answer otherwise")
    site = Site.load(os.environ)
    answer = ask(
        sql, lambda: metastore_address(metastore, site), site, most=most, in_utc=_is_in_utc(os.environ, settings)
    )
    return Found(Engine.DUCKDB, answer.columns, answer.rows, answer.types)


def _is_in_utc(environ: Mapping[str, str], settings: Mapping[str, str]) -> bool:
    """Whether both this process and the JVM of a Spark session would be in UTC."""
    options = [*(environ.get(name, "") for name in _ZONE_OF_JVM), *settings.values()]
    zones = [option for text in options for option in text.split() if option.startswith("-Duser.timezone=")]
    return set(time.tzname) == {"UTC"} and all(zone == "-Duser.timezone=UTC" for zone in zones)


def _ask_spark(sql: str, metastore: str | None, most: int) -> Found:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from hivesink.spark.answer import answer
    from hivesink.spark.session import session

    spark = session("hivesink query", metastore=metastore, quiet=True)
    # Py4J would log a trace; the JVM ends with this process.
    heard = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        frame = spark.sql(sql)
        types, rows = answer(frame, most)
        return Found(Engine.SPARK, frame.columns, rows, types)
    except (PySparkException, Py4JError) as error:
        raise QueryFailed(OLD_CLIENT if is_old_client(error) else reason_of(error)) from error
    finally:
        spark.stop()
        signal.signal(signal.SIGINT, heard)


def _login(auth: Auth | None, user: str | None, password_file: Path | None, service: str | None) -> Login:
    """The login from the options, else from the site. A password comes only from a file or the environment."""
    site = Login.of(Site.load(os.environ).hive)
    kind = auth.value if auth else site.auth
    kerberos = (service or site.kerberos_service_name or "hive") if kind == Auth.KERBEROS.value else service
    password = _password(password_file) if kind in {Auth.LDAP.value, Auth.CUSTOM.value} or password_file else None
    return Login(kind, user, password, kerberos)


def _password(file: Path | None) -> str | None:
    if file is None:
        return os.environ.get(PASSWORD)
    try:
        return file.read_text(encoding="utf-8").rstrip("\r\n")
    except OSError as error:
        raise WrongUsage((f"--password-file {file}: {error.strerror}",)) from error


def _report(found: Found, limit: int) -> Report:
    rows, more, engine = found.rows[:limit], len(found.rows) > limit, found.engine.value
    plained = [[plain(cell, kind) for cell, kind in zip_longest(row, found.types)] for row in rows]
    data = {"columns": found.columns, "rows": plained, "more": more, "engine": engine}
    end = Line(f"{count(len(rows), 'row')} ({engine})")
    if more:
        end = Line(f"only the first {count(len(rows), 'row')} ({engine}); raise --limit to see more", "yellow")
    return Report(
        data, [Grid("", [*map(shown, found.columns)], [[shown(cell) for cell in row] for row in plained]), end]
    )
