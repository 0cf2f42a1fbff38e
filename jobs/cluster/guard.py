"""Runs a server for a parent process, and ends it when that parent does; used by path, not imported.

`guard.py GRACE COMMAND…` runs the command until standard input closes, which the operating system sees to however the
parent ends; after GRACE seconds of SIGTERM it is killed. It prints the command's process id; all that the command
prints goes to standard error.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading

PR_SET_PDEATHSIG = 1


def run(grace: float, command: list[str]) -> int:
    """Run the command until it ends, or standard input closes; return its exit code."""
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        # The kernel kills the server of a killed guard. A single thread runs here, so this is safe after a fork.
        preexec_fn=lambda: ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL),  # noqa: PLW1509
    )
    print(child.pid, flush=True)

    def wait_for_parent() -> None:
        # Not `sys.stdin`, whose lock would be held when the interpreter ends.
        while os.read(0, 1):
            pass
        child.terminate()
        try:
            child.wait(grace)
        except subprocess.TimeoutExpired:
            child.kill()

    signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    threading.Thread(target=wait_for_parent, daemon=True).start()
    return child.wait()


if __name__ == "__main__":
    try:
        code = run(float(sys.argv[1]), sys.argv[2:])
    except OSError as e:
        # The program is missing or not executable: this line is all that the log needs.
        sys.exit(str(e))
    sys.exit(code)
