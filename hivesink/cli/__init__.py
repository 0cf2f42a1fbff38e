"""The command line. `command` puts the commands together, `docs/cli.md` describes them."""

from __future__ import annotations

import atexit
import gc
import logging
import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn

_PR_SET_PDEATHSIG = 1


@dataclass(slots=True)
class Leaving:
    """Ends the process with `code` once all other exit functions have run, without taking the interpreter down.

    While that goes on, a daemon thread that comes back to Python from Arrow or hdfs-native aborts the process: exit
    code 134, whatever it was to be (https://github.com/python/cpython/issues/87135).
    """

    code: int = 0

    def register(self, *, ends_group: bool = False) -> None:
        """Do so. To be called before other modules are loaded: exit functions run in the order that reverses this.

        `ends_group`: with a code above 0, what is left of this process's group ends too.
        """
        atexit.register(self._leave, ends_group)

    def _leave(self, ends_group: bool) -> None:
        # Files that are still open write their last bytes.
        gc.collect()
        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):  # It is closed, or nobody reads it any more.
                stream.flush()
        if ends_group and self.code and os.getpgrp() == os.getpid():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.killpg(0, signal.SIGTERM)
        os._exit(self.code)


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run a command line, that of this process by default, and exit with its code."""
    # Ctrl-C ends it as the system does, without a trace of Python's: nothing that a command does needs tidying up.
    if arguments is None and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
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

        # When `hivesink run` dies, even by SIGKILL, the system sends SIGTERM.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    leaving = Leaving()
    leaving.register(ends_group=True)
    from hivesink.cli.job import main as run_job

    run_job(sys.argv[1:], leaving)
