"""The contenders' processes: each drains what it is told, and rests between its turns."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

import psutil

from bench import flink
from bench.contenders import Drain, Drained
from bench.ground import Ground
from bench.workloads import WORKLOADS

if TYPE_CHECKING:
    from typing_extensions import Self


class Process:
    """A program for the length of a `with` block; a line goes in, a line comes back. Its errors go to `log`."""

    def __init__(
        self, command: Sequence[str], log: Path, code: Path | None = None, more: Mapping[str, str] | None = None
    ) -> None:
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                # Python looks there first, and its workers by the path.
                cwd=code,
                env={**os.environ, "PYTHONPATH": str(code or Path.cwd()), **(more or {})},
            )
        self._log = log

    @property
    def pid(self) -> int:
        return self._process.pid

    def drain(self, drain: Drain) -> Drained:
        raise NotImplementedError

    def tell(self, line: str) -> None:
        if self._process.stdin is None:
            raise AssertionError
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            self._ended()

    def answer(self) -> str:
        if self._process.stdout is None:
            raise AssertionError
        answer = self._process.stdout.readline()
        if not answer:
            self._ended()
        return answer.strip()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            # Whoever stops the benchmark doesn't wait for the end of a drain.
            self._process.terminate()
        # The end of its input ends it, and Spark with it.
        self._process.communicate()

    def _ended(self) -> None:
        message = f"a contender ended; see {self._log}"
        raise SystemExit(message)


class Python(Process):
    """`bench.runner`, with the hivesink of the folder `code`, by default this one's, and this `environment` too."""

    def __init__(self, ground: Ground, log: Path, code: Path | None, environment: Mapping[str, str]) -> None:
        super().__init__([sys.executable, "-m", "bench.runner", json.dumps(asdict(ground))], log, code, environment)

    @cached_property
    def ready(self) -> str:
        """Waits for the session; then Spark's id of the application."""
        return self.answer()

    def drain(self, drain: Drain) -> Drained:
        if not self.ready:
            raise AssertionError
        self.tell(json.dumps(asdict(drain)))
        return Drained(**json.loads(self.answer()))


class Flink(Process):
    """The program of `bench/peers`, built into the folder `program`."""

    def __init__(self, ground: Ground, log: Path, program: Path) -> None:
        super().__init__(flink.command(program, ground), log)
        self._ground = ground
        self._conf = program / "conf"

    def drain(self, drain: Drain) -> Drained:
        begun = perf_counter()
        for statement in flink.script(drain, WORKLOADS[drain.workload], self._ground, self._conf):
            self.tell(statement)
        self.answer()
        return Drained(perf_counter() - begun, [], {})


SAMPLE_SECONDS = 0.2
_WORKER = "pyspark.worker"
"""An argument of the daemon that Spark forks its workers from, whichever module that is."""
_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"

Value = TypeVar("Value")


class Meter:
    """Measures for the length of a `with` block; `cpu` in seconds, `peak` in bytes of resident memory.

    `task_peak` is that of the largest process in which tasks run: of Spark's Python workers where there are any, of
    all processes otherwise.

    `machine` are the CPU seconds of everything on this machine: servers too, and whatever else is at work.
    Forked Python workers share pages, which resident memory counts once for each: all contenders alike.
    """

    def __init__(self, pids: Iterable[int]) -> None:
        self._roots = [psutil.Process(pid) for pid in pids]
        self._end = threading.Event()
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        self._before = self._machine_before = 0.0
        self.cpu = self.machine = 0.0
        self.peak = self._worker_peak = self._process_peak = 0

    @property
    def task_peak(self) -> int:
        return self._worker_peak or self._process_peak

    def __enter__(self) -> Self:
        self._before, self._machine_before = self._cpu(), _machine()
        self._sampler.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cpu = self._cpu() - self._before
        self.machine = _machine() - self._machine_before
        self._end.set()
        self._sampler.join()

    def _sample(self) -> None:
        while not self._end.wait(SAMPLE_SECONDS):
            found = self._each(lambda process: (process.memory_info().rss, _WORKER in process.cmdline()))
            self.peak = max(self.peak, sum(size for size, _ in found))
            self._worker_peak = max([self._worker_peak, *(size for size, worker in found if worker)])
            self._process_peak = max([self._process_peak, *(size for size, _ in found)])

    def _cpu(self) -> float:
        return sum(map(cpu_seconds, self._roots))

    def _each(self, measure: Callable[[psutil.Process], Value]) -> list[Value]:
        return [value for root in self._roots for value in each(root, measure)]


def each(root: psutil.Process, measure: Callable[[psutil.Process], Value]) -> list[Value]:
    """Of a process and all below it."""
    values = []
    # One that ended between the listing and the look is passed over.
    with contextlib.suppress(psutil.NoSuchProcess):
        for process in (root, *root.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                values.append(measure(process))
    return values


def cpu_seconds(root: psutil.Process) -> float:
    """What a process and all below it have used so far."""

    def own(process: psutil.Process) -> float:
        times = process.cpu_times()
        # A worker that has ended counts through the daemon that waited for it.
        return times.user + times.system + times.children_user + times.children_system

    return sum(each(root, own))


def executors(application: str) -> list[int]:
    """The processes of a standalone cluster's executors for an application; none in local mode."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or []
        if _EXECUTOR in command and application in command:
            found.append(process.pid)
    return found


def _machine() -> float:
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.irq + times.softirq)
