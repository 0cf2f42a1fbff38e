"""Calls of hdfs-native with a time-out each, repeated for a while where that is safe.

hdfs-native has no time-out for a NameNode that took a request and doesn't answer. So each call runs on a thread of its
own, which is abandoned together with its client, and the next call asks another NameNode first.
"""

from __future__ import annotations

import itertools
import logging
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from typing import TypeVar

from hdfs_native import Client

from hivesink import kerberos
from hivesink.errors import LoginFailed, NotWritable, OutcomeUnknown, StoreUnavailable, Unsupported, unknown_file_system
from hivesink.kerberos.tickets import Trouble
from hivesink.storage.hdfs_address import Address, accepts, client_properties, nameservices
from hivesink.storage.hdfs_answers import UNCERTAIN, Failed, Kind, judge

_T = TypeVar("_T")

logger = logging.getLogger("hivesink")

WINDOW = "dfs.client.hivesink.retry-window.ms"
"""How long a call is repeated while NameNodes restart, fail over or are in safe mode."""
TIMEOUT = "ipc.client.rpc-timeout.ms"
"""Hadoop's name: how long a request may take."""
_QUIET, _WARN_AGAIN = 5.0, 30.0
"""Seconds of waiting until the first warning, and between warnings."""
_SHORTEST, _LONGEST = 0.1, 3.0
"""Seconds between tries: they double, with up to half of each taken off by chance."""
_PAUSE = 2.0
"""The longest wait between hdfs-native's own tries, in seconds."""


