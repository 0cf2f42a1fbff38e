"""Which error of a job means which exit code, and what is reported of it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from hivesink.cli.codes import code_of, translate
from hivesink.errors import (
    BadRecord,
    EpochTaken,
    FencedOut,
    InvalidOption,
    MetastoreUnreachable,
    StoreUnavailable,
    WrongUsage,
)

JOB = Path("jobs/clicks.py")


def test_another_run_needs_a_person_and_a_full_disk_may_pass() -> None:
    assert translate(EpochTaken("/log", 7), JOB)[1] == 65
    assert translate(FencedOut("/log", 7, 8), JOB)[1] == 65
    assert translate(BadRecord("a.b", "t-0@5", "id", "no number"), JOB)[1] == 65
    assert translate(StoreUnavailable("write", "/data/x", "no space left on device"), JOB)[1] == 75


def test_a_setting_needs_a_person_and_a_wrong_option_is_wrong_usage() -> None:
    assert code_of(InvalidOption(("a setting",))) == 65
    assert code_of(WrongUsage(("an option",))) == 2


def test_the_sinks_error_is_found_behind_the_jobs_own() -> None:
    error = RuntimeError("wrapped")
    error.__cause__ = MetastoreUnreachable("thrift://h:1", "refused")
    told, code = translate(error, JOB)
    assert (type(told), code) == (MetastoreUnreachable, 75)


def test_the_sinks_error_is_read_from_sparks_text() -> None:
    from pyspark.errors import StreamingQueryException

    text = (
        "[STREAM_FAILED] Query terminated with exception:\n"
        "Traceback (most recent call last):\n"
        '  File "spark.py", line 7, in __call__\n'
        "hivesink.errors.{}\n"
    )
    told, code = translate(StreamingQueryException(text.format("EpochTaken: epoch 7 is taken")), JOB)
    assert (str(told), code) == ("jobs/clicks.py: epoch 7 is taken", 65)
    told, code = translate(StreamingQueryException(text.format("MetastoreUnreachable: it is down")), JOB)
    assert (str(told), code) == ("jobs/clicks.py: it is down", 75)


def test_spark_trouble_may_pass_and_bad_sql_and_python_do_not() -> None:
    from py4j.protocol import Py4JNetworkError
    from pyspark.errors import AnalysisException, StreamingQueryException

    assert translate(StreamingQueryException("TimeoutException: Kafka does not answer"), JOB)[1] == 75
    assert translate(Py4JNetworkError("the JVM is gone"), JOB)[1] == 75
    assert translate(AnalysisException("no such column"), JOB)[1] == 1
    trace = "PythonException: Traceback (most recent call last):\nValueError: x"
    assert translate(StreamingQueryException(trace), JOB)[1] == 1
    # A worker that was killed, by the kernel say, is no Python that would fail again.
    callback = (
        'Traceback (most recent call last):\n  File "clientserver.py", line 1, in _call_proxy\n    x()\n    ^^^\n'
    )
    crashed = f"{callback}py4j.protocol.Py4JJavaError: An error occurred while calling o7.collect.\n: SparkException: "
    assert translate(StreamingQueryException(f"{crashed}Python worker exited unexpectedly"), JOB)[1] == 75
    assert translate(StreamingQueryException(f"{crashed}{trace}"), JOB)[1] == 1
    assert translate(StreamingQueryException(f"{crashed}java.io.IOException: No space left on device"), JOB)[1] == 75
    full, _ = translate(StreamingQueryException("[STREAM_FAILED] java.io.IOException: No space left on device"), JOB)
    assert "No space left on device; a table's disk would be named" in str(full)
    for same in (
        "x.SparkClassNotFoundException: [DATA_SOURCE_NOT_FOUND]",
        "[MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGG]",
    ):
        assert translate(StreamingQueryException(f"An error occurred.\n: {same} nosuch"), JOB)[1] == 65
    assert translate(StreamingQueryException(f"{callback}ZeroDivisionError: division by zero"), JOB)[1] == 1


# As Spark 4.2 said it.
OF_A_WORKER = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "job.py", line 7, in boom
    raise ValueError("no such shop: 7\\nask the owner")
ValueError: no such shop: 7
ask the owner"""
OF_A_FUNCTION = f"""[STREAM_FAILED] Query [id = 1] terminated with exception: Return Message: Traceback \
(most recent call last):
  File "job.py", line 17, in each
    b.select(boom("value")).collect()
                ^^^^^^^^^^^
pyspark.errors.exceptions.captured.PythonException: {OF_A_WORKER}
 SQLSTATE: 39000 SQLSTATE: XXKST
=== Streaming Query ===
"""
OF_A_CALLBACK = """[STREAM_FAILED] Raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "job.py", line 17, in each
ValueError: no such shop: 7 SQLSTATE: 39000 SQLSTATE: XXKST
"""


