"""Exit codes: what is worth another try, and what needs a person. `docs/cli.md` lists them for operators."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from hivesink.errors import HiveSinkError

if TYPE_CHECKING:
    from collections.abc import Mapping


class ExitCode(IntEnum):
    """The codes of every command, after sysexits.h where it has one."""

    DONE = 0
    FAILED = 1
    """A check found errors, or a program has a bug."""
    USAGE = 2
    NEEDS_PERSON = 65
    RETRY = 75


MEANING: Mapping[int, str] = {
    ExitCode.DONE: "done; every row can be read",
    ExitCode.FAILED: "the job itself failed; it needs a person",
    ExitCode.USAGE: "wrong usage; it needs a person",
    ExitCode.NEEDS_PERSON: "it needs a person",
    ExitCode.RETRY: "worth another try",
}


def code_of(error: BaseException) -> ExitCode:
    """The exit code that `error` means, outside of a job."""
    if isinstance(error, HiveSinkError):
        return ExitCode.RETRY if error.retryable else ExitCode.NEEDS_PERSON
    return ExitCode.FAILED


def meaning(code: int) -> str:
    """A few words about a child's exit code; 128 + n is a death by signal n."""
    if code in MEANING:
        return MEANING[code]
    return f"ended by signal {code - 128}" if code > 128 else "the job's own code"  # noqa: PLR2004  the shell's rule
