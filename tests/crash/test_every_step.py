"""The commit protocol under every crash: each call of the storage, in every way it can fail.

One run without faults counts the calls. Then there is a run for each call and mode, which dies or gets no answer
there; the job is started again, and the table must read as if nothing had happened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple

import pytest

from hivesink.cli.history import commits_of
from hivesink.core.changes import Seen, changes
from tests.contracts.manifests import AT
from tests.crash.faults import Call, Faulty, FaultyFileSystem, FaultyS3, Mode, Plan, calls_of, modes, sampled
from tests.crash.site import BATCH, ROLLING, Site, dies, s3_site
from tests.inmemory.filesystem import MemoryFileSystem
from tests.sink.harness import TABLE, Source, events

WAYS: dict[str, dict[str, str]] = {"on epoch": {}, "rolling": ROLLING}


def new_site(options: dict[str, str], batches: int = 2, fs: MemoryFileSystem | None = None) -> Site:
    return Site(Source(events(batches * BATCH)), options=dict(options), fs=fs or MemoryFileSystem())


def new_on_s3(options: dict[str, str], batches: int = 2) -> Site:
    return s3_site(Source(events(batches * BATCH)), options)


STORAGES: dict[str, tuple[Callable[..., Site], Callable[..., Faulty]]] = {
    "files": (new_site, FaultyFileSystem),
    "requests": (new_on_s3, FaultyS3),
}


def check(site: Site, case: object = "") -> None:
    """Every row once, no staged file that the log doesn't list, and no row that still waits."""
    site.check(range(len(site.source.events)), case)
    assert site.log.segments.lengths() == {}, case


class Case(NamedTuple):
    """A fault at one call. `late_first`: what is held back arrives before the restart, not after it."""

    call: Call
    mode: Mode
    late_first: bool = False


def run(site: Site, fs: Faulty) -> None:
    dies(lambda: site.job(fs))
    fs.release()


def calls_of_a_run(site: Site, kind: Callable[..., Any] = FaultyFileSystem) -> list[Call]:
    return calls_of(lambda: site, lambda _, plan: kind(site.files(), plan), run)


def cases(call: Call) -> Iterator[Case]:
    for mode in modes(call):
        yield Case(call, mode)
        if mode is Mode.LATE:
            yield Case(call, mode, late_first=True)


def play(site: Site, case: Case, kind: Callable[..., Any] = FaultyFileSystem) -> None:
    """Fail, start again, and again; then all must be as if nothing had happened."""
    faulty = kind(site.files(), Plan(case.call.number, case.mode))
    run(site, faulty)
    assert faulty.calls[case.call.number - 1].name == case.call.name, case
    if case.late_first:
        faulty.apply_late()
    site.job().run(BATCH)
    if faulty.apply_late():
        site.job().run(BATCH)
    check(site, case)


# The first batch begins partitions, the second goes on with them.
@pytest.mark.parametrize("batches", [2, pytest.param(3, marks=pytest.mark.long)])
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("way", WAYS)
def test_a_fault_of_the_storage_at_any_call_loses_and_doubles_nothing(way: str, storage: str, batches: int) -> None:
    make, kind = STORAGES[storage]
    for call in calls_of_a_run(make(WAYS[way], batches), kind):
        for case in cases(call):
            play(make(WAYS[way], batches), case, kind)


@sampled(16)
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("way", WAYS)
def test_a_second_death_during_recovery_changes_nothing(way: str, storage: str, every: int) -> None:
    make, kind = STORAGES[storage]
    for call in [call for call in calls_of_a_run(make(WAYS[way]), kind) if call.changes][::every]:
        site = make(WAYS[way])
        run(site, kind(site.files(), Plan(call.number, Mode.AFTER)))
        again, dead = 1, True
        while dead:
            faulty = kind(site.files(), Plan(again, Mode.AFTER))
            run(site, faulty)
            # Each of these starts leaves a fence, for which the next one asks up to three times.
            again, dead = again + 5, faulty.dead
        site.job().run(BATCH)
        check(site, call)


class Short(MemoryFileSystem):
    """The first part to be closed loses its last byte, and nobody is told."""

    torn = False

    def sync_close(self, stream: BinaryIO, path: str) -> None:
        super().sync_close(stream, path)
        data = self.read(path) or b""
        if data and not self.torn:
            self.torn = True
            self.delete(path)
            self.write_new(path, data[:-1])


def test_a_part_that_was_cut_short_before_the_decision_is_written_again() -> None:
    fs = Short()
    site = new_site({}, fs=fs)
    site.job().run(BATCH)
    assert fs.torn
    check(site)


@sampled(6)
@pytest.mark.parametrize("way", WAYS)
def test_a_change_is_told_once_it_can_be_read_whatever_dies(way: str, every: int) -> None:
    """A consumer acknowledges after each death and after a reset, which is taken back, and looks again at the end.

    It has the rows that readers have.
    """
    for call in [call for call in calls_of_a_run(new_site(WAYS[way])) if call.changes][::every]:
        site, seen, computed = new_site(WAYS[way]), dict[str, Seen](), dict[str, int]()
        run(site, FaultyFileSystem(site.files(), Plan(call.number, Mode.AFTER)))
        for step in ("dead", "reset", "done"):
            if step == "reset":
                site.log.end(AT)
            _, now = commits_of(site.log, str(TABLE))[0].read()
            told = changes({"w": seen}, {"w": now}, is_held=lambda _: False, knows_all=True)
            computed |= {change.partition: change.rows for change in told}
            readable = {name: len(site.ids(location)) for name, location in site.places(TABLE).items()}
            assert all(rows <= readable[name] for name, rows in computed.items()), call
            seen |= now
            if step == "reset":
                # Somebody takes it back.
                site.fs.delete(f"{site.log.location}/manifests/over")
                site.job().run(BATCH)
        assert computed == readable, call
