"""The enumeration of crashes on real servers.

On HDFS a dead process leaves files open, whose leases nobody gives back. S3 has its own idea of what an answer means.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from typing import Any, BinaryIO, NamedTuple

import pytest

from hivesink.config.site import Site as Hadoop
from jobs.cluster import Cluster
from jobs.cluster.s3 import S3Server
from tests.crash.faults import Call, FaultyFileSystem, FaultyS3
from tests.crash.site import BATCH, ROLLING, Site, s3_site
from tests.crash.test_every_step import Case, calls_of_a_run, cases, play
from tests.inmemory.s3 import MemoryS3
from tests.sink.harness import Source, events
from tests.storage.realhdfs import apart
from tests.storage.reals3 import Bound

# A site of a number of tasks and of batches, with options.
Make = Callable[[int, int, dict[str, str]], Site]


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


class Server(NamedTuple):
    """`make` makes sites on a server, `alike` one that asks the same in memory, `kind` fails at a call."""

    make: Make
    alike: Make
    kind: Callable[..., Any]

    def calls(self, tasks: int, batches: int, options: dict[str, str]) -> list[Call]:
        """What a job asks."""
        return calls_of_a_run(self.alike(tasks, batches, options), self.kind)

    def play_all(self, found: Iterable[Case], tasks: int, batches: int, options: dict[str, str]) -> int:
        """Play cases on sites of their own, side by side; how many."""
        # Most of a case is waiting for the server.
        with ThreadPoolExecutor(4) as pool:
            played = pool.map(lambda case: play(self.make(tasks, batches, options), case, self.kind), found)
            return len(list(played))


def source(batches: int) -> Source:
    return Source(events(batches * BATCH))


def on_hdfs(cluster: Cluster) -> Server:
    hadoop = Hadoop.load({"HADOOP_CONF_DIR": str(cluster.conf)})
    numbers, root = count(), f"{cluster.filesystem}/crash-{time.time_ns()}"

    def make(tasks: int, batches: int, options: dict[str, str]) -> Site:
        # As processes of their own have them: leases are a client's, who would take them along if it lived on.
        connect, folder = partial(apart, hadoop.hadoop), f"{root}/{next(numbers)}"
        return Site(source(batches), options=dict(options), connect=connect, root=folder, tasks=tasks)

    def alike(tasks: int, batches: int, options: dict[str, str]) -> Site:
        return Site(source(batches), options=dict(options), tasks=tasks)

    return Server(make, alike, Abandoning)


def on_s3(server: S3Server) -> Server:
    client = Bound(server)
    numbers, root = count(), f"s3a://{client.bucket}/crash-{time.time_ns()}"

    def make(tasks: int, batches: int, options: dict[str, str]) -> Site:
        return s3_site(source(batches), options, client, f"{root}/{next(numbers)}", tasks)

    def alike(tasks: int, batches: int, options: dict[str, str]) -> Site:
        return s3_site(source(batches), options, MemoryS3(page=1000), tasks=tasks)

    return Server(make, alike, FaultyS3)


SERVERS: dict[str, tuple[str, Callable[[Any], Server]]] = {"hdfs": ("cluster", on_hdfs), "s3": ("s3", on_s3)}


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Server:
    name, opened = SERVERS[request.param]
    return opened(request.getfixturevalue(name))


def decides_or_publishes(call: Call) -> bool:
    """Changes of the log, and renames into sight."""
    return call.changes and ("/.hivesink/" in call.path or ".pending -> " in call.path)


def decides_or_completes(call: Call) -> bool:
    """The same as requests: manifests and their marks, and uploads that become objects."""
    return call.changes and ("/manifests/" in call.path or call.name == "complete_multipart_upload")


def of_segments(call: Call) -> bool:
    return call.changes and "/segments/" in call.path


# Two epochs: one that begins partitions, one that goes on with them. The long run has every step.
@pytest.mark.parametrize(
    ("server", "options", "concerns", "every", "least"),
    [
        pytest.param("hdfs", {}, decides_or_publishes, 3, 30, id="hdfs-log and publish"),
        pytest.param("hdfs", ROLLING, of_segments, 1, 10, id="hdfs-segments"),
        pytest.param("s3", {}, decides_or_completes, 3, 15, id="s3-log and publish"),
        pytest.param("s3", ROLLING, of_segments, 2, 5, id="s3-segments"),
    ],
    indirect=["server"],
)
def test_a_fault_at_any_step_loses_and_doubles_nothing(
    server: Server, options: dict[str, str], concerns: Callable[[Call], bool], every: int, least: int
) -> None:
    steps = [call for call in server.calls(1, 2, options) if concerns(call)][::every]
    played = server.play_all((case for call in steps for case in cases(call)), 1, 2, options)
    print(f"{played} faults at {len(steps)} steps")
    assert played > least
    if concerns is of_segments and server.kind is Abandoning:
        assert {call.name for call in steps} >= {"open_new", "sync_close", "delete"}


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("options", [{}, ROLLING], ids=["on epoch", "rolling"])
@pytest.mark.parametrize("server", SERVERS, indirect=True)
def test_a_fault_at_any_call_of_a_server_loses_and_doubles_nothing(server: Server, options: dict[str, str]) -> None:
    calls = server.calls(2, 3, options)
    assert server.play_all((case for call in calls for case in cases(call)), 2, 3, options) > 200
