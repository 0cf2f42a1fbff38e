"""hivesink: a stream into Hive tables, each event exactly once.

`HiveSink` is the sink, `sources` makes streams for it, `session` a Spark session for a job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hivesink.version import VERSION

if TYPE_CHECKING:
    from hivesink.core.progress import Progress
    from hivesink.spark import sources
    from hivesink.spark.query import HiveQuery
    from hivesink.spark.session import session
    from hivesink.spark.sink import HiveSink

__all__ = ["HiveQuery", "HiveSink", "Progress", "session", "sources"]

__version__ = VERSION

_HOMES = {
    "HiveQuery": "hivesink.spark.query",
    "HiveSink": "hivesink.spark.sink",
    "Progress": "hivesink.core.progress",
    "session": "hivesink.spark.session",
}


def __getattr__(name: str) -> Any:
    # Lazy: tasks and the command line import only parts of the package, fast.
    from importlib import import_module

    if name == "sources":
        return import_module("hivesink.spark.sources")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
