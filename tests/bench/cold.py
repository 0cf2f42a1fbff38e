"""Cold drains: each in a process of its own, measured from its start. This is how Flink's Hive sink is compared.

Flink's program is the Maven project in `peers/flink-hive`. It takes the settings that Flink's documentation gives
for speed (object reuse, its own Parquet writer), hivesink's own fetch settings, and a checkpoint each ten seconds.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from hivesink.jvm.java import find_java
from hivesink.spark.sources import FETCH
from tests.bench.contenders import OWN, Drain, Drained
from tests.bench.meter import Meter
from tests.bench.race import Run, Runner, rotated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.bench.ground import Ground

FLINK = "flink-hive"
COLD = (OWN, "spark-sink", FLINK)
CHECKPOINT_SECONDS = 10
PROJECT = Path(__file__).parent / "peers" / FLINK
OPEN = ("java.base/java.util", "java.base/java.lang", "java.base/java.net", "java.base/java.nio", "java.base/java.time")
"""Packages that Flink 1.20 reaches into."""


def build(target: Path) -> str:
    """The class path of Flink's program, built by Maven into `target`."""
    # Maven's own output goes beside it: nothing of a benchmark is left in the checkout.
    told = (f"-Dfolder={target}", f"-DoutputDirectory={target / 'lib'}", "-DincludeScope=runtime")
    goals = ("package", "dependency:copy-dependencies")
    subprocess.run(["mvn", "-q", "-B", "-f", str(PROJECT / "pom.xml"), *told, *goals], check=True)
    return f"{target / 'classes'}{os.pathsep}{target / 'lib'}/*"


@dataclass(frozen=True, slots=True)
class Place:
    """What a cold process is started with: `classpath` is Flink's, `log` takes what goes to standard error."""

    ground: Ground
    classpath: str
    log: Path


def race(records: Callable[[str], Drain], rounds: int, place: Place, referee: Runner) -> Iterator[Run]:
    """The cold runs; `referee`, a warm process, looks at each one's table afterwards."""
    for number in range(rounds):
        for name in rotated(list(COLD), number):
            drain = records(name)
            contender = _flink if name == FLINK else _spark
            drained, meter = contender(drain, place)
            yield Run(number, drain, drained, referee.check(drain), meter.cpu, meter.machine, meter.peak)


def _spark(drain: Drain, place: Place) -> tuple[Drained, Meter]:
    begun = perf_counter()
    with Runner(place.ground, place.log) as runner, Meter([runner.pid]) as meter:
        told = runner.run(drain)
        seconds = perf_counter() - begun
    return Drained(seconds, told.batch_ms, told.step_ms), meter


def _flink(drain: Drain, place: Place) -> tuple[Drained, Meter]:
    ground = place.ground
    command = [
        *(find_java().program, "-Xmx3g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"),
        *(f"--add-opens={package}=ALL-UNNAMED" for package in OPEN),
        *("-cp", place.classpath, "hivesink.bench.FlinkHive", ground.metastore, drain.servers, drain.topic),
        *(f"bench.{drain.name}", f"{ground.tables}/bench.db/{drain.name}", f"{ground.checkpoints}/{drain.name}"),
        *(str(os.cpu_count()), str(CHECKPOINT_SECONDS)),
        *(f"{key.removeprefix('kafka.')}={value}" for key, value in FETCH.items()),
    ]
    begun = perf_counter()
    with place.log.open("ab") as errors:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True)
    with process, Meter([process.pid]) as meter:
        if "done\n" not in iter(process.stdout.readline, "") if process.stdout else True:
            message = f"Flink ended; see {place.log}"
            raise RuntimeError(message)
        seconds = perf_counter() - begun
        # The end of its input ends it, once it has been measured.
    return Drained(seconds, [], {}), meter
