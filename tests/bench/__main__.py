"""`make bench`: hivesink against Spark's own sinks, interleaved. ROWS=, ROUNDS= and BENCH_DATA= are settings.

Each contender has a process of its own with a warm Spark session; they take turns, so that no two work at
once and every round compares runs beside each other. Servers and records are shared, and not measured.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from hivesink.embedded.kafka import EmbeddedKafka
from hivesink.embedded.metastore import EmbeddedMetastore
from tests.bench import report
from tests.bench.contenders import CONTENDERS, Drain
from tests.bench.race import Run, Runner, rotated
from tests.bench.records import FILES, produce, write_files

ROWS = int(os.environ.get("ROWS") or 5_000_000)
ROUNDS = int(os.environ.get("ROUNDS") or 3)
SOURCES = (os.environ.get("SOURCES") or "kafka,files").split(",")
DATA = Path(os.environ.get("BENCH_DATA") or "build/bench").absolute()
BATCHES = 5
EPOCH_ROWS = 1_000
EPOCHS = int(os.environ.get("EPOCHS") or 40)
WARM_ROWS = 400_000


@dataclass(frozen=True, slots=True)
class Records:
    """Where the same records wait, as a topic and as files."""

    rows: int
    servers: str

    @property
    def topic(self) -> str:
        return f"records-{self.rows}"

    @property
    def folder(self) -> Path:
        return DATA / "files" / str(self.rows)

    def prepare(self) -> None:
        produce(self.servers, self.topic, self.rows)
        write_files(self.folder, self.rows)

    def drain(self, contender: str, source: str, batches: int) -> Drain:
        return Drain(
            contender=contender,
            source=source,
            name=f"t{uuid4().hex[:12]}",
            per_batch=-(-(FILES if source == "files" else self.rows) // batches),
            servers=self.servers,
            topic=self.topic,
            folder=str(self.folder),
        )


def main() -> None:
    with ExitStack() as stack:
        server = stack.enter_context(EmbeddedMetastore(DATA / "metastore", DATA / "warehouse"))
        servers = stack.enter_context(EmbeddedKafka(DATA / "broker")).bootstrap
        full, warm, small = (Records(rows, servers) for rows in (ROWS, WARM_ROWS, EPOCHS * EPOCH_ROWS))
        for records in (full, warm, small):
            records.prepare()
        log = DATA / "contenders.log"
        runners = {name: stack.enter_context(Runner(server.uri, server.warehouse, log)) for name in CONTENDERS}
        for source in SOURCES:
            race(runners, warm, source, BATCHES, rounds=1)
        runs = [run for source in SOURCES for run in race(runners, full, source, BATCHES, ROUNDS)]
        report.drains(runs, ROWS)
        report.epochs(race(runners, small, "kafka", EPOCHS, ROUNDS), EPOCH_ROWS)
    task_memory()


def race(runners: dict[str, Runner], records: Records, source: str, batches: int, rounds: int) -> list[Run]:
    runs = []
    for number in range(rounds):
        for name in rotated(list(runners), number):
            run = runners[name].drain(records.drain(name, source, batches), number)
            print(f"{source} round {number + 1}: {name} {run.drained.seconds:.1f} s", file=sys.stderr, flush=True)
            runs.append(run)
    return runs


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
