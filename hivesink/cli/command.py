"""What the commands share: options, and the frame that turns errors into one line and an exit code."""

from __future__ import annotations

import inspect
import os
import signal
import sys
import traceback
from contextlib import contextmanager
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hivesink.cli.codes import BY_SIGNAL, ExitCode, code_of
from hivesink.cli.output import Output, output, redact, silence
from hivesink.config.plugins import also_in
from hivesink.core.table import TableName
from hivesink.errors import HiveSinkError, InvalidOption, WrongUsage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


@contextmanager
def given() -> Iterator[None]:
    """Around checks of what the command line gives: what is an InvalidOption in a job is WrongUsage here."""
    try:
        yield
    except InvalidOption as error:
        raise WrongUsage(error.problems) from error


def table_name(text: str | None) -> str | None:
    """`text` as it is. Raises WrongUsage if it can't be a table's name."""
    if text is not None:
        with given():
            TableName.parse(text)
    return text


Json = Annotated[bool, typer.Option("--json", help="Print one JSON document; errors are JSON too.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the stack trace of an error, and what Spark logs.")]
Metastore = Annotated[
    str | None,
    typer.Option(
        "--metastore",
        envvar="HIVESINK_METASTORE",
        metavar="thrift://HOST:PORT[,...]",
        help="The Hive Metastore. Default: the one in hive-site.xml (HIVE_CONF_DIR), or else the embedded one.",
    ),
]
Table = Annotated[str, typer.Argument(help="The table, as database.table.", metavar="TABLE", callback=table_name)]
Writer = Annotated[
    str | None, typer.Option("--writer", metavar="NAME", help="Only this writer. Default: all writers of the table.")
]
_SHARED = {"json": Json, "debug": Debug}
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")]
Yes = Annotated[bool, typer.Option("--yes", help="Don't ask for confirmation.")]

_KEYWORD = Parameter.KEYWORD_ONLY


def command(body: Callable[..., None]) -> Callable[..., None]:
    """The command that calls `body` with the output that --json chooses, and takes --json and --debug.

    A body whose second parameter is `opened` gets that table open, and the command takes TABLE and --metastore.
    """
    arguments = list(inspect.signature(body, eval_str=True).parameters.values())[1:]
    opens = bool(arguments) and arguments[0].name == "opened"
    if opens:
        arguments[0] = Parameter("table", _KEYWORD, annotation=Table)
        arguments.append(Parameter("metastore", _KEYWORD, default=None, annotation=Metastore))
    arguments += (Parameter(name, _KEYWORD, default=False, annotation=of) for name, of in _SHARED.items())

    def run(*, json: bool, debug: bool, **values: Any) -> None:
        with reporting(as_json=json, debug=debug) as out:
            if not opens:
                body(out, **values)
                return
            from hivesink.tables.opened import open_table

            with open_table(values.pop("table"), values.pop("metastore")) as opened:
                body(out, opened, **values)

    run.__name__, run.__doc__ = body.__name__, body.__doc__
    run.__annotations__ = {argument.name: argument.annotation for argument in arguments}
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # typer reads it
        [argument.replace(kind=_KEYWORD) for argument in arguments]
    )
    return run


UsageError: type[Exception] = typer.BadParameter.__bases__[0]
"""Older typers raise click's, newer ones their own."""


@contextmanager
def reporting(*, as_json: bool, debug: bool) -> Iterator[Output]:
    """Run a command's body. Report an error in one line and exit with its code.

    `debug` adds the stack trace, and sets $HIVESINK_DEBUG: a Spark that the command or its job starts logs warnings.
    The user's own classes are also looked for in `jobs` in the current folder.
    """
    out = output(as_json=as_json)
    if debug:
        os.environ["HIVESINK_DEBUG"] = "1"
    try:
        with also_in(Path("jobs")):
            yield out
    except BrokenPipeError:
        # The reader closed its end (`| head`): as if the signal had ended the command.
        silence(sys.stdout, sys.stderr)
        raise typer.Exit(BY_SIGNAL + signal.SIGPIPE) from None
    except typer.Exit:
        raise
    except typer.Abort:
        out.fail(InvalidOption(("not confirmed, so nothing was changed; answer y, or use --yes",)))
        raise typer.Exit(ExitCode.FAILED) from None
    except Exception as error:  # noqa: BLE001  whatever ends a command is reported in one line
        code = code_of(error)
        try:
            if debug:
                print(redact(traceback.format_exc()), file=sys.stderr, end="")
            elif not isinstance(error, HiveSinkError):
                error = _Unexpected(error)
            out.fail(error)
        except BrokenPipeError:
            silence(sys.stderr)
        raise typer.Exit(code) from None


def confirm(out: Output, lines: Sequence[str], question: str, would: str) -> None:
    """Ask on standard error, after `lines`. As JSON nobody can answer: WrongUsage says what it `would` do."""
    if out.is_json:
        raise WrongUsage((f"{would}; with --json, confirm with --yes",))
    for line in lines:
        typer.echo(line, err=True)
    typer.confirm(question, abort=True, err=True)


class _Unexpected(Exception):
    def __init__(self, error: Exception) -> None:
        super().__init__(f"unexpected {type(error).__name__}: {error}; run the command with --debug for a stack trace")
