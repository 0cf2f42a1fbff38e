"""How `hivesink run` shows a job's progress: a live line per query in a terminal, a log line per epoch elsewhere."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from contextlib import contextmanager
from textwrap import wrap
from typing import TYPE_CHECKING

from rich.console import Console
from rich.file_proxy import FileProxy
from rich.live import Live
from rich.text import Text

from hivesink.spark.query import progress_of_all

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import TextIO


_PER_SECOND = 2
_STARTING = "Spark is starting"


def is_live(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether lines on `stream` can be drawn again: a terminal that is neither dumb nor to stay plain (NO_COLOR)."""
    return stream.isatty() and environ.get("TERM", "dumb") != "dumb" and not environ.get("NO_COLOR")


@contextmanager
def progress(*, live: bool) -> Iterator[None]:
    """Show the progress of the block's queries on standard error."""
    if not live:
        _log_epochs()
        yield
        return
    # What Python prints appears above. Standard output stays what it is if it goes elsewhere.
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    begun, is_over = time.monotonic(), threading.Event()
    shown = Live(
        get_renderable=lambda: _lines(console.width, None if is_over.is_set() else begun),
        console=console,
        refresh_per_second=_PER_SECOND,
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
        # A job may make its session in any way: that there is a context is all that is known of it.
        spark = sys.modules.get("pyspark")
        what = "Spark is up, no query has started" if spark and spark.SparkContext._active_spark_context else _STARTING  # noqa: SLF001  the public ways start one
        told = [f"{what} ({time.monotonic() - begun:.0f} s)"]
    # Wrapped here: in a narrow terminal how far the query is behind must not be cut off.
    lines = (line for text in told for line in wrap(text, max(width - 1, 1), subsequent_indent="  "))
    return Text("\n".join(lines), no_wrap=True, overflow="ellipsis")


def _plain() -> None:
    # The forked process has no thread that draws, and the drawing one may have held the screen's lock.
    for name in ("stdout", "stderr"):
        if isinstance(stream := getattr(sys, name), FileProxy):
            setattr(sys, name, stream.rich_proxied_file)


def _log_epochs() -> None:
    """Let the sink's log lines out on standard error, unless the job has its own logging."""
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(lambda _: not logging.getLogger().handlers)
    logger = logging.getLogger("hivesink")
    logger.addHandler(handler)
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO)
