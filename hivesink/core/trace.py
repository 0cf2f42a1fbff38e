"""What Python raised, read from the text of a traceback that came through another process."""

from __future__ import annotations

import re

_RAISED = re.compile(r"Traceback \(most recent call last\):\n(?:\s.*\n)*(\S.*)")
_CARRIERS = ("py4j.protocol.Py4J", "pyspark.errors.exceptions.")
"""Errors that only pass on what was raised elsewhere."""
_STATE = re.compile(r"(?:\s*SQLSTATE: \w+)+$")


def raised_in(text: str) -> str | None:
    """The type and the text's first line of the last error that a traceback in `text` ends with; None without one."""
    raised = [line for line in _RAISED.findall(text) if not line.startswith(_CARRIERS)]
    return _STATE.sub("", raised[-1]).strip() if raised else None
