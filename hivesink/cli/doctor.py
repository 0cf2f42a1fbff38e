"""`hivesink doctor`: whether a site is fit for hivesink, line by line, before the first job."""

from __future__ import annotations

import getpass
import importlib.metadata
import os
import platform
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hivesink import kerberos
from hivesink.cli.codes import ExitCode, code_of
from hivesink.cli.command import Metastore, command, table_name
from hivesink.cli.output import Line, Output, error_lines
from hivesink.config.site import Site, site_files
from hivesink.errors import InvalidOption
from hivesink.hive import Hive
from hivesink.jvm.java import find_java
from hivesink.logs import storage_of
from hivesink.metastore import version
from hivesink.metastore.thrift_connection import Connection
from hivesink.storage.fs import delete, join
from hivesink.tables.opened import metastore_address, open_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    _Question = tuple[str, Callable[[], str | Iterable["_Question"]]]
    """What it is about; and a look that returns what is worth knowing, and raises what a job would, or has more."""

_MOST_SKEW = 60.0
"""Seconds. At five minutes Kerberos refuses, at fifteen S3; times of arrival are wrong long before."""
_OF_EXECUTORS = ("pyarrow", "numpy", "pandas", "msgspec", "hdfs-native")
_OF_DRIVERS = (*_OF_EXECUTORS, "hivesink", "pyspark", "pyhive", "thrift", "thrift-sasl", "gssapi", "boto3", "duckdb")
OptionalTable = Annotated[
    str | None, typer.Argument(help="A table, as database.table.", metavar="[TABLE]", callback=table_name)
]


@command
def doctor(
    out: Output,
    table: OptionalTable = None,
    *,
    hiveserver2: str | None = None,
    kafka: str | None = None,
    executors: bool = False,
    metastore: Metastore = None,
) -> None:
    """Look at what a job needs here: versions, site files, login and servers; with a table also its rights and clocks.

    Each line is ok, or says what to do. Read-only but for a hidden file in the table's folder and one in its log's,
    which are removed at once. Exits with 65 if a line needs a person, else with 75 if a server is away.

    Example: hivesink doctor demo.flights --kafka localhost:9092

    --hiveserver2 HOST:PORT: Ask this HiveServer2, too.
    --kafka HOST:PORT[,...]: Ask these brokers, too, by a JVM.
    --executors: Start a job's Spark session, on HIVESINK_MASTER, and ask its executors for their versions.
    """
    site = Site.load(os.environ)
    default = site.default_filesystem
    questions: list[_Question] = [
        ("driver", lambda: next(_versions(_OF_DRIVERS)([(find_java().version,)]))),
        ("site files", _site_files),
        ("login", partial(_login, site)),
        ("fs.defaultFS", lambda: storage_of(default, site).servers(default) if default else []),
        ("metastore", lambda: _metastores(metastore_address(metastore, site), site)),
        (f"HiveServer2 {hiveserver2}", lambda: _hiveserver2(hiveserver2, site) if hiveserver2 else []),
        ("Spark", lambda: _by_spark(metastore, kafka, executors=executors) if executors or kafka else []),
        (f"table {table}", lambda: _of_table(table, metastore, site) if table else []),
    ]
    answers = {what: (said, error) for what, said, error in _answers(questions)}
    told, lines = list[dict[str, Any]](), list[Line]()
    for what, (said, error) in answers.items():
        code = getattr(error, "code", None)
        told.append({"what": what, "ok": error is None, "said": said, "code": code})
        mark, style = ("ok ", "") if error is None else ("BAD", "red")
        lines.append(Line(f"{mark} {what}: {said}{f' [{code}]' if code else ''}", style))
    # A person's work is the lower code.
    worst = min((code_of(error) for _, error in answers.values() if error is not None), default=ExitCode.DONE)
    out.show({"ok": worst is ExitCode.DONE, "checks": told}, lines)
    if worst is not ExitCode.DONE:
        raise typer.Exit(worst)


def _answers(questions: Iterable[_Question]) -> Iterator[tuple[str, str, Exception | None]]:
    """What came of each question, and of those that it leads to: a text, and the error that a job would have."""
    for what, look in questions:
        try:
            said = look()
            if isinstance(said, str):
                yield what, said, None
            else:
                yield from _answers(said)
        except Exception as error:  # noqa: BLE001, PERF203  a line here, as a command's error is
            yield what, "; ".join(error_lines(error)), error


