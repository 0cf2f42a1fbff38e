"""The process of a job, as `hivesink run` starts it: `python -m hivesink.cli.child [--json] [--debug] JOB.py …`."""

from __future__ import annotations

import ctypes
import signal
import sys

from hivesink.cli.leaving import Leaving

_PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    if sys.platform == "linux":
        # When `hivesink run` dies, even by SIGKILL, the system sends SIGTERM.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    leaving = Leaving()
    leaving.register(ends_group=True)
    from hivesink.cli.job import main

    main(sys.argv[1:], leaving)
