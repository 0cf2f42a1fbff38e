"""Puts the commands together, and reports wrong usage in one line."""

from __future__ import annotations

import logging
import sys
from importlib import import_module
from io import TextIOWrapper
from typing import Annotated

import typer

from hivesink import __version__
from hivesink.cli.codes import ExitCode
from hivesink.cli.command import UsageError
from hivesink.cli.output import output
from hivesink.errors import WrongUsage

_MODULES = {
    "ddl": "metastore",
    "run": "run",
    "init": "init",
    "preview": "preview",
    "query": "query",
    "status": "status",
    "show": "show",
    "partitions": "partitions",
    "wait": "partitions",
    "verify": "verify",
    "rejects": "rejects",
    "recover": "recover",
    "clean": "clean",
    "reset": "reset",
    "metastore": "metastore",
    "prepare": "prepare",
}
"""Each command, and the module that has it."""
_GROUPS = {"ddl": "ddl", "metastore": "embedded", "rejects": "rejects"}
"""Commands with commands of their own, and what the module calls them."""


def app(*names: str) -> typer.Typer:
    """The command line with these commands; with all of them for none. Others aren't imported: that takes a second."""
    made = typer.Typer(
        name="hivesink",
        help="A streaming sink for Hive tables that writes each event exactly once.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    made.callback()(_hivesink)
    for name in names or _MODULES:
        module = import_module(f"hivesink.cli.{_MODULES[name]}")
        if name in _GROUPS:
            made.add_typer(getattr(module, _GROUPS[name]), name=name)
        else:
            made.command(name)(getattr(module, name))
    return made


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"hivesink {__version__}")
        raise typer.Exit


def _hivesink(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """A streaming sink for Hive tables that writes each event exactly once."""


def call(arguments: list[str]) -> int:
    """Run one command line and return its exit code."""
    # What the output's encoding lacks, such as the bytes of a file's name that isn't UTF-8, is escaped as in JSON.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    # Thrift's sockets log the errors that they then raise.
    logging.getLogger("thrift").addHandler(logging.NullHandler())
    logging.getLogger("thrift").propagate = False
    # sqlglot logs what it doesn't know; here that is an error with a line, or a reason to ask Spark.
    logging.getLogger("sqlglot").addHandler(logging.NullHandler())
    logging.getLogger("sqlglot").propagate = False
    try:
        # Where an option comes first, as in `--help`, all are needed.
        named = (name for name in arguments[:1] if name in _MODULES)
        code = app(*named)(arguments or ["--help"], prog_name="hivesink", standalone_mode=False)
    except (UsageError, WrongUsage) as error:
        wrong = error if isinstance(error, WrongUsage) else WrongUsage((_usage(error),))
        output(as_json="--json" in arguments).fail(wrong)
        return ExitCode.USAGE
    return code if isinstance(code, int) else ExitCode.DONE


def _usage(error: Exception) -> str:
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "hivesink"
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    return f"{' '.join(message.replace(': Value error, ', ': ').split()).rstrip('.')}; see `{command} --help`"
