"""Metrics for Prometheus: as text, over HTTP, and as a file for node_exporter's textfile collector."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from hivesink.core.metrics import METRICS
from hivesink.core.metrics import Metric as Named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from hivesink.core.metrics import Sample

PREFIX = "hivesink_"


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
