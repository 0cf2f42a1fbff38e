"""`hivesink clean`: leftovers anywhere below a table."""

from __future__ import annotations

from hivesink.cli.opened import opened
from hivesink.cli.options import Debug, DryRun, Json, Metastore, Strays, Table
from hivesink.cli.output import Line, Report
from hivesink.cli.reporting import reporting
from hivesink.sink.inspect.clean import clean as clean_writer
from hivesink.sink.inspect.clean import find_leftovers, find_strays, throw_away


def clean(  # noqa: PLR0917  each is an option of the command line
    table: Table,
    strays: Strays = False,
    dry_run: DryRun = False,
    metastore: Metastore = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Remove hidden files that nothing can commit any more, and folders that this empties.

    It walks everything below the table's location. Finished files, what an open epoch needs, and files of a
    writer that has no log are never touched; it may run beside a job. With --strays, finished files that
    no epoch answers for go to the trash of HDFS: `verify` names them.

    Example: hivesink clean demo.flights --dry-run
    """
    with reporting(as_json=json, debug=debug) as out, opened(table, metastore) as found:
        leftovers = [find_leftovers(writer.context, found.name) for writer in found.writers]
        unknown = sorted(path for stranger in found.strangers() for path in stranger.staged)
        doubled = [(writer.context, find_strays(writer.context, found.name)) for writer in found.writers if strays]
        folders: tuple[str, ...] = ()
        thrown = tuple((stray.path, "the trash") for _, some in doubled for stray in some)
        if not dry_run:
            for writer, staged in zip(found.writers, leftovers, strict=True):
                folders += clean_writer(writer.context, staged, found.name)
            thrown = tuple(moved for context, some in doubled for moved in throw_away(context, found.name, some))
        files = [path for staged in leftovers for path in staged]
        data = {
            "table": found.name,
            "removed": not dry_run,
            "files": files,
            "folders": list(folders),
            "files_of_no_known_writer": unknown,
            "trashed": dict(thrown),
        }
        did = "would remove" if dry_run else "removed"
        blocks = [Line(f"{did} {path}") for path in (*files, *folders)]
        blocks += [Line(f"{'would move' if dry_run else 'moved'} {path} to {place}") for path, place in thrown]
        blocks += [Line(f"left {path}: its writer has no log here", "yellow") for path in unknown]
        out.show(Report(data, [*blocks, Line(f"{found.name}: {did} {len(files)} files, {len(folders)} folders")]))
