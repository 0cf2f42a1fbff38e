"""Ten minutes in which servers die at random and come back, under a steady stream of rows. Nobody helps the job.

`HIVESINK_SEED` repeats a run's choices; `HIVESINK_CHAOS` is its length in seconds.
"""

from __future__ import annotations

import os
import random
import secrets
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.cluster.feed import Feed
from tests.cluster.gates import suppress_gone
from tests.cluster.hive import Hive
from tests.cluster.target import Target, own
from tests.cluster.test_dying_servers import restore
from tests.cluster.underfire import Stage, executors, on_cluster

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from hivesink.embedded.server import EmbeddedServer
    from jobs.cluster import Cluster

pytestmark = [pytest.mark.spark, pytest.mark.long]

SECONDS = float(os.environ.get("HIVESINK_CHAOS", "600"))
ROWS_A_SECOND = 100
CATCHING_UP = 420.0
"""Seconds for the last restart, which may come after a minute, and for what has piled up."""


@dataclass
class Chaos:
    """Kills and restores one thing at a time; `deaths` counts them."""

    cluster: Cluster
    job: subprocess.Popen[bytes]
    chance: random.Random
    deaths: Counter[str] = field(default_factory=Counter)
    _next: list[tuple[str, Callable[[], None]]] = field(default_factory=list)

    def strike(self) -> None:
        """Something dies, stays down for a while, and comes back. Each has its turn before one is struck again."""
        if not self._next:
            self._next = self._acts()
            self.chance.shuffle(self._next)
        name, act = self._next.pop()
        self.deaths[name] += 1
        print(f"{time.strftime('%X')} {name}", flush=True)
        act()

    def pause(self, least: float, most: float) -> None:
        time.sleep(self.chance.uniform(least, most))

    def _acts(self) -> list[tuple[str, Callable[[], None]]]:
        servers = self.cluster.servers
        mortal: dict[str, EmbeddedServer] = {
            "datanode 1": servers.datanodes[0],
            "datanode 2": servers.datanodes[1],
            "namenode": servers.namenode,
            "metastore": servers.metastore,
            "hiveserver2": servers.hiveserver2,
            "kafka": servers.broker,
            "worker 1": servers.workers[0],
            "worker 2": servers.workers[1],
        }

        def dies(server: EmbeddedServer) -> Callable[[], None]:
            def act() -> None:
                server.kill()
                self.pause(0, 10)
                server.start()

            return act

        return [
            *((name, dies(server)) for name, server in mortal.items()),
            ("safe mode", self._safe_mode),
            ("executor", self._executor_dies),
            ("driver", self._driver_dies),
        ]

    def _safe_mode(self) -> None:
        self.cluster.dfsadmin("-safemode", "enter")
        self.pause(2, 10)
        self.cluster.dfsadmin("-safemode", "leave")

    def _executor_dies(self) -> None:
        for worker in self.cluster.servers.workers:
            for executor in executors(worker.pid)[:1]:
                with suppress_gone():
                    executor.kill()
                return

    def _driver_dies(self) -> None:
        """The job's own process, below `hivesink run`, with its JVM."""
        for child in psutil.Process(self.job.pid).children(recursive=True):
            with suppress_gone():
                child.kill()


@pytest.fixture
def mortal(cluster: Cluster) -> Iterator[Cluster]:
    yield cluster
    restore(cluster)


@pytest.mark.timeout(SECONDS + 2 * CATCHING_UP + 300)
def test_ten_minutes_of_random_deaths(mortal: Cluster, tmp_path: Path) -> None:
    seed = int(os.environ.get("HIVESINK_SEED", secrets.randbelow(1 << 32)))
    print(f"HIVESINK_SEED={seed}")
    name = own("chaos")
    feed = Feed(mortal.kafka, name, pad=60)
    target = Target.create(mortal, name, properties={"sink.rolling-policy.check-interval": "2s"})
    stage = Stage(
        tmp_path, mortal, target, feed, on_cluster(mortal), batch=4000, trigger={"processingTime": "500 milliseconds"}
    )
    with stage.running("--restart") as process:
        chaos = Chaos(mortal, process, random.Random(seed))  # noqa: S311  a repeatable choice
        with feed.steadily(ROWS_A_SECOND):
            stage.wait(process, lambda: stage.epochs() > 0, "no epoch was committed")
            end = time.monotonic() + SECONDS
            while time.monotonic() < end:
                chaos.strike()
                chaos.pause(3, 15)
                assert process.poll() is None, f"it gave up: {stage.output[-4000:]}"
        stage.wait(process, lambda: target.count() >= feed.sent, "rows are missing", CATCHING_UP)
        assert stage.end(process) == 0, stage.output[-4000:]
    restarts = sum("; restart " in line for line in stage.told)
    print(f"{chaos.deaths.total()} deaths ({dict(chaos.deaths)}), {restarts} restarts, {feed.sent} rows")
    check(mortal, stage, feed)


def check(cluster: Cluster, stage: Stage, feed: Feed) -> None:
    target = stage.target
    # What the test claims about the table holds only if the source has each row once.
    held = feed.held()
    assert held.total() == len(held) == feed.sent
    target.check_once(feed.sent)
    recovered = stage.command("recover", target.name)
    assert recovered.returncode == 0, recovered.stderr
    assert target.staged() == []
    folders = {f"{target.folder}/dt={value}" for value in target.registered()}
    assert {found.path for found in target.client.list_status(target.folder) if found.isdir} == folders
    verified = stage.verify()
    assert verified.returncode == 0, verified.stdout + verified.stderr
    session = Hive(cluster.hiveserver2, {"hive.compute.query.using.stats": "false"})
    figures = session.ask(f"SELECT count(*), count(DISTINCT id), min(id), max(id) FROM {target.name}")
    session.close()
    assert figures == [(feed.sent, feed.sent, 0, feed.sent - 1)]
