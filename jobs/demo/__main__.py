"""`make demo`: a metastore, a table, a stream of real flights, and what Hive then answers.

Everything that it keeps is in `demo-data/files`, or `demo-data/kafka` with KAFKA=1: each a world of its own.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from os import environ
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from hivesink import HiveSink, wiring
from hivesink.embedded.kafka import EmbeddedKafka
from hivesink.errors import HiveSinkError
from hivesink.hiveql.apply import apply
from hivesink.hiveql.parse import parse_path
from hivesink.options import check
from jobs.demo.answers import finished_files, show_answers, show_files, show_partitions
from jobs.demo.feed import Folder, Topic
from jobs.demo.flights import Flights
from jobs.demo.screen import Screen
from jobs.demo.services import alone, running_metastore, session

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from hivesink.sink.declared import Committed

DDL = Path(__file__).parents[2] / "ddl"
TABLE = "demo.flights"


def main() -> int:
    """Run it; the exit code is 0 where every check passed."""
    screen = Screen(monotonic)
    kafka = environ.get("KAFKA", "") not in {"", "0"}
    home = Path(environ.get("DEMO_DATA", "demo-data")).absolute() / ("kafka" if kafka else "files")
    try:
        with ExitStack() as services:
            demonstrate(home, screen, services, kafka=kafka)
    except HiveSinkError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ndemo: stopped; the next run goes on from here", file=sys.stderr)
        return 130
    if screen.wrong:
        print(f"demo: {screen.wrong} checks failed; what is there is in {home}", file=sys.stderr)
        return 1
    screen.step(f"All checks passed; the state is in {_short(home)}/")
    return 0


def demonstrate(home: Path, screen: Screen, services: ExitStack, *, kafka: bool) -> None:
    """Everything, step by step; what is started is stopped when `services` closes."""
    screen.step("Starting a Hive Metastore" + (", a Kafka broker" if kafka else "") + " and Spark")
    services.enter_context(alone(home))
    uri = services.enter_context(running_metastore(home))
    servers = services.enter_context(EmbeddedKafka(home / "broker")).bootstrap if kafka else None
    spark = services.enter_context(session(uri, home, kafka=kafka))
    screen.fact(f"metastore {uri}" + (f", Kafka {servers}" if servers else ""))
    declare_tables(uri, screen)

    flights = Flights.load()
    feed = Topic(spark, servers) if servers else Folder(spark, home / "events")
    stream(spark, feed, flights, home, screen)
    show_partitions(spark, flights, screen)
    show_files(table_folder(home), screen)
    show_answers(spark, flights, screen)


def declare_tables(uri: str, screen: Screen) -> None:
    """Apply ddl/, as `hivesink ddl apply ddl` does."""
    screen.step("Declaring the tables in ddl/")
    for done in apply(parse_path(DDL, check), wiring.catalog(uri)):
        screen.fact(str(done))


def stream(spark: SparkSession, feed: Folder | Topic, flights: Flights, home: Path, screen: Screen) -> None:
    """Stream all flights into the table, as they arrive; what earlier runs committed is skipped."""
    before = finished_files(table_folder(home))
    watcher = Watcher()
    sink = HiveSink.for_table(spark, TABLE, writer="flights", on_commit=watcher)
    screen.step(f"Streaming {flights.total:,} flights from {feed.name} into {TABLE}")
    with screen.progress(flights.total, *committed(sink), lambda: partitions(home)) as watcher.show:
        query = sink.start(feed.events(), checkpoint=str(home / "checkpoint"))
        feed.send(flights)
        query.processAllAvailable()
        query.stop()
    if watcher.epochs == 0:
        screen.fact("everything was committed already: no epoch, nothing to write")
        screen.check("nothing added, nothing doubled", right=finished_files(table_folder(home)) == before)


class Watcher:
    """Counts the epochs of this run, and shows each."""

    def __init__(self) -> None:
        self.epochs = 0
        self.show: Callable[[Committed], None] = lambda _: None

    def __call__(self, done: Committed) -> None:
        self.epochs += not done.replayed
        self.show(done)


def committed(sink: HiveSink) -> tuple[int, int]:
    """Rows and epochs that the sink's log holds from earlier runs."""
    log = sink.setup.world.log
    view, floor = log.view(), log.floor()
    rows = sum(log.manifest(epoch).rows.written for epoch in view.manifests)
    return rows + (floor.totals.written if floor else 0), view.head


def table_folder(home: Path) -> Path:
    """Where Hive puts a managed table."""
    return home / "warehouse" / "demo.db" / "flights"


def partitions(home: Path) -> int:
    """Partitions that hold something to read."""
    return len({file.parent for file in finished_files(table_folder(home))})


def _short(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


if __name__ == "__main__":
    sys.exit(main())
