"""What a writer may be called: its name is that of its log's folder, and files beside that are named after it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hivesink.errors import InvalidOption

if TYPE_CHECKING:
    from datetime import datetime

LONGEST = 100
POINTER = ".pointer"
_NAME = re.compile(r"\w(?:[\w.-]*[\w-])?", re.ASCII)
_ODD = re.compile(r"[^\w.-]+", re.ASCII)
_POINTER = re.compile(r"\.(?=pointer\Z)")
_RESET = re.compile(r"\.(?=reset-\d{8}T\d{6}Z\Z)", re.ASCII)


def reset_name(writer: str, at: datetime) -> str:
    """What the log of `writer` is called once it was put aside at `at` (UTC): the name of no writer."""
    return f"{writer}.reset-{at:%Y%m%dT%H%M%SZ}"


def problem(name: str) -> str | None:
    """Why no writer can be called `name`; None where one can."""
    if len(name) > LONGEST:
        return f"it has {len(name)} characters, {LONGEST} are the most"
    if not _NAME.fullmatch(name):
        return "it needs letters (a-z, A-Z), digits, `_` and `-`, with `.` only inside and no `-` at its beginning"
    if _POINTER.search(name):
        return f"what ends in {POINTER} is a file that leads to a log"
    if _RESET.search(name):
        return "a name of this form is that of a log which `hivesink reset` put aside"
    return None


def suggestion(name: str) -> str:
    """The good name that is nearest to `name`."""
    text = _ODD.sub("-", name).lstrip(".-")[:LONGEST].rstrip(".")
    return _POINTER.sub("-", _RESET.sub("-", text)) or "writer"


def require(name: str) -> None:
    """Raises InvalidOption where no writer can be called `name`, with a name that will do."""
    reason = problem(name)
    if reason is not None:
        good = suggestion(name)
        told = (
            f"the writer's name {name!r} can't be used: {reason}; call it {good!r}, say, with writer= in the job or "
            "--writer on the command line. A log that was written under the old name goes on under the new one once "
            'its folder is renamed: see "Renaming a writer" in docs/operations.md'
        )
        raise InvalidOption((told,))
