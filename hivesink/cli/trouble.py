"""What an error of Spark's or of its JVM's means: trouble that may pass, or a job to be mended."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAY_PASS = re.compile(
    r"""
      java\.net\.(?:Connect|SocketTimeout|NoRouteToHost|Socket|PortUnreachable)Exception
    | java\.nio\.channels\.ClosedChannelException
    | org\.apache\.hadoop\.net\.ConnectTimeoutException
    | org\.apache\.hadoop\.ipc\.(?:Standby|Retriable|ObserverRetryOnActive)Exception
    | org\.apache\.hadoop\.hdfs\.server\.namenode\.SafeModeException
    | org\.apache\.hadoop\.hdfs\.(?:BlockMissing|CannotObtainBlockLength)Exception
    | could\ only\ be\ written\ to\ \d+\ of\ the\ \d+\ minReplication\ nodes
    | org\.apache\.thrift\.transport\.TTransportException
    | org\.apache\.kafka\.common\.errors\.(?:Timeout|Disconnect|Network|BrokerNotAvailable|CoordinatorNotAvailable
        |LeaderNotAvailable|NotLeaderOrFollower|ReplicaNotAvailable|Retriable)Exception
    | ExecutorLostFailure
    | SparkContext\ (?:was|has\ been)\ (?:shut\ down|stopped)
    | stopped\ SparkContext
    | Spark\ cluster\ looks\ dead
    | All\ masters\ are\ unresponsive
    | java\.util\.concurrent\.TimeoutException
    """,
    re.VERBOSE,
)
"""Servers that are away, in the words of the JVM's clients, however deep in an error they stand."""

_FAULT = re.compile(
    r"org\.apache\.hadoop\.security\.AccessControlException|java\.lang\.IllegalArgumentException: "
    r"java\.net\.UnknownHostException"
)
"""No permission on HDFS, or a nameservice that nobody knows: tried again it is the same."""

_OLD_CLIENT = re.compile(r"Invalid method name: '(get_table\w*)'")
OLD_CLIENT = (
    "this Spark has no client for a metastore of Hive 4, so its SQL can't read the tables (the sink can write them); "
    "query through HiveServer2, as `hivesink query --hiveserver2 HOST:PORT` does, or use Spark 4"
)
_PYTHON_TRACE = "Traceback (most recent call last)"
_JAVA_LINE = re.compile(
    r"^\s*(?:: |Caused by: )?((?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error|Failure): .+)$", re.MULTILINE
)


def may_pass(error: BaseException) -> bool:
    """Whether what failed is Spark, Kafka, HDFS, the metastore or the network, and not the job's own code or SQL.

    Ask `is_fault` first: what names a server that is away may come of a permission that is missing.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import AnalysisException, IllegalArgumentException, ParseException, PySparkException

    if isinstance(error, (ConnectionError, TimeoutError)):
        return True
    if not isinstance(error, (PySparkException, Py4JError)):
        return False
    text = whole(error)
    if _MAY_PASS.search(text):
        return True
    if isinstance(error, (AnalysisException, ParseException, IllegalArgumentException)):
        return False
    # Python code that failed in a task or a callback fails again.
    return _PYTHON_TRACE not in text


def is_fault(error: BaseException) -> bool:
    """Whether HDFS refuses this user, or the site's files don't know a file system that somebody named."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return isinstance(error, (PySparkException, Py4JError)) and bool(_FAULT.search(whole(error)))


def is_old_client(error: BaseException) -> bool:
    """Whether a client of Hive 2.3 or 3 has asked a metastore of Hive 4 for a table."""
    return bool(_OLD_CLIENT.search(whole(error)))


def reason(error: BaseException) -> str:
    """One line: the server that is away if there is one, else what the error says first."""
    text = whole(error)
    java = [found[1] for found in _JAVA_LINE.finditer(text)]
    told = next((line for line in java if _FAULT.search(line)), None)
    away = told or next((line for line in java if _MAY_PASS.search(line)), None)
    first = next((line.strip() for line in text.splitlines() if line.strip()), "(no message)")
    if away is not None:
        return away
    return java[0] if java and first.startswith("An error occurred while calling") else first


def whole(error: BaseException) -> str:
    """All that the error and its causes say, with Java's stack; nothing of what only a lost JVM could tell."""
    return "\n".join(text for one in _causes(error) for text in (_text(one), str(getattr(one, "_stackTrace", ""))))


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  py4j asks the JVM for a Java error's text, and it may be the JVM that died
        return f"{type(error).__name__}: the JVM that could say more is gone"
