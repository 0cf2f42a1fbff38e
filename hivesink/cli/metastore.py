"""`hivesink ddl`: tables as DDL files declare them; the embedded metastore; and what a new machine fetches."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hivesink import kerberos
from hivesink.cli.codes import ExitCode
from hivesink.cli.command import Metastore, command
from hivesink.cli.output import Line, Output, tell
from hivesink.config.cache import scratch_beside
from hivesink.config.plugins import also_in
from hivesink.config.site import Site
from hivesink.core.epoch import Epoch
from hivesink.core.table import TableSpec
from hivesink.embedded import metastore as server
from hivesink.errors import InvalidOption, JavaFailed
from hivesink.jvm.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hivesink.hiveql.apply import Catalog, Plan

ddl = typer.Typer(help="Declare tables: each DDL file has one Hive CREATE TABLE.")
embedded = typer.Typer(help="The embedded Hive Metastore, in .hivesink-local or $HIVESINK_HOME.")

DdlPath = Annotated[Path, typer.Argument(help="A .sql file, or a folder of them.", metavar="PATH", exists=True)]

_SAID = {"create": ("green", "d"), "alter": ("yellow", " (done)")}
"""Of an action its colour, and what its line has at the end once it is done."""


@ddl.command()
@command
def plan(out: Output, path: DdlPath, *, metastore: Metastore = None) -> None:
    """Show what `ddl apply` would do, and why a difference can't be applied. Changes nothing.

    Exits with 65 if a live table differs in a way that can't be applied.

    Example: hivesink ddl plan ddl/
    """
    from hivesink.hiveql.apply import plan_all, refuse_differences

    specs = declared_in(path)
    plans = plan_all(specs, _catalog(metastore))
    _show_plans(out, plans, done=False)
    refuse_differences(plans)


@ddl.command()
@command
def apply(out: Output, path: DdlPath, *, metastore: Metastore = None) -> None:
    """Create missing tables and set changed properties. Safe to repeat.

    Checks all files before it changes anything.

    Example: hivesink ddl apply ddl/flights.sql
    """
    from hivesink.hiveql.apply import apply as apply_all

    specs = declared_in(path)
    _show_plans(out, apply_all(specs, _catalog(metastore)), done=True)


def declared_in(path: Path) -> Sequence[TableSpec]:
    """The tables of DDL files, with settings that a start would take.

    The user's own classes are also looked for beside the files.
    """
    from hivesink import wiring
    from hivesink.config import options
    from hivesink.hiveql.parse import parse_path
    from hivesink.logs import store_problems
    from hivesink.sink.commit.writer import problems_of
    from hivesink.sink.task.messages import TablePlan, TaskPlan
    from hivesink.sink.task.rejects import STREAM

    site = Site.load(os.environ)

    def problems(spec: TableSpec) -> tuple[str, ...]:
        config = options.SinkConfig.parse(spec.options)
        places = filter(None, (spec.location, config["sink.log-location"]))
        problems = (*problems_of(spec, config), *(problem for place in places for problem in store_problems(place)))
        target = TablePlan(spec, spec.location or site.default_filesystem or "")
        plan = TaskPlan(target, None, config, STREAM, "", Epoch(0), "", datetime.now(timezone.utc))
        if not problems:
            try:
                # As each task of a job makes it.
                wiring.row_reader(plan, site=site)
            except InvalidOption as error:
                return error.problems
        return problems

    with also_in(path if path.is_dir() else path.parent):
        return parse_path(path, problems)


def _catalog(address: str | None) -> Catalog:
    from hivesink.metastore import catalog
    from hivesink.tables.opened import metastore_address

    site = kerberos.site_of(os.environ)
    return catalog(metastore_address(address, site), site)


def _show_plans(out: Output, plans: Sequence[Plan], *, done: bool) -> None:
    tables = [{"table": str(step.name), "action": step.action, "detail": str(step).splitlines()} for step in plans]
    lines = []
    # Differences are told as an error.
    for step in (step for step in plans if not step.differences):
        style, end = _SAID.get(step.action, ("", ""))
        lines.append(Line(f"{step}{end if done else ''}", style))
    out.show({"done": done, "tables": tables}, lines)


@embedded.command()
@command
def start(out: Output) -> None:
    """Start it in the background, unless it is running already.

    Example: hivesink metastore start
    """
    _serve(out, server.start)


@embedded.command()
@command
def stop(out: Output) -> None:
    """Stop it, and wait until it is gone. Its tables are kept for the next start.

    Example: hivesink metastore stop
    """
    _serve(out, server.stop)


@embedded.command()
@command
def status(out: Output) -> None:
    """Show whether it is running, and where. Exits with 1 if it isn't.

    Example: hivesink metastore status
    """
    if not _serve(out, server.detached):
        raise typer.Exit(ExitCode.FAILED)


def _serve(out: Output, act: Callable[[], server.EmbeddedMetastore]) -> bool:
    """Whether it is running then."""
    now, text = act(), "is stopped"
    home, pid, warehouse = str(now.folder.parent), now.pid, str(now.warehouse)
    if running := pid is not None:
        text = f"is running at {now.uri} (process {pid}), warehouse {warehouse}"
    where = {"uri": now.uri if running else None, "pid": pid, "warehouse": warehouse if now.port else None}
    out.show({"running": running, "home": home, **where}, [Line(f"the metastore of {home} {text}")])
    return running


@command
def prepare(out: Output) -> None:
    """Fetch Spark's connectors into the cache, and write an archive of its classes: jobs then start faster.

    For an image or a new machine. Safe to repeat; repeat it after a new version of PySpark or Java.

    Example: hivesink prepare
    """
    from hivesink.jvm import jars
    from hivesink.spark.settings import LOGGING, log4j_file

    connector = jars.kafka_connector(importlib.metadata.version("pyspark"))
    sets = (connector, jars.HIVE_CLIENT, *((jars.s3a(),) if Site.load(os.environ).s3a else ()))
    for jar_set in sets:
        if not jars.fetched(jar_set):
            tell(f"fetching {jar_set.name}: {len(jar_set.coordinates)} jars")
            jars.fetch(jar_set)
    # All else that a start writes into the cache, which may be read-only later.
    server.loopback_classes()
    for kind in LOGGING:
        log4j_file(kind)
    tell("writing an archive of Spark's classes, which takes half a minute")
    path = jars.class_archive()
    # A JVM dies of half an archive: it appears whole.
    with scratch_beside(path) as folder:
        _archive_classes(folder / path.name).replace(path)
    names = [jar_set.name for jar_set in sets]
    lines = [Line(f"ready: {', '.join(names)}"), Line(f"ready: {path} ({path.stat().st_size >> 20} MB)")]
    out.show({"jars": names, "archive": str(path)}, lines)


def _archive_classes(new: Path) -> Path:
    """Write what a small job loads to `new`, and return that. Raises JavaFailed."""
    from pyspark import SparkContext
    from pyspark.errors import PySparkRuntimeError

    from hivesink.jvm.jars import archive_options
    from hivesink.spark.session import session_for_kafka

    def read(batch: DataFrame, _: int) -> None:
        batch.mapInArrow(lambda rows: rows, batch.schema).collect()

    # A Java without an archive of its own doesn't start so.
    with suppress(PySparkRuntimeError):
        spark = session_for_kafka("hivesink prepare", {"spark.driver.defaultJavaOptions": archive_options(new)})
        stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 9).load().writeStream
        stream.foreachBatch(read).trigger(availableNow=True).start().awaitTermination()
        spark.stop()
        # The JVM writes the archive at its end, which is that of its input.
        process: Any = SparkContext._gateway.proc  # type: ignore[union-attr]  # noqa: SLF001  nobody else knows it
        process.stdin.close()
        process.wait()
    if not new.is_file():
        problem = f"{find_java().program} wrote no archive of Spark's classes"
        raise JavaFailed(problem, "jobs run without it, but start more slowly")
    return new
