"""How an epoch's cost grows with the executors: `python -m bench.executors 1 2 4 --rows 4000000`.

The same topic, drained warm by sessions with that many executors of one core (`local-cluster[…]`), each a process of
its own on this machine. Prints a line of a Markdown table for each, the rounds' median.
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

from bench.__main__ import on_this_machine
from bench.cases import BATCHES, Case
from bench.contenders import OWN
from bench.meter import Meter
from bench.race import WARM_ROWS, Place, checked
from bench.tables import prepare
from bench.workloads import NARROW

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.contenders import Drained


def main() -> None:
    parser = argparse.ArgumentParser("bench.executors")
    parser.add_argument("executors", type=int, nargs="+")
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    told = parser.parse_args()
    steps = ("write", "lookup", "manifest", "publish", "sweep")
    print("| executors | rows/s | CPU s per M rows | peak MB | " + ", ".join(steps) + ", ms of all epochs |")
    print("|---|---|---|---|---|")
    with ExitStack() as stack:
        place = on_this_machine(stack)
        prepare(place.ground)
        for count in told.executors:
            runs = list(_runs(place, count, told.rows, told.rounds))
            rate = median(told.rows / drained.seconds for drained, _ in runs)
            cpu = median(meter.cpu for _, meter in runs) / told.rows * 1e6
            peak = max(meter.peak for _, meter in runs) / 1e6
            spent = ", ".join(f"{median(drained.step_ms.get(step, 0) for drained, _ in runs):.0f}" for step in steps)
            print(f"| {count} | {rate:,.0f} | {cpu:.2f} | {peak:,.0f} | {spent} |", flush=True)


def _runs(place: Place, executors: int, rows: int, rounds: int) -> Iterator[tuple[Drained, Meter]]:
    case = Case("executors", NARROW.name, (OWN,), rows)
    there = replace(place, ground=replace(place.ground, master=f"local-cluster[{executors},1,2048]"))
    small, whole = (place.topic(case, OWN, size) for size in (min(WARM_ROWS, rows), rows))
    with there.process(OWN) as process:
        for topic in (small, *[whole] * rounds):
            drain = there.drain(case, OWN, topic, BATCHES)
            with Meter([process.pid]) as meter:
                drained = process.drain(drain)
            # On this machine's disk, whatever the master is.
            checked(case, place, drain, drained, topic)
            if topic is whole:
                yield drained, meter


if __name__ == "__main__":
    main()
