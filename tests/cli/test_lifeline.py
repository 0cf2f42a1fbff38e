"""A process that ends with its parent, whatever it does with SIGTERM."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
CHILD = """
import os, signal, time
from hivesink.cli.lifeline import end_with_parent
signal.signal(signal.SIGTERM, lambda *_: print("asked", flush=True))
end_with_parent(os.environ, [(signal.SIGTERM, 0.1), (signal.SIGTERM, 0.1), (signal.SIGKILL, 0)])
print("HIVESINK_LIFELINE" in os.environ, flush=True)
time.sleep(60)
print("alone", flush=True)
"""
PARENT = """
import os, subprocess, sys
from hivesink.cli import lifeline
environment = dict(os.environ)
with lifeline.held(environment) as held:
    subprocess.run([sys.executable, "-c", sys.argv[1]], env=environment, pass_fds=(held,))
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
