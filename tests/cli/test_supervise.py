from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivesink.cli.supervise import Backoff, Ended, Restart, supervise

if TYPE_CHECKING:
    from collections.abc import Sequence

BACKOFF = Backoff(first=1, longest=60, reset_after=300)


@dataclass
class Scene:
    """Runs that end with given codes after given seconds, on a clock that only they and waiting move."""

    runs: Sequence[tuple[int, float]]
    stop_after: int | None = None
    stop_while_waiting: bool = False
    now: float = 0
    done: int = 0
    restarted: list[Restart] = field(default_factory=list)
    _stopped: bool = False

    def run(self) -> int:
        code, lasts = self.runs[self.done]
        self.done += 1
        self.now += lasts
        self._stopped = self._stopped or self.done == self.stop_after
        return code

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self._stopped = self._stopped or self.stop_while_waiting

    def play(self, most: int | None = None) -> Ended:
        return supervise(
            self.run,
            stopped=lambda: self._stopped,
            wait=self.wait,
            tick=lambda: self.now,
            chance=lambda: 0.0,
            on_restart=self.restarted.append,
            backoff=BACKOFF,
            max_restarts=most,
        )


@pytest.mark.parametrize("code", [0, 1, 2, 3, 65, 128, 200, 255])
def test_what_needs_a_person_is_not_tried_again(code: int) -> None:
    scene = Scene([(code, 1)])
    assert scene.play() == Ended(code, 0)
    assert scene.done == 1


@pytest.mark.parametrize("code", [75, 137, 143])
def test_what_may_pass_is_tried_again(code: int) -> None:
    scene = Scene([(code, 1), (code, 1), (0, 1)])
    assert scene.play() == Ended(0, 2)
    assert scene.restarted == [Restart(code, 1, 1), Restart(code, 2, 2)]


def test_delays_double_up_to_the_longest() -> None:
    scene = Scene([(75, 1)] * 9 + [(0, 1)])
    scene.play()
    assert [restart.after for restart in scene.restarted] == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_a_run_that_lasted_begins_a_new_row() -> None:
    scene = Scene([(75, 1), (75, 1), (75, 301), (75, 1), (0, 1)])
    scene.play()
    assert [restart.after for restart in scene.restarted] == [1, 2, 1, 2]


def test_the_end_that_was_asked_for_is_not_restarted() -> None:
    scene = Scene([(75, 1), (143, 1)], stop_after=2)
    assert scene.play() == Ended(143, 1)


def test_the_end_may_be_asked_for_while_waiting() -> None:
    scene = Scene([(75, 1)], stop_while_waiting=True)
    assert scene.play() == Ended(75, 0)
    assert scene.done == 1


def test_restarts_may_be_limited() -> None:
    scene = Scene([(75, 1)] * 3)
    assert scene.play(most=2) == Ended(75, 2)


@given(st.integers(1, 10_000), st.floats(0, 1))
def test_any_delay_is_between_half_and_the_longest(failures: int, chance: float) -> None:
    assert 0.5 <= BACKOFF.delay(failures, chance) <= 60


REPOSITORY = Path(__file__).parents[2]
CHILD = """
import os, signal, time
from hivesink.cli.supervise import end_with_parent
signal.signal(signal.SIGTERM, lambda *_: print("asked", flush=True))
end_with_parent(os.environ, [(signal.SIGTERM, 0.1), (signal.SIGTERM, 0.1), (signal.SIGKILL, 0)])
print("HIVESINK_LIFELINE" in os.environ, flush=True)
time.sleep(60)
print("alone", flush=True)
"""
PARENT = """
import os, subprocess, sys
from hivesink.cli.supervise import lifeline
environment = dict(os.environ)
with lifeline(environment) as descriptor:
    subprocess.run([sys.executable, "-c", sys.argv[1]], env=environment, pass_fds=(descriptor,))
"""


def test_who_goes_on_after_being_asked_twice_is_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, CHILD], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "False\n"
        parent.kill()
        assert parent.stdout.read() == "asked\nasked\n"
    assert parent.returncode == -signal.SIGKILL
