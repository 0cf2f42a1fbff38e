"""Supervising a job's process: when to restart it, and how it ends together with `hivesink run`."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hivesink.cli.codes import ExitCode, is_by_signal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, MutableMapping, Sequence


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays in seconds: `first`, then doubled after each further failure, up to `longest`.

    After a run of at least `reset_after` seconds the delay is `first` again.
    """

    first: float = 1.0
    longest: float = 60.0
    reset_after: float = 300.0

    def delay(self, failures: int, chance: float) -> float:
        """The delay after the `failures`-th failure in a row; `chance` (0 to 1) takes off up to half of it."""
        # After 32 doublings any delay is the longest one.
        return float(min(self.longest, self.first * 2 ** min(failures - 1, 32)) * (1 - chance / 2))


@dataclass(frozen=True, slots=True)
class Restart:
    """Restart `number` will follow in `after` seconds; the last run ended with `code`."""

    code: int
    after: float
    number: int


@dataclass(frozen=True, slots=True)
class Ended:
    """How the last run ended, and how many restarts there were."""

    code: int
    restarts: int


def supervise(
    run: Callable[[], int],
    *,
    stopped: Callable[[], bool],
    wait: Callable[[float], object],
    tick: Callable[[], float] = time.monotonic,
    chance: Callable[[], float] = random.random,
    on_restart: Callable[[Restart], None],
    backoff: Backoff,
    max_restarts: int | None,
) -> Ended:
    """Run until the job is done or needs a person, or until `stopped` returns True.

    Restarts after exit code 75 and after a death by signal. `wait` returns early if it is asked to stop.
    `max_restarts` None means no limit.
    """
    failures = restarts = 0
    while True:
        began = tick()
        code = run()
        may_pass = code == ExitCode.RETRY or is_by_signal(code)
        if stopped() or not may_pass or restarts == max_restarts:
            return Ended(code, restarts)
        failures = 1 if tick() - began >= backoff.reset_after else failures + 1
        restarts += 1
        delay = backoff.delay(failures, chance())
        on_restart(Restart(code, delay, restarts))
        wait(delay)
        if stopped():
            return Ended(code, restarts - 1)


_VARIABLE = "HIVESINK_LIFELINE"
_STEPS = ((signal.SIGTERM, 120.0), (signal.SIGTERM, 10.0), (signal.SIGKILL, 0.0))
"""Signals, each with the seconds to wait before the next: end after the batch, end in the middle of it, die."""


@contextmanager
def lifeline(environment: MutableMapping[str, str]) -> Iterator[int]:
    """A file descriptor for a child with this environment to inherit: the child then ends with this process.

    It is the read end of a pipe. The operating system closes the write end when this process dies, even by SIGKILL.
    """
    theirs, ours = os.pipe()
    environment[_VARIABLE] = str(theirs)
    try:
        yield theirs
    finally:
        os.close(theirs)
        os.close(ours)


def end_with_parent(
    environment: MutableMapping[str, str], steps: Sequence[tuple[signal.Signals, float]] = _STEPS
) -> None:
    """Signal this process when the parent that holds its lifeline dies; without a lifeline do nothing."""
    # Removed, so that this process's own children don't inherit it.
    descriptor = environment.pop(_VARIABLE, None)
    if descriptor is None:
        return
    os.set_inheritable(int(descriptor), False)
    threading.Thread(target=_watch, args=(int(descriptor), steps), name="hivesink-lifeline", daemon=True).start()


def _watch(descriptor: int, steps: Sequence[tuple[signal.Signals, float]]) -> None:
    os.read(descriptor, 1)
    for number, grace in steps:
        os.kill(os.getpid(), number)
        time.sleep(grace)
