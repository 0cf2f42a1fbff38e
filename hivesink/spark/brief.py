"""Java's errors, as short as Spark can read them in the traceback of a callback.

Whether a batch failed because its query was stopped, Spark asks a regular expression (`PROXY_ERROR` in its
`StreamExecution`). That takes a frame of the JVM's stack for each character after "Py4JJavaError: An error occurred
while calling": Java's own stack trace overflows it.
"""

from __future__ import annotations

import re

from py4j.protocol import Py4JJavaError

_HEAD, _TAIL = 1000, 500
"""Characters of the text that stay: the error at first, its root cause at last."""
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
    """An error's text without the lines of Java's stack trace, and without its middle if it is still long."""
    short = _FRAME.sub("", text)
    return short if len(short) <= _HEAD + _TAIL else f"{short[:_HEAD]}\n…\n{short[-_TAIL:]}"
