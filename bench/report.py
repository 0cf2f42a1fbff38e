"""Ratios and tables of finished runs. A ratio is hivesink's figure divided by the peer's, of the same round."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from math import ceil
from pathlib import Path
from statistics import median
from typing import Any

from bench.cases import Case
from bench.contenders import OWN

SETTLING = 5
"""First epochs of a query that don't count: Spark plans and connects in them."""


def rows_per_s(run: Run) -> float:
    return run.rows / run.seconds


def epoch_ms(run: Run) -> float:
    return median(settled(run))


def settled(run: Run) -> list[int]:
    return run.batch_ms[SETTLING:] or run.batch_ms


def epoch_requests(run: Run) -> float:
    """Of a run without its roll at the end, but with its start."""
    return (run.requests - (run.roll[2] if run.roll else 0)) / len(run.batch_ms)


DRAINS: Mapping[str, Callable[[Run], float]] = {
    "rows_per_s": rows_per_s,
    "cpu_s_per_mrow": lambda run: 1e6 * run.cpu / run.rows,
    "bytes": lambda run: run.bytes,
    "task_rss_mb": lambda run: run.task_peak / 1e6,
}
EPOCHS: Mapping[str, Callable[[Run], float]] = {
    "epoch_ms": epoch_ms,
    "cpu_s_per_mrow": DRAINS["cpu_s_per_mrow"],
    "requests": epoch_requests,
    "roll_ms": lambda run: run.roll[0] if run.roll else 0,
}


@dataclass(frozen=True, slots=True)
class Ratio:
    """`value` is the median of `rounds`."""

    workload: str
    metric: str
    peer: str
    value: float
    rounds: list[float]

    def __str__(self) -> str:
        return f"ratio {self.workload} {self.metric} {self.peer} {self.value:.3f}"


def ratios(case: Case, runs: Sequence[Run]) -> list[Ratio]:
    """Every metric against every peer; of bytes only where the peer writes files."""
    found = []
    for metric, figure in (EPOCHS if case.epochs else DRAINS).items():
        figures = {(run.round, run.contender): figure(run) for run in runs}
        for peer in _distinct(run.contender for run in runs):
            pairs = [
                figures[number, OWN] / value
                for (number, name), value in figures.items()
                if name == peer != OWN and value and (number, OWN) in figures
            ]
            if pairs:
                found.append(Ratio(case.name, metric, peer, median(pairs), pairs))
    return found


def percentile(values: Iterable[float], share: float) -> float:
    """The least value that is not exceeded by `share` of all: the nearest rank."""
    ordered = sorted(values)
    return ordered[max(0, ceil(share * len(ordered)) - 1)]


def markdown(case: Case, runs: Sequence[Run]) -> str:
    """The ratios first, then the figures that they are of."""
    rows = max(run.rows for run in runs)
    kind = "cold processes" if case.cold else "warm processes"
    what = f"epochs of {rows // case.batches:,} records" if case.epochs else f"{rows:,} records"
    return "\n".join([f"### {case.name}: {what}, {kind}", "", *_ratio_table(case, runs), "", *_figures(case, runs)])


def _ratio_table(case: Case, runs: Sequence[Run]) -> Iterator[str]:
    found = ratios(case, runs)
    metrics = _distinct(one.metric for one in found)
    yield f"| hivesink divided by | {' | '.join(metrics)} |"
    yield f"|---|{'---|' * len(metrics)}"
    for peer in _distinct(one.peer for one in found):
        own = {one.metric: one for one in found if one.peer == peer}
        cells = [_with_rounds(own[metric]) if metric in own else "" for metric in metrics]
        yield f"| {peer} | {' | '.join(cells)} |"


def _with_rounds(ratio: Ratio) -> str:
    rounds = ", ".join(f"{value:.2f}" for value in ratio.rounds)
    return f"**{ratio.value:.2f}** ({rounds})" if len(ratio.rounds) > 1 else f"**{ratio.value:.2f}**"


def _figures(case: Case, runs: Sequence[Run]) -> Iterator[str]:
    columns = _EPOCH_COLUMNS if case.epochs else _DRAIN_COLUMNS
    yield f"| | {' | '.join(columns)} |"
    yield f"|---|{'---|' * len(columns)}"
    for name in _distinct(run.contender for run in runs):
        own = [run for run in runs if run.contender == name]
        yield f"| {name} | {' | '.join(column(own) for column in columns.values())} |"
    if case.epochs:
        yield from ("", f"hivesink's steps, ms an epoch: {_steps(runs)}")


