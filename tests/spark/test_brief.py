"""A Java error's text as it reaches Spark's regular expression."""

from __future__ import annotations

import pytest

from hivesink.spark.brief import briefly, shortened

FRAMES = "\tat java.base/java.util.Locks.acquire(Locks.java:1048)\n" * 80


def test_messages_and_causes_stay_and_stack_frames_go() -> None:
    text = f"An error occurred while calling o1.collect.\n: a.B: no\n{FRAMES}Caused by: java.net.ConnectException: x\n"
    assert shortened(f"{text}{FRAMES}\t... 7 more\n") == text.replace(FRAMES, "")


def test_a_long_message_keeps_its_beginning_and_the_root_cause() -> None:
    short = shortened(f"called\n{'x' * 9000}\nCaused by: java.lang.InterruptedException")
    assert len(short) < 1600
    assert short.startswith("called\n")
    assert short.endswith("java.lang.InterruptedException")


def test_an_error_of_python_stays_itself() -> None:
    error = ValueError("no")
    assert briefly(error) is error


def spark_trace(cause: str, after: str = "") -> str:
    """As Spark 4 tells of a stage that failed: the driver's error, then its cause on the executor, each with frames."""
    stage = (
        "Job aborted due to stage failure: Task 0 in stage 5.0 failed 4 times, most recent failure: Lost task 0.3 in "
        "stage 5.0 (TID 8) (10.0.0.7 executor 1): "
    )
    java = "\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2898)\n" * 90
    return (
        "An error occurred while calling o87.collectToPython.\n"
        f": org.apache.spark.SparkException: {stage}{cause}\n{java}\nDriver stacktrace:\n{java}"
        f"Caused by: {cause}\n{java}\t... 1 more\n{after}"
    )


DENIED = "org.apache.hadoop.security.AccessControlException: Permission denied: user=etl, access=WRITE"
REFUSED = "java.net.ConnectException: Call From a/10.0.0.7 to nn:8020 failed on connection exception"


@pytest.mark.parametrize("named", [DENIED, REFUSED])
@pytest.mark.parametrize("detail", [0, 600, 9000], ids=["short", "longer-than-the-end", "very-long"])
@pytest.mark.parametrize("after", [0, 600, 9000], ids=["last", "text-after", "much-text-after"])
def test_the_cause_of_a_long_spark_trace_stays(named: str, detail: int, after: int) -> None:
    plan = "== Physical Plan ==\n" + "Scan text [value]\n" * 120
    trace = spark_trace(f"{named}, {'inode=/w, ' * (detail // 10)}", "The query's plan:\n" + "p" * after)
    # The driver's own text is long, so that what is kept of the cause can only be kept on purpose.
    short = shortened(trace.replace("\nDriver stacktrace", f"\n{plan}\nDriver stacktrace"))
    assert f"Caused by: {named}" in short
    assert len(short) < 1600
    assert short.startswith("An error occurred while calling o87.collectToPython.\n")
