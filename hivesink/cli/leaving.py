"""The end of a process."""

from __future__ import annotations

import atexit
import gc
import logging
import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass


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
