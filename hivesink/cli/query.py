"""`hivesink query`: SQL over the tables, in a local Spark session or through HiveServer2."""

from __future__ import annotations

import os
from decimal import Decimal
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hivesink.cli.codes import OLD_CLIENT, is_old_client
from hivesink.cli.command import Debug, Json, Metastore, reporting
from hivesink.cli.output import Grid, Line, Report, jsonable
from hivesink.config.site import Site
from hivesink.errors import InvalidOption, QueryFailed
from hivesink.hive import Auth, Login, connect

if TYPE_CHECKING:
    from collections.abc import Sequence

PASSWORD = "HIVESINK_HIVESERVER2_PASSWORD"  # noqa: S105  the variable's name

Sql = Annotated[str, typer.Argument(help="One SQL statement.", metavar="SQL")]
HiveServer2 = Annotated[
    str | None,
    typer.Option("--hiveserver2", metavar="HOST:PORT", help="Ask this HiveServer2, not a local Spark session."),
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
    typer.Option("--password-file", help=f"A file with the LDAP password. Or set {PASSWORD}.", metavar="FILE"),
]
Service = Annotated[
    str | None,
    typer.Option("--kerberos-service", help="HiveServer2's Kerberos service. Default: `hive`.", metavar="NAME"),
]
Limit = Annotated[int, typer.Option("--limit", min=1, help="How many rows to fetch at most.")]


def query(
    sql: Sql,
    *,
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

    Without --hiveserver2 it starts a local Spark session, which takes some seconds. In JSON, times are ISO 8601,
    decimals are text, bytes are base64.

    Example: hivesink query "SELECT count(*) FROM demo.flights"
    """
    with reporting(as_json=json, debug=debug) as out:
        if hiveserver2 is None:
            columns, rows = _ask_spark(sql, metastore, limit + 1)
        else:
            with connect(hiveserver2, _login(auth, user, password_file, kerberos_service)) as hive:
                result = hive.query(sql, most=limit + 1)
            columns, rows = [column.name for column in result.columns], result.rows
        out.show(_report(columns, rows[:limit], more=len(rows) > limit))


def _ask_spark(sql: str, metastore: str | None, most: int) -> tuple[list[str], Sequence[Sequence[Any]]]:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from hivesink.spark.session import session

    spark = session("hivesink query", metastore=metastore)
    try:
        frame = spark.sql(sql)
        return frame.columns, frame.limit(most).collect()
    except (PySparkException, Py4JError) as error:
        raise QueryFailed(OLD_CLIENT if is_old_client(error) else str(error).strip().partition("\n")[0]) from error
    finally:
        spark.stop()


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
        raise InvalidOption((f"--password-file {file}: {error.strerror}",)) from error


def _report(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, more: bool) -> Report:
    data = {"columns": columns, "rows": [[_plain(cell) for cell in row] for row in rows], "more": more}
    end = Line(f"{len(rows)} row{'' if len(rows) == 1 else 's'}")
    if more:
        end = Line(f"only the first {len(rows)} rows; raise --limit to see more", "yellow")
    return Report(data, [Grid("", columns, [[_shown(cell) for cell in row] for row in rows]), end])


def _shown(cell: Any) -> Any:
    if cell is None:
        return "NULL"
    plain = _plain(cell)
    if isinstance(plain, (list, dict)):
        return dumps(plain, default=jsonable, ensure_ascii=False)
    return jsonable(cell) if isinstance(cell, Decimal) else cell


def _plain(cell: Any) -> Any:
    """As JSON: its objects have only text keys, Hive's maps have any primitive. Spark's structs are tuples."""
    match cell:
        case tuple() if hasattr(cell, "asDict"):
            return _plain(cell.asDict())
        case dict():
            return {key if isinstance(key, str) else str(jsonable(key)): _plain(part) for key, part in cell.items()}
        case list():
            return [_plain(part) for part in cell]
    return cell
