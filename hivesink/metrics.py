"""Metrics for Prometheus: as text, over HTTP, and as a file for node_exporter's textfile collector."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest, start_http_server, write_to_textfile
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from hivesink.core.metrics import METRICS, Sample
from hivesink.core.metrics import Metric as Named
from hivesink.errors import NotWritable

logger = logging.getLogger("hivesink")

PREFIX = "hivesink_"
_EVERY = 10.0
"""Seconds between two writes of a file."""


def name_of(metric: Named) -> str:
    """The name under which it is exported."""
    return f"{PREFIX}{metric.name}{'_total' if metric.kind == 'counter' else ''}"


class Families(Collector):
    """What `ask` says of each writer at a scrape, in the form of the client library; also a registry of its own."""

    def __init__(self, ask: Callable[[], Mapping[tuple[str, str], Iterable[Sample]]]) -> None:
        self._ask = ask

    def collect(self) -> Iterator[Metric]:
        families = {metric.name: Metric(PREFIX + metric.name, metric.help, metric.kind) for metric in METRICS}
        names = {metric.name: name_of(metric) for metric in METRICS}
        for (table, writer), samples in self._ask().items():
            for sample in samples:
                labels = {"table": table, "writer": writer, **sample.labels}
                families[sample.metric].add_sample(f"{names[sample.metric]}{sample.ending}", labels, sample.value)
        yield from (family for family in families.values() if family.samples)

    def text(self) -> str:
        """In Prometheus's text format."""
        return generate_latest(self).decode()


def serve(families: Families, host: str, port: int) -> None:
    """Serve `families` at http://host:port/metrics until the process ends. Raises NotWritable."""
    registry = CollectorRegistry()
    registry.register(families)
    try:
        server, _ = start_http_server(port, host, registry)
    except (OSError, OverflowError) as error:
        place, advice = f"{host}:{port} for metrics", "name a free port of this machine"
        raise NotWritable(place, str(error), advice) from error
    logger.info("metrics at http://%s:%d/metrics", host, server.server_port)


def write_always(families: Families, folder: str) -> None:
    """Write `families` into a file in `folder` every 10 s, and at the process's end. Raises NotWritable."""
    name = os.environ.get("HIVESINK_WRITER") or Path(sys.argv[0]).stem or "job"
    path = str(Path(folder, f"hivesink-{name}.prom"))

    def failure() -> str:
        try:
            write_to_textfile(path, families)
        except Exception as error:  # noqa: BLE001  whatever it is, the next write may do
            return f"no metrics in {path}: {error}"
        return ""

    def write_on() -> None:
        was = ""
        while True:
            time.sleep(_EVERY)
            if (now := failure()) not in {was, ""}:
                logger.warning(now)
            was = now

    try:
        write_to_textfile(path, families)
    except OSError as error:
        place, advice = f"{folder} for metrics", "name a folder that this user can write"
        raise NotWritable(place, str(error), advice) from error
    threading.Thread(target=write_on, name="hivesink-metrics", daemon=True).start()
    atexit.register(failure)
