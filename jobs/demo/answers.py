"""What readers find in the table: through the metastore, in the folders, and by SQL with Hive's reader."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath
from typing import Any, TypeAlias

from hivesink.config.site import Site
from hivesink.core.partfile import Finished
from hivesink.core.partition import normal
from hivesink.logs import file_store
from jobs.demo.flights import Flights
from jobs.demo.screen import Screen

Ask: TypeAlias = Callable[[str], Sequence[Sequence[Any]]]

PARTITION = "/dt="

COUNT = "SELECT count(*) FROM demo.flights"
CARRIERS = "SELECT carrier, count(*) FROM demo.flights GROUP BY carrier"
DELAYS = "SELECT month, avg(dep_delay) FROM demo.flights GROUP BY month"


def finished_files(location: str, site: Site) -> list[Finished]:
    """The files in a table's folder that readers see: the sink hides its unfinished files."""
    store = file_store(location, site)
    folders = sorted(folder for folder in store.walk(normal(location)) if PARTITION in folder)
    return [file for folder in folders for file in store.visible(folder)]


def show_partitions(ask: Ask, flights: Flights, screen: Screen) -> None:
    """Show how many partitions the metastore lists, and the first and last of them."""
    found = [row[0] for row in ask("SHOW PARTITIONS demo.flights")]
    screen.step("Partitions in the metastore")
    screen.fact(f"{', '.join(found[:2])} … {', '.join(found[-2:])}")
    screen.check(f"{len(found)} partitions, one for each day", right=len(found) == flights.days)


def show_files(found: Sequence[Finished], screen: Screen) -> None:
    """Show how many files readers see, and examples of their names."""
    size = sum(file.length for file in found)
    screen.step("Finished files")
    screen.fact(f"{len(found)} files, {size / 1e6:.1f} MB in flights/")
    for file in (*found[:1], *found[-1:]):
        folder, name = PurePosixPath(file.path).parts[-2:]
        screen.fact(f"{folder}/")
        screen.fact(f"  {name}")


def show_answers(ask: Ask, flights: Flights, screen: Screen) -> None:
    """Run three queries, and compare each answer with the CSV."""
    total = ask(COUNT)[0][0]
    screen.answer(COUNT, [f"{total:,}"], right=total == flights.total)

    carriers = {row[0]: row[1] for row in ask(CARRIERS)}
    most = sorted(carriers.items(), key=lambda pair: -pair[1])
    lines = _in_columns([f"{name} {count:>6,}" for name, count in most])
    screen.answer(CARRIERS, lines, right=carriers == flights.by_carrier)

    delays = {row[0]: row[1] for row in ask(DELAYS)}
    lines = _in_columns([f"{month:>2} {delay:>6.2f}" for month, delay in sorted(delays.items())], each=6)
    expected = flights.mean_delay_by_month
    right = delays.keys() == expected.keys() and all(
        math.isclose(delays[month], expected[month], rel_tol=1e-12) for month in expected
    )
    screen.answer(DELAYS, lines, right=right)


def _in_columns(cells: list[str], each: int = 5) -> list[str]:
    return ["   ".join(cells[start : start + each]) for start in range(0, len(cells), each)]
