"""CPU seconds and memory of processes with all that they start: the driver's Python, JVMs, Python workers."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, TypeVar

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import TracebackType

    from typing_extensions import Self

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
        def own(process: psutil.Process) -> float:
            times = process.cpu_times()
            # A worker that has ended counts through the daemon that waited for it.
            return times.user + times.system + times.children_user + times.children_system

        return sum(self._each(own))

    def _each(self, measure: Callable[[psutil.Process], Value]) -> list[Value]:
        found = []
        for process in self._processes():
            # One that ended between the listing and the look is passed over.
            with contextlib.suppress(psutil.NoSuchProcess):
                found.append(measure(process))
        return found

    def _processes(self) -> Iterator[psutil.Process]:
        for root in self._roots:
            with contextlib.suppress(psutil.NoSuchProcess):
                yield from (root, *root.children(recursive=True))


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
