"""Calls of hdfs-native with a time-out each, repeated for a while where that is safe.

hdfs-native has no time-out for a NameNode that took a request and doesn't answer. So each call runs on a thread of its
own, which is abandoned together with its client, and the next call asks another NameNode first.
"""

from __future__ import annotations

import itertools
import logging
import os
import random
import re
import threading
import time
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

from hdfs_native import Client

from hivesink.errors import FileSystemUnknown, NotWritable, OutcomeUnknown, StoreUnavailable, Unsupported
from hivesink.storage.hdfs_address import Address, accepts, client_properties, is_named, nameservices

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_T = TypeVar("_T")


class Kind(Enum):
    """What a failure says about the call."""

    EXISTS = "something is there"
    MISSING = "it is not there"
    NO_PARENT = "the target's folder is not there"
    NOT_A_FOLDER = "a file is in the way"
    DENIED = "no permission"
    NOT_TAKEN = "no NameNode took the call"
    SAFE_MODE = "the NameNode is in safe mode"
    UNANSWERED = "done or not"
    QUOTA = "a quota is full"
    NO_ROOM = "no DataNode takes the block"
    NO_DATA = "no DataNode gives or takes the data"
    UNKNOWN_HOST = "no such host"
    UNSUPPORTED = "the client can't"
    REFUSED = "refused for another reason"


class CallAbandoned(Exception):
    """A call that didn't end in time; it may still take effect."""

    kind = Kind.UNANSWERED


class Unreported(RuntimeError):
    """A closed file whose last block no DataNode has reported yet, so readers see only the others."""

    kind = Kind.NO_DATA


PASSING = frozenset({Kind.NOT_TAKEN, Kind.SAFE_MODE})
"""Not done, and the same call may succeed soon."""
UNCERTAIN = frozenset({Kind.UNANSWERED, Kind.NO_DATA})
"""Only repeatable calls are tried again after these."""
ABSENT = frozenset({Kind.MISSING, Kind.NOT_A_FOLDER})
"""There is nothing of that name."""


@dataclass(frozen=True, slots=True)
class Failure:
    """`reason` is one line, in the server's own words where it had any."""

    kind: Kind
    reason: str


_VARIANT = re.compile(r'(?P<variant>\w+)\((?:"(?P<first>(?:[^"\\]|\\.)*)")?(?:, "(?P<second>.*)")?', re.DOTALL)
_PARENT = ("rename destination parent", "Parent directory")
_DATA = frozenset({"DataTransferError", "BlocksNotFound", "ChecksumError", "OperationFailed", "ErasureCodingError"})
_OF_THE_SERVER = (
    ("AccessControlException", r"\(is not a directory\)", Kind.NOT_A_FOLDER),
    ("AccessControlException", "", Kind.DENIED),
    ("ParentNotDirectoryException", "", Kind.NOT_A_FOLDER),
    (r"\w*Quota\w*ExceededException", "", Kind.QUOTA),
    ("SafeModeException", "", Kind.SAFE_MODE),
    ("RetriableException", "[Ss]afe ?[Mm]ode", Kind.SAFE_MODE),
    ("RetriableException|StandbyException|ObserverRetryOnActiveException", "", Kind.NOT_TAKEN),
    ("PathIsNotEmptyDirectoryException", "", Kind.EXISTS),
    ("LeaseExpiredException", "", Kind.MISSING),
    ("IOException", r"could only be (?:written|replicated) to \d+ ", Kind.NO_ROOM),
    ("IOException", "must both be directories", Kind.EXISTS),
    (r"\w+", "encryption zone", Kind.UNSUPPORTED),
)
"""The class of an exception, a part of its text, and what they say; the first that fits."""


def judge(error: BaseException) -> Failure:
    """What `error` means. Only for what hdfs-native and `HdfsCalls` raise; an unknown text is REFUSED."""
    text = str(error)
    line = _line(text)
    match error:
        case CallAbandoned() | Unreported():
            return Failure(error.kind, text)
        case FileExistsError():
            return Failure(Kind.EXISTS, line)
        case FileNotFoundError():
            return Failure(Kind.NO_PARENT if text.startswith(_PARENT) else Kind.MISSING, line)
        case NotImplementedError():
            return Failure(Kind.UNSUPPORTED, line)
        case OSError():
            return Failure(_of_connection(text), line)
        case _:
            return _of_variant(text)


def _of_connection(text: str) -> Kind:
    if text.startswith("RPC listener disconnected"):
        return Kind.UNANSWERED
    if text.startswith("failed to lookup address") and "emporary" not in text:
        return Kind.UNKNOWN_HOST
    return Kind.NOT_TAKEN


def _of_variant(text: str) -> Failure:
    parts = _VARIANT.match(text)
    if parts is None:
        return Failure(Kind.REFUSED, _line(text))
    if parts["variant"] in {"RPCError", "FatalRPCError"}:
        java, reason = (parts["first"] or "").rpartition(".")[2], _line(parts["second"] or "")
        for classes, pattern, kind in _OF_THE_SERVER:
            if re.fullmatch(classes, java) and re.search(pattern, reason):
                return Failure(kind, reason)
        return Failure(Kind.REFUSED, f"{java}: {reason}")
    kind = Kind.NO_DATA if parts["variant"] in _DATA else Kind.REFUSED
    if "no KMS provider is configured" in text:
        kind = Kind.UNSUPPORTED
    return Failure(kind, f"{parts['variant']}: {_line(parts['first'] or text)}")


