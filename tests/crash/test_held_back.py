"""A roll that leaves rows, and an epoch that gives rows up, under a fault at each call of the storage."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from hivesink.core.table import Column, Primitive
from hivesink.errors import HiveSinkError, RowsUnfit
from hivesink.sink.inspect.findings import Level
from hivesink.sink.inspect.verify import verify, writer_status
from hivesink.storage.commit_log import RenameCommitLog
from hivesink.storage.rename_store import RenameFileStore
from tests.crash.faults import FaultyFileSystem, Kill, Mode, Plan
from tests.crash.site import LOG, Site, SiteJob, modes
from tests.sink.harness import TABLE, Event, Source, measure_lines
from tests.sink.recoveries import forget_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from hivesink.core.partition import PartitionKey
    from hivesink.sink.task.messages import TaskTools

B = (str(TABLE), "dt=b")


class PickyJob(SiteJob):
    """Rows that came for other columns fit it, unless they are in dt=b."""

    def tools(self) -> TaskTools:
        def picky(rows: pa.RecordBatch, _: Sequence[Column], key: PartitionKey) -> pa.RecordBatch:
            if key == B:
                raise RowsUnfit(*key, "id", ("string", "bigint"), "no number")
            return rows

        return replace(super().tools(), refit=picky)


def prepared() -> Site:
    """Rows of dt=a and dt=b wait; then a column gets another type, and more rows come."""
    source = Source([Event(number, "ab"[number % 2]) for number in range(6)])
    site = Site(source, options={"sink.rolling-policy.on-epoch": "false"})
    job = site.job()
    job.committer.recover()
    job.step(4)
    site.metastore.change_column(TABLE, Column("id", Primitive.STRING))
    job = site.job()
    job.committer.recover()
    job.step(2)
    return site


def roll(site: Site, fs: FaultyFileSystem) -> None:
    log, store = RenameCommitLog(fs, LOG), RenameFileStore(fs)
    job = PickyJob(log, store, site.metastore, site.source, site.clock, site.options)
    job.committer.recover()
    job.committer.finish()


def give_up(site: Site, fs: FaultyFileSystem) -> None:
    forget_rows(site.job(fs).context, "dt=b")


def calls(work: Callable[[Site, FaultyFileSystem], None]) -> int:
    site = prepared()
    faulty = FaultyFileSystem(site.fs)
    with contextlib.suppress(HiveSinkError):
        work(site, faulty)
    return len(faulty.calls)


def errors(site: Site) -> list[str]:
    found = verify(site.job().context, "w", str(TABLE), measure_lines).findings
    return [one.text for one in found if one.level is Level.ERROR]


@pytest.mark.parametrize("number", range(1, calls(roll) + 1))
def test_a_fault_of_a_roll_that_leaves_rows(number: int) -> None:
    for mode in Mode:
        site = prepared()
        faulty = FaultyFileSystem(site.fs, Plan(number, mode))
        with contextlib.suppress(Kill, HiveSinkError):
            roll(site, faulty)
        if mode not in modes(faulty.calls[number - 1]):
            continue
        with contextlib.suppress(HiveSinkError):
            roll(site, FaultyFileSystem(site.fs))
        faulty.apply_late()
        # Only the two old rows of dt=b don't fit.
        site.check_rows([0, 2, 4, 5], (number, mode))
        assert errors(site) == []
        site.job().run()
        site.check_rows(range(6), (number, mode))
        assert errors(site) == []


@pytest.mark.parametrize("number", range(1, calls(give_up) + 1))
def test_a_fault_while_rows_are_given_up(number: int) -> None:
    for mode in Mode:
        site = prepared()
        faulty = FaultyFileSystem(site.fs, Plan(number, mode))
        with contextlib.suppress(Kill, HiveSinkError):
            give_up(site, faulty)
        if mode not in modes(faulty.calls[number - 1]):
            continue
        # Again, as a person would. It may have been decided already.
        give_up(site, FaultyFileSystem(site.fs))
        faulty.apply_late()
        site.job().run()
        site.check_rows([0, 2, 4], (number, mode))
        assert writer_status(site.job().context, "w", str(TABLE)).lost_rows == 3
        assert errors(site) == []
