"""Exit codes, and which error means which. `docs/cli.md` lists them for operators.

Errors of Spark and its JVM are judged by their text: an unreachable server may come back, a bug doesn't go away.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import traceback
from contextlib import suppress
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING

from hivesink import errors
from hivesink.config.site import Site
from hivesink.core.trace import denied, java_lines, other_plan, reason, says_two_runs, unreadable_record
from hivesink.errors import (
    CheckpointShared,
    CheckpointUnreadable,
    HiveSinkError,
    NotWritable,
    QueryChanged,
    RecordUnreadable,
    SiteInvalid,
    WrongUsage,
)
from hivesink.storage.hdfs_address import known_servers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class ExitCode(IntEnum):
    """The codes of every command, after sysexits.h where it has one."""

    DONE = 0
    FAILED = 1
    """A check found errors, or a program has a bug."""
    USAGE = 2
    NEEDS_PERSON = 65
    RETRY = 75


BY_SIGNAL = 128
"""The shell's rule: 128 + n is a death by signal n."""

MEANING: Mapping[int, str] = {
    ExitCode.DONE: "done; every committed row can be read, but for those that sink.on-stop = keep keeps",
    ExitCode.FAILED: "the job itself failed; it needs a person",
    ExitCode.USAGE: "wrong usage; it needs a person",
    ExitCode.NEEDS_PERSON: "it needs a person",
    ExitCode.RETRY: "worth another try",
}


def meaning(code: int) -> str:
    """A few words about a child's exit code."""
    return MEANING.get(code, f"ended by signal {code - BY_SIGNAL}" if is_by_signal(code) else "the job's own code")


def is_by_signal(code: int) -> bool:
    """Whether a child's exit code says that a signal ended it."""
    return code - BY_SIGNAL in signal.valid_signals()


def code_of(error: BaseException) -> ExitCode:
    """The exit code for `error`, outside of a job."""
    if isinstance(error, WrongUsage):
        return ExitCode.USAGE
    if isinstance(error, HiveSinkError):
        return ExitCode.RETRY if error.retryable else ExitCode.NEEDS_PERSON
    return ExitCode.FAILED


class JobFailed(HiveSinkError):
    """A job ended with an error that is not hivesink's: its own bug, or a failure of a system that it uses."""

    def __init__(self, job: Path, reason: str, *, retryable: bool = False) -> None:
        self.retryable = retryable
        super().__init__(f"{job}: {reason}")


_CUT_OFF = "stopped before its first batch or in the middle of one; the next start finishes what is open and goes on"

HIDES = sys.stdlib_module_names | {"hivesink", "pyspark"}
"""Names by which a job's file would be imported for another module, by itself and by the jobs beside it."""

_FULL = "; a table's disk would be named: this is the checkpoint's, or that of Spark's own files (spark.local.dir)"

OLD_CLIENT = (
    "this Spark has no client for a metastore of Hive 4, so its SQL can't read the tables (the sink can write them); "
    "query through HiveServer2 with `hivesink query --hiveserver2 HOST:PORT`, or use Spark 4"
)


_LOST_IN_KAFKA = re.compile(r"Some data may have been lost because they are not available in Kafka|: \[KAFKA_DATA_LOSS")
_WHAT_IS_LOST = re.compile(
    r"\bReason:\s*([^\n]+?) *(?:SQLSTATE|\n|$)|([^\n: ][^\n:]*)\.\s+Some data may have been lost"
)
"""Spark's own sentence, which names topics and partitions: after its advice since 4.0, before it until 3.5."""
KAFKA_LOSS = (
    "records that the query was to read next have expired in Kafka, or their topic is no longer named by the job, "
    'or not by the source in its place, or was deleted, or made again; see "Records that Kafka no longer has" in '
    "docs/operations.md"
)


_DAMAGED = re.compile(
    r"""
    ^(?::\ |Caused\ by:\ )?
    ( java\.lang\.IllegalStateException | org\.apache\.hadoop\.fs\.ChecksumException | com\.fasterxml\.jackson\.\S+
    | org\.apache\.spark\.SparkRuntimeException(?=:\ \[STREAMING_CHECKPOINT_MISSING_METADATA_FILE)
    ):\ (.*)\n
    (?: (?!Caused\ by:).*\n)*?
    \s+at\ org\.apache\.spark\.sql\.execution\.streaming\.\S*
    (?: MetadataLog | FileStreamLog | [sS]treamMetadata | populateStartOffsets)
    """,
    re.VERBOSE | re.MULTILINE,
)
"""What Spark's readers of the checkpoint raise about its content. A file system that is away raises other errors."""
_OTHER_FOLDER = re.compile(r"Wrong basePath (.+) for the root path: (.+?)(?: SQLSTATE: .*)?$", re.MULTILINE)
OTHER_FOLDER = (
    "the job reads {0}, and its checkpoint has {1}, of another folder: name that again, moved back if it was "
    'moved; or read the new one with a new checkpoint (see "The source\'s folder was moved" in docs/operations.md)'
)
_NO_STATE = "[STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY]"
_CHECKPOINT_FILE = re.compile(
    r"(?:log file|Checksum error:) (.+?)/((?:offsets|commits|sources/\d+)/[^/\s]+?|metadata)(?:\. | at \d)"
)


