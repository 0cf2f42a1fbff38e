"""Spark's daemon of Python workers, with the sink's modules loaded: workers are forked from it ready for their tasks.

Spark runs it by `spark.python.daemon.module`. Without it each worker, and each one that comes after an idle time,
loads them by itself, which takes more than a second of CPU.
"""

from __future__ import annotations

from pyspark import daemon, worker

from hivesink import wiring
from hivesink.spark import tasks

READY = (worker, wiring)
"""What workers need besides; each module loads its own."""

if __name__ == "__main__":
    tasks.settle()
    daemon.manager()
