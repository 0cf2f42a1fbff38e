"""`hivesink doctor`: whether a site is fit for hivesink, line by line, before the first job."""

from __future__ import annotations

import getpass
import importlib.metadata
import os
import platform
import re
import secrets
import sys
import time
from contextlib import suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hivesink import __version__, kerberos
from hivesink.cli.codes import ExitCode, code_of
from hivesink.cli.command import Metastore, command, table_name
from hivesink.cli.output import Line, Output, error_lines
from hivesink.config.options import SinkConfig
from hivesink.config.site import NO_SITE, Site, site_files
from hivesink.errors import HiveSinkError, InvalidOption
from hivesink.hive import check as hiveserver2_check
from hivesink.jvm.java import find_java
from hivesink.logs import storage_of
from hivesink.metastore import checks as metastore_checks
from hivesink.ports import Check
from hivesink.registry import Registry
from hivesink.storage.fs import delete, drop, join
from hivesink.tables.opened import OpenedTable, metastore_address, open_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pyspark.sql import SparkSession

_MOST_SKEW = 60.0
"""Seconds. At five minutes Kerberos refuses, at fifteen S3; times of arrival are wrong long before."""
_OF_RUNS = re.compile(r"(?!.*extra ==)|.*extra == .(?:kerberos|s3|jvm)")
"""Requirements of what runs, not of those who develop it."""
_OF_EXECUTORS = ("pyarrow", "numpy", "pandas", "msgspec", "hdfs-native")
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
    lines, told, codes = list[Line](), dict[str, dict[str, Any]](), {ExitCode.DONE}
    by_spark = _by_spark(metastore, kafka, executors=executors)
    for check in _checks(table, metastore, hiveserver2, by_spark):
        # The table's servers may be those of fs.defaultFS.
        if check.what in told:
            continue
        code = None
        try:
            said = check.look()
        except Exception as error:  # noqa: BLE001  a line here, as a command's error is
            said, code = "; ".join(error_lines(error)), getattr(error, "code", "")
            codes.add(code_of(error))
        told[check.what] = {"what": check.what, "ok": code is None, "said": said, "code": code or None}
        mark, style = ("ok ", "") if code is None else ("BAD", "red")
        lines.append(Line(f"{mark} {check.what}: {said}{f' [{code}]' if code else ''}", style))
    order = (ExitCode.FAILED, ExitCode.NEEDS_PERSON, ExitCode.RETRY, ExitCode.DONE)
    worst = next(code for code in order if code in codes)
    out.show({"ok": worst is ExitCode.DONE, "checks": [*told.values()]}, lines)
    if worst is not ExitCode.DONE:
        raise typer.Exit(worst)


def _checks(
    table: str | None, given: str | None, hiveserver2: str | None, by_spark: Iterable[Check]
) -> Iterator[Check]:
    yield Check("hivesink", lambda: f"{__version__}, Python {platform.python_version()} ({sys.executable})")
    yield Check("packages", _packages)
    yield Check("Java", lambda: str(find_java().version))
    yield Check("site files", _site_files)
    site = NO_SITE
    # What is wrong with them has been told.
    with suppress(InvalidOption):
        site = Site.load(os.environ)
    yield Check("login", partial(_login, site))
    if default := site.default_filesystem:
        yield from _made("fs.defaultFS", lambda: storage_of(default, site).servers(default))
    yield from _made("metastore", lambda: metastore_checks(metastore_address(given, site), site))
    if hiveserver2:
        yield from _made("HiveServer2", lambda: [hiveserver2_check(hiveserver2, site.hive)])
    yield from by_spark
    if table:
        yield from _of_table(table, given, site)


def _made(what: str, make: Callable[[], Iterable[Check]]) -> Iterator[Check]:
    """An adapter's checks, or why there are none."""
    try:
        yield from make()
    except HiveSinkError as error:
        yield Check(what, partial(_refuse, error))


def _refuse(error: HiveSinkError) -> str:
    raise error


def _packages() -> str:
    found = list[str]()
    for requirement in filter(_OF_RUNS.match, importlib.metadata.requires("hivesink") or ()):
        name = re.split(r"[^\w-]", requirement)[0]
        # An extra may be missing.
        with suppress(importlib.metadata.PackageNotFoundError):
            found.append(f"{name} {importlib.metadata.version(name)}")
    return ", ".join(found)


def _site_files() -> str:
    Site.load(os.environ)
    files = [str(file) for kind in site_files(os.environ) for file in kind]
    return ", ".join(files) or "none: HADOOP_CONF_DIR and HIVE_CONF_DIR name no folder"


