"""`make bench`: hivesink against Spark's own sinks, interleaved; `--help` lists the settings.

Each contender has a process of its own with a warm Spark session; they take turns, so that no two work at
once and every round compares runs beside each other. On a cluster they share one session, and its executors. Servers
and records are shared, and not measured.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from uuid import uuid4

from hivesink.embedded.metastore import EmbeddedMetastore
from jobs.cluster import Cluster
from jobs.cluster.kafka import EmbeddedKafka
from tests.bench import cold, report
from tests.bench.contenders import CONTENDERS, OWN, Drain
from tests.bench.ground import Ground
from tests.bench.race import Run, Runner, rotated
from tests.bench.records import FILES, produce, write_files

DATA = Path(os.environ.get("BENCH_DATA") or "build/bench").absolute()
BATCHES = 5
EPOCH_ROWS = 1_000
WARM_ROWS = 400_000
NEEDED = {"hdfs", "metastore", "kafka", "spark"}


@dataclass(frozen=True, slots=True)
class Records:
    """Where the same records wait, as a topic and as files."""

    rows: int
    servers: str

    @property
    def topic(self) -> str:
        return f"bench-{self.rows}"

    @property
    def folder(self) -> Path:
        return DATA / "files" / str(self.rows)

    def prepare(self, sources: list[str]) -> None:
        if "kafka" in sources:
            produce(self.servers, self.topic, self.rows)
        if "files" in sources:
            write_files(self.folder, self.rows)

    def drain(self, contender: str, source: str, batches: int) -> Drain:
        return Drain(
            contender=contender,
            source=source,
            name=f"t{uuid4().hex[:12]}",
            per_batch=-(-(FILES if source == "files" else self.rows) // batches),
            servers=self.servers,
            topic=self.topic,
            folder=self.folder.as_uri(),
        )


def main() -> None:
    told = arguments()
    if told.quick:
        quick(told)
    else:
        whole(told)


def whole(told: argparse.Namespace) -> None:
    with ExitStack() as stack:
        runners, servers = on_a_cluster(stack, told) if told.cluster else on_this_machine(stack, told)
        full, warm, small = (Records(rows, servers) for rows in (told.rows, WARM_ROWS, told.epochs * EPOCH_ROWS))
        for records in (full, warm):
            records.prepare(told.sources)
        small.prepare(["kafka"])
        for source in told.sources:
            race(runners, warm, source, BATCHES, rounds=1)
        runs = [run for source in told.sources for run in race(runners, full, source, BATCHES, told.rounds)]
        report.drains(runs, told.rows)
        report.epochs(race(runners, small, "kafka", told.epochs, told.rounds), EPOCH_ROWS, told.epochs)
    if not told.cluster:
        task_memory()


def quick(told: argparse.Namespace) -> None:
    """The narrow records cold, Flink's Hive sink beside hivesink and Spark's sink; then epochs of a warm process."""
    classpath, log = cold.build(DATA / cold.FLINK), DATA / "contenders.log"
    with ExitStack() as stack:
        ground, servers = local_servers(stack)
        runners = {name: stack.enter_context(Runner(ground, log)) for name in (OWN, "spark-sink")}
        full, small = (Records(rows, servers) for rows in (told.rows, told.epochs * EPOCH_ROWS))
        for records in (full, small):
            records.prepare(["kafka"])
        # No session starts beside a measured run.
        print("warm processes:", *(runner.application for runner in runners.values()), file=sys.stderr)
        drains = partial(full.drain, source="kafka", batches=BATCHES)
        runs = []
        for run in cold.race(drains, told.rounds, cold.Place(ground, classpath, log), runners[OWN]):
            said(run)
            runs.append(run)
        epochs = race(runners, small, "kafka", told.epochs, told.rounds)
    report.drains(runs, told.rows, "cold, ")
    report.epochs(epochs, EPOCH_ROWS, told.epochs)
    report.ratios("narrow", runs, told.rows)
    report.epoch_ratios("small-epochs", epochs)


def arguments() -> argparse.Namespace:
    """The settings; `make bench ROWS=… ROUNDS=…` sets them by the environment."""
    parser = argparse.ArgumentParser("tests.bench", description="hivesink against Spark's own sinks")
    of = os.environ.get
    parser.add_argument("--cluster", action="store_true", default=bool(of("CLUSTER")), help="on a cluster of its own")
    parser.add_argument(
        "--quick",
        action="store_true",
        default=bool(of("QUICK")),
        help="cold, with Flink; needs mvn",
    )
    parser.add_argument("--at", type=Path, help="on the detached cluster of this folder, which runs")
    parser.add_argument("--rows", type=int, default=int(of("ROWS") or 0), help="of each drain")
    parser.add_argument("--rounds", type=int, default=int(of("ROUNDS") or 3))
    parser.add_argument("--epochs", type=int, default=int(of("EPOCHS") or 0), help=f"of {EPOCH_ROWS} rows, each round")
    parser.add_argument("--sources", default=of("SOURCES") or "", help="kafka, files or both, with a comma")
    parser.add_argument(
        "--against", type=Path, help="a checkout of another commit: its hivesink races too, as `before`"
    )
    parser.add_argument("--contenders", default=",".join(CONTENDERS), help="some of them, with a comma")
    told = parser.parse_args()
    told.cluster = told.cluster or told.at is not None
    told.rows = told.rows or (10_000_000 if told.quick else 5_000_000)
    told.epochs = told.epochs or (25 if told.cluster else 40)
    told.sources = (told.sources or ("kafka" if told.cluster else "kafka,files")).split(",")
    told.contenders = told.contenders.split(",")
    if told.against and told.cluster:
        parser.error("--against needs a process for each contender: leave out --cluster and --at")
    return told


def on_this_machine(stack: ExitStack, told: argparse.Namespace) -> tuple[dict[str, Runner], str]:
    """A process for each contender, so that its CPU and its memory are its own; and the Kafka servers."""
    ground, servers = local_servers(stack)
    log = DATA / "contenders.log"
    runners = {name: stack.enter_context(Runner(ground, log)) for name in told.contenders}
    if told.against:
        runners["before"] = stack.enter_context(Runner(ground, log, told.against.absolute()))
    return runners, servers


def local_servers(stack: ExitStack) -> tuple[Ground, str]:
    server = stack.enter_context(EmbeddedMetastore(DATA / "metastore", DATA / "warehouse"))
    servers = stack.enter_context(EmbeddedKafka(DATA / "broker")).bootstrap
    return Ground(server.uri, server.warehouse.as_uri(), (DATA / "checkpoints").as_uri()), servers


def on_a_cluster(stack: ExitStack, told: argparse.Namespace) -> tuple[dict[str, Runner], str]:
    """One process for all contenders, which share its session's executors; and the Kafka servers."""
    where = Cluster.running(told.at) if told.at else stack.enter_context(Cluster(DATA / "cluster", only=NEEDED))
    if where is None:
        sys.exit(f"no cluster runs in {told.at}")
    os.environ.update({"HADOOP_CONF_DIR": str(where.conf), "HIVE_CONF_DIR": str(where.conf)})
    place = f"{where.filesystem}/bench"
    ground = Ground(where.metastore_uri, f"{place}/tables", f"{place}/checkpoints", where.spark_master)
    runner = stack.enter_context(Runner(ground, DATA / "contenders.log"))
    return dict.fromkeys(told.contenders, runner), where.kafka


def race(runners: dict[str, Runner], records: Records, source: str, batches: int, rounds: int) -> list[Run]:
    runs = []
    for number in range(rounds):
        for name in rotated(list(runners), number):
            run = runners[name].drain(records.drain(name, source, batches), number)
            said(run)
            runs.append(run)
    return runs


def said(run: Run) -> None:
    what = f"{run.drain.source} round {run.round + 1}: {run.drain.contender} {run.drained.seconds:.1f} s"
    print(what, file=sys.stderr, flush=True)


def task_memory() -> None:
    print("one task, 1,000 open buckets, 4 M rows of about 110 bytes:")
    for memory in ("64MB", "256MB"):
        answer = subprocess.run(
            [sys.executable, "-m", "tests.bench.memory", memory, "4000000"], stdout=subprocess.PIPE, check=True
        )
        found = json.loads(answer.stdout)
        print(
            f"  sink.task-memory={memory}: peak {found['peak_mb']} MB, of which {found['floor_mb']} MB without "
            f"rows; {found['files']} files in {found['buckets']} buckets"
        )


if __name__ == "__main__":
    main()
