"""The end of a process."""

from __future__ import annotations

import atexit
import contextlib
import gc
import io
import os
from typing import NoReturn


def leave(code: int) -> NoReturn:
    """End the process as `sys.exit` does in the main thread, but don't take the interpreter down.

    While that goes on, a daemon thread that comes back to Python from Arrow or hdfs-native aborts the process: exit
    code 134, whatever `code` was (https://github.com/python/cpython/issues/87135).
    """
    atexit._run_exitfuncs()  # noqa: SLF001  the interpreter's own step, which nothing public does
    for kind in (io.TextIOWrapper, io.BufferedWriter):
        for file in (one for one in gc.get_objects() if isinstance(one, kind)):
            with contextlib.suppress(Exception):  # It is closed, or nobody may listen any more.
                file.flush()
    os._exit(code)
