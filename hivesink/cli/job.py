"""Runs a job file as `__main__`, shows its progress, and turns whatever it raises into an exit code and one line.

SIGTERM stops the job's queries after their current batch, so that `awaitTermination` returns; a second SIGTERM cuts the
job off. When `hivesink run` dies, the job gets the first SIGTERM.
"""

from __future__ import annotations

import logging
import os
import runpy
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import wrap
from types import FrameType
from typing import Any, TextIO

from rich.console import Console
from rich.file_proxy import FileProxy
from rich.live import Live
from rich.text import Text

from hivesink.cli.codes import BY_SIGNAL, Leaving, translate
from hivesink.cli.output import Output, redact
from hivesink.spark.query import export_metrics, progress_of_all, queries, settle_all, wait_for_batch

_GRACE = 2.0
"""Seconds in which the threads of a failed job may end."""


class _Stopped(BaseException):
    """Cuts the job off. No Exception, like KeyboardInterrupt: `except Exception` lets it pass."""


def main(arguments: list[str], leaving: Leaving) -> None:
    """Run the job. The interpreter then waits for its threads, and ends with the code that `leaving` gets."""
    flags = set()
    while arguments and arguments[0].startswith("--"):
        flags.add(arguments.pop(0))
    job = _Job(Path(arguments[0]), Output("--json" in flags), "--debug" in flags, leaving)
    # Py4J logs what a callback raised, and the query raises that anyway.
    logging.getLogger("py4j").addHandler(logging.NullHandler())
    logging.getLogger("py4j").propagate = job.debug
    signal.signal(signal.SIGTERM, job.on_sigterm)
    threading.excepthook = job.on_thread_error
    sys.argv = arguments
    # As with `python JOB.py`; `-c` puts the current folder there.
    sys.path[0] = str(job.path.resolve().parent)
    with progress(live=not flags and is_live(sys.stderr, os.environ)):
        job.run()


@dataclass(slots=True)
class _Job:
    """A job file, and how its run is told. `leaving` gets its exit code."""

    path: Path
    out: Output
    debug: bool
    leaving: Leaving
    _process: int = field(default_factory=os.getpid)
    _end_asked: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Run the file, then end its queries: a query may have failed, or have rows that wait."""
        try:
            export_metrics()
            try:
                runpy.run_path(str(self.path), run_name="__main__")
            except SystemExit as end:
                if end.code not in (None, 0):
                    raise
            settle_all()
        except SystemExit as end:
            if not isinstance(end.code, int):
                print(end.code, file=sys.stderr)
            self.leaving.code = end.code if isinstance(end.code, int) else 1
        except BaseException as error:  # noqa: BLE001  whatever ends the job is reported in one line
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            self.leaving.code = self._report(error)
        signal.signal(signal.SIGTERM, lambda *_: os._exit(self.leaving.code or BY_SIGNAL + signal.SIGTERM))
        if self.leaving.code:
            # A job that has failed ends though its threads work on: whoever restarts it waits for its end.
            watch = threading.Timer(_GRACE, os._exit, (self.leaving.code,))
            watch.daemon = True
            watch.start()

    def _report(self, error: BaseException) -> int:
        """Tell the error, and return its exit code."""
        failure, code = translate(error, self.path, stopped=self._end_asked.is_set())
        with suppress(Exception):  # Nobody may listen any more.
            if self.debug:
                print(redact("".join(traceback.format_exception(error))), file=sys.stderr, end="")
            self.out.fail(failure)
        return code

    def on_thread_error(self, ended: threading.ExceptHookArgs) -> None:
        if ended.exc_value is not None and not isinstance(ended.exc_value, SystemExit):
            self.leaving.code = self.leaving.code or self._report(ended.exc_value)

    def on_sigterm(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002  the signal module's form
        if os.getpid() != self._process:
            # The job's own process, forked: a pool ends it so.
            os._exit(BY_SIGNAL + signal.SIGTERM)
        if self._end_asked.is_set():
            raise _Stopped
        self._end_asked.set()
        # In another thread: this one may be in the middle of a call to the JVM, over its own connection.
        threading.Thread(target=_stop_queries, name="hivesink-stop", daemon=True).start()


def _stop_queries() -> None:
    """Stop each query, and those that start from now on, between two batches if that takes no minute.

    If there is none, or the JVM doesn't answer, end the job itself.
    """
    is_first = True
    while True:
        active: list[Any] = []
        try:
            spark = sys.modules.get("pyspark.sql")
            session = spark.SparkSession._instantiatedSession if spark else None  # noqa: SLF001  the public one asks the JVM for this thread's
            # Those of the sinks may be in any session.
            active += [query.handle for query in queries() if query.isActive]
            active += session.streams.active if session is not None else []
            for query in active:
                wait_for_batch(query)
                query.stop()
        except Exception:  # noqa: BLE001  the job then ends as if it had no query
            active.clear()
        if is_first and not active:
            os.kill(os.getpid(), signal.SIGTERM)
        is_first = False
        time.sleep(0.5)


def is_live(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether lines on `stream` can be drawn again: a terminal that is neither dumb nor to stay plain (NO_COLOR)."""
    return stream.isatty() and environ.get("TERM", "dumb") != "dumb" and not environ.get("NO_COLOR")


@contextmanager
def progress(*, live: bool) -> Iterator[None]:
    """Show the progress of the block's queries on standard error: a live line for each, or a log line per epoch."""
    if not live:
        # The sink's log lines, unless the job has its own logging.
        handler = logging.StreamHandler(sys.stderr)
        handler.addFilter(lambda _: not logging.getLogger().handlers)
        logger = logging.getLogger("hivesink")
        logger.addHandler(handler)
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.INFO)
        yield
        return
    # What Python prints appears above. Standard output stays what it is if it goes elsewhere.
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    begun, is_over = time.monotonic(), threading.Event()
    shown = Live(
        get_renderable=lambda: _lines(console.width, None if is_over.is_set() else begun),
        console=console,
        refresh_per_second=2,
        redirect_stdout=sys.stdout.isatty(),
    )
    os.register_at_fork(after_in_child=_plain)
    with shown:
        try:
            yield
        finally:
            is_over.set()


def _lines(width: int, begun: float | None) -> Text:
    told = [
        f"{name}: {progress}" + (" · waiting for the first batch" if begun is not None and not progress.epochs else "")
        for name, progress in progress_of_all().items()
    ]
    if not told and begun is not None:
        told = [f"no query has started yet ({time.monotonic() - begun:.0f} s)"]
    # Wrapped here: in a narrow terminal how far the query is behind must not be cut off.
    lines = (line for text in told for line in wrap(text, max(width - 1, 1), subsequent_indent="  "))
    return Text("\n".join(lines), no_wrap=True, overflow="ellipsis")


def _plain() -> None:
    # The forked process has no thread that draws, and the drawing one may have held the screen's lock.
    for name in ("stdout", "stderr"):
        if isinstance(stream := getattr(sys, name), FileProxy):
            setattr(sys, name, stream.rich_proxied_file)