@pytest.mark.parametrize("text", [OF_A_WORKER, OF_A_FUNCTION, OF_A_CALLBACK])
def test_what_python_raised_in_a_task_is_told(text: str) -> None:
    from pyspark.errors import PythonException

    told, code = translate(PythonException(text), JOB)
    assert code == 1
    assert str(told) == ("jobs/clicks.py: PythonException: ValueError: no such shop: 7; --debug shows the stack trace")


@pytest.mark.parametrize(
    "word", ["x.ClassNotFoundException", "[KAFKA_DATA_LOSS]", "java.net.ConnectException", "No suitable driver"]
)
def test_words_of_the_job_or_of_a_record_decide_nothing(word: str) -> None:
    from pyspark.errors import StreamingQueryException

    plan = f"=== Streaming Query ===\nLogical Plan:\nFilter NOT value#11 LIKE\n: {word}\n\n\tat a.B.c(B.java:1)\n"
    killed = f"{plan}Caused by: org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)\n"
    bug = f"{plan}PythonException: Traceback (most recent call last):\nZeroDivisionError: division by zero\n"
    record = (
        f"PythonException: Traceback (most recent call last):\nValueError: invalid literal for int(): '{word}: x'\n"
    )
    assert [translate(StreamingQueryException(text), JOB)[1] for text in (killed, bug, record)] == [75, 1, 1]


# As Spark 4.2 and its clients said it, with the middle of the stacks left out.
CALL = "java.net.ConnectException: Call From vm/127.0.0.1 to nn:8020 failed on connection exception"
IN_A_CALLBACK = f"""[STREAM_FAILED] Query terminated with exception: An exception was raised by the Python Proxy
Traceback (most recent call last):
  File "job.py", line 12, in <lambda>
py4j.protocol.Py4JJavaError: An error occurred while calling o73.parquet.
: {CALL}
\tat java.base/java.net.Socket.connect(Socket.java:666)
Caused by: java.net.ConnectException: Connection refused
"""
LOST = """Job aborted due to stage failure: Task 0 in stage 7.0 failed 4 times, most recent failure:
Lost task 0.3 in stage 7.0 (TID 31) (127.0.0.1 executor 5):
ExecutorLostFailure (executor 5 exited caused by one of the running tasks)"""
UNPLANNED = f"""[FAILED_TO_CREATE_PLAN_FOR_DIRECT_QUERY] Failed to create plan for direct query on files: parquet

JVM stacktrace:
Caused by: {CALL}
"""


def test_a_server_that_is_away_may_come_back_however_deep_it_stands() -> None:
    from pyspark.errors import AnalysisException, IllegalArgumentException, PySparkException, StreamingQueryException

    for error in (StreamingQueryException(IN_A_CALLBACK), AnalysisException(UNPLANNED)):
        told, code = translate(error, JOB)
        assert (str(told), code) == (f"jobs/clicks.py: {type(error).__name__}: {CALL}", 75)
    assert translate(PySparkException(LOST), JOB)[1] == 75
    # What the MetricsSystem says after all masters were tried in vain.
    stopped = IllegalArgumentException(
        "requirement failed: Can only call getServletHandlers on a running MetricsSystem"
    )
    stopped.__cause__ = PySparkException("All masters are unresponsive! Giving up.")
    assert translate(stopped, JOB)[1] == 75
    assert translate(IllegalArgumentException("requirement failed: no such option"), JOB)[1] == 1


def test_an_old_client_before_a_metastore_of_hive_4_is_sent_to_hiveserver2() -> None:
    from pyspark.errors import AnalysisException

    told, code = translate(AnalysisException("Unable to fetch table t. Invalid method name: 'get_table'"), JOB)
    assert code == 65
    assert "HiveServer2" in str(told)


def test_a_java_error_is_told_even_when_its_jvm_is_gone() -> None:
    from py4j.protocol import Py4JJavaError

    class Gone(Py4JJavaError):  # type: ignore[misc]  # py4j has no types
        def __init__(self) -> None:
            Exception.__init__(self)

        def __str__(self) -> str:
            raise ConnectionRefusedError

    told, code = translate(Gone(), JOB)
    assert code == 75
    assert "the JVM that could say more is gone" in str(told)


