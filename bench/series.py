"""Finished runs, kept in a file as they end: a start with the same arguments and the same code goes on from there."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from bench.cases import Case


@dataclass(frozen=True, slots=True)
class Run:
    """One drain of `rows` records: `round` pairs it with the runs of the other contenders beside it.

    `batch_ms` are its micro-batches, `step_ms` hivesink's own times, summed. CPU in seconds (`cpu`: the contender's own
    processes; `machine`: everything). Memory in bytes: of all processes at once, and of the largest that runs tasks.
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
