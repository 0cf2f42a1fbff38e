"""The commit protocol under every crash: each call of the storage and the metastore, in every way it can fail.

One run without faults counts the calls. Then there is a run for each call and mode, which dies or gets no answer
there; the job is started again, and the table must read as if nothing had happened.
"""

from __future__ import annotations

import pytest

from tests.crash.faults import Mode, Plan
from tests.crash.steps import Site, calls_of, cases, play
from tests.inmemory.filesystem import MemoryFileSystem


def new_site() -> Site:
    fs = MemoryFileSystem()
    return Site(connect=lambda: fs)


CALLS = calls_of(new_site())
STEPS = len(CALLS)


@pytest.mark.parametrize("step", range(1, STEPS + 1))
def test_a_fault_of_the_storage_at_any_call_loses_and_doubles_nothing(step: int) -> None:
    for case in cases(CALLS[step - 1]):
        play(new_site(), case)


@pytest.mark.parametrize("step", range(1, STEPS + 1, 3))
def test_a_second_death_during_recovery_changes_nothing(step: int) -> None:
    site = new_site()
    site.dies(site.faulty(Plan(step, Mode.AFTER)))
    again = 1
    while True:
        faulty = site.faulty(Plan(again, Mode.AFTER))
        site.dies(faulty)
        if not faulty.dead:
            break
        again += 1
    site.run()
    site.check()
