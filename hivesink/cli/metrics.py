"""`hivesink metrics`: what the log says, for Prometheus."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timezone

from hivesink.cli.command import command
from hivesink.cli.output import Line, Output
from hivesink.metrics import Families
from hivesink.tables.opened import OpenedTable


@command
def metrics(out: Output, opened: OpenedTable) -> None:
    """Print a table's metrics by its log alone, in Prometheus's text format: also while no job runs.

    Read-only: safe to run while a job is writing.

    Example: hivesink metrics demo.flights
    """
    now = datetime.now(timezone.utc)
    samples = {(opened.name, writer): [*opened.figures(writer).samples(now)] for writer in opened.writers}
    data = [{"writer": writer, **asdict(each)} for (_, writer), every in samples.items() for each in every]
    text = Families(lambda: samples).text()
    out.show({"table": opened.name, "metrics": data}, [Line(text.rstrip("\n"))])
