"""The commit protocol under every crash: each call of the storage and the metastore, in every way it can fail.

One run without faults counts the calls. Then there is a run for each call and mode, which dies or gets no answer
there; the job is started again, and the table must read as if nothing had happened.
"""

from __future__ import annotations

import pytest

from tests.crash.faults import Call, Mode, Plan
from tests.crash.steps import ROLLING, Site, calls_of, cases, play
from tests.inmemory.filesystem import MemoryFileSystem


def new_site(options: dict[str, str]) -> Site:
    fs = MemoryFileSystem()
    return Site(connect=lambda: fs, options=options)


WAYS = {"on epoch": {}, "rolling": ROLLING}
CALLS = [(way, call) for way, options in WAYS.items() for call in calls_of(new_site(options))]


@pytest.mark.parametrize(("way", "call"), CALLS, ids=lambda one: one if isinstance(one, str) else str(one.number))
def test_a_fault_of_the_storage_at_any_call_loses_and_doubles_nothing(way: str, call: Call) -> None:
    for case in cases(call):
        play(new_site(WAYS[way]), case)


@pytest.mark.parametrize(("way", "step"), [(way, call.number) for way, call in CALLS if call.number % 3 == 1])
def test_a_second_death_during_recovery_changes_nothing(way: str, step: int) -> None:
    site = new_site(WAYS[way])
    site.dies(site.faulty(Plan(step, Mode.AFTER)))
    again = 1
    while True:
        faulty = site.faulty(Plan(again, Mode.AFTER))
        site.dies(faulty)
        if not faulty.dead:
            break
        # Each of these starts leaves a fence, which the next one reads twice.
        again += 3
    site.run()
    site.check()
