"""What Python or Java raised, read from the text of a stack trace that came through another process."""

from __future__ import annotations

import re

_RAISED = re.compile(r"Traceback \(most recent call last\):\n(?:\s.*\n)*(\S.*)")
_CARRIERS = ("py4j.protocol.Py4J", "pyspark.errors.exceptions.")
"""Errors that only pass on what was raised elsewhere."""
_STATE = re.compile(r"(?:\s*SQLSTATE: \w+)+$")


_TWO_RUNS = re.compile(
    r"\bSparkConcurrentModificationException\b|\[CONCURRENT_|another query with same id is already active"
    r"|\bMultiple streaming (?:jobs detected|queries are concurrently)"
)


def says_two_runs(text: str) -> bool:
    """Whether Spark has found another run of a query at its checkpoint."""
    return _TWO_RUNS.search(text) is not None


_JAVA = re.compile(r"^\s*(?:: |Caused by: )?((?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error|Failure): .+)$", re.MULTILINE)


def java_lines(text: str) -> list[str]:
    """The errors of Java in a text that holds its stack traces: type and first line of the message, outermost first."""
    return _JAVA.findall(text)


def reason(text: str) -> str:
    """One line of an error's text: what a traceback in it ends with, else its first line.

    Where that line says only that a call of Py4J's failed: the error of Java.
    """
    raised = [line for line in _RAISED.findall(text) if not line.startswith(_CARRIERS)]
    if raised:
        return _STATE.sub("", raised[-1]).strip()
    first = next((line.strip() for line in text.splitlines() if line.strip()), "(no message)")
    java = java_lines(text) if first.startswith("An error occurred while calling") else []
    return java[0] if java else first
