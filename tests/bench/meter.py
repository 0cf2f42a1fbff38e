"""CPU seconds and memory of a process with all that it starts: the driver's Python, the JVM, Python workers."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, TypeVar

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from typing_extensions import Self

SAMPLE_SECONDS = 0.2

Number = TypeVar("Number", int, float)


class Meter:
    """Measures for the length of a `with` block; `cpu` in seconds, `peak` in bytes of resident memory.

    Forked Python workers share pages, which resident memory counts once for each: all contenders alike.
    """

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self._end = threading.Event()
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        self._before = 0.0
        self.cpu = 0.0
        self.peak = 0

    def __enter__(self) -> Self:
        self._before = self._cpu()
        self._sampler.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cpu = self._cpu() - self._before
        self._end.set()
        self._sampler.join()

    def _sample(self) -> None:
        while not self._end.wait(SAMPLE_SECONDS):
            self.peak = max(self.peak, sum(self._each(lambda process: process.memory_info().rss)))

    def _cpu(self) -> float:
        def own(process: psutil.Process) -> float:
            times = process.cpu_times()
            # A worker that has ended counts through the daemon that waited for it.
            return times.user + times.system + times.children_user + times.children_system

        return sum(self._each(own))

    def _each(self, measure: Callable[[psutil.Process], Number]) -> list[Number]:
        found = []
        for process in (self._root, *self._root.children(recursive=True)):
            # One that ended between the listing and the look is passed over.
            with contextlib.suppress(psutil.NoSuchProcess):
                found.append(measure(process))
        return found
