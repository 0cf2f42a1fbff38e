"""The enumeration of crashes on a real HDFS: a dead process leaves files open there, whose leases nobody gives back."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, BinaryIO

import pytest

from hivesink.config.site import Site as Hadoop
from tests.crash.faults import FaultyFileSystem
from tests.crash.site import BATCH, ROLLING, Site
from tests.crash.test_every_step import Case, calls_of_a_run, cases, play
from tests.sink.harness import Source, events
from tests.storage.realhdfs import apart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jobs.cluster import Cluster
    from tests.crash.faults import Call

    # Plays cases on sites of a number of tasks and of batches, side by side; how many.
    Play = Callable[[Iterable[Case], int, int, dict[str, str]], int]


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


@pytest.fixture
def play_all(cluster: Cluster) -> Play:
    hadoop = Hadoop.load({"HADOOP_CONF_DIR": str(cluster.conf)})
    numbers, root = count(), f"{cluster.filesystem}/crash-{time.time_ns()}"

    def played(found: Iterable[Case], tasks: int, batches: int, options: dict[str, str]) -> int:
        def one(case: Case) -> None:
            # As processes of their own have them: leases are a client's, who would take them along if it lived on.
            connect, folder = partial(apart, hadoop.hadoop), f"{root}/{next(numbers)}"
            source = Source(events(batches * BATCH))
            play(Site(source, options=dict(options), connect=connect, root=folder, tasks=tasks), case, Abandoning)

        # Most of a case is waiting for the NameNode.
        with ThreadPoolExecutor(4) as pool:
            return len(list(pool.map(one, found)))

    return played


def in_memory(tasks: int, batches: int, options: dict[str, str]) -> list[Call]:
    """What a job asks of any file system."""
    return calls_of_a_run(Site(Source(events(batches * BATCH)), options=dict(options), tasks=tasks))


def decides_or_publishes(call: Call) -> bool:
    """Changes of the log, and renames into sight."""
    return call.changes and ("/.hivesink/" in call.path or ".pending -> " in call.path)


# Two epochs: one that begins partitions, one that goes on with them. The long run has every step.
@pytest.mark.parametrize(
    ("options", "concerns", "every", "least"),
    [
        pytest.param({}, decides_or_publishes, 2, 50, id="log and publish"),
        pytest.param(ROLLING, lambda call: call.changes and "/segments/" in call.path, 1, 10, id="segments"),
    ],
)
def test_a_fault_at_any_step_loses_and_doubles_nothing(
    play_all: Play, options: dict[str, str], concerns: Callable[[Call], bool], every: int, least: int
) -> None:
    steps = [call for call in in_memory(1, 2, options) if concerns(call)][::every]
    played = play_all((case for call in steps for case in cases(call)), 1, 2, options)
    print(f"{played} faults at {len(steps)} steps on HDFS")
    assert played > least
    if options is ROLLING:
        assert {call.name for call in steps} >= {"open_new", "sync_close", "delete"}


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("options", [{}, ROLLING], ids=["on epoch", "rolling"])
def test_a_fault_at_any_call_of_hdfs_loses_and_doubles_nothing(play_all: Play, options: dict[str, str]) -> None:
    calls = in_memory(2, 3, options)
    assert play_all((case for call in calls for case in cases(call)), 2, 3, options) > 400
