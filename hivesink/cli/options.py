"""Options that many commands take."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document; errors are JSON too.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the stack trace of an error.")]
Metastore = Annotated[
    Optional[str],  # noqa: UP045  typer reads this at run time, on Python 3.10 too
    typer.Option(
        "--metastore",
        envvar="HIVESINK_METASTORE",
        metavar="thrift://HOST:PORT[,...]",
        help="The Hive Metastore. Without it, the one in hive-site.xml (HIVE_CONF_DIR), else the embedded one.",
    ),
]
Table = Annotated[str, typer.Argument(help="The table, as database.table.", metavar="TABLE")]
Writer = Annotated[
    Optional[str],  # noqa: UP045  typer reads this at run time, on Python 3.10 too
    typer.Option("--writer", help="Only this writer of the table; all of them without it."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]
Yes = Annotated[bool, typer.Option("--yes", help="Don't ask.")]
Strays = Annotated[
    bool, typer.Option("--strays", help="Also move finished files that are in no manifest to the trash.")
]
