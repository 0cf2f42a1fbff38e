"""The child of `hivesink run`: `python -m hivesink.cli.job [--json] [--debug] JOB.py [ARGS…]`.

Runs the job file as `__main__`, and turns whatever it raises into an exit code and one line. SIGTERM stops the job's
queries after their current batch, so that `awaitTermination` returns; a second SIGTERM cuts the job off. When `hivesink
run` dies, the job gets the first SIGTERM, and two minutes later the second.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from concurrent.futures import process as processes
from concurrent.futures import thread as pools
from functools import partial
from pathlib import Path
from socketserver import BaseServer
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

from hivesink.cli.codes import BY_SIGNAL, ExitCode, translate
from hivesink.cli.leaving import leave
from hivesink.cli.output import output, redact
from hivesink.cli.screen import is_live, progress
from hivesink.cli.supervise import end_with_parent
from hivesink.spark.query import active_queries, settle_all, wait_for_batch
from hivesink.spark.running import process_ends

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from types import FrameType


class _Stopped(BaseException):
    """Cuts the job off. No Exception, like KeyboardInterrupt: `except Exception` lets it pass."""


_end_asked = threading.Event()
_SETTLE, _GRACE = 90.0, 2.0
"""Seconds in which the queries of a failed job may end, then its threads."""
_thread_errors: list[BaseException] = []


def main(arguments: list[str]) -> NoReturn:
    """Run the job and exit with its code."""
    flags = set()
    while arguments and arguments[0].startswith("--"):
        flags.add(arguments.pop(0))
    job = Path(arguments[0])
    if "--debug" not in flags:
        _quiet()
    signal.signal(signal.SIGTERM, _on_sigterm)
    # A pool's processes are ended by this signal: in them it must not stop the queries of the process that forked them.
    before: list[set[int]] = []
    os.register_at_fork(
        before=lambda: before.append(signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])),
        after_in_parent=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, before.pop()),
        after_in_child=partial(_in_child, before),
    )
    threading.excepthook = partial(_on_thread_error, job, flags)
    end_with_parent(os.environ)
    try:
        sys.argv = arguments
        # As with `python JOB.py`; `-m` puts the current folder there.
        sys.path[0] = str(job.resolve().parent)
        with progress(live=not flags and is_live(sys.stderr, os.environ)):
            _run(job)
    except SystemExit as end:
        if not isinstance(end.code, int | None):
            print(end.code, file=sys.stderr)
        sys.exit(end.code if isinstance(end.code, int) else int(end.code is not None))
    except BaseException as error:  # noqa: BLE001  whatever ends the job is reported in one line
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sys.exit(_report(error, job, flags))
    sys.exit(ExitCode.DONE)


def _quiet() -> None:
    """Keep the stack traces of PySpark's threads from standard error; what they tell, the query raises anyway."""
    from pyspark import accumulators

    # A callback's error.
    py4j = logging.getLogger("py4j")
    py4j.addHandler(logging.NullHandler())
    py4j.propagate = False
    # Some of its modules log by no logger of their own.
    logging.getLogger().addFilter(lambda record: Path(record.pathname).parent.name != "py4j")
    # The JVM's death. Its servers have other names in each version.
    for server in vars(accumulators).values():
        if isinstance(server, type) and server.__module__ == accumulators.__name__ and issubclass(server, BaseServer):
            server.handle_error = lambda *_: None  # type: ignore[method-assign]  # it prints the trace


def _report(error: BaseException, job: Path, flags: Collection[str]) -> int:
    """Tell the error, and return its exit code."""
    failure, code = translate(error, job, stopped=_end_asked.is_set())
    with contextlib.suppress(Exception):  # Nobody may listen any more.
        if "--debug" in flags:
            print(redact("".join(traceback.format_exception(error))), file=sys.stderr, end="")
        output(as_json="--json" in flags).fail(failure)
    return code


def _on_thread_error(job: Path, flags: Collection[str], ended: threading.ExceptHookArgs) -> None:
    if ended.exc_value is not None and not isinstance(ended.exc_value, SystemExit):
        _report(ended.exc_value, job, flags)
        _thread_errors.append(ended.exc_value)


