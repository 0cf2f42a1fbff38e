"""Java's errors, which reach Python as texts with stack traces."""

from __future__ import annotations

import re

from py4j.protocol import Py4JJavaError

_JAVA = re.compile(r"^\s*(?:: |Caused by: )?((?:[a-z]\w*\.)+[A-Z][\w$]*)(?:: (.*))?$", re.MULTILINE)
_PYTHON = re.compile(r"^Traceback \(most recent call last\):\n(?:\s.*\n)*(\S.*)", re.MULTILINE)
_CARRIERS = ("py4j.protocol.Py4J", "pyspark.errors.exceptions.")
"""Errors of Python that pass on what Java raised."""
_IN_TASK = re.compile(r"\(TID \d+\) \([^)]*\): ")
"""Where Spark names a task that failed, before what it failed with."""
_SENTENCE = re.compile(r"(?<=[^.]\.)\s+(?=[A-Z\[(])|\s+SQLSTATE: ")
_FRAME = re.compile(r"^\s+(?:at |\.\.\. \d+ more).*\n?", re.MULTILINE)
_HEAD, _ROOT = 1000, 300
"""Characters of a long text that stay: its beginning, and of its root cause."""


def short_java_error(text: str) -> str:
    """The root cause in a text with Java's stack trace, in a line: its class and its first sentence.

    Where Java passes on what Python raised, that is the root. A text without a trace gives its own first sentence.
    """
    python = [line for line in _PYTHON.findall(text) if not line.startswith(_CARRIERS)]
    if python:
        return _first_sentence(python[-1])
    java = [": ".join(filter(None, parts)) for parts in _JAVA.findall(text)]
    first = next((line for line in text.splitlines() if line.strip()), "(no message)")
    return _first_sentence(java[-1] if java else first)


def _first_sentence(line: str) -> str:
    return _SENTENCE.split(_IN_TASK.split(line)[-1].strip(), maxsplit=1)[0]


class _Brief(Py4JJavaError):  # type: ignore[misc]  # py4j has no types
    """The same Java exception, with a text of its own."""

    def __init__(self, error: Py4JJavaError) -> None:
        super().__init__(error.errmsg, error.java_exception)
        self._text = without_frames(str(error))

    def __str__(self) -> str:
        return self._text


# Spark knows the error by this name in the traceback.
_Brief.__module__, _Brief.__qualname__ = Py4JJavaError.__module__, Py4JJavaError.__qualname__


def briefly(error: BaseException) -> BaseException:
    """`error`; without the stack trace if it is Java's.

    Whether a batch failed because its query was stopped, Spark asks a regular expression (`PROXY_ERROR` in its
    `StreamExecution`). That takes a frame of the JVM's stack for each character, so Java's own trace overflows it.
    """
    return _Brief(error) if isinstance(error, Py4JJavaError) else error


def without_frames(text: str) -> str:
    """The beginning of an error's text without the lines of Java's stack trace, and its root cause."""
    short = _FRAME.sub("", text)
    root = next((line for line in reversed(short.splitlines()) if line.startswith("Caused by: ")), "")[:_ROOT]
    return short[:_HEAD] if root in short[:_HEAD] else f"{short[:_HEAD]}\n{root}"
