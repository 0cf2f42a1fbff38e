"""The frame of every command: its output, and errors as one line and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from hivesink.cli.codes import code_of
from hivesink.cli.output import JsonOutput, Output, TextOutput, redact
from hivesink.errors import HiveSinkError

if TYPE_CHECKING:
    from collections.abc import Iterator


def output(*, as_json: bool) -> Output:
    """The output that `--json` chooses."""
    return JsonOutput() if as_json else TextOutput()


@contextmanager
def reporting(*, as_json: bool, debug: bool) -> Iterator[Output]:
    """Run a command's body. An error is told in one line and becomes the exit code; `debug` adds the trace."""
    out = output(as_json=as_json)
    try:
        yield out
    except BrokenPipeError:
        # The reader has seen enough (`| head`); without this the interpreter complains at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None
    except typer.Exit:
        raise
    except Exception as error:  # noqa: BLE001  whatever ends a command is told, in one line
        if debug:
            print(redact(traceback.format_exc()), file=sys.stderr, end="")
        elif not isinstance(error, HiveSinkError):
            error = _Unexpected(error)
        out.fail(error)
        raise typer.Exit(code_of(error)) from None


class _Unexpected(Exception):
    """An error that hivesink didn't raise on purpose."""

    def __init__(self, error: Exception) -> None:
        super().__init__(f"unexpected {type(error).__name__}: {error}; run it again with --debug to see where")
