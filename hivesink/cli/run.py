"""`hivesink run`: a job file in its own process, restarted if that may help."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console

from hivesink.cli.codes import BY_SIGNAL, ExitCode, JobFailed
from hivesink.cli.command import Metastore, command
from hivesink.cli.job import is_live
from hivesink.cli.output import Output, tell
from hivesink.config.parsers import address
from hivesink.core.log import require_writer_name
from hivesink.errors import InvalidOption

Job = Annotated[Path, typer.Argument(metavar="JOB.py", help="The job file.", exists=True, dir_okay=False)]
Arguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="[ARGS]...", help="The job's own arguments; options among them after --."),
]


@command
def run(
    out: Output,
    job: Job,
    arguments: Arguments = None,
    *,
    restart: bool = False,
    writer: str | None = None,
    metrics: str | None = None,
    metrics_file: str | None = None,
    metastore: Metastore = None,
) -> None:
    """Run a job file as a program, in its own process. The file's name without .py is the default writer.

    Exit codes: 0 done; 75 worth another try (a connection, a timeout); 65 needs a person; 1 the job itself failed.
    SIGTERM and SIGINT end the job without a restart: its queries stop after their batch, by a second signal at once.

    Example: hivesink run jobs/flights.py --restart

    --restart: Start the job again after exit code 75 and a death by signal: after 1 s, 2 s … 60 s.
    --writer NAME: The writer's name, for a job that names none. Default: the file's, without .py.
    --metrics [HOST]:PORT: Serve metrics for Prometheus there. Default: of no host 127.0.0.1.
    --metrics-file DIR: Write metrics into a file there, every 10 s and at the end.
    """
    if job.suffix != ".py":
        raise InvalidOption((f"'{job}' is not a .py file: a job is a Python program",))
    if writer is not None:
        # The stem is not checked here: the job may give its sink another name.
        require_writer_name(writer)
    environment = {**os.environ, "HIVESINK_WRITER": writer or job.stem}
    if metastore:
        environment["HIVESINK_METASTORE"] = metastore
    if metrics is not None and address(metrics) is None:
        raise InvalidOption((f"--metrics = {metrics!r}: write host:port, or :9464 for this machine alone",))
    environment |= {"HIVESINK_METRICS": metrics or "", "HIVESINK_METRICS_FILE": metrics_file or ""}
    wanted = {"--json": out.is_json, "--debug": os.environ.get("HIVESINK_DEBUG")}
    flags = [flag for flag, is_wanted in wanted.items() if is_wanted]
    program = "from hivesink.cli import child; child()"
    child = _Child([sys.executable, "-c", program, *flags, str(job), *(arguments or ())], environment, out)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, child.pass_on)
    code, restarts = child.supervise(restart=restart)
    if child.killed_by is not None and not child.stop_asked.is_set():
        text = f"signal {child.killed_by} ({signal.strsignal(child.killed_by)}) killed the job's process: somebody"
        text += " sent it, or the kernel for lack of memory" if child.killed_by == signal.SIGKILL else " sent it"
        text += ". Start the job again, it goes on from its log; --restart does that by itself"
        out.fail(JobFailed(job, text, retryable=True))
    if out.is_json:
        out.show({"job": str(job), "exit_code": code, "restarts": restarts}, ())
    raise typer.Exit(code)


_FIRST, _LONGEST, _LASTED = 1.0, 60.0, 300.0
"""Seconds: the delay before the first restart and the longest one; after a run of so many the first one comes again."""


def backoff(failures: int) -> float:
    """The longest delay (seconds) after so many failures in a row: doubled after each."""
    # After 32 doublings any delay is the longest one.
    return float(min(_LONGEST, _FIRST * 2 ** min(failures - 1, 32)))


@dataclass(slots=True)
class _Child:
    """The job's process, one at a time. It gets this process's signals, and ends with it."""

    command: Sequence[str]
    environment: Mapping[str, str]
    out: Output
    stop_asked: threading.Event = field(default_factory=threading.Event)
    killed_by: int | None = None
    """The signal that killed it last, so that it could report nothing itself."""
    _process: subprocess.Popen[bytes] | None = None

    def supervise(self, *, restart: bool) -> tuple[int, int]:
        """Run the job until it is done, needs a person or was asked to end. Returns its exit code, and the restarts.

        `restart`: again after exit code 75 and after a death by signal.
        """
        failures = restarts = 0
        while True:
            began = time.monotonic()
            code = self._run()
            may_pass = code == ExitCode.RETRY or code - BY_SIGNAL in signal.valid_signals()
            if self.stop_asked.is_set() or not (restart and may_pass):
                return code, restarts
            failures = 1 if time.monotonic() - began >= _LASTED else failures + 1
            delay = backoff(failures) * random.uniform(0.5, 1)  # noqa: S311  nobody gains by guessing it
            restarts += 1
            tell(f"hivesink: the job ended with {code}; restart {restarts} in {delay:.1f} s")
            if self.stop_asked.wait(delay):
                return code, restarts - 1

    def _run(self) -> int:
        """Run it once. Returns its exit code, or 128 + n if signal n killed it."""
        # In a new session Ctrl-C reaches it once, through us, and not from the terminal as well.
        self._process = subprocess.Popen(  # noqa: S603  the command is our own, the job file the user's
            self.command,
            env=self.environment,
            stdout=sys.stderr if self.out.is_json else None,
            start_new_session=True,
        )
        if self.stop_asked.is_set():
            self._process.terminate()
        # Until it is reaped, no other process or group can get its id.
        ended = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        if ended is not None and ended.si_status:
            # What it has started, such as a JVM that was still starting, would stay for ever.
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        code = self._process.wait()
        if code and is_live(sys.stderr, self.environment):
            Console(stderr=True).show_cursor()  # A job that was killed had hidden it.
        self._process = None
        self.killed_by = -code if code < 0 else None
        return BY_SIGNAL - code if code < 0 else code

    def pass_on(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002  the signal module's form
        """Pass SIGTERM and SIGINT on to the job."""
        self.stop_asked.set()
        if self._process is not None:
            # SIGTERM for both: PySpark handles SIGINT itself, by cancelling what runs.
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGTERM)
