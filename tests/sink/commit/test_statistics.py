"""Exact statistics beside another writer: whatever the moment, no wrong count stays."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Any, BinaryIO

import pytest

from hivesink.core.epoch import Epoch
from hivesink.core.statistics import ColumnFigures, FileStatistics
from hivesink.errors import RegistrationUnknown, StoreUnavailable
from hivesink.metastore.common import FLAG
from hivesink.sink.commit.statistics import refresh_statistics
from hivesink.storage.commit_log import RenameCommitLog
from hivesink.storage.pointers import default_log_location
from tests.crash.site import Site, SiteJob
from tests.sink.harness import LOCATION, TABLE, Event, Source, measure_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hivesink.core.table import Column

PLACE = (str(TABLE), "dt=a")
SECONDS = 20


class Around:
    """Every method of `inner`, with `before` called first by the method's name."""

    def __init__(self, inner: Any, before: Callable[[str], None]) -> None:
        self._inner = inner
        self._before = before

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def call(*arguments: Any) -> Any:
            self._before(name)
            return found(*arguments)

        return call


class Second:
    """The other writer's commit, in a thread that stops before it publishes, and before each later look and clear."""

    def __init__(self, site: Site) -> None:
        self._turn, self._stopped = threading.Semaphore(0), threading.Semaphore(0)
        self._published = False
        job = SiteJob(
            log=RenameCommitLog(site.fs, default_log_location(LOCATION, TABLE, "v"), "v"),
            store=Around(site.store, self._before_store),
            registrar=Around(site.metastore, self._before_metastore),
            source=Source([Event(100, "a")]),
            clock=site.clock,
            writer="v",
            fresh_uid="00c0ffee0002",
            tasks=1,
        )
        self._end = ThreadPoolExecutor(1).submit(job.step)
        self._end.add_done_callback(lambda _: self._stopped.release())
        self._wait()

    def go_on(self) -> None:
        """To the next stop, or the end."""
        if not self._end.done():
            self._turn.release()
            self._wait()

    def finish(self) -> None:
        while not self._end.done():
            self.go_on()
        self._end.result()

    def _before_store(self, name: str) -> None:
        if name == "publish":
            self._published = True
            self._stop()

    def _before_metastore(self, name: str) -> None:
        if self._published and name in {"lookup", "clear_accurate"}:
            self._stop()

    def _stop(self) -> None:
        self._stopped.release()
        assert self._turn.acquire(timeout=SECONDS)

    def _wait(self) -> None:
        assert self._stopped.acquire(timeout=SECONDS)


def begun() -> tuple[Site, SiteJob]:
    """A partition at rest, with no statistics yet."""
    site = Site(Source([Event(number, "a") for number in range(4)]))
    job = site.job(tasks=1)
    job.step()
    return site, job


def refresh(job: SiteJob, before: Callable[[str], None]) -> None:
    around: dict[str, Any] = {
        port: Around(getattr(job.context, port), before) for port in ("log", "store", "registrar")
    }
    refresh_statistics(replace(job.context, **around), Epoch(1), [PLACE], measure_lines)


def calls() -> list[str]:
    """What a refresh asks of its ports when nobody is beside it."""
    site, job = begun()
    found: list[str] = []
    refresh(job, found.append)
    assert site.metastore.parameters(TABLE, "dt=a")["numRows"] == "4"
    assert FLAG in site.metastore.parameters(TABLE, "dt=a")
    return found


def schedules() -> list[tuple[int, int, int]]:
    """Before which calls of the refresh the other publishes, looks, and clears what it saw: at once, or at the end."""
    end = len(calls()) + 1
    moments = combinations_with_replacement(range(1, end + 1), 2)
    return sorted({(publish, look, clear) for publish, look in moments for clear in (look, end)})


