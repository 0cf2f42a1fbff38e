"""`make demo`: a metastore, a table, a stream of real flights, and queries through Hive.

Its state is in `demo-data/files`, or in `demo-data/kafka` with KAFKA=1; the two are independent, and so are those with
S3=1, whose tables, logs and checkpoint are on an S3 server. With CLUSTER=1 or CLUSTER=compose it is a client of a real
cluster (`cluster.py`), which has the state.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from os import environ
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from hivesink import HiveSink
from hivesink.cli.codes import code_of
from hivesink.config.site import Site
from hivesink.core.partfile import Finished
from hivesink.errors import HiveSinkError
from hivesink.metastore import catalog
from hivesink.sink.commit.committed import Committed
from jobs.cluster.kafka import EmbeddedKafka
from jobs.demo.answers import finished_files, show_answers, show_files, show_partitions
from jobs.demo.cluster import addresses, on_cluster
from jobs.demo.flights import Flights, JsonFolder, KafkaTopic
from jobs.demo.screen import Screen
from jobs.demo.services import TABLE, alone, committed, declare_tables, running_metastore, s3_server, spark_session

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession


def main() -> int:
    """Run it. Returns the exit code: 0 if every check passed, 1 if one failed, for an error that of `hivesink`."""
    screen = Screen(monotonic)
    kafka, s3, cluster = (environ.get(name, "0") or "0" for name in ("KAFKA", "S3", "CLUSTER"))
    context = ("kafka" if kafka != "0" else "files") + ("-s3" if s3 != "0" else "")
    context = f"cluster-{cluster}" if cluster != "0" else context
    home = Path(environ.get("DEMO_DATA", "demo-data")).absolute() / context
    state = f"{_short(home)}/" if cluster == "0" else "the cluster"
    try:
        with ExitStack() as services:
            services.enter_context(alone(home))
            if cluster != "0":
                on_cluster(*addresses(cluster, screen), home, screen)
            else:
                demonstrate(home, screen, services, kafka=kafka != "0", s3=s3 != "0")
    except HiveSinkError as error:
        print(f"demo: {error}", file=sys.stderr)
        return code_of(error)
    except KeyboardInterrupt:
        print("\ndemo: stopped; the next run continues from here", file=sys.stderr)
        return 130
    if screen.wrong:
        print(f"demo: {screen.wrong} checks failed; the state is in {state}", file=sys.stderr)
        return 1
    screen.step(f"All checks passed; the state is in {state}")
    return 0


def demonstrate(home: Path, screen: Screen, services: ExitStack, *, kafka: bool, s3: bool) -> None:
    """Run all steps. `services` stops what was started when it closes."""
    others = (", an S3 server" if s3 else "") + (", a Kafka broker" if kafka else "")
    screen.step(f"Starting a Hive Metastore{others} and Spark")
    # Metastore and Spark ask the environment where it is.
    root = services.enter_context(s3_server(home)) if s3 else str(home)
    uri = services.enter_context(running_metastore(home))
    servers = services.enter_context(EmbeddedKafka(home / "broker")).bootstrap if kafka else None
    spark = services.enter_context(spark_session(uri, home, kafka=kafka))
    screen.fact(f"metastore {uri}" + (f", Kafka {servers}" if servers else ""))
    spark.sql(f"CREATE DATABASE IF NOT EXISTS demo LOCATION '{root}/warehouse/demo.db'")
    declare_tables(catalog(uri), screen)

    flights = Flights.load()
    feed = KafkaTopic(spark, servers) if servers else JsonFolder(spark, home / "events")
    stream(spark, feed, flights, root, screen)
    show_partitions(partial(ask, spark), flights, screen)
    show_files(finished(root), screen)
    screen.step("Answers of Hive's own reader")
    screen.fact("(spark.sql.hive.convertMetastoreParquet=false, one scan for all)")
    # Each task takes the plans of all partitions with it: 365 tasks, one for a file, need most of their time for that.
    scanned = spark.table(TABLE).select("carrier", "month", "dep_delay").coalesce(2).cache()
    scanned.createOrReplaceTempView("scanned")
    show_answers(lambda sql: ask(spark, sql.replace(TABLE, "scanned")), flights, screen)


def ask(spark: SparkSession, sql: str) -> list[Row]:
    """The rows of a statement, from Spark."""
    return spark.sql(sql).collect()


def stream(spark: SparkSession, feed: JsonFolder | KafkaTopic, flights: Flights, root: str, screen: Screen) -> None:
    """Stream all flights into the table as they arrive, except those that earlier runs committed."""
    before = finished(root)
    watcher = Watcher()
    sink = HiveSink.for_table(spark, TABLE, writer="flights", on_commit=watcher)
    screen.step(f"Streaming {flights.total:,} flights from {feed.name} into {TABLE}")
    with screen.progress(flights.total, *committed(sink.setup.context.log)) as watcher.show:
        query = sink.start(feed.events(), checkpoint=f"{root}/checkpoint")
        feed.send(flights)
        query.processAllAvailable()
        query.stop()
    if watcher.epochs == 0:
        screen.fact("all flights were committed by earlier runs: no new epoch")
        screen.check("nothing added, nothing duplicated", right=finished(root) == before)


class Watcher:
    """Counts the epochs of this run, and shows each."""

    def __init__(self) -> None:
        self.epochs = 0
        self.show: Callable[[Committed], None] = lambda _: None

    def __call__(self, done: Committed) -> None:
        self.epochs += not done.replayed
        self.show(done)


def finished(root: str) -> list[Finished]:
    """The files that a reader sees, where Hive puts a managed table."""
    return finished_files(f"{root}/warehouse/demo.db/flights", Site.load(environ))


def _short(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


if __name__ == "__main__":
    sys.exit(main())
