"""Calls of hdfs-native with a time-out each, repeated for a while where that is safe.

hdfs-native has no time-out for a NameNode that took a request and doesn't answer. So each call runs on a thread of its
own, which is abandoned together with its client; the next call asks another NameNode first.
"""

from __future__ import annotations

import itertools
import logging
import os
import random
import threading
import time
import weakref
from collections import deque
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

from hdfs_native import Client

from hivesink.errors import FileSystemUnknown, NotWritable, OutcomeUnknown, StoreUnavailable, Unsupported
from hivesink.storage.hdfs_address import (
    Address,
    accepts,
    answering_first,
    client_properties,
    known_servers,
    nameservices,
)
from hivesink.storage.hdfs_failures import PASSING, UNCERTAIN, CallAbandoned, Failure, Kind, judge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_T = TypeVar("_T")

logger = logging.getLogger("hivesink")

WINDOW = "dfs.client.hivesink.retry-window.ms"
"""How long one call is repeated while NameNodes restart, fail over or are in safe mode."""
TIMEOUT = "ipc.client.rpc-timeout.ms"
"""Hadoop's own name: how long one request may take."""
_QUIET, _WARN_AGAIN = 5.0, 30.0
"""Seconds of waiting until the first warning, and until the next one."""
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


class Failed(Exception):
    """A call that failed for good, or was repeated for the whole window."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(failure.reason)


class _Worker(threading.Thread):
    """Makes the calls in its inbox. A daemon, so that a hanging one doesn't keep the process alive."""

    def __init__(self, idle: deque[_Worker]) -> None:
        super().__init__(name="hivesink-hdfs", daemon=True)
        self._idle = idle
        self.inbox: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = SimpleQueue()

    def run(self) -> None:
        while (order := self.inbox.get()) is not None:
            call, answer = order
            try:
                answer.set_result(call())
            except BaseException as error:  # noqa: BLE001  raised again in the calling thread
                answer.set_exception(error)
            # An idle worker must not keep a client alive, with its threads and connections.
            del call, answer, order
            self._idle.append(self)


def _dismiss(idle: deque[_Worker]) -> None:
    while idle:
        idle.pop().inbox.put(None)


@dataclass(eq=False)
class HdfsCalls:
    """A client of one file system, and how it is asked. Shared by the threads of one process; `shared` finds it."""

    address: Address
    properties: Mapping[str, str]
    retry_policy: RetryPolicy
    tick: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _idle: deque[_Worker] = field(default_factory=deque)
    _clients: dict[int, Client] = field(default_factory=dict)
    _answered: bool = False
    _first: str = ""
    _hung: str = ""
    _warned: float = -_WARN_AGAIN

    def __post_init__(self) -> None:
        # Without it their threads would outlive it.
        weakref.finalize(self, _dismiss, self._idle)

    def bounded(self, call: Callable[[], _T], seconds: float | None = None) -> _T:
        """The result of `call`. Raises what it raises, or CallAbandoned after `seconds` (default: the time-out)."""
        limit = self.retry_policy.timeout if seconds is None else seconds
        try:
            worker = self._idle.pop()
        except IndexError:
            worker = _Worker(self._idle)
            worker.start()
        answer: Future[_T] = Future()
        worker.inbox.put((call, answer))
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
        """As `judge`, but a host without an address is down where something says that there is such a host.

        The name of a container that restarts is unknown for a moment. It is known to be right after an answer, or where
        the site's own files have it. Elsewhere the name may be a nameservice whose site's files are missing.
        """
        failure = judge(error)
        known = self._answered or not known_servers(self.properties).isdisjoint(self.address.namenodes)
        return replace(failure, kind=Kind.NOT_TAKEN) if failure.kind is Kind.UNKNOWN_HOST and known else failure

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
        return StoreUnavailable(
            action, path, advice.format(server=server, reason=reason, window=self.retry_policy.window)
        )

    def pauses(self) -> Iterator[None]:
        """Wait between tries of several calls, longer each time, until the window ends."""
        until = self.tick() + self.retry_policy.window
        for tries in itertools.count():
            pause = self.retry_policy.wait(tries, self.chance())
            if self.tick() + pause > until:
                return
            self.sleep(pause)
            yield

    def create(self, call: Callable[[Client], _T]) -> _T:
        """As `ask`, for a file to write. Its client waits for NameNodes that restart."""
        seconds = self.retry_policy.window + self.retry_policy.timeout
        return self._persist(int(self.retry_policy.window / _PAUSE) + 1, call, seconds, repeatable=False)

    def _persist(self, rounds: int, call: Callable[[Client], _T], seconds: float, *, repeatable: bool) -> _T:
        """`rounds`: how often the client itself asks all NameNodes again."""
        until = self.tick() + self.retry_policy.window
        tries = 0
        while True:
            asked = self._open(rounds)
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
            pause = self.retry_policy.wait(tries, self.chance())
            if not again or self.tick() + pause > until:
                raise Failed(failure)
            self._warn(failure, until)  # A silent job looks idle.
            self.sleep(pause)
            tries += 1

    def _warn(self, failure: Failure, until: float) -> None:
        now = self.tick()
        with self._lock:
            if until - now > self.retry_policy.window - _QUIET or now - self._warned < _WARN_AGAIN:
                return
            self._warned = now
        logger.warning("%s: %s; asked again for %.0f s more", self.address, failure.reason, until - now)

    def _open(self, rounds: int) -> Client:
        with self._lock:
            if rounds not in self._clients:
                self._clients[rounds] = self._new(rounds)
            return self._clients[rounds]

    def _new(self, rounds: int) -> Client:
        order = answering_first(self.address.namenodes, lambda server: server != self._hung and accepts(server))
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
        """Drop a client whose NameNode doesn't answer: later calls on its one connection would wait too."""
        with self._lock:
            if client in self._clients.values():
                self._clients.clear()
                self._hung = self._first


_all: dict[tuple[int, Address, RetryPolicy, frozenset[tuple[str, str]]], HdfsCalls] = {}
_lock = threading.Lock()


def shared(address: Address, properties: Mapping[str, str]) -> HdfsCalls:
    """The one `HdfsCalls` of this process for a file system."""
    retry_policy = RetryPolicy.of(properties)
    key = (os.getpid(), address, retry_policy, frozenset(properties.items()))
    with _lock:
        if key not in _all:
            _all[key] = HdfsCalls(address, properties, retry_policy)
        return _all[key]


def _unsupported(action: str, path: str, reason: str) -> Unsupported:
    if "KMS" in reason:
        way = "set hadoop.security.key.provider.path in core-site.xml and give this user the zone's key"
        return Unsupported(f"to {action} {path} in its encryption zone", reason, way)
    if "ncryption zone" in reason:
        way = "keep a table's partitions and their staged files in one encryption zone"
        return Unsupported(f"to {action} {path}", reason, way)
    way = "hdfs-native can't do this; keep the table in a folder without the feature that the reason names"
    return Unsupported(f"to {action} {path}", reason, way)