def _line(text: str) -> str:
    """The first line: what follows is the server's stack trace."""
    return re.split(r"\n|\\n", text, maxsplit=1)[0].replace('\\"', '"')


logger = logging.getLogger("hivesink")

WINDOW = "dfs.client.hivesink.retry-window.ms"
"""How long a call is repeated while NameNodes restart, fail over or are in safe mode."""
TIMEOUT = "ipc.client.rpc-timeout.ms"
"""Hadoop's name: how long a request may take."""
_QUIET, _WARN_AGAIN = 5.0, 30.0
"""Seconds of waiting until the first warning, and between warnings."""
_PAUSE = 2.0
"""The longest wait between hdfs-native's own tries, in seconds."""

_DATANODES = "{reason}; are the DataNodes of {server} running, and is there room on them?"
_ADVICE = {
    Kind.NOT_TAKEN: "{server} accepted no call for {window:g} s ({reason}); is it running, and active?",
    Kind.UNANSWERED: "{server} gave no answer ({reason}); is it running, and active?",
    Kind.SAFE_MODE: "{server} is in safe mode and changes nothing; see why with `hdfs dfsadmin -safemode get`, "
    "end it with `hdfs dfsadmin -safemode leave` ({reason})",
    Kind.QUOTA: "{reason} at {server}; free some of it, or raise it with `hdfs dfsadmin -setQuota` or "
    "`-setSpaceQuota`: a new file counts as a whole block for each replica",
    Kind.NO_ROOM: _DATANODES,
    Kind.NO_DATA: _DATANODES,
}


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Seconds. Waits between tries double from `first` up to `most`, up to half of each taken off by chance."""

    window: float = 60.0
    timeout: float = 30.0
    first: float = 0.1
    most: float = 3.0

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> RetryPolicy:
        """As the site's properties say; Hadoop's 0 for the time-out, "for ever", is the default here."""
        window = float(properties.get(WINDOW, cls().window * 1000)) / 1000
        timeout = float(properties.get(TIMEOUT, 0)) / 1000
        return cls(window, timeout or cls().timeout)

    def wait(self, tries: int, chance: float) -> float:
        whole = min(self.most, self.first * 2.0 ** min(tries, 16))
        return whole * (1 - chance / 2)


def _answer(call: Callable[[], _T], answer: Future[_T]) -> None:
    try:
        answer.set_result(call())
    except BaseException as error:  # noqa: BLE001  raised again in the calling thread
        answer.set_exception(error)
    finally:
        # The error's traceback holds this frame, and must not keep a client alive with its threads and connections.
        del call, answer


class Failed(Exception):
    """A call that failed for good, or was repeated for the whole window."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(failure.reason)


