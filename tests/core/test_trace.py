"""What a stack trace's text says was raised."""

from __future__ import annotations

from hivesink.core.trace import java_lines

PY4J = """An error occurred while calling o261.collectToPython.
: org.apache.spark.SparkException: Job aborted: no space
\tat org.apache.spark.Some.call(Some.scala:1)
Caused by: java.io.IOException: No space left on device
\t... 7 more
"""


def test_javas_errors_outermost_first() -> None:
    told = ["org.apache.spark.SparkException: Job aborted: no space", "java.io.IOException: No space left on device"]
    assert java_lines(PY4J) == told
    assert java_lines("An error occurred while calling o1.x.\n") == []
