"""Ends the job's process with `hivesink run`, however that ends: SIGKILL, a closed terminal, no memory left.

`run` holds one end of a pipe that nothing is ever written to, and the job's process reads the other. The operating
system closes a dead process's end, whichever thread started the child and however early it died.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableMapping, Sequence

_VARIABLE = "HIVESINK_LIFELINE"
_STEPS = ((signal.SIGTERM, 120.0), (signal.SIGTERM, 10.0), (signal.SIGKILL, 0.0))
"""The end that is asked for, with the seconds to wait for it; the end in the middle of a batch; the end."""


@contextmanager
def held(environment: MutableMapping[str, str]) -> Iterator[int]:
    """A file descriptor to hand down to a child with this environment, which ends with this process."""
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
    """Signal this process when the holder of its lifeline is gone; without a lifeline do nothing."""
    # Taken out: this process's own children have another parent.
    lifeline = environment.pop(_VARIABLE, None)
    if lifeline is None:
        return
    os.set_inheritable(int(lifeline), False)
    threading.Thread(target=_watch, args=(int(lifeline), steps), name="hivesink-lifeline", daemon=True).start()


def _watch(lifeline: int, steps: Sequence[tuple[signal.Signals, float]]) -> None:
    os.read(lifeline, 1)
    for number, grace in steps:
        os.kill(os.getpid(), number)
        time.sleep(grace)
