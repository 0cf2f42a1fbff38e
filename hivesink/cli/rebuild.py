"""`hivesink recover --checkpoint`: a lost checkpoint, rebuilt from the table's logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hivesink.cli.output import Line, Report
from hivesink.core.manifest import REPLAYS
from hivesink.errors import InvalidOption
from hivesink.logs import file_system
from hivesink.sink.commit.observe import load
from hivesink.spark.rebuild import batch_to_rebuild, checkpoint_folder, rebuild

if TYPE_CHECKING:
    from hivesink.tables.opened import OpenedTable

Checkpoint = Annotated[
    str | None,
    typer.Option(
        "--checkpoint",
        metavar="DIR",
        help="Only rebuild the lost checkpoint of the table's query in this folder, from the log.",
    ),
]


def rebuilt(opened: OpenedTable, writer: str | None, checkpoint: str, *, dry_run: bool) -> Report:
    """Rebuild the checkpoint of the query that `writer` belongs to, or of the table's only one.

    Raises InvalidOption, Unsupported, LogDamaged, StoreUnavailable, NotWritable.
    """
    heads = {name: load(context).head for name, context in opened.writers.items() if name != REPLAYS}
    lasts = {name: head.last_batch for name, head in heads.items() if head and head.last_batch}
    chosen = {name: lasts[name] for name in opened.chosen(writer) if name in lasts}
    queries = {last.ref.query for last in chosen.values()}
    if not queries:
        problem = f"no log of {opened.name} holds a batch: there is nothing to rebuild; start the job as it is"
        raise InvalidOption((problem,))
    if len(queries) > 1:
        problem = f"{', '.join(chosen)} write {opened.name} by several queries: name one of them with --writer"
        raise InvalidOption((problem,))
    logs = {opened.writers[name].log.location: last for name, last in lasts.items() if last.ref.query in queries}
    last = batch_to_rebuild(logs)
    folder = checkpoint_folder(checkpoint, opened.site)
    aside = rebuild(last, file_system(folder, opened.site), folder, dry_run=dry_run)
    becomes = "would be" if dry_run else "is"
    told = f"the checkpoint {folder} {becomes} rebuilt at batch {last.ref.batch} (epoch {last.epoch}); start the job"
    lines = [Line(told, "green")]
    if aside:
        lines.insert(0, Line(f"what a refused start left there {becomes} put aside in {aside}"))
    data = {"checkpoint": folder, "query": last.ref.query, "batch": last.ref.batch, "put_aside": aside}
    return Report({"table": opened.name, "dry_run": dry_run, **data}, lines)