def _login(site: Site) -> str:
    if site.has_kerberos:
        kerberos.site_of(os.environ)
        kerberos.user("this site")
        return kerberos.who()
    return f"{os.environ.get('HADOOP_USER_NAME') or getpass.getuser()}, without Kerberos"


def _by_spark(metastore: str | None, kafka: str | None, *, executors: bool) -> Iterator[Check]:
    """What a JVM asks, in a single session: in a second one Kafka's jars would come too late."""

    @cache
    def spark() -> SparkSession:
        from hivesink.spark.session import session, session_for_kafka

        if executors:
            return session("hivesink doctor", metastore=metastore, kafka=kafka is not None, quiet=True)
        return session_for_kafka("hivesink doctor")

    if executors:
        yield Check("executors", lambda: _executors(spark()))
    if kafka:
        yield Check(f"Kafka {kafka}", lambda: _brokers(spark(), kafka))
    if spark.cache_info().currsize:
        spark().stop()


def _executors(spark: SparkSession) -> str:
    names, tasks = _OF_EXECUTORS, spark.sparkContext.defaultParallelism

    # Within a function it is sent as it is: executors have no commands.
    def look(rows: Iterable[tuple[str]]) -> Iterator[str]:
        installed = {each.name: each.version for each in importlib.metadata.distributions()}
        for (java,) in rows:
            packages = ", ".join(f"{name} {installed.get(name, 'MISSING')}" for name in names)
            yield f"Java {java}, Python {platform.python_version()}, {packages}"

    java = spark.range(0, tasks, 1, tasks).selectExpr("java_method('java.lang.System', 'getProperty', 'java.version')")
    said = f"{'; '.join(sorted({*java.rdd.mapPartitions(look).collect()}))} (on {spark.sparkContext.master})"
    if "MISSING" in said:
        raise InvalidOption((f"{said}: install it there, or send the archive of `make dist`",))
    return said


def _brokers(spark: SparkSession, servers: str) -> str:
    from hivesink.spark.sources import brokers, client_of

    client = client_of(spark, servers)
    names = ("kafka.security.protocol", "kafka.sasl.mechanism")
    how = ", ".join(client[name] for name in names if name in client) or "PLAINTEXT"
    nodes, level = brokers(spark, servers)
    return f"answers by {how}, with metadata.version {level} and the brokers {', '.join(nodes)}"


def _of_table(name: str, address: str | None, site: Site) -> Iterator[Check]:
    opened = list[OpenedTable]()

    def look() -> str:
        with open_table(name, address) as table:
            opened.append(table)
        return f"at {table.live.location}, {len(table.writers)} writers have a log"

    yield Check(f"table {name}", look)
    # Whoever asks for the next check has looked by then.
    for table in opened:
        location, root = table.live.location, table.owner.root.location
        yield from _made("the table's servers", lambda: storage_of(location, site).servers(location))  # noqa: B023  now
        yield Check(f"folder {location}", partial(_probe, location, site))
        yield Check(f"log {root}", partial(_log, root, location, site))
        yield from _made("the table's options", lambda: _registry(table.live.spec.options))  # noqa: B023  now


def _registry(options: Mapping[str, str]) -> Iterator[Check]:
    def look(registry: Registry) -> str:
        # Of any number: that it answers is enough.
        registry.schema(1)
        return "answers"

    config = SinkConfig.parse(options)
    for each in (config, config.of_key):
        if each["sink.value.format"].endswith("-confluent"):
            registry = Registry(each)
            yield Check(registry.name, partial(look, registry))


def _log(root: str, location: str, site: Site) -> str:
    storage_of(root, site).check(root, location)
    return _probe(root, site)


def _probe(folder: str, site: Site) -> str:
    """Write a file that no reader sees, and remove it: in `folder`, or above it where a start would make that."""
    storage = storage_of(folder, site)
    files, place = storage.logs(), folder
    # A file in the way is told by the attempt.
    while not storage.is_folder(place) and files.length(place) is None and "/" in place.strip("/"):
        place = place.rpartition("/")[0]
    probe = join(place, f".hivesink-probe-{secrets.token_hex(8)}")
    try:
        files.create(probe, b"hivesink doctor\n")
        written, now = storage.written(probe), time.time()
    except BaseException:
        drop(files, probe)
        raise
    delete(files, probe)
    said = "can be written" if place == folder else f"can be made in {place}"
    if written is None:
        return said
    skew = written - now
    if abs(skew) > _MOST_SKEW:
        problem = f"{said}, but its server's clock is {skew:+.0f} s off this machine's: set both by NTP"
        raise InvalidOption((problem,))
    return f"{said}; its server's clock is {skew:+.1f} s off"