def _run(job: Path) -> None:
    """Run the job to its end, with its threads, then end its queries: one may have failed, or have rows that wait."""
    # It stays for good, unlike runpy's: pools and processes look up in it what their work needs.
    module = sys.modules["__main__"] = ModuleType("__main__")
    module.__file__ = str(job)
    try:
        exec(compile(job.read_bytes(), str(job), "exec", dont_inherit=True), vars(module))  # noqa: S102  the user's job
    except SystemExit as end:
        if end.code not in (None, 0):
            raise
    _wait_for_threads()
    # The job's last queries, which end now, may use pools again.
    pools._shutdown = processes._global_shutdown = False  # noqa: SLF001
    settle_all()
    if _thread_errors:
        raise _thread_errors[0]


_wait_for_threads: Callable[[], None] = threading._shutdown  # type: ignore[attr-defined]  # noqa: SLF001
"""As the interpreter at its end: let pools do the work that they have, and wait for all threads that aren't daemons."""


def _own_threads() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if not one.daemon and one is not threading.main_thread()]


def _end(code: int) -> None:
    """What is left to do once the exit code is known. Another SIGTERM ends the job with it at once."""
    signal.signal(signal.SIGTERM, lambda *_: _exit_now(code or BY_SIGNAL + signal.SIGTERM))
    if code and _own_threads() and not _end_asked.is_set():
        threading.excepthook = lambda _: None  # The first failure was told.
        settling = threading.Thread(target=settle_all, daemon=True)
        settling.start()
        settling.join(_SETTLE)  # A batch that hangs is cut off.
    # Pools without work end by these calls, which wait for the others.
    for end in (pools._python_exit, processes._python_exit):  # noqa: SLF001
        threading.Thread(target=end, daemon=True).start()
    # A job that has failed ends though its threads work on: whoever restarts it waits for its end.
    deadline = time.monotonic() + (_GRACE if code else threading.TIMEOUT_MAX)
    while own := _own_threads():
        own[0].join(max(0, deadline - time.monotonic()))
        if time.monotonic() >= deadline:
            _exit_now(code)


def _exit_now(code: int) -> NoReturn:
    _end_children()
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _end_children() -> None:
    """End the job's own processes, and a JVM that PySpark is just starting: otherwise they would stay for ever."""
    process_ends.set()
    if os.getpgrp() == os.getpid():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.killpg(0, signal.SIGTERM)
        for child in multiprocessing.active_children():
            child.join(_GRACE)
            child.kill()


def _in_child(before: list[set[int]]) -> None:
    if signal.getsignal(signal.SIGTERM) is _on_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, before.pop())


def _on_sigterm(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  the signal module's form
    if _end_asked.is_set():
        raise _Stopped
    _end_asked.set()
    # In another thread: this one may be in the middle of a call to the JVM, over its own connection.
    threading.Thread(target=_stop_queries, name="hivesink-stop", daemon=True).start()


def _stop_queries() -> None:
    """Stop each query, and those that start from now on, between two batches if that takes no minute.

    If there is none, end the job itself.
    """
    if not _stop_active():
        os.kill(os.getpid(), signal.SIGTERM)
    while True:
        time.sleep(0.5)
        _stop_active()


def _stop_active() -> bool:
    """Whether there were queries, and all are stopped."""
    try:
        spark = sys.modules.get("pyspark.sql")
        session = spark.SparkSession._instantiatedSession if spark else None  # noqa: SLF001  the public one asks the JVM for this thread's
        queries: list[Any] = [*active_queries(), *(session.streams.active if session is not None else ())]
        for query in queries:
            wait_for_batch(query)
            query.stop()
    except Exception:  # noqa: BLE001  if the JVM doesn't answer, the job ends as if it had no query
        return False
    return bool(queries)


if __name__ == "__main__":
    # Registered before the job's own, it runs after them; registered after that of `multiprocessing`, before it.
    atexit.register(_end_children)
    try:
        main(sys.argv[1:])
    except SystemExit as end:
        code = int(end.code or 0)
    except _Stopped:  # While the end of the job was being told.
        code = BY_SIGNAL + signal.SIGTERM
    _end(code)
    if not code:
        atexit.unregister(_end_children)
    leave(code)
