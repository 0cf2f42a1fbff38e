"""All commands, one module a command or small group, and wrong usage told in one line."""

from __future__ import annotations

import logging
import sys
from typing import Annotated

import typer

from hivesink import __version__
from hivesink.cli import ddl, metastore
from hivesink.cli.clean import clean
from hivesink.cli.codes import ExitCode
from hivesink.cli.query import query
from hivesink.cli.recover import recover
from hivesink.cli.reporting import output
from hivesink.cli.reset import reset
from hivesink.cli.run import run
from hivesink.cli.status import status
from hivesink.cli.verify import verify
from hivesink.errors import HiveSinkError

app = typer.Typer(
    name="hivesink",
    help="A streaming sink for Hive tables, each event exactly once.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(ddl.app, name="ddl")
# What hivesink doesn't know belongs to the job.
app.command(context_settings={"ignore_unknown_options": True})(run)
app.command()(query)
app.command()(status)
app.command()(verify)
app.command()(recover)
app.command()(clean)
app.command()(reset)
app.add_typer(metastore.app, name="metastore")

_UsageError: type[Exception] = typer.BadParameter.__bases__[0]
"""Older typers raise click's, newer ones their own."""


class Misused(HiveSinkError):
    """A wrong command line, told in one line."""


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
    """A streaming sink for Hive tables, each event exactly once."""


def call(arguments: list[str]) -> int:
    """Run one command line and return its exit code."""
    # Its sockets print what they then raise.
    logging.getLogger("thrift").addHandler(logging.NullHandler())
    logging.getLogger("thrift").propagate = False
    try:
        code = app(arguments or ["--help"], prog_name="hivesink", standalone_mode=False)
    except _UsageError as error:
        output(as_json="--json" in arguments).fail(Misused(_usage(error)))
        return ExitCode.USAGE
    except typer.Abort:
        print("hivesink: nothing was done", file=sys.stderr)
        return ExitCode.FAILED
    except KeyboardInterrupt:
        return 130
    return code if isinstance(code, int) else ExitCode.DONE


def _usage(error: Exception) -> str:
    """What is wrong with the command line, and which help says more."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "hivesink"
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    return f"{' '.join(message.split()).rstrip('.')}; see `{command} --help`"