@pytest.mark.parametrize("answer", ["comes", "is lost"])
def test_a_second_writer_at_every_moment_of_a_refresh(answer: str) -> None:
    kept, all_of_them = 0, schedules()
    for schedule in all_of_them:
        site, job = begun()
        second, number = Second(site), 0

        def before(name: str, moments: Sequence[int] = schedule, other: Second = second, at: Site = site) -> None:
            nonlocal number
            number += 1
            for _ in range(moments.count(number)):
                other.go_on()
            if answer == "is lost" and name == "set_statistics":
                at.metastore.analyze(TABLE, "dt=a", 4)
                raise RegistrationUnknown(str(TABLE), name, "the reply is lost")

        try:
            refresh(job, before)
        except RegistrationUnknown:
            assert answer == "is lost"
        second.finish()
        assert site.wrong_counts() == [], schedule
        kept += FLAG in site.metastore.parameters(TABLE, "dt=a")
        site.check_rows([0, 1, 2, 3, 100])
    # Figures that were read after the second's publish are right, and stay where they are known to be set.
    assert 0 < kept < len(all_of_them) if answer == "comes" else kept == 0


def test_figures_that_can_not_be_checked_again_do_not_stay() -> None:
    site, job = begun()
    is_set = False

    def before(name: str) -> None:
        nonlocal is_set
        is_set = is_set or name == "set_statistics"
        if is_set and name == "visible_alone":
            raise StoreUnavailable(name, LOCATION, reason="it fails")

    with pytest.raises(StoreUnavailable):
        refresh(job, before)
    assert FLAG not in site.metastore.parameters(TABLE, "dt=a")


def test_a_users_file_of_another_format_costs_its_partition_the_figures_only(caplog: pytest.LogCaptureFixture) -> None:
    site, job = begun()

    def measure(stream: BinaryIO, _columns: Sequence[Column]) -> FileStatistics:
        raise ValueError(str(stream.read(1)))

    refresh_statistics(job.context, job.committer.head, [PLACE], measure)
    assert FLAG not in site.metastore.parameters(TABLE, "dt=a")
    assert "no exact statistics of dt=a" in caplog.text


@pytest.mark.parametrize(("folder", "is_exact"), [("HIVE_UNION_SUBDIR_1", False), (".hive-staging_1", True)])
def test_a_folder_in_which_hive_reads_more_costs_its_partition_the_figures(folder: str, is_exact: bool) -> None:
    site, job = begun()
    site.fs.write_new(f"{LOCATION}/dt=a/{folder}/000000_0", b"100\n")
    refresh_statistics(job.context, job.committer.head, [PLACE], measure_lines)
    assert (FLAG in site.metastore.parameters(TABLE, "dt=a")) == is_exact


def test_a_partition_that_moves_just_before_its_figures_are_set() -> None:
    site, job = begun()

    def before(name: str) -> None:
        if name == "set_statistics":
            site.metastore.register(TABLE, "dt=a", "/elsewhere/a")

    refresh(job, before)
    assert FLAG not in site.metastore.parameters(TABLE, "dt=a")


def test_the_columns_that_every_file_can_tell_are_named() -> None:
    site, job = begun()
    job.source.events.append(Event(4, "a"))
    job.step()
    for wanted, known, named in [
        (None, 2, True),
        (frozenset({"id"}), 2, True),
        (frozenset(), 2, False),
        (None, 1, False),
    ]:
        files = 0

        def measure(stream: BinaryIO, columns: Sequence[Column], known: int = known) -> FileStatistics:
            nonlocal files
            files += 1
            told = {column.name: ColumnFigures(0, files, files) for column in columns if files <= known}
            return replace(measure_lines(stream), columns=told)

        refresh_statistics(job.context, job.committer.head, [PLACE], measure, wanted)
        assert files == 2
        assert ('"COLUMN_STATS":{"id":"true"}' in site.metastore.parameters(TABLE, "dt=a")[FLAG]) is named
        assert site.metastore.parameters(TABLE, "dt=a")["rawDataSize"] == "10"
