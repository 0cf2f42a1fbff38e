"""A run in several processes: who runs which tests, and that a test which hangs fails, by its name, in minutes."""

from __future__ import annotations

import faulthandler
import os
import re
from collections.abc import Generator
from typing import TYPE_CHECKING

import pytest
from xdist.scheduler import LoadFileScheduling

if TYPE_CHECKING:
    from pytest_timeout import Settings
    from xdist.remote import Producer
    from xdist.workermanage import WorkerController

GRACE = 60.0
TEARDOWN = 300.0
"""Seconds that a test has beyond its time-out, and the fixtures that end after it."""
STDERR = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    # While tests run, the one of this process is captured.
    config.stash[STDERR] = os.dup(2)


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Settings) -> None:
    """End this process, with the stacks of all threads, where pytest-timeout can't.

    Its signal waits for native code to return, and is lost where the `with` block of a process then waits for that.
    """
    faulthandler.dump_traceback_later(settings.timeout + GRACE, exit=True, file=item.config.stash[STDERR])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """The same for the ends of fixtures: pytest-timeout and pytest stop their timers when a test fails."""
    faulthandler.dump_traceback_later(TEARDOWN, exit=True, file=item.config.stash[STDERR])
    try:
        yield
    finally:
        # A worker may be idle for minutes while others run the last tests.
        faulthandler.cancel_dump_traceback_later()


# Servers that take long to start, and how the ids of the tests that need them look.
SHARED = {
    "secured": re.compile(r"^tests/secure/|[-\[](hdfs-|thrift-|hiveserver2-)secured[-\]]"),
    "cluster": re.compile(
        # Some of its own tests start another one.
        r"^tests/cluster/(?!test_cluster\.py::test_(a_reader|the_detached))"
        r"|^tests/(metastore/test_hive4|spark/test_executors|storage/test_hdfs\.)"
        r"|::test_(on_hdfs|hive_4_makes)_|[-\[](hdfs|4\.0\.1)[-\]]"
    ),
    "hive 3": re.compile(r"[-\[]3\.1\.3[-\]]"),
    "s3": re.compile(r"^tests/storage/test_s3|::test_on_s3_|[-\[]s3[-\]]"),
}


SERVERS = {"cluster", "hive3", "kafka", "metastore", "s3", "secured", "spark"}
SLOWEST = (
    *("cluster", "secured", "tests/integration/test_s3.py", "tests/cli/test_run_spark.py"),
    *("tests/jobs/", "tests/docs/test_as_printed.py", "tests/cluster/", "tests/integration/test_types.py"),
    *("s3", "hive 3"),
)
"""What takes minutes begins first, then comes what needs Spark, then what needs other servers, then the rest."""


def scope_of(nodeid: str) -> str:
    """What one worker runs by itself: the tests that need a server of SHARED, for all files, or else a file's."""
    shared = (name for name, needs in SHARED.items() if needs.search(nodeid))
    return next(shared, None) or nodeid.partition("::")[0]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    needs: dict[str, set[str]] = {}
    for item in items:
        needs.setdefault(scope_of(item.nodeid), set()).update(getattr(item, "fixturenames", ()))

    def rank(item: pytest.Item) -> int:
        scope = scope_of(item.nodeid)
        slow = (place for place, name in enumerate(SLOWEST) if scope.startswith(name))
        return next(slow, len(SLOWEST) + ("spark" not in needs[scope]) + SERVERS.isdisjoint(needs[scope]))

    items.sort(key=rank)


class FilesAndSharedServers(LoadFileScheduling):  # type: ignore[misc]  # xdist ships no types.
    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)

    def remove_node(self, node: WorkerController) -> str | None:
        """Return the test that a worker died in; others run what was left to it.

        As xdist has it, that test would be run again, and a worker with no test to run would never be given another.
        """
        left = {
            scope: [test for test, done in tests.items() if not done]
            for scope, tests in self.assigned_work.pop(node).items()
        }
        died_in = next((tests.pop(0) for tests in left.values() if tests), None)
        self.workqueue.update((scope, dict.fromkeys(tests, False)) for scope, tests in left.items() if tests)
        if died_in:
            for other in self.nodes:
                self._reschedule(other)
        return died_in

    def _reschedule(self, node: WorkerController) -> None:
        # What replaces a dead worker may still be collecting.
        if node in self.registered_collections:
            super()._reschedule(node)
            # A worker runs a test when it has the next.
            if self._pending_of(self.assigned_work[node]) == 1:
                super()._reschedule(node)

    def _assign_work_unit(self, node: WorkerController) -> None:
        # Servers' starts leave cores idle: the last of three or more takes from the end, where no test needs any. So
        # does whose process has the cluster: three have Spark, not four.
        if node in self.nodes[2:][-1:] or "cluster" in self.assigned_work.get(node, ()):
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FilesAndSharedServers:
    return FilesAndSharedServers(config, log)