@dataclass(eq=False)
class HdfsCalls:
    """A client of a file system, and how it is asked. Shared by the threads of one process; `shared` finds it."""

    address: Address
    properties: Mapping[str, str]
    retry_policy: RetryPolicy
    tick: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _clients: dict[int, Client] = field(default_factory=dict)
    _answered: bool = False
    _first: str = ""
    _hung: str = ""
    _warned: float = -_WARN_AGAIN

    def bounded(self, call: Callable[[], _T], seconds: float | None = None) -> _T:
        """The result of `call`. Raises what it raises, or CallAbandoned after `seconds` (default: the time-out)."""
        limit = self.retry_policy.timeout if seconds is None else seconds
        answer: Future[_T] = Future()
        # A daemon, so that a hanging call doesn't keep the process alive.
        threading.Thread(target=_answer, args=(call, answer), name="hivesink-hdfs", daemon=True).start()
        # `result` alone can't tell its own time-out from one that the call raised.
        if not wait([answer], limit).done:
            message = f"no answer within {limit:g} s"
            raise CallAbandoned(message)
        return answer.result()

    def ask(self, call: Callable[[Client], _T], *, repeatable: bool) -> _T:
        """The answer to `call`, repeated within the window while no server took it.

        `repeatable` calls are also repeated after an unknown outcome. Raises Failed.
        """
        return self._persist(0, call, self.retry_policy.timeout, repeatable=repeatable)

    def judged(self, error: BaseException) -> Failure:
        """As `judge`, but a host that has answered, or that the site names with its port, is down without an address.

        So is a container that restarts. Any other name may be a nameservice whose site's files are missing.
        """
        failure = judge(error)
        if failure.kind is Kind.UNKNOWN_HOST and (self._answered or is_named(self.address, self.properties)):
            return replace(failure, kind=Kind.NOT_TAKEN)
        return failure

    def refusal(self, action: str, path: str, failure: Failure, *, changing: bool) -> Exception:
        """The error for a call that failed. `changing` calls without an answer are OutcomeUnknown."""
        server, reason = self.address, failure.reason
        match failure.kind:
            case Kind.EXISTS | Kind.MISSING | Kind.NO_PARENT as kind:
                return FileExistsError(path) if kind is Kind.EXISTS else FileNotFoundError(path)
            case Kind.DENIED:
                return NotWritable(path, reason)
            case Kind.UNSUPPORTED:
                return _unsupported(action, path, reason)
            case Kind.UNKNOWN_HOST:
                known = ", ".join(nameservices(self.properties)) or "none"
                return FileSystemUnknown(path, f"{server}: {reason}; nameservices of this site: {known}")
            case Kind.UNANSWERED if changing:
                return OutcomeUnknown(action, path, f"{server}: {reason}")
        advice = _ADVICE.get(failure.kind, "{server} says: {reason}")
        advice = advice.format(server=server, reason=reason, window=self.retry_policy.window)
        return StoreUnavailable(action, path, advice)

    def pauses(self, begun: float | None = None) -> Iterator[float]:
        """Wait between tries, longer each time, until the window ends. Yields the seconds that are left of it.

        It begins at `begun`, by default with the first wait.
        """
        until = (self.tick() if begun is None else begun) + self.retry_policy.window
        for tries in itertools.count():
            pause = self.retry_policy.wait(tries, self.chance())
            if self.tick() + pause > until:
                return
            self.sleep(pause)
            yield until - self.tick()

    def create(self, call: Callable[[Client], _T]) -> _T:
        """As `ask`, for a file to write. Its client waits for NameNodes that restart."""
        seconds = self.retry_policy.window + self.retry_policy.timeout
        return self._persist(int(self.retry_policy.window / _PAUSE) + 1, call, seconds, repeatable=False)

    def _persist(self, rounds: int, call: Callable[[Client], _T], seconds: float, *, repeatable: bool) -> _T:
        """`rounds`: how often the client itself asks all NameNodes again."""
        pauses = self.pauses(self.tick())
        while True:
            with self._lock:
                asked = self._clients.get(rounds) or self._clients.setdefault(rounds, self._new(rounds))
            try:
                answer = self.bounded(lambda: call(asked), seconds)  # noqa: B023  it ends or is abandoned here
            except (OSError, RuntimeError, NotImplementedError, CallAbandoned) as error:
                failure = self.judged(error)
                if isinstance(error, CallAbandoned):
                    self._abandon(asked)
            else:
                self._answered = True
                return answer
            again = failure.kind in PASSING or (repeatable and failure.kind in UNCERTAIN)
            left = next(pauses, None) if again else None
            if left is None:
                raise Failed(failure)
            if left < self.retry_policy.window - _QUIET and self.tick() - self._warned >= _WARN_AGAIN:
                # A silent job looks idle.
                self._warned = self.tick()
                logger.warning("%s: %s; asked again for %.0f s more", self.address, failure.reason, left)

    def _new(self, rounds: int) -> Client:
        order = self.address.namenodes
        if len(order) > 1:
            # One that doesn't even accept a connection may keep a call waiting for minutes.
            order = tuple(sorted(order, key=lambda server: server == self._hung or not accepts(server)))
        self._first = order[0]
        if "SPARK_USER" in os.environ:
            # Act as the user who submitted the job, as Spark's executors do. This is the only way to give hdfs-native a
            # user; it ignores it with Kerberos.
            os.environ.setdefault("HADOOP_USER_NAME", os.environ["SPARK_USER"])
        return Client(
            f"hdfs://{self.address.authority}",
            {
                **client_properties(self.properties, replace(self.address, namenodes=order), rounds),
                "dfs.client.failover.sleep.max.millis": str(int(_PAUSE * 1000)),
            },
            # No folder of site files: by an executor's environment hdfs-native would read another site's.
            config_dir=os.devnull,
        )

    def _abandon(self, client: Client) -> None:
        """Drop a client whose NameNode doesn't answer: later calls on its connection would wait too."""
        with self._lock:
            if client in self._clients.values():
                self._clients.clear()
                self._hung = self._first


_all: dict[tuple[int, Address, RetryPolicy, frozenset[tuple[str, str]]], HdfsCalls] = {}
_lock = threading.Lock()


def shared(address: Address, properties: Mapping[str, str]) -> HdfsCalls:
    """The `HdfsCalls` of this process for a file system."""
    retry_policy = RetryPolicy.of(properties)
    key = (os.getpid(), address, retry_policy, frozenset(properties.items()))
    with _lock:
        if key not in _all:
            _all[key] = HdfsCalls(address, properties, retry_policy)
        return _all[key]


def _unsupported(action: str, path: str, reason: str) -> Unsupported:
    if "KMS" in reason:
        instead = "set hadoop.security.key.provider.path in core-site.xml and give this user the zone's key"
    elif "ncryption zone" in reason:
        instead = "keep a table's partitions and their staged files in one encryption zone"
    else:
        instead = "hdfs-native can't do this; keep the table in a folder without the feature that the reason names"
    return Unsupported(f"to {action} {path}", reason, instead)
