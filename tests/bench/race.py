"""The contenders' processes, the order in which they run, and what is measured of each run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.bench.contenders import OWN, Drain, Drained, Landed
from tests.bench.meter import Meter, executors

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from tests.bench.ground import Ground


@dataclass(frozen=True, slots=True)
class Run:
    """One drain: `round` pairs it with the runs of the other contenders beside it.

    CPU in seconds (`cpu`: the contender's own processes; `machine`: everything), peak in bytes.
    """

    round: int
    drain: Drain
    drained: Drained
    landed: Landed
    cpu: float
    machine: float
    peak: int


class Runner:
    """A process that contenders run in, for the length of a `with` block; between its turns it rests.

    With `checkout`, a folder with another commit of this repository, it runs the hivesink of that.
    """

    def __init__(self, ground: Ground, log: Path, checkout: Path | None = None) -> None:
        self._checkout = checkout
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.bench.runner", json.dumps(asdict(ground))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=checkout,
                env={**os.environ, "PYTHONPATH": str(checkout or Path.cwd())},
            )
        self._log = log

    @property
    def pid(self) -> int:
        return self._process.pid

    def drain(self, drain: Drain, number: int) -> Run:
        with Meter([self.pid, *executors(self.application)]) as meter:
            drained = self.run(drain)
        return Run(number, drain, drained, self.check(drain), meter.cpu, meter.machine, meter.peak)

    def run(self, drain: Drain) -> Drained:
        return Drained(**self._ask("run", drain))

    def check(self, drain: Drain) -> Landed:
        """What readers find in the table of `drain`, by whichever contender; the table goes."""
        return Landed(**self._ask("check", drain))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The end of its input ends it, and Spark with it.
        self._process.communicate()

    @cached_property
    def application(self) -> str:
        """Spark's id of it; waits until the session is there."""
        return self._answer().strip()

    def _ask(self, step: str, drain: Drain) -> Any:
        if not self.application or self._process.stdin is None:
            raise AssertionError
        told = replace(drain, contender=OWN) if self._checkout else drain
        self._process.stdin.write(json.dumps([step, asdict(told)]) + "\n")
        self._process.stdin.flush()
        return json.loads(self._answer())

    def _answer(self) -> str:
        if self._process.stdout is None:
            raise AssertionError
        answer = self._process.stdout.readline()
        if not answer:
            message = f"a contender ended; see {self._log}"
            raise RuntimeError(message)
        return answer


def rotated(names: list[str], number: int) -> list[str]:
    """Each round begins with another contender, so that none always runs behind the same one."""
    start = number % len(names)
    return names[start:] + names[:start]
