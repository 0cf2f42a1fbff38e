"""The child of `hivesink run`: `python -m hivesink.cli.job [--json] [--debug] JOB.py [ARGS…]`.

Runs the job file as `__main__`, and makes an exit code and one line of whatever it raises.
"""

from __future__ import annotations

import logging
import re
import runpy
import signal
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from hivesink import errors
from hivesink.cli.codes import ExitCode
from hivesink.cli.output import redact
from hivesink.cli.reporting import output
from hivesink.errors import HiveSinkError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_RAISED = re.compile(r"^hivesink\.errors\.(\w+): (.+)$", re.MULTILINE)
_PYTHON_TRACE = "Traceback (most recent call last)"


class JobFailed(HiveSinkError):
    """A job ended with an error that is not hivesink's: its own bug, or trouble of what it works with."""

    def __init__(self, job: Path, reason: str, *, retryable: bool) -> None:
        self.retryable = retryable
        super().__init__(f"{job}: {reason}")


class _Stopped(BaseException):
    """SIGTERM, as an exception in the job: like KeyboardInterrupt, for `finally` and for `except BaseException`."""


def main(arguments: list[str]) -> NoReturn:
    """Run the job and exit with its code."""
    flags = set()
    while arguments and arguments[0].startswith("--"):
        flags.add(arguments.pop(0))
    job, out = Path(arguments[0]), output(as_json="--json" in flags)
    debug = "--debug" in flags
    if not debug:
        # py4j prints the trace of a callback's error, which the handle raises in one piece anyway.
        quiet = logging.getLogger("py4j")
        quiet.addHandler(logging.NullHandler())
        quiet.propagate = False
    signal.signal(signal.SIGTERM, _stop)
    try:
        _run(job, arguments)
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        sys.exit(end.code if isinstance(end.code, int) else int(end.code is not None))
    except (KeyboardInterrupt, _Stopped) as stopped:
        number = signal.SIGINT if isinstance(stopped, KeyboardInterrupt) else signal.SIGTERM
        text = "stopped; what was decided and is not finished yet, the next start finishes"
        print(f"hivesink: {job}: {text}", file=sys.stderr)
        sys.exit(128 + number)
    except BaseException as error:  # noqa: BLE001  whatever ends the job is told, in one line
        if debug:
            print(redact(traceback.format_exc()), file=sys.stderr, end="")
        told, code = translate(error, job)
        out.fail(told)
        sys.exit(code)
    sys.exit(ExitCode.DONE)


def _stop(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001  the signal module's form
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    raise _Stopped


def _run(job: Path, arguments: list[str]) -> None:
    sys.argv = arguments
    # As `python JOB.py` has it; `-m` puts the current folder there.
    sys.path[0] = str(job.resolve().parent)
    runpy.run_path(str(job), run_name="__main__")


def translate(error: BaseException, job: Path) -> tuple[HiveSinkError, int]:
    """What to tell about `error`, and the exit code that it means."""
    own = next((cause for cause in _causes(error) if isinstance(cause, HiveSinkError)), None)
    if own is not None:
        return own, ExitCode.RETRY if own.retryable else ExitCode.NEEDS_PERSON
    told = _told_by_spark(error, job)
    if told is not None:
        return told, ExitCode.RETRY if told.retryable else ExitCode.NEEDS_PERSON
    if _is_trouble(error):
        return JobFailed(job, f"{type(error).__name__}: {_first_line(error)}", retryable=True), ExitCode.RETRY
    where = _line_of(error, job)
    reason = f"{type(error).__name__}: {_first_line(error)}{where}; --debug shows the trace"
    return JobFailed(job, reason, retryable=False), ExitCode.FAILED


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__


def _told_by_spark(error: BaseException, job: Path) -> JobFailed | None:
    """An error of the sink that Spark carries as text: plain `foreachBatch` raises no other."""
    raised = _RAISED.findall(str(error))
    if not raised:
        return None
    name, text = raised[-1]
    kind = getattr(errors, name, None)
    retryable = isinstance(kind, type) and issubclass(kind, HiveSinkError) and kind.retryable
    return JobFailed(job, text, retryable=retryable)


def _is_trouble(error: BaseException) -> bool:
    """Whether what failed is Spark, Kafka or the network, and not the job's own code or SQL."""
    from py4j.protocol import Py4JError
    from pyspark.errors import AnalysisException, IllegalArgumentException, ParseException, PySparkException

    if isinstance(error, (AnalysisException, ParseException, IllegalArgumentException)):
        return False
    if isinstance(error, (PySparkException, Py4JError)):
        # Python code that failed in a task or a callback fails again.
        return _PYTHON_TRACE not in str(error)
    return isinstance(error, (ConnectionError, TimeoutError))


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "(no message)")


def _line_of(error: BaseException, job: Path) -> str:
    """Where in the job file it happened; nowhere, if that file never got to run."""
    if isinstance(error, SyntaxError):
        return f" (line {error.lineno})"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename) == job]
    return f" (line {lines[-1]})" if lines else ""


if __name__ == "__main__":
    main(sys.argv[1:])
