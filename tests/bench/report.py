"""The benchmark's tables and ratios."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from tests.bench.contenders import OWN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tests.bench.race import Run

SETTLING = 5
"""First epochs of a query that don't count: Spark plans and connects in them."""

console = Console(highlight=False)
console.width = max(console.width, 100)


def drains(runs: Sequence[Run], rows: int, kind: str = "") -> None:
    require_equal(runs, rows)
    for source in _distinct(run.drain.source for run in runs):
        table = Table(title=f"{kind}{rows:,} records from {source}", title_justify="left")
        for column in ("", "rows/s", "of each round", "CPU s", "machine's", "peak MB", "files", "MB"):
            table.add_column(column, justify="left" if not column else "right")
        of_source = [run for run in runs if run.drain.source == source]
        for name in _distinct(run.drain.contender for run in of_source):
            own = [run for run in of_source if run.drain.contender == name]
            speeds = [rows / run.drained.seconds for run in own]
            table.add_row(
                name,
                f"{median(speeds):,.0f}",
                " ".join(f"{speed / 1000:.0f}k" for speed in speeds),
                f"{median(run.cpu for run in own):.1f}",
                f"{median(run.machine for run in own):.1f}",
                f"{max(run.peak for run in own) / 1e6:,.0f}",
                str(own[-1].landed.files),
                f"{own[-1].landed.bytes / 1e6:.0f}",
            )
        console.print(table)
        _ratios(of_source, "rows/s", lambda run: 1 / run.drained.seconds)
        _ratios(of_source, "CPU", lambda run: run.cpu)
        _ratios(of_source, "machine's CPU", lambda run: run.machine)


def epochs(runs: Sequence[Run], rows: int, count: int) -> None:
    require_equal(runs, rows * count)
    table = Table(title=f"an epoch of {rows:,} records from Kafka", title_justify="left")
    for column in ("", "ms, median", "of each round", "epochs", "CPU ms", "machine's"):
        table.add_column(column, justify="left" if not column else "right")
    for name in _distinct(run.drain.contender for run in runs):
        own = [run for run in runs if run.drain.contender == name]
        table.add_row(
            name,
            f"{median(map(_epoch_ms, own)):.0f}",
            " ".join(f"{_epoch_ms(run):.0f}" for run in own),
            str(sum(len(_settled(run)) for run in own)),
            f"{median(1000 * run.cpu / len(run.drained.batch_ms) for run in own):.0f}",
            f"{median(1000 * run.machine / len(run.drained.batch_ms) for run in own):.0f}",
        )
    console.print(table)
    _ratios(runs, "ms", _epoch_ms)
    steps(runs, "ms per epoch of hivesink's steps")


def ratios(workload: str, runs: Sequence[Run], rows: int) -> None:
    """A line for programs for each ratio of two drains: `ratio WORKLOAD METRIC PEER VALUE`."""
    _lines(workload, "rows_per_s", runs, lambda run: rows / run.drained.seconds)
    _lines(workload, "cpu_s_per_mrow", runs, lambda run: 1e6 * run.cpu / rows)
    _lines(workload, "bytes", runs, lambda run: run.landed.bytes)


def epoch_ratios(workload: str, runs: Sequence[Run]) -> None:
    """The same of two epochs."""
    _lines(workload, "epoch_ms", runs, _epoch_ms)


def _lines(workload: str, metric: str, runs: Sequence[Run], figure: Callable[[Run], float]) -> None:
    for peer, pairs in _pairs(runs, figure):
        print(f"ratio {workload} {metric} {peer} {median(pairs):.3f}")


def require_equal(runs: Sequence[Run], rows: int) -> None:
    """All contenders must have done the same work, or nothing here says anything."""
    for run in runs:
        same = runs[0].landed
        if run.landed.rows != rows or (run.landed.users, run.landed.digest) != (same.users, same.digest):
            message = (
                f"{run.drain.contender} landed {run.landed} where {rows} rows, and the content of {same}, were due"
            )
            raise SystemExit(message)
    console.print(f"each run landed {rows:,} rows of equal content")


def steps(runs: Sequence[Run], title: str) -> None:
    own = [run for run in runs if run.drain.contender == OWN]
    names = _distinct(name for run in own for name in run.drained.step_ms)
    each = {name: median(run.drained.step_ms.get(name, 0) / len(run.drained.batch_ms) for run in own) for name in names}
    console.print(f"  {title}: " + ", ".join(f"{name} {ms:.0f}" for name, ms in each.items()))


def _epoch_ms(run: Run) -> float:
    return median(_settled(run))


def _settled(run: Run) -> list[int]:
    return run.drained.batch_ms[SETTLING:] or run.drained.batch_ms


def _ratios(runs: Sequence[Run], what: str, figure: Callable[[Run], float]) -> None:
    for name, pairs in _pairs(runs, figure):
        console.print(
            f"  {what}, {OWN} / {name}: [bold]{median(pairs):.2f}[/bold]"
            f"  (rounds {', '.join(f'{pair:.2f}' for pair in pairs)})"
        )


def _pairs(runs: Sequence[Run], figure: Callable[[Run], float]) -> Iterator[tuple[str, list[float]]]:
    """For each other contender own / other, of the rounds in which both ran beside each other."""
    by_round = {(run.round, run.drain.contender): figure(run) for run in runs}
    for name in _distinct(run.drain.contender for run in runs):
        if name != OWN:
            yield name, [by_round[number, OWN] / other for (number, found), other in by_round.items() if found == name]


def _distinct(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