@dataclass(eq=False)
class HdfsCalls:
    """A client of a file system, and how it is asked. Shared by the threads of one process; `shared` finds it.

    A call is repeated for `window` seconds, and each try may take `timeout` of them.
    """

    address: Address
    properties: Mapping[str, str]
    window: float = 60.0
    timeout: float = 30.0
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
        """The result of `call`. Raises what it raises, or Failed after `seconds` (default: the time-out)."""
        limit = self.timeout if seconds is None else seconds
        answer: Future[_T] = Future()
        # A daemon, so that a hanging call doesn't keep the process alive.
        threading.Thread(target=_answer, args=(call, answer), name="hivesink-hdfs", daemon=True).start()
        # `result` alone can't tell its own time-out from the call's.
        if not wait([answer], limit).done:
            raise Failed(Kind.UNANSWERED, f"no answer within {limit:g} s")
        return answer.result()

    def create(self, call: Callable[[Client], _T]) -> _T:
        """As `ask`, for a file to write. Its client waits for NameNodes that restart."""
        rounds = int(self.window / _PAUSE) + 1
        return self.ask(call, repeatable=False, rounds=rounds, seconds=self.window + self.timeout)

    def ask(
        self, call: Callable[[Client], _T], *, repeatable: bool, rounds: int = 0, seconds: float | None = None
    ) -> _T:
        """The answer to `call`, repeated within the window while no server took it. Raises Failed.

        `repeatable` calls are also repeated after an unknown outcome. `rounds`: how often the client itself asks all
        NameNodes again.
        """
        pauses, has_new = self.pauses(self.tick()), False
        while True:
            with self._lock:
                asked = self._clients.get(rounds) or self._clients.setdefault(rounds, self._new(rounds))
            try:
                answer = self.bounded(lambda: call(asked), seconds)  # noqa: B023  it ends or is abandoned here
            except (OSError, RuntimeError, NotImplementedError, Failed) as error:
                failure = self.judged(error)
                if isinstance(error, Failed) and failure.kind is Kind.UNANSWERED:
                    self._abandon(asked)
            else:
                self._answered = True
                return answer
            if failure.kind is Kind.NO_LOGIN and not has_new:
                try:
                    has_new = kerberos.renewed(failure.login)
                except LoginFailed as error:
                    failure = Failed(Kind.NO_LOGIN, error.reason, Trouble(error.advice))
                if has_new:
                    continue
            again = failure.kind is Kind.NOT_TAKEN or (repeatable and failure.kind in UNCERTAIN)
            left = next(pauses, None) if again else None
            if left is None:
                # A new error: the traceback of a local would keep this frame alive, and a client in it.
                raise Failed(failure.kind, failure.reason, failure.login)
            if left < self.window - _QUIET and self.tick() - self._warned >= _WARN_AGAIN:
                # A silent job looks idle.
                self._warned = self.tick()
                logger.warning("%s: %s; asked again for %.0f s more", self.address, failure.reason, left)

    def _abandon(self, hung: Client) -> None:
        """Later calls on this client's connection would wait too."""
        with self._lock:
            if hung in self._clients.values():
                self._clients.clear()
                self._hung = self._first

    def pauses(self, begun: float | None = None) -> Iterator[float]:
        """Wait between tries, and yield what is left of the window, begun at `begun` or with the first."""
        until = (self.tick() if begun is None else begun) + self.window
        for tries in itertools.count():
            pause = min(_LONGEST, _SHORTEST * 2.0 ** min(tries, 16)) * (1 - self.chance() / 2)
            if self.tick() + pause > until:
                return
            self.sleep(pause)
            yield until - self.tick()

    def judged(self, error: BaseException) -> Failed:
        """As `judge`, but a host that has answered, or that the site names with its port, is down without an address.

        So is a container that restarts. Any other name may be a nameservice whose site's files are missing.
        """
        failure = judge(error)
        named = {value.strip().removeprefix("hdfs://").rstrip("/") for value in self.properties.values()}
        is_known = self._answered or not named.isdisjoint(self.address.namenodes)
        if failure.kind is Kind.UNKNOWN_HOST and is_known:
            return Failed(Kind.NOT_TAKEN, failure.reason)
        login, data = "hadoop.security.authentication", "dfs.data.transfer.protection"
        is_kerberos = self.properties.get(login, "").lower() == "kerberos"
        if failure.kind is Kind.UNANSWERED and not self._answered and not is_kerberos:
            failure.reason += f"; if it asks for Kerberos, set {login} = kerberos in core-site.xml"
        if is_kerberos and data not in self.properties and failure.reason.startswith("Connection reset"):
            # So a DataNode does that wants a login; one at a privileged port wants none.
            failure.reason += f"; set {data} in hdfs-site.xml as its DataNodes have it"
        return failure

    def refusal(self, action: str, path: str, failure: Failed, *, changing: bool) -> Exception:
        """The error for a call that failed. Only `changing` ones are OutcomeUnknown."""
        reason = f"{self.address}: {failure.reason}"
        match failure.kind:
            case Kind.EXISTS | Kind.MISSING | Kind.NO_PARENT as kind:
                return FileExistsError(path) if kind is Kind.EXISTS else FileNotFoundError(path)
            case Kind.NO_LOGIN:
                return kerberos.failure(str(self.address), failure.reason, failure.login)
            case Kind.DENIED:
                return NotWritable(path, failure.reason)
            case Kind.UNSUPPORTED:
                instead = "keep a table in one encryption zone, with hadoop.security.key.provider.path set, or in none"
                return Unsupported(f"to {action} {path}", failure.reason, instead)
            case Kind.UNKNOWN_HOST:
                known = ", ".join(nameservices(self.properties)) or "none"
                return unknown_file_system(path, f"{reason}; nameservices of this site: {known}")
        unknown = changing and failure.kind is Kind.UNANSWERED
        return (OutcomeUnknown if unknown else StoreUnavailable)(action, path, reason)

    def _new(self, rounds: int) -> Client:
        order = self.address.namenodes
        if len(order) > 1:
            # A server that doesn't even accept a connection may keep a call waiting for minutes.
            order = tuple(sorted(order, key=lambda server: server == self._hung or not accepts(server)))
        self._first = order[0]
        if "SPARK_USER" in os.environ:
            # Act as the user who submitted the job, as Spark's executors do. This is the only way to give hdfs-native a
            # user; it ignores it with Kerberos.
            os.environ.setdefault("HADOOP_USER_NAME", os.environ["SPARK_USER"])
        pause = {"dfs.client.failover.sleep.max.millis": str(int(_PAUSE * 1000))}
        properties = client_properties(self.properties, replace(self.address, namenodes=order), rounds)
        # No folder of site files: by an executor's environment hdfs-native would read another site's.
        return Client(f"hdfs://{self.address.authority}", {**properties, **pause}, config_dir=os.devnull)


def _answer(call: Callable[[], _T], answer: Future[_T]) -> None:
    try:
        answer.set_result(call())
    except BaseException as error:  # noqa: BLE001  raised again in the calling thread
        answer.set_exception(error)
    finally:
        # The error's traceback holds this frame, and must not keep a client alive with its threads and connections.
        del call, answer


_all: dict[tuple[int, Address, frozenset[tuple[str, str]]], HdfsCalls] = {}
_lock = threading.Lock()


def shared(address: Address, site: frozenset[tuple[str, str]]) -> HdfsCalls:
    """The `HdfsCalls` of this process for a file system, as the site's properties say. Asked for each path."""
    # No client outlives a fork. A frozenset keeps its hash.
    key = (os.getpid(), address, site)
    with _lock:
        if key not in _all:
            properties = dict(site)
            window = float(properties.get(WINDOW, 60_000)) / 1000
            # Hadoop's 0, "for ever", is the default here.
            _all[key] = HdfsCalls(address, properties, window, float(properties.get(TIMEOUT, 0)) / 1000 or 30.0)
        return _all[key]