def test_a_dead_jvm_is_told_from_a_server_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark import SparkContext

    with subprocess.Popen(["/bin/sleep", "60"]) as driver:
        monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=driver))
        refused = ConnectionRefusedError(111, "Connection refused")
        assert "JVM" not in str(translate(refused, JOB)[0])
        driver.kill()
        told, code = translate(refused, JOB)
    assert "jobs/clicks.py: the Spark driver's JVM died, with exit code 137: ConnectionRefusedError" in str(told)
    assert code == 75


@pytest.mark.parametrize("end", [" SQLSTATE: X", "\n=== Streaming Query ==="])
def test_a_source_folder_that_was_moved_needs_a_person(end: str) -> None:
    from pyspark.errors import StreamingQueryException

    said = f"[STREAM_FAILED] Query failed: Wrong basePath file:/a b/new for the root path: file:/a b/old/9 0.json{end}"
    told, code = translate(StreamingQueryException(said), JOB)
    assert code == 65
    assert "the job reads file:/a b/new, and its checkpoint has file:/a b/old/9 0.json, of another folder" in str(told)


def test_state_that_is_gone_needs_a_person() -> None:
    from pyspark.errors import StreamingQueryException

    said = "Cannot restart streaming query with stateful operators because the state directory is empty or missing."
    text = f"[STREAM_FAILED] Query failed: [STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY] {said}\nStateful: []"
    told, code = translate(StreamingQueryException(text), JOB)
    assert code == 65
    assert f"state of the query's checkpoint is missing or damaged ({said}; or the job has its first" in str(told)


def test_after_the_end_was_asked_for_a_cut_off_batch_is_no_bug() -> None:
    assert translate(ValueError("the job was cancelled"), JOB, stopped=True)[1] == 143
    assert translate(EpochTaken("/log", 7), JOB, stopped=True)[1] == 65


def test_a_path_that_spark_may_not_use_needs_a_person() -> None:
    from pyspark.errors import StreamingQueryException

    java = "java.io.FileNotFoundException: /c/commits/.3.1f-2e.tmp (Permission denied)"
    text = f"[STREAM_FAILED] Query terminated with exception: x\n\nCaused by: {java}\n\tat a.b.C\n"
    told, code = translate(StreamingQueryException(text), JOB)
    assert code == 65
    assert str(told).startswith(f"{JOB}: /c/commits can't be used (Permission denied); give this user access")


@pytest.mark.parametrize("end", [": Permission denied", ""])
def test_a_source_folder_that_spark_may_not_list_needs_a_person(end: str) -> None:
    from pyspark.errors import PySparkException

    text = (
        f"An error occurred while calling o81.next.\n: java.nio.file.AccessDeniedException: /in/no{end}\n\tat a.B.c()\n"
    )
    told, code = translate(PySparkException(text), JOB)
    assert code == 65
    assert str(told).startswith(f"{JOB}: /in/no can't be used (Permission denied); give this user access")


@pytest.mark.parametrize(
    "java",
    [
        "org.apache.hadoop.security.AccessControlException: Permission denied: user=ann, access=WRITE, inode=/c",
        "java.lang.IllegalArgumentException: java.net.UnknownHostException: prodns",
    ],
)
def test_what_hdfs_refuses_whoever_tries_again_needs_a_person(java: str) -> None:
    from pyspark.errors import PySparkException

    trace = f"{java}\n\tat a.B.c(B.java:1)\nCaused by: java.net.ConnectException: refused"
    text = f"An error occurred while calling o81.start.\n: {trace}"
    told, code = translate(PySparkException(text), JOB)
    assert code == 65
    assert java in str(told)