_DRAIN_COLUMNS: Mapping[str, Callable[[Sequence[Run]], str]] = {
    "rows/s, median": lambda own: f"{median(map(rows_per_s, own)):,.0f}",
    "rounds": lambda own: ", ".join(f"{rows_per_s(run) / 1000:.0f}k" for run in own),
    "CPU s per M rows": lambda own: f"{median(1e6 * run.cpu / run.rows for run in own):.2f}",
    "the machine's": lambda own: f"{median(1e6 * run.machine / run.rows for run in own):.2f}",
    "peak MB": lambda own: f"{max(run.peak for run in own) / 1e6:,.0f}",
    "a task's MB": lambda own: f"{max(run.task_peak for run in own) / 1e6:,.0f}",
    "files": lambda own: f"{own[-1].files or ''}",
    "MB": lambda own: f"{own[-1].bytes / 1e6:.0f}" if own[-1].bytes else "",
}
_EPOCH_COLUMNS: Mapping[str, Callable[[Sequence[Run]], str]] = {
    "ms, median": lambda own: f"{median(map(epoch_ms, own)):.0f}",
    "rounds": lambda own: ", ".join(f"{epoch_ms(run):.0f}" for run in own),
    "p99": lambda own: f"{percentile([ms for run in own for ms in settled(run)], 0.99):.0f}",
    "CPU ms": lambda own: f"{median(1000 * run.cpu / len(run.batch_ms) for run in own):.0f}",
    "the machine's": lambda own: f"{median(1000 * run.machine / len(run.batch_ms) for run in own):.0f}",
    "epochs": lambda own: str(sum(len(settled(run)) for run in own)),
    "requests": lambda own: f"{median(map(epoch_requests, own)):.0f}" if own[0].requests else "",
    "the roll's ms": lambda own: _of_rolls(own, 0, "{:.0f}"),
    "CPU s": lambda own: _of_rolls(own, 1, "{:.2f}"),
    "requests of it": lambda own: _of_rolls(own, 2, "{:.0f}"),
}


def _of_rolls(own: Sequence[Run], place: int, form: str) -> str:
    rolls = [run.roll[place] for run in own if run.roll]
    return form.format(median(rolls)) if rolls else ""


def _steps(runs: Sequence[Run]) -> str:
    own = [run for run in runs if run.contender == OWN]
    names = _distinct(name for run in own for name in run.step_ms)
    each = {name: median(run.step_ms.get(name, 0) / len(run.batch_ms) for run in own) for name in names}
    return ", ".join(f"{name} {ms:.0f}" for name, ms in each.items())


def _distinct(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


@dataclass(frozen=True, slots=True)
class Run:
    """One drain of `rows` records: `round` pairs it with the runs of the other contenders beside it.

    `batch_ms` are its micro-batches, `step_ms` hivesink's own times, summed. CPU in seconds (`cpu`: the contender's own
    processes; `machine`: everything). Memory in bytes: of all processes at once, and of the largest that runs tasks.
    `requests` and `roll` as in `Drained`.
    """

    case: str
    round: int
    contender: str
    rows: int
    seconds: float
    batch_ms: list[int]
    step_ms: dict[str, int]
    cpu: float
    machine: float
    peak: int
    task_peak: int
    files: int
    bytes: int
    requests: int = 0
    roll: tuple[float, float, int] | None = None

    @property
    def key(self) -> tuple[str, int, str]:
        return self.case, self.round, self.contender


class Series:
    """The runs of one benchmark in the file `path`; it begins anew where the file was made by another one."""

    def __init__(self, path: Path, told: Mapping[str, Any]) -> None:
        self._path = path
        self.runs: list[Run] = []
        # A line that was cut short when the machine stopped has no end.
        lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []
        if lines and json.loads(lines[0]) == told:
            self.runs = [Run(**json.loads(line)) for line in lines[1:]]
        path.parent.mkdir(parents=True, exist_ok=True)
        self._write([told, *(asdict(run) for run in self.runs)], "w")

    def missing(self, case: Case, rounds: int) -> list[tuple[int, str]]:
        """The rounds and contenders of the case that have not run yet, in their order."""
        done = {run.key for run in self.runs}
        wanted = ((number, name) for number in range(rounds) for name in case.order(number))
        return [(number, name) for number, name in wanted if (case.name, number, name) not in done]

    def add(self, run: Run) -> None:
        self._write([asdict(run)], "a")
        self.runs.append(run)

    def end(self) -> None:
        """All is done: the next start begins anew."""
        self._path.unlink()

    def _write(self, values: Iterable[Mapping[str, Any]], mode: str) -> None:
        with self._path.open(mode, encoding="utf-8") as file:
            file.writelines(json.dumps(value) + "\n" for value in values)


def fingerprint(folders: Iterable[Path]) -> str:
    """Of all code in the folders: figures of two states of it are not mixed."""
    digest = sha256()
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.suffix in {".py", ".java", ".xml"}:
                digest.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]
