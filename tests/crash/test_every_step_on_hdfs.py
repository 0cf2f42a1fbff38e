"""The enumeration of crashes on a real HDFS: a dead process leaves files open there, whose leases nobody gives back."""

from __future__ import annotations

import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, BinaryIO

import pytest

from hivesink.config.site import Site as Hadoop
from tests.crash.faults import FaultyFileSystem, Mode
from tests.crash.steps import BATCH, ROLLING, Case, calls_of, cases, new_site, play
from tests.storage.realhdfs import apart

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobs.cluster import Cluster
    from tests.crash.faults import Call
    from tests.crash.site import Site

SHORT = 2 * BATCH
"""Two epochs: one that begins partitions, one that goes on with them."""


class Abandoning(FaultyFileSystem):
    """On HDFS a file that is being written stays open when its writer dies, whose it is until the lease ends."""

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]  # the same arguments
        self._kept: list[BinaryIO] = []

    def write_new(self, path: str, data: bytes) -> None:
        def torn() -> None:
            stream = self.inner.open_new(path)
            stream.write(data[: len(data) // 2])
            self._kept.append(stream)

        self._do("write_new", path, lambda: self.inner.write_new(path, data), torn=torn)

    def release(self) -> None:
        """Nothing is closed: who is dead closes nothing."""


@dataclass
class Sites:
    """Sites of their own folders on one HDFS."""

    root: str
    hadoop: Hadoop
    _numbers: itertools.count[int] = field(default_factory=itertools.count)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def new(self, count: int, tasks: int, options: dict[str, str]) -> Site:
        with self._lock:
            number = next(self._numbers)
        # As processes of their own have them: leases are a client's, and a client that lives on would take them along.
        connect = partial(apart, self.hadoop.hadoop)
        return new_site(options, count, tasks, connect, f"{self.root}/{number}")


@pytest.fixture(scope="module")
def sites(cluster: Cluster) -> Sites:
    return Sites(f"{cluster.filesystem}/crash-{time.time_ns()}", Hadoop.load({"HADOOP_CONF_DIR": str(cluster.conf)}))


def in_memory(count: int, tasks: int, options: dict[str, str]) -> list[Call]:
    """What a job asks of any file system."""
    return calls_of(new_site(options, count, tasks))


def play_all(sites: Sites, found: Iterable[Case], count: int, tasks: int, options: dict[str, str]) -> int:
    """Side by side: most of a case is waiting for the NameNode."""
    with ThreadPoolExecutor(4) as pool:
        return len(list(pool.map(lambda case: play(sites.new(count, tasks, options), case, Abandoning), found)))


def decides_or_publishes(call: Call) -> bool:
    """Changes of the log, and renames into sight."""
    return call.changes and ("/.hivesink/" in call.path or ".pending -> " in call.path)


def test_a_fault_at_any_step_of_log_and_publish_loses_and_doubles_nothing(sites: Sites) -> None:
    steps = [call for call in in_memory(SHORT, 1, {}) if decides_or_publishes(call)]
    # Who dies before a change leaves what the change before it has left.
    found = [case for call in steps for case in cases(call) if case.mode is not Mode.BEFORE]
    played = play_all(sites, found, SHORT, 1, {})
    print(f"{played} faults at {len(steps)} steps of log and publish on HDFS")
    assert played > 100


def test_a_fault_at_any_step_of_segments_loses_and_doubles_nothing(sites: Sites) -> None:
    steps = [call for call in in_memory(SHORT, 1, ROLLING) if call.changes and "/segments/" in call.path]
    found = [case for call in steps for case in cases(call) if case.mode is not Mode.BEFORE]
    played = play_all(sites, found, SHORT, 1, ROLLING)
    print(f"{played} faults at {len(steps)} steps of segments on HDFS")
    assert {call.name for call in steps} >= {"open_new", "sync_close", "delete"}


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("options", [{}, ROLLING], ids=["on epoch", "rolling"])
def test_a_fault_at_any_call_of_hdfs_loses_and_doubles_nothing(sites: Sites, options: dict[str, str]) -> None:
    calls = in_memory(3 * BATCH, 2, options)
    played = play_all(sites, (case for call in calls for case in cases(call)), 3 * BATCH, 2, options)
    print(f"{played} faults at {len(calls)} calls on HDFS")
    assert played > 400