def test_a_namenode_of_the_site_whose_name_is_unknown_is_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.errors import IllegalArgumentException

    default = "<property><name>fs.defaultFS</name><value>hdfs://prod:8020</value></property>"
    (tmp_path / "core-site.xml").write_text(f"<configuration>{default}</configuration>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    for host, code in (("prod", 75), ("prodns", 65)):
        error = IllegalArgumentException(f"java.lang.IllegalArgumentException: java.net.UnknownHostException: {host}")
        told, found = translate(error, JOB)
        assert found == code
        assert f"UnknownHostException: {host}" in str(told)


_LOST = "Some data may have been lost because they are not available in Kafka any more;"


@pytest.mark.parametrize(
    "java",
    [
        f"java.lang.IllegalStateException: Set(refunds-0) are gone. \n{_LOST} either the\n data was aged out by Kafka",
        f"[KAFKA_DATA_LOSS.PARTITIONS_DELETED] {_LOST}\nprocessed.\nReason: Set(refunds-0) are gone. SQLSTATE: 22000",
        f"[KAFKA_DATA_LOSS.PARTITIONS_DELETED] {_LOST}\nwas processed.\nReason:\nSet(refunds-0) are gone.\n\tat a.b",
    ],
)
def test_records_that_kafka_has_lost_are_told_with_their_topic(java: str) -> None:
    told, code = translate(RuntimeError(java), JOB)
    assert code == 65
    assert str(told).removesuffix(".").endswith("in docs/operations.md. Spark says: Set(refunds-0) are gone")


@pytest.mark.parametrize(
    "java",
    [
        "org.apache.spark.SparkConcurrentModificationException: Multiple streaming queries are concurrently using /c",
        "org.apache.spark.SparkException: [CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log.",
        "java.lang.IllegalStateException: Concurrent update to the log. Multiple streaming jobs detected for 3",
    ],
)
def test_a_second_run_at_one_checkpoint_needs_a_person(java: str) -> None:
    from pyspark.errors import StreamingQueryException

    text = f"[STREAM_FAILED] Query terminated with exception: x\n\nCaused by: {java}\n\tat a.b.C\n\tat {_READ}\n"
    told, code = translate(StreamingQueryException(text), JOB)
    assert code == 65
    assert "another run of this query works with its checkpoint (" in str(told)
    assert "Run this job only once" in str(told)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "assertion failed: There are [2] sources in the checkpoint offsets and now there are [3] sources requested",
            r"no longer those of its checkpoint \(There are \[2\] sources .* there are \[3\] sources\)",
        ),
        (
            "[STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA] Streaming stateful operator name does not match",
            r"its checkpoint \(Streaming stateful operator name does not match\)",
        ),
        (
            "[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] Provided key schema does not match existing state key schema.",
            r"its checkpoint \(Provided key schema does not match existing state key schema\)",
        ),
        (
            "Record at topic t-1 partition 0 offset 60 has timestamp value 1704067200000000000 that overflows when",
            "the record at offset 60 of partition 0 of topic t-1 has Kafka's timestamp 1704067200000000000,",
        ),
    ],
)
def test_what_no_retry_mends_needs_a_person(said: str, told: str) -> None:
    from pyspark.errors import StreamingQueryException

    error, code = translate(StreamingQueryException(f"[STREAM_FAILED] Query terminated with exception: {said}"), JOB)
    assert code == 65
    assert re.search(told, str(error))


_READ = "org.apache.spark.sql.execution.streaming.checkpointing.HDFSMetadataLog.getLatest(HDFSMetadataLog.scala:272)"


@pytest.mark.parametrize(
    ("java", "said"),
    [
        (
            "java.lang.IllegalStateException: Failed to read log file file:/c p/commits/3. Incomplete log file",
            "file:/c p/commits/3 of the query's checkpoint is missing or damaged .*; remove it, and the hidden .crc",
        ),
        (
            "org.apache.hadoop.fs.ChecksumException: Checksum error: file:/cp/sources/0/9.compact at 0 exp: 1 got: 2",
            "file:/cp/sources/0/9.compact of .*; restore file:/cp from .* treat it as a lost checkpoint: move file:/cp",
        ),
        (
            "java.lang.IllegalStateException: batch 3 doesn't exist",
            "a file of the query's checkpoint .*batch 3 doesn't exist.* treat it as a lost checkpoint",
        ),
        (
            "com.fasterxml.jackson.core.io.JsonEOFException: Unexpected end-of-input\n at [Source: REDACTED]",
            "a file of the query's checkpoint .* treat it as a lost checkpoint",
        ),
        ("java.net.ConnectException: Connection refused", None),
        ("java.io.FileNotFoundException: hdfs://nn/cp/offsets/3", None),
    ],
)
def test_damage_to_a_checkpoint_needs_a_person_and_a_file_system_that_is_away_does_not(
    java: str, said: str | None
) -> None:
    from pyspark.errors import StreamingQueryException

    text = f"[STREAM_FAILED] Query terminated with exception: x\n\nCaused by: {java}\n\tat a.b.C\n\tat {_READ}\n"
    told, code = translate(StreamingQueryException(text), JOB)
    assert code == (65 if said else 75)
    assert re.match(f"{JOB}: {said or ''}", str(told))
    # The same error from elsewhere says nothing of the checkpoint.
    assert translate(StreamingQueryException(text.replace("HDFSMetadataLog", "Reader")), JOB)[1] == 75
