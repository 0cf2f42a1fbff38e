"""Restarting a job: when, after how long, and when not. Time, sleep and randomness come in as arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hivesink.cli.codes import ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable

_BY_SIGNAL = 128
_FAR = 32
"""Doublings after which any delay is the longest one."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays in seconds: doubled from `first` at each failure in a row, never above `most`.

    A run of `lasted` seconds or more begins a new row.
    """

    first: float = 1.0
    most: float = 60.0
    lasted: float = 300.0

    def delay(self, failures: int, chance: float) -> float:
        """The wait after the `failures`-th failure in a row; `chance` (0 to 1) takes away up to half of it."""
        whole = min(self.most, self.first * 2 ** min(failures - 1, _FAR))
        return float(whole * (1 - chance / 2))


@dataclass(frozen=True, slots=True)
class Restart:
    """A restart that is about to happen, for whoever reports it."""

    code: int
    after: float
    number: int


@dataclass(frozen=True, slots=True)
class Ended:
    """How the last run ended, and how many restarts there were."""

    code: int
    restarts: int


def is_worth_a_retry(code: int) -> bool:
    """Whether a run that ended so may end better next time: it said so, or something killed it."""
    return code == ExitCode.RETRY or code > _BY_SIGNAL


def supervise(
    run: Callable[[], int],
    *,
    stopped: Callable[[], bool],
    wait: Callable[[float], None],
    tick: Callable[[], float],
    chance: Callable[[], float],
    told: Callable[[Restart], None],
    backoff: Backoff,
    most_restarts: int | None = None,
) -> Ended:
    """Run until the job is done, needs a person, or `stopped` says that somebody asked for the end.

    `wait` returns early where it is asked to stop. `most_restarts` None means no limit.
    """
    failures = restarts = 0
    while True:
        began = tick()
        code = run()
        if stopped() or not is_worth_a_retry(code) or restarts == most_restarts:
            return Ended(code, restarts)
        failures = 1 if tick() - began >= backoff.lasted else failures + 1
        restarts += 1
        delay = backoff.delay(failures, chance())
        told(Restart(code, delay, restarts))
        wait(delay)
        if stopped():
            return Ended(code, restarts - 1)
