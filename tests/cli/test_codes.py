"""Which error has which exit code, and what a job that ends with it says."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import AnalysisException, PySparkException, PythonException
from pyspark.errors import StreamingQueryException as Failed

from hivesink.cli.codes import translate
from hivesink.errors import EpochTaken, InvalidOption, MetastoreUnreachable, StoreUnavailable
from hivesink.spark.running import briefly, short_java_error

JOB = Path("jobs/clicks.py")

# As Spark 4.2 and its clients said it, with the middle of the stacks left out.
AWAY = """[STREAM_FAILED] Query terminated with exception: An exception was raised by the Python Proxy
Traceback (most recent call last):
  File "job.py", line 12, in <lambda>
py4j.protocol.Py4JJavaError: An error occurred while calling o73.parquet.
: java.net.ConnectException: Call From vm/127.0.0.1 to nn:8020 failed on connection exception
\tat java.base/java.net.Socket.connect(Socket.java:666)
Caused by: java.net.ConnectException: Connection refused
\tat java.base/java.net.Socket.connect(Socket.java:700)
"""
IN_A_TASK = """Job aborted due to stage failure: Task 0 in stage 7.0 failed 1 times, most recent failure: \
Lost task 0.0 in stage 7.0 (TID 31) (127.0.0.1 executor driver): {}
\tat a.B.c(B.java:1)
Driver stacktrace:"""
OF_A_WORKER = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "job.py", line 7, in boom
    raise ValueError("no such shop: 7. Ask")
ValueError: no such shop: 7. Ask the owner"""
OF_THE_SINK = """[STREAM_FAILED] Query terminated with exception:
Traceback (most recent call last):
  File "spark.py", line 7, in __call__
hivesink.errors.{}
"""
HEAP = "a JVM's heap is too small for a record or a batch (OutOfMemoryError): raise spark.driver.memory"


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (EpochTaken("/log", 7), 65, "epoch 7 in /log was committed by another run"),
        (MetastoreUnreachable("thrift://h:1", "refused"), 75, "the metastore at thrift://h:1 can't"),
        (StoreUnavailable("write", "/w/t", "the disk is full"), 75, "could not write /w/t"),
        (InvalidOption(("no",)), 65, "no"),
        (Failed(OF_THE_SINK.format("EpochTaken: epoch 7 is taken")), 65, "clicks.py: epoch 7 is taken"),
        (Failed(OF_THE_SINK.format("MetastoreUnreachable: it is down")), 75, "clicks.py: it is down"),
        (Failed(AWAY), 75, "clicks.py: java.net.ConnectException: Connection refused (exit code 75;"),
        (AnalysisException("no plan\n\nJVM stacktrace:\nCaused by: java.net.SocketTimeoutException: 60 s"), 75, ""),
        (Failed(IN_A_TASK.format("org.apache.kafka.common.errors.TimeoutException: late")), 75, ".TimeoutExcep"),
        (Failed(IN_A_TASK.format("java.io.FileNotFoundException: /in/a. Gone")), 65, "Exception: /in/a. (exit"),
        (AnalysisException("no such column"), 65, "clicks.py: AnalysisException: no such column (exit code 65"),
        (PythonException(OF_A_WORKER), 65, "clicks.py: PythonException: ValueError: no such shop: 7. (exit code 65"),
        (PySparkException("Job 3 cancelled because SparkContext was shut down"), 75, "Job 3 cancelled"),
        (Py4JError("no such method"), 65, "Py4JError: no such method"),
        (Failed(IN_A_TASK.format("java.lang.OutOfMemoryError: Java heap space")), 65, HEAP),
        (PySparkException("ExecutorLostFailure (executor 1 exited with code 52)"), 65, HEAP),
        (ConnectionError("kafka is gone"), 75, "ConnectionError: kafka is gone"),
        (TimeoutError("late"), 75, "TimeoutError: late"),
        (Py4JNetworkError("the JVM is gone"), 75, "Py4JNetworkError: the JVM is gone"),
        (ValueError("java.net.ConnectException: no"), 1, "ValueError: java.net.ConnectException: no"),
        (KeyError("x"), 1, "KeyError: 'x'"),
    ],
)
def test_the_code_of_each_error(error: Exception, code: int, told: str) -> None:
    failure, got = translate(error, JOB)
    assert (got, failure.retryable) == (code, code == 75)
    assert told in str(failure)
    assert "\n" not in str(failure)


def test_the_sinks_error_is_found_behind_the_jobs_own() -> None:
    error = RuntimeError("wrapped")
    error.__cause__ = EpochTaken("/log", 7)
    assert translate(error, JOB) == (error.__cause__, 65)


def test_after_the_end_was_asked_for_a_cut_off_batch_is_no_bug() -> None:
    told, code = translate(Py4JNetworkError("the JVM is gone"), JOB, stopped=True)
    assert code == 143
    assert "stopped before its first batch or in the middle of one" in str(told)
    assert translate(EpochTaken("/log", 7), JOB, stopped=True)[1] == 65
    assert translate(KeyboardInterrupt(), JOB)[1] == 130


@pytest.mark.parametrize(
    ("end", "code", "told"),
    [
        (lambda jvm: jvm.kill(), 75, "the JVM of Spark's driver died, with exit code 137: ConnectionRefusedError"),
        (lambda jvm: jvm.communicate(b"52\n"), 65, HEAP),
    ],
)
def test_the_jvms_end_is_told_from_a_server_that_is_away(
    end: Callable[[subprocess.Popen[bytes]], object], code: int, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark import SparkContext

    with subprocess.Popen(["/bin/sh", "-c", "read code; exit $code"], stdin=subprocess.PIPE) as jvm:
        monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=jvm))
        refused = ConnectionRefusedError(111, "Connection refused")
        assert "JVM" not in str(translate(refused, JOB)[0])
        end(jvm)
        failure, got = translate(refused, JOB)
    assert got == code
    assert told in str(failure)


def test_a_java_error_is_told_even_when_its_jvm_is_gone() -> None:
    class Gone(Py4JJavaError):  # type: ignore[misc]  # py4j has no types
        def __init__(self) -> None:
            Exception.__init__(self)

        def __str__(self) -> str:
            raise ConnectionRefusedError

    told, code = translate(Gone(), JOB)
    assert code == 75
    assert "the JVM that could say more is gone" in str(told)


@pytest.mark.parametrize(
    ("text", "short"),
    [
        (IN_A_TASK.format("x.Bad: no. Why? SQLSTATE: 1"), "x.Bad: no."),
        ("plain words (3.5 s). More", "plain words (3.5 s)."),
        ("[A.B] Said it. SQLSTATE: 42K03", "[A.B] Said it."),
        ("", "(no message)"),
    ],
)
def test_the_root_cause_in_one_line(text: str, short: str) -> None:
    assert short_java_error(text) == short


def test_what_spark_looks_for_in_a_long_trace_stays() -> None:
    """Its `PROXY_ERROR` asks for the call, and for the interruption that caused it."""
    call, cause = "An error occurred while calling o7.collect.\n", "java.lang.InterruptedException"

    class Long(Py4JJavaError):  # type: ignore[misc]  # py4j has no types
        def __init__(self) -> None:
            super().__init__(call, SimpleNamespace(_target_id="o7"))

        def __str__(self) -> str:
            trace = f"{'long ' * 400}\n\tat a.B.c(B.java:1)\nCaused by: {cause}\n\t... 7 more\n"
            return f"{call}: x.SparkException: {trace}"

    assert str(briefly(Long())) == f"{call}: {cause}"