def translate(error: BaseException, job: Path, *, stopped: bool = False) -> tuple[HiveSinkError, int]:
    """What to report for a job that raised `error`, and the exit code. `stopped`: somebody had asked it to end."""
    if isinstance(error, KeyboardInterrupt):
        return JobFailed(job, _CUT_OFF), BY_SIGNAL + signal.SIGINT
    own = next((cause for cause in _causes(error) if isinstance(cause, HiveSinkError)), None)
    own = own or _carried_by_spark(error, job)
    if own is not None:
        return own, code_of(own)
    return (JobFailed(job, _CUT_OFF), BY_SIGNAL + signal.SIGTERM) if stopped else _judge(error, job)


_RAISED = re.compile(r"^hivesink\.errors\.(\w+): (.+)$", re.MULTILINE)


def _carried_by_spark(error: BaseException, job: Path) -> JobFailed | None:
    """An error of the sink in the text of Spark's: plain `foreachBatch` raises no other."""
    raised = _RAISED.findall(_whole(error))
    if not raised:
        return None
    name, text = raised[-1]
    kind = getattr(errors, name, None)
    retryable = isinstance(kind, type) and issubclass(kind, HiveSinkError) and kind.retryable
    return JobFailed(job, text, retryable=retryable)


def _judge(error: BaseException, job: Path) -> tuple[JobFailed, ExitCode]:
    if known := _known(error):
        return JobFailed(job, known), ExitCode.NEEDS_PERSON
    name, said, line = type(error).__name__, reason_of(error), _line_of(error, job)
    what = said if said.startswith(f"{name}: ") else f"{name}: {said}"
    if _is_fault(error):
        return JobFailed(job, f"{what}{line}"), ExitCode.NEEDS_PERSON
    if _may_pass(error):
        full = _FULL if "No space left on device" in what else ""
        return JobFailed(job, f"{_jvm_death(error)}{what}{full}", retryable=True), ExitCode.RETRY
    return JobFailed(job, f"{what}{line}{_hidden(error, job)}; --debug shows the stack trace"), ExitCode.FAILED


def _known(error: BaseException) -> str | None:
    """What to say of Spark's errors that no retry mends and whose own texts don't say what to do."""
    text = _whole(error)
    if is_old_client(error):
        return OLD_CLIENT
    if _LOST_IN_KAFKA.search(text):
        said = _WHAT_IS_LOST.search(text)
        return f"{KAFKA_LOSS}. Spark says: {said[1] or said[2]}" if said else KAFKA_LOSS
    if says_two_runs(text):
        return str(CheckpointShared(None, reason_of(error)))
    if record := unreadable_record(text):
        return str(RecordUnreadable(*record))
    if found := denied(text):
        return str(NotWritable(*found))
    return _of_checkpoint(text)


def _of_checkpoint(text: str) -> str | None:
    if other := _OTHER_FOLDER.search(text):
        return OTHER_FOLDER.format(*other.groups())
    if difference := other_plan(text):
        return str(QueryChanged(None, difference))
    if lost := text.partition(_NO_STATE)[2]:
        new = "or the job has its first operator with state only now: see 'The query was changed' in docs/operations.md"
        return str(CheckpointUnreadable(None, "state", f"{reason(lost)}; {new}"))
    if damaged := _DAMAGED.search(text):
        file = _CHECKPOINT_FILE.search(damaged[2])
        checkpoint, name = file.groups() if file else (None, None)
        return str(CheckpointUnreadable(checkpoint, name, damaged[2]))
    return None


def _jvm_death(error: BaseException) -> str:
    """That the Spark driver's JVM has died, if `error` may come from that and this process can tell."""
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001  nobody else knows the JVM's process
    if process is not None and isinstance(error, (ConnectionError, Py4JError)):
        with suppress(subprocess.TimeoutExpired):  # Its sockets close a moment before it has ended.
            code = process.wait(1)
            return f"the Spark driver's JVM died, with exit code {BY_SIGNAL - code if code < 0 else code}: "
    return ""


def _hidden(error: BaseException, job: Path) -> str:
    """The modules beside the job that may have caused `error`: Python looks into the job's folder first."""
    if not isinstance(error, ImportError | AttributeError):
        return ""
    found = sorted({path.stem for path in job.resolve().parent.glob("*.py")} & HIDES)
    if not found:
        return ""
    return f"; {', '.join(f'{name}.py' for name in found)} in the job's folder may hide Python's own modules: rename"


def _line_of(error: BaseException, job: Path) -> str:
    """The line of the job file that failed; empty if that file never ran."""
    if isinstance(error, SyntaxError):
        return ""  # Its text has the line.
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename) == job]
    return f" (line {lines[-1]})" if lines else ""


