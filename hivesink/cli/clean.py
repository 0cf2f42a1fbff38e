"""`hivesink clean`: remove what was never decided."""

from __future__ import annotations

from hivesink.cli.command import DryRun, command
from hivesink.cli.output import Line, Output, Report
from hivesink.core.progress import count
from hivesink.sink.inspect.clean import clean as clean_writer
from hivesink.sink.inspect.clean import find_leftovers
from hivesink.tables.opened import OpenedTable


@command
def clean(out: Output, opened: OpenedTable, *, dry_run: DryRun = False) -> None:
    """Remove hidden files that nothing can commit any more, and the folders that become empty.

    Searches everything below the table's location. Never touches finished files, files that an open epoch needs, or
    files of a writer that has no log. Safe to run while a job is writing.

    Example: hivesink clean demo.flights --dry-run
    """
    opened.require_same()
    contexts = opened.writers.values()
    leftovers = [find_leftovers(context, opened.name) for context in contexts]
    unknown = sorted(path for stranger in opened.strangers() for path in stranger.staged)
    folders: tuple[str, ...] = ()
    if not dry_run:
        for context, staged in zip(contexts, leftovers, strict=True):
            folders += clean_writer(context, staged, opened.name)
    files = [path for staged in leftovers for path in staged]
    data = {
        "table": opened.name,
        "removed": not dry_run,
        "files": files,
        "folders": list(folders),
        "files_of_no_known_writer": unknown,
    }
    removed = "would remove" if dry_run else "removed"
    blocks = [Line(f"{removed} {path}") for path in (*files, *folders)]
    blocks += [Line(f"kept {path}: its writer has no log here", "yellow") for path in unknown]
    blocks.append(Line(f"{opened.name}: {removed} {count(len(files), 'file')}, {count(len(folders), 'folder')}"))
    out.show(Report(data, blocks))
