"""The command line. `command` puts the commands together, `docs/cli.md` describes them."""

from __future__ import annotations

import signal
import sys
from typing import NoReturn


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run a command line, that of this process by default, and exit with its code."""
    # Ctrl-C ends it as the system does, without a trace of Python's: nothing that a command does needs tidying up.
    if arguments is None and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from hivesink.cli.codes import Leaving

    leaving = Leaving()
    if arguments is None:
        leaving.register()
    from hivesink.cli.command import call

    try:
        leaving.code = call(sys.argv[1:] if arguments is None else arguments)
    except SystemExit as left:
        # Rich ends the process so where nobody reads its output.
        leaving.code = left.code if isinstance(left.code, int) else 1
    sys.exit(leaving.code)


def child() -> None:
    """The process of a job, as `hivesink run` starts it: with [--json] [--debug] JOB.py and the job's own words."""
    if sys.platform == "linux":
        import ctypes

        # PR_SET_PDEATHSIG: when `hivesink run` dies, even by SIGKILL, the system sends SIGTERM.
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)
    from hivesink.cli.codes import Leaving

    leaving = Leaving()
    leaving.register(ends_group=True)
    from hivesink.cli.job import main as run_job

    run_job(sys.argv[1:], leaving)
