"""Exit codes, which error means which, and the end of a process. `docs/cli.md` lists them for operators."""

from __future__ import annotations

import atexit
import gc
import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from hivesink import errors
from hivesink.errors import HiveSinkError
from hivesink.kerberos import failure_of_java


class ExitCode(IntEnum):
    """The codes of every command, after sysexits.h where it has one."""

    DONE = 0
    FAILED = 1
    """A check found errors, or a program has a bug."""
    USAGE = 2
    NOTHING = 3
    """`changed` has seen nothing new."""
    NEEDS_PERSON = 65
    RETRY = 75
    """Worth another try."""


BY_SIGNAL = 128
"""The shell's rule: 128 + n is a death by signal n."""


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


_PASSES = re.compile(
    r"(?:^\s*|: |\()(?:[a-z]\w*\.)+(?:(?:Socket|Connect)?Timeout|Connect|Disconnect|NoRouteToHost|Socket|Network"
    r"|ClosedChannel|TTransport|BlockMissing|SafeMode|Retriable|Standby)Exception(?=[:)\s]|$)"
    r"|SparkContext (?:was|has been) shut ?down|stopped SparkContext",
    re.MULTILINE,
)
"""Errors of Java's, Hadoop's, Kafka's and Thrift's whose class says that the same call may succeed later.

And what Spark says once it has ended its own context, as when it loses the cluster.
"""

_HEAP_ENDED = re.compile(r"\bjava\.lang\.OutOfMemoryError\b|\bexited with code 52\b")
_EXIT_OF_HEAP = 52
"""`SparkExitCode.OOM`: with this code Spark ends a JVM whose task ran out of heap."""
_HEAP_TOO_SMALL = (
    "a JVM's heap is too small for a record or a batch (OutOfMemoryError): raise spark.driver.memory, on a cluster "
    "spark.executor.memory, or lower maxOffsetsPerTrigger"
)


_CUT_OFF = "stopped before its first batch or in the middle of one; the next start finishes what is open and goes on"
_RAISED = re.compile(r"^hivesink\.errors\.(\w+): (.+)$", re.MULTILINE)
_CLASS = re.compile(r"(?:[a-z]\w*\.)+[A-Z][\w$]*(?:: |$)")


class JobFailed(HiveSinkError, code="HS001"):
    """A job ended with an error that is not hivesink's: its own bug, or a failure of a system that it uses."""

    def __init__(self, job: Path, reason: str, *, retryable: bool = False) -> None:
        self.retryable = retryable
        super().__init__(f"{job}: {reason}")


def code_of(error: BaseException) -> ExitCode:
    """The exit code for `error`.

    Errors of the sink say it themselves. An error of Spark, of its JVM, or of what that talks to is RETRY where one of
    `_PASSES` matches it or the JVM is gone, else NEEDS_PERSON. Errors of Python's own are RETRY for connections and
    timeouts, else FAILED.
    """
    from py4j.protocol import Py4JNetworkError

    if isinstance(error, HiveSinkError):
        return ExitCode.RETRY if error.retryable else ExitCode.NEEDS_PERSON
    if _has_ended_heap(error):
        return ExitCode.NEEDS_PERSON
    if isinstance(error, (ConnectionError, TimeoutError, Py4JNetworkError)):
        return ExitCode.RETRY
    if _is_sparks(error):
        return ExitCode.RETRY if _PASSES.search(_text(error)) else ExitCode.NEEDS_PERSON
    return ExitCode.FAILED


def translate(error: BaseException, job: Path, *, stopped: bool = False) -> tuple[HiveSinkError, int]:
    """What to report for a job that raised `error`, and the exit code. `stopped`: somebody had asked it to end."""
    if isinstance(error, KeyboardInterrupt):
        return JobFailed(job, _CUT_OFF), BY_SIGNAL + signal.SIGINT
    if not _has_ended_heap(error):
        ours = next((cause for cause in _causes(error) if isinstance(cause, HiveSinkError)), None)
        if ours is None and (raised := _RAISED.findall(_text(error))):
            # Plain `foreachBatch` raises the sink's error as a text in Spark's.
            name, text = raised[-1]
            kind = getattr(errors, name, None)
            retryable = isinstance(kind, type) and issubclass(kind, HiveSinkError) and kind.retryable
            ours = JobFailed(job, text, retryable=retryable)
        if ours is None and _is_sparks(error):
            ours = failure_of_java(_text(error), summary(error))
        if ours:
            return ours, code_of(ours)
        if stopped:
            return JobFailed(job, _CUT_OFF), BY_SIGNAL + signal.SIGTERM
    code = code_of(error)
    reason = f"{summary(error)} (exit code {code}; --debug shows the stack trace)"
    return JobFailed(job, reason, retryable=code == ExitCode.RETRY), code


def summary(error: BaseException) -> str:
    """An error that isn't the sink's: the root cause's class and first sentence."""
    from hivesink.spark.running import short_java_error

    if _has_ended_heap(error):
        return _HEAP_TOO_SMALL
    exit_code, text = _jvm_exit(error), _text(error)
    said = short_java_error(text) if _is_sparks(error) else text.strip().partition("\n")[0]
    died = "" if exit_code is None else f"the JVM of Spark's driver died, with exit code {exit_code}: "
    return died + (said if _is_sparks(error) and _CLASS.match(said) else f"{type(error).__name__}: {said}")


def _is_sparks(error: BaseException) -> bool:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return isinstance(error, (PySparkException, Py4JError))


def _has_ended_heap(error: BaseException) -> bool:
    """Whether a JVM has too little heap. That comes first: the sink's own errors may follow from it, and may pass."""
    return _HEAP_ENDED.search(_text(error)) is not None or _jvm_exit(error) == _EXIT_OF_HEAP


def _jvm_exit(error: BaseException) -> int | None:
    """The exit code of the Spark driver's JVM; None if it runs, or if `error` doesn't come from its end."""
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001  nobody else knows the JVM's process
    if process is not None and any(isinstance(cause, (ConnectionError, Py4JError)) for cause in _causes(error)):
        with suppress(subprocess.TimeoutExpired):  # Its sockets close a moment before it has ended.
            code: int = process.wait(1)
            return BY_SIGNAL - code if code < 0 else code
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__


def _text(error: BaseException) -> str:
    """The texts of the error and its causes, with Java's stack traces as far as the JVM can still be asked."""
    texts = []
    for cause in _causes(error):
        try:
            texts.append(str(cause))
        except Exception:  # noqa: BLE001  py4j asks the JVM for a Java error's text, and the JVM may have died
            texts.append("java.net.ConnectException: the JVM that could say more is gone")
        texts.append(str(getattr(cause, "_stackTrace", "")))
    return "\n".join(texts)
