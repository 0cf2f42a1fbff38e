"""`hivesink clean`: remove what was never decided."""

from __future__ import annotations

from typing import Annotated

import typer

from hivesink.cli.command import DryRun, command
from hivesink.cli.output import Line, Output, Report
from hivesink.core.progress import count
from hivesink.sink.inspect.clean import clean as clean_writer
from hivesink.sink.inspect.clean import find_leftovers, find_strays, throw_away
from hivesink.tables.opened import OpenedTable

Strays = Annotated[
    bool, typer.Option("--strays", help="Also move finished files that are in no manifest to the trash of HDFS.")
]


@command
def clean(out: Output, opened: OpenedTable, *, strays: Strays = False, dry_run: DryRun = False) -> None:
    """Remove hidden files that nothing can commit any more, and the folders that become empty.

    Searches everything below the table's location. Never touches finished files, files that an open epoch needs, or
    files of a writer that has no log. Safe to run while a job is writing. With --strays, finished files that are in
    no manifest (`verify` lists them) are moved to the trash of HDFS.

    Example: hivesink clean demo.flights --dry-run
    """
    opened.require_same()
    contexts = opened.writers.values()
    leftovers = [find_leftovers(context, opened.name) for context in contexts]
    unknown = sorted(path for stranger in opened.strangers() for path in stranger.staged)
    doubled = [(context, find_strays(context, opened.name)) for context in contexts if strays]
    folders: tuple[str, ...] = ()
    trashed = tuple((stray.path, "the trash") for _, some in doubled for stray in some)
    if not dry_run:
        for context, staged in zip(contexts, leftovers, strict=True):
            folders += clean_writer(context, staged, opened.name)
        trashed = tuple(moved for context, some in doubled for moved in throw_away(context, opened.name, some))
    files = [path for staged in leftovers for path in staged]
    data = {
        "table": opened.name,
        "removed": not dry_run,
        "files": files,
        "folders": list(folders),
        "files_of_no_known_writer": unknown,
        "trashed": dict(trashed),
    }
    removed, moved = ("would remove", "would move") if dry_run else ("removed", "moved")
    blocks = [Line(f"{removed} {path}") for path in (*files, *folders)]
    blocks += [Line(f"{moved} {path} to {home}") for path, home in trashed]
    blocks += [Line(f"kept {path}: its writer has no log here", "yellow") for path in unknown]
    counts = f"; {moved} {len(trashed)} to the trash" if strays else ""
    blocks.append(
        Line(f"{opened.name}: {removed} {count(len(files), 'file')}, {count(len(folders), 'folder')}{counts}")
    )
    out.show(Report(data, blocks))