_UNREACHABLE = re.compile(
    r"""
    (?:^\s*|:\ |\()
    (?: java\.net\.(?:Connect|SocketTimeout|NoRouteToHost|Socket|PortUnreachable)Exception
    | java\.nio\.channels\.ClosedChannelException
    | java\.util\.concurrent\.TimeoutException
    | org\.apache\.hadoop\.net\.ConnectTimeoutException
    | org\.apache\.hadoop\.ipc\.(?:Standby|Retriable|ObserverRetryOnActive)Exception
    | org\.apache\.hadoop\.hdfs\.server\.namenode\.SafeModeException
    | org\.apache\.hadoop\.hdfs\.(?:BlockMissing|CannotObtainBlockLength)Exception
    | org\.apache\.thrift\.transport\.TTransportException
    | org\.apache\.kafka\.common\.errors\.(?:Timeout|Disconnect|Network|BrokerNotAvailable|CoordinatorNotAvailable
        |LeaderNotAvailable|NotLeaderOrFollower|ReplicaNotAvailable|Retriable)Exception
    | ExecutorLostFailure
    )
    | could\ only\ be\ written\ to\ \d+\ of\ the\ \d+\ minReplication\ nodes
    | SparkContext\ (?:was|has\ been)\ (?:shut\ down|stopped)
    | stopped\ SparkContext
    | Spark\ cluster\ looks\ dead
    | All\ masters\ are\ unresponsive
    """,
    re.VERBOSE | re.MULTILINE,
)
"""How the JVM's clients report an unreachable server, at any depth of an error."""

_FAULT = re.compile(
    r"(?:^\s*|: |\()(?:org\.apache\.hadoop\.security\.AccessControlException|java\.lang\.IllegalArgumentException: "
    r"java\.net\.UnknownHostException(?:: (?P<host>[\w.-]+))?|[\w.]*ClassNotFoundException|"
    r"java\.sql\.SQLException: No suitable driver|\[MALFORMED_RECORD_IN_PARSING)",
    re.MULTILINE,
)
"""No login to HDFS, an unknown nameservice, a missing class, a malformed record: a retry gets the same answer."""

_PYTHON_RAISED = re.compile(r"Traceback \(most recent call last\):\n(?:\s.*\n)*(\S+?):?(?=\s|$)")
_PLAN = re.compile(r"^=== Streaming Query ===$.*?(?=^\s+at |\Z)", re.MULTILINE | re.DOTALL)
"""What Spark tells of the query: the job's own words, which may name any error."""
_OLD_CLIENT = re.compile(r"Invalid method name: '(get_table\w*)'")


def is_old_client(error: BaseException) -> bool:
    """Whether a client of Hive 2.3 or 3 has asked a metastore of Hive 4 for a table."""
    return bool(_OLD_CLIENT.search(_whole(error)))


def _is_fault(error: BaseException) -> bool:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    hosts = [found["host"] for found in _FAULT.finditer(_whole(error))]
    return isinstance(error, (PySparkException, Py4JError)) and not all(map(_is_namenode, hosts))


def _is_namenode(host: str | None) -> bool:
    """Whether the site's files have that host: its name is unknown only while its container restarts."""
    with suppress(SiteInvalid):
        return host in {server.partition(":")[0] for server in known_servers(Site.load(os.environ).hadoop)}
    return False


def _may_pass(error: BaseException) -> bool:
    """Whether a server failed, not the job's code or SQL. Ask `_is_fault` first: it may mention a server too."""
    from py4j.protocol import Py4JError
    from pyspark.errors import AnalysisException, IllegalArgumentException, ParseException, PySparkException

    if isinstance(error, (ConnectionError, TimeoutError)):
        return True
    if not isinstance(error, (PySparkException, Py4JError)):
        return False
    text = _whole(error)
    if _UNREACHABLE.search(text) or _FAULT.search(text):
        return True  # Of the faults only a NameNode that is down gets here.
    if isinstance(error, (AnalysisException, ParseException, IllegalArgumentException)):
        return False
    # Python code that failed in a task or a callback fails again, unless it was the JVM that failed under it.
    return set(_PYTHON_RAISED.findall(text)) <= {"py4j.protocol.Py4JJavaError"}


def reason_of(error: BaseException) -> str:
    """One line: the fault or the unreachable server if it has one, else as `reason`."""
    text = _whole(error)
    java = java_lines(text)
    servers = (line for pattern in (_FAULT, _UNREACHABLE) for line in java if pattern.search(line))
    return next(servers, reason(text))


def _whole(error: BaseException) -> str:
    """The texts of the error and its causes, with Java's stack traces as far as the JVM can still be asked."""
    texts = (text for one in _causes(error) for text in (_text(one), str(getattr(one, "_stackTrace", ""))))
    return "\n".join(_PLAN.sub("", text) for text in texts)


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  py4j asks the JVM for a Java error's text, and the JVM may have died
        return f"{type(error).__name__}: the JVM that could say more is gone"