def _versions(names: Sequence[str]) -> Callable[[Iterable[Any]], Iterator[str]]:
    """What tells a process's own, for rows that have its Java's."""

    # Within a function it is sent as it is: executors have no commands.
    def look(rows: Iterable[Any]) -> Iterator[str]:
        installed = {each.name.lower().replace("_", "-"): each.version for each in importlib.metadata.distributions()}
        packages = ", ".join(f"{name} {installed.get(name, 'none')}" for name in names)
        yield from (f"Java {java}, Python {platform.python_version()}, {packages}" for (java,) in rows)

    return look


def _site_files() -> str:
    files = [str(file) for kind in site_files(os.environ) for file in kind]
    return ", ".join(files) or "none: HADOOP_CONF_DIR and HIVE_CONF_DIR name no folder"


def _login(site: Site) -> str:
    if site.has_kerberos:
        kerberos.site_of(os.environ)
        kerberos.user("this site")
        return kerberos.who()
    return f"{os.environ.get('HADOOP_USER_NAME') or getpass.getuser()}, without Kerberos"


def _metastores(addresses: str, site: Site) -> Iterator[_Question]:
    def look(address: str) -> str:
        numbers, user = version(address, site), Connection(address, site.hive).user
        hive = ".".join(map(str, numbers)) if numbers[0] > 3 else "3.1 or older"  # noqa: PLR2004  which report 3.0
        return f"Hive {hive}, as {user}"

    for address in map(str.strip, addresses.split(",")):
        yield f"metastore {address}", partial(look, address)


def _hiveserver2(address: str, site: Site) -> str:
    with Hive(address, site.hive) as session:
        return f"version {session.query('SELECT version()').rows[0][0].split()[0]}"


def _by_spark(metastore: str | None, kafka: str | None, *, executors: bool) -> Iterator[_Question]:
    """What a JVM asks, in a single session: in a second one Kafka's jars would come too late."""
    from hivesink.spark.session import session, session_for_kafka
    from hivesink.spark.sources import brokers

    if executors:
        spark = session("hivesink doctor", metastore=metastore, kafka=kafka is not None, quiet=True)
        yield "executors", lambda: _executors(spark)
    else:
        spark = session_for_kafka("hivesink doctor")
    if kafka:
        yield f"Kafka {kafka}", lambda: brokers(spark, kafka)
    spark.stop()


def _executors(spark: SparkSession) -> str:
    tasks = spark.sparkContext.defaultParallelism
    java = spark.range(0, tasks, 1, tasks).selectExpr("java_method('java.lang.System', 'getProperty', 'java.version')")
    told = sorted({*java.rdd.mapPartitions(_versions(_OF_EXECUTORS)).collect()})
    said = f"{'; '.join(told)} (on {spark.sparkContext.master})"
    if " none" in said:
        raise InvalidOption((f"{said}: install it there, or send the archive of `make dist`",))
    return said


def _of_table(name: str, address: str | None, site: Site) -> Iterator[_Question]:
    with open_table(name, address) as table:
        location, root, writers = table.live.location, table.owner.root.location, len(table.writers)
    yield f"table {name}", lambda: f"at {location}, {writers} writers have a log"
    yield "the table's servers", lambda: storage_of(location, site).servers(location)
    yield f"folder {location}", partial(_probe, location, site)
    yield f"log {root}", partial(_log, root, location, site)


def _log(root: str, location: str, site: Site) -> str:
    storage_of(root, site).check(root, location)
    return _probe(root, site)


def _probe(folder: str, site: Site) -> str:
    """Write a file that no reader sees, and remove it: in `folder`, or above it where a start would make that."""
    storage = storage_of(folder, site)
    files, place = storage.logs(), folder
    # A file in the way is told by the attempt.
    while not files.is_folder(place) and files.length(place) is None and "/" in place.strip("/"):
        place = place.rpartition("/")[0]
    probe = join(place, f".hivesink-probe-{secrets.token_hex(8)}")
    try:
        files.create(probe, b"hivesink doctor\n")
        written, now = storage.written(probe), time.time()
    finally:
        delete(files, probe)
    said = "can be written" if place == folder else f"can be made in {place}"
    if written is None:
        return said
    skew = written - now
    if abs(skew) > _MOST_SKEW:
        problem = f"{said}, but its server's clock is {skew:+.0f} s off this machine's: set both by NTP"
        raise InvalidOption((problem,))
    return f"{said}; its server's clock is {skew:+.1f} s off"
