"""Puts the commands together, and reports wrong usage in one line."""

from __future__ import annotations

import logging
import sys
from typing import Annotated

import typer

from hivesink import __version__
from hivesink.cli import metastore
from hivesink.cli.codes import ExitCode
from hivesink.cli.inspection import status, verify
from hivesink.cli.output import output
from hivesink.cli.partitions import partitions, wait
from hivesink.cli.query import query
from hivesink.cli.repair import clean, recover
from hivesink.cli.reset import reset
from hivesink.cli.run import run
from hivesink.cli.show import show
from hivesink.errors import HiveSinkError

app = typer.Typer(
    name="hivesink",
    help="A streaming sink for Hive tables that writes each event exactly once.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(metastore.ddl, name="ddl")
# Options that hivesink doesn't know belong to the job.
app.command(context_settings={"ignore_unknown_options": True})(run)
for _command in (query, status, show, partitions, wait, verify, recover, clean, reset):
    app.command()(_command)
app.add_typer(metastore.embedded, name="metastore")

_UsageError: type[Exception] = typer.BadParameter.__bases__[0]
"""Older typers raise click's, newer ones their own."""


class Misused(HiveSinkError):
    """A wrong command line, reported in one line."""


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"hivesink {__version__}")
        raise typer.Exit


@app.callback()
def _hivesink(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """A streaming sink for Hive tables that writes each event exactly once."""


def call(arguments: list[str]) -> int:
    """Run one command line and return its exit code."""
    # Thrift's sockets log the errors that they then raise.
    logging.getLogger("thrift").addHandler(logging.NullHandler())
    logging.getLogger("thrift").propagate = False
    try:
        code = app(arguments or ["--help"], prog_name="hivesink", standalone_mode=False)
    except _UsageError as error:
        output(as_json="--json" in arguments).fail(Misused(_usage(error)))
        return ExitCode.USAGE
    except typer.Abort:
        print("hivesink: cancelled, nothing was changed", file=sys.stderr)
        return ExitCode.FAILED
    except KeyboardInterrupt:
        return 130
    return code if isinstance(code, int) else ExitCode.DONE


def _usage(error: Exception) -> str:
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "hivesink"
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    return f"{' '.join(message.split()).rstrip('.')}; see `{command} --help`"
