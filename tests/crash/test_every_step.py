"""The commit protocol under every crash: each call of the storage and the metastore, in every way it can fail.

One run without faults counts the calls. Then there is a run for each call and mode, which dies or gets no answer
there; the job is started again, and the table must read as if nothing had happened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.crash.faults import Call, FaultyFileSystem, Mode, Plan
from tests.crash.site import Site
from tests.crash.steps import BATCH, ROLLING, calls_of, cases, check, dies, new_site, play
from tests.inmemory.filesystem import MemoryFileSystem
from tests.sink.harness import Source, events

if TYPE_CHECKING:
    from typing import BinaryIO

WAYS = {"on epoch": {}, "rolling": ROLLING}
CALLS = [(way, call) for way, options in WAYS.items() for call in calls_of(new_site(options))]


@pytest.mark.parametrize(("way", "call"), CALLS, ids=lambda one: one if isinstance(one, str) else str(one.number))
def test_a_fault_of_the_storage_at_any_call_loses_and_doubles_nothing(way: str, call: Call) -> None:
    for case in cases(call):
        play(new_site(WAYS[way]), case)


@pytest.mark.parametrize(
    ("way", "step"),
    [
        pytest.param(way, call.number, marks=pytest.mark.long if call.number % 6 != 1 else ())
        for way, call in CALLS
        if call.number % 3 == 1
    ],
)
def test_a_second_death_during_recovery_changes_nothing(way: str, step: int) -> None:
    site = new_site(WAYS[way])
    dies(site, FaultyFileSystem(site.fs, Plan(step, Mode.AFTER)))
    again = 1
    while True:
        faulty = FaultyFileSystem(site.fs, Plan(again, Mode.AFTER))
        dies(site, faulty)
        if not faulty.dead:
            break
        # Each of these starts leaves a fence, which the next one reads twice.
        again += 3
    site.job().run(BATCH)
    check(site)


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
    site = Site(Source(events(12)), fs=fs)
    site.job().run(BATCH)
    assert fs.torn
    check(site)
