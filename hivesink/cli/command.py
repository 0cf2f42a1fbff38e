"""The commands put together: options that they share, and the frame that turns errors into a line and an exit code."""

from __future__ import annotations

import inspect
import logging
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from importlib import import_module
from inspect import Parameter
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any, get_origin

import typer

from hivesink import __version__
from hivesink.cli.codes import BY_SIGNAL, ExitCode, code_of
from hivesink.cli.output import Output, redact, silence
from hivesink.config.plugins import also_in
from hivesink.core.table import TableName
from hivesink.errors import InvalidOption

_MODULES = {
    "ddl": "metastore",
    "run": "run",
    "doctor": "doctor",
    "init": "preview",
    "preview": "preview",
    "query": "query",
    "status": "status",
    "show": "show",
    "metrics": "status",
    "partitions": "status",
    "history": "history",
    "where": "where",
    "changed": "history",
    "wait": "status",
    "verify": "verify",
    "rejects": "rejects",
    "recover": "recover",
    "clean": "verify",
    "reset": "verify",
    "metastore": "metastore",
    "prepare": "metastore",
}
"""Each command, and the module that has it."""
_GROUPS = {"ddl": "ddl", "metastore": "embedded", "rejects": "rejects"}
"""Commands with commands of their own, and what the module calls them."""

UsageError: type[Exception] = typer.BadParameter.__bases__[0]
"""Older typers raise click's, newer ones their own."""


def table_name(text: str | None) -> str | None:
    """`text` as it is. Raises InvalidOption if it can't be a table's name."""
    if text is not None:
        TableName.parse(text)
    return text


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

_SHARED = """
    --json: Print one JSON document; errors are JSON too.
    --debug: Show the stack trace of an error, and what Spark logs.
    --writer NAME: Only this writer. Default: all writers of the table.
    --dry-run: Only show what would be done.
    --yes: Don't ask for confirmation.
"""
_OPTION = re.compile(r"^    (--[a-z0-9-]+)(?: (\S+))?: (.+(?:\n     +.+)*)\n", re.MULTILINE)


def command(body: Callable[..., None]) -> Callable[..., None]:
    """The command that calls `body` with the output that --json chooses, and takes --json and --debug.

    A body whose second parameter is `opened` gets that table open, and the command takes TABLE and --metastore. Its
    options are described in the docstring, each in a line that begins with `--option METAVAR: `. Numbers are at least
    1, or 0 where that is the default.
    """
    keyword, text = Parameter.KEYWORD_ONLY, body.__doc__ or ""
    told = {flag: (metavar, words) for flag, metavar, words in _OPTION.findall(_SHARED + text)}
    arguments = list(inspect.signature(body, eval_str=True).parameters.values())[1:]
    opens = bool(arguments) and arguments[0].name == "opened"
    if opens:
        arguments[0] = Parameter("table", keyword, annotation=Table)
        arguments.append(Parameter("metastore", keyword, default=None, annotation=Metastore))
    arguments += (Parameter(name, keyword, default=False, annotation=bool) for name in ("json", "debug"))
    for place, argument in enumerate(arguments):
        kind, flag = argument.annotation, f"--{argument.name.rstrip('_').replace('_', '-')}"
        if get_origin(kind) is not Annotated:
            # Python without docstrings (-OO) has the options all the same.
            metavar, words = told.get(flag, ("", ""))
            least = int(bool(argument.default)) if kind in {int, int | None} else None
            option = typer.Option(flag, metavar=metavar or None, help=" ".join(words.split()), min=least)
            kind = Annotated[kind, option]
        arguments[place] = argument.replace(kind=keyword, annotation=kind)

    def run(*, json: bool, debug: bool, **values: Any) -> None:
        with reporting(Output(json), debug=debug) as out:
            if not opens:
                body(out, **values)
                return
            from hivesink.tables.opened import open_table

            with open_table(values.pop("table"), values.pop("metastore")) as opened:
                body(out, opened, **values)

    run.__name__, run.__doc__ = body.__name__, _OPTION.sub("", text)
    run.__annotations__ = {argument.name: argument.annotation for argument in arguments}
    run.__signature__ = inspect.Signature(arguments)  # type: ignore[attr-defined]  # typer reads it
    return run


def moment(text: str, option: str) -> datetime:
    """The time (UTC) that `text` is as the value of `option`. Raises InvalidOption."""
    try:
        time = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise InvalidOption((f"{option} {text!r} is no time: write it as in 2024-01-02T03:04:05",)) from None
    return time.replace(tzinfo=time.tzinfo or timezone.utc).astimezone(timezone.utc)


@contextmanager
def reporting(out: Output, *, debug: bool) -> Iterator[Output]:
    """Run a command's body. Report an error in one line and exit with its code.

    `debug` adds the stack trace, and sets $HIVESINK_DEBUG: a Spark that the command or its job starts logs warnings.
    The user's own classes are also looked for in `jobs` in the current folder.
    """
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
            out.fail(error)
        except BrokenPipeError:
            silence(sys.stderr)
        raise typer.Exit(code) from None


def confirm(out: Output, lines: Sequence[str], question: str, would: str) -> None:
    """Ask on standard error, after `lines`. As JSON nobody can answer: InvalidOption says what it `would` do."""
    if out.is_json:
        raise InvalidOption((f"{would}; with --json, confirm with --yes",))
    for line in lines:
        typer.echo(line, err=True)
    typer.confirm(question, abort=True, err=True)


def app(*names: str) -> typer.Typer:
    """The command line with these commands; with all of them for none. Others aren't imported: that takes a second."""
    made = typer.Typer(name="hivesink", no_args_is_help=True, pretty_exceptions_enable=False)
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
    # Thrift's sockets log the errors that they then raise; sqlglot logs what it doesn't know, which is an error with
    # a line here, or a reason to ask Spark.
    for name in ("thrift", "sqlglot"):
        logging.getLogger(name).addHandler(logging.NullHandler())
        logging.getLogger(name).propagate = False
    try:
        # Where an option comes first, as in `--help`, all are needed; for the version any will do.
        named = ["run"] if arguments == ["--version"] else [name for name in arguments[:1] if name in _MODULES]
        code = app(*named)(arguments or ["--help"], prog_name="hivesink", standalone_mode=False)
    except (UsageError, InvalidOption) as error:
        wrong: Exception = error
        if not isinstance(error, InvalidOption):
            context = getattr(error, "ctx", None)
            where = context.command_path if context is not None else "hivesink"
            message = error.format_message() if hasattr(error, "format_message") else str(error)
            text = " ".join(message.replace(": Value error, ", ": ").split()).rstrip(".")
            wrong = InvalidOption((f"{text or 'name a command'}; see `{where} --help`",))
        Output("--json" in arguments).fail(wrong)
        return ExitCode.USAGE
    return code if isinstance(code, int) else ExitCode.DONE
