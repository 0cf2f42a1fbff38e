"""Java's errors, as short as Spark can read them in the traceback of a callback.

Whether a batch failed because its query was stopped, Spark asks a regular expression (`PROXY_ERROR` in its
`StreamExecution`). That takes a frame of the JVM's stack for each character after "Py4JJavaError: An error occurred
while calling": Java's own stack trace overflows it.
"""

from __future__ import annotations

import re

from py4j.protocol import Py4JJavaError

_HEAD, _CAUSE, _TAIL = 700, 300, 500
"""Characters of a long text that stay: its beginning, its root cause from the line's start, and its end."""
_CAUSED = re.compile(r"^\s*Caused by: .*", re.MULTILINE)
_FRAME = re.compile(r"^\s+(?:at |\.\.\. \d+ more).*\n?", re.MULTILINE)


class _Brief(Py4JJavaError):  # type: ignore[misc]  # py4j has no types
    """The same Java exception, with a text of its own."""

    def __init__(self, error: Py4JJavaError) -> None:
        super().__init__(error.errmsg, error.java_exception)
        self._text = shortened(str(error))

    def __str__(self) -> str:
        return self._text


# Spark and `hivesink run` know the error by this name in the traceback.
_Brief.__module__, _Brief.__qualname__ = Py4JJavaError.__module__, Py4JJavaError.__qualname__


def briefly(error: BaseException) -> BaseException:
    """`error`; one of Java without the stack trace."""
    return _Brief(error) if isinstance(error, Py4JJavaError) else error


def shortened(text: str) -> str:
    """An error's text without the lines of Java's stack trace.

    If it is still long, it loses its middle, but keeps the line of its root cause, which a long message may follow.
    """
    short = _FRAME.sub("", text)
    if len(short) <= _HEAD + _CAUSE + _TAIL:
        return short
    causes = _CAUSED.findall(short)
    cause = causes[-1].strip()[:_CAUSE] if causes else ""
    head, tail = short[:_HEAD], short[-_TAIL:]
    return "\n…\n".join([head, *([cause] if cause not in head and cause not in tail else []), tail])
