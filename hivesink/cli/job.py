"""The child of `hivesink run`: `python -m hivesink.cli.job [--json] [--debug] JOB.py [ARGS…]`.

Runs the job file as `__main__`, and makes an exit code and one line of whatever it raises. SIGTERM stops the job's
queries after the batch that they are in, so that `awaitTermination` returns; a second one cuts the job off. The
death of `hivesink run` is like SIGTERM, and, two minutes later, like a second one.
"""

from __future__ import annotations

import logging
import os
import re
import runpy
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from hivesink import errors
from hivesink.cli.codes import ExitCode
from hivesink.cli.lifeline import end_with_parent
from hivesink.cli.output import redact
from hivesink.cli.reporting import output
from hivesink.cli.trouble import OLD_CLIENT, is_fault, is_old_client, may_pass, reason, whole
from hivesink.errors import HiveSinkError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_RAISED = re.compile(r"^hivesink\.errors\.(\w+): (.+)$", re.MULTILINE)
_CUT_OFF = "stopped in the middle of a batch; what was decided, the next start finishes, and it writes the rest again"
_GRACE = 60.0
"""Seconds that a batch may take to end by itself once the end is asked for."""
_LOOK_AGAIN = 0.05


class JobFailed(HiveSinkError):
    """A job ended with an error that is not hivesink's: its own bug, or trouble of what it works with."""

    def __init__(self, job: Path, reason: str, *, retryable: bool) -> None:
        self.retryable = retryable
        super().__init__(f"{job}: {reason}")


class _Stopped(BaseException):
    """The job is cut off: like KeyboardInterrupt, for `finally` and for `except BaseException`."""


_end_asked = threading.Event()


def main(arguments: list[str]) -> NoReturn:
    """Run the job and exit with its code."""
    flags = set()
    while arguments and arguments[0].startswith("--"):
        flags.add(arguments.pop(0))
    job, debug = Path(arguments[0]), "--debug" in flags
    if not debug:
        # py4j prints the trace of a callback's error, which the handle raises in one piece anyway.
        quiet = logging.getLogger("py4j")
        quiet.addHandler(logging.NullHandler())
        quiet.propagate = False
    signal.signal(signal.SIGTERM, _ask_for_the_end)
    end_with_parent(os.environ)
    try:
        _run(job, arguments)
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        sys.exit(end.code if isinstance(end.code, int) else int(end.code is not None))
    except BaseException as error:  # noqa: BLE001  whatever ends the job is told, in one line
        if debug:
            print(redact(traceback.format_exc()), file=sys.stderr, end="")
        told, code = translate(error, job, stopped=_end_asked.is_set())
        output(as_json="--json" in flags).fail(told)
        sys.exit(code)
    sys.exit(ExitCode.DONE)


def _ask_for_the_end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  the signal module's form
    if _end_asked.is_set():
        raise _Stopped
    _end_asked.set()
    # Not here: this thread may be in the middle of a call to the JVM, whose connection is its own.
    threading.Thread(target=_stop_queries, name="hivesink-stop", daemon=True).start()


def _stop_queries() -> None:
    """Stop each query when it is between two batches; where there is none, end the job itself."""
    try:
        queries = _active_queries()
        for query in queries:
            deadline = time.monotonic() + _GRACE
            while _is_in_a_batch(query) and time.monotonic() < deadline:
                time.sleep(_LOOK_AGAIN)
            query.stop()
    except Exception:  # noqa: BLE001  without a JVM to talk to, the job is ended as if it had no query
        queries = []
    if not queries:
        os.kill(os.getpid(), signal.SIGTERM)


def _active_queries() -> list[Any]:
    spark = sys.modules.get("pyspark.sql")
    session = spark.SparkSession._instantiatedSession if spark else None  # noqa: SLF001  the public one asks the JVM, for another thread
    return list(session.streams.active) if session is not None else []


def _is_in_a_batch(query: Any) -> bool:
    status = query.status
    return bool(query.isActive and status["isTriggerActive"] and status["isDataAvailable"])


def _run(job: Path, arguments: list[str]) -> None:
    sys.argv = arguments
    # As `python JOB.py` has it; `-m` puts the current folder there.
    sys.path[0] = str(job.resolve().parent)
    runpy.run_path(str(job), run_name="__main__")


def translate(error: BaseException, job: Path, *, stopped: bool = False) -> tuple[HiveSinkError, int]:
    """What to tell about `error`, and the exit code that it means. `stopped`: the end had been asked for."""
    if isinstance(error, KeyboardInterrupt):
        return JobFailed(job, _CUT_OFF, retryable=False), 128 + signal.SIGINT
    own = next((cause for cause in _causes(error) if isinstance(cause, HiveSinkError)), None)
    if own is not None:
        return own, ExitCode.RETRY if own.retryable else ExitCode.NEEDS_PERSON
    told = _told_by_spark(error, job)
    if told is not None:
        return told, ExitCode.RETRY if told.retryable else ExitCode.NEEDS_PERSON
    if stopped:
        return JobFailed(job, _CUT_OFF, retryable=False), 128 + signal.SIGTERM
    return _judge(error, job)


def _judge(error: BaseException, job: Path) -> tuple[JobFailed, int]:
    """An error that isn't the sink's."""
    if is_old_client(error):
        return JobFailed(job, OLD_CLIENT, retryable=False), ExitCode.NEEDS_PERSON
    what = f"{type(error).__name__}: {reason(error)}"
    if is_fault(error):
        return JobFailed(job, f"{what}{_line_of(error, job)}", retryable=False), ExitCode.NEEDS_PERSON
    if may_pass(error):
        return JobFailed(job, what, retryable=True), ExitCode.RETRY
    return JobFailed(job, f"{what}{_line_of(error, job)}; --debug shows the trace", retryable=False), ExitCode.FAILED


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__


def _told_by_spark(error: BaseException, job: Path) -> JobFailed | None:
    """An error of the sink that Spark carries as text: plain `foreachBatch` raises no other."""
    raised = _RAISED.findall(whole(error))
    if not raised:
        return None
    name, text = raised[-1]
    kind = getattr(errors, name, None)
    retryable = isinstance(kind, type) and issubclass(kind, HiveSinkError) and kind.retryable
    return JobFailed(job, text, retryable=retryable)


def _line_of(error: BaseException, job: Path) -> str:
    """Where in the job file it happened; nowhere, if that file never got to run."""
    if isinstance(error, SyntaxError):
        return ""  # its text says so
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename) == job]
    return f" (line {lines[-1]})" if lines else ""


if __name__ == "__main__":
    main(sys.argv[1:])
