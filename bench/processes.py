"""The contenders' processes: each drains what it is told, and rests between its turns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from bench import flink
from bench.contenders import Drain, Drained
from bench.workloads import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from typing_extensions import Self

    from bench.ground import Ground


class Process:
    """A program for the length of a `with` block; a line goes in, a line comes back. Its errors go to `log`."""

    def __init__(self, command: Sequence[str], log: Path, code: Path | None = None) -> None:
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                # Python looks there first, and its workers by the path.
                cwd=code,
                env={**os.environ, "PYTHONPATH": str(code or Path.cwd())},
            )
        self._log = log

    @property
    def pid(self) -> int:
        return self._process.pid

    def drain(self, drain: Drain) -> Drained:
        raise NotImplementedError

    def tell(self, line: str) -> None:
        if self._process.stdin is None:
            raise AssertionError
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            self._ended()

    def answer(self) -> str:
        if self._process.stdout is None:
            raise AssertionError
        answer = self._process.stdout.readline()
        if not answer:
            self._ended()
        return answer.strip()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            # Whoever stops the benchmark doesn't wait for the end of a drain.
            self._process.terminate()
        # The end of its input ends it, and Spark with it.
        self._process.communicate()

    def _ended(self) -> None:
        message = f"a contender ended; see {self._log}"
        raise SystemExit(message)


class Python(Process):
    """`bench.runner`, with the hivesink of the folder `code`, by default this one's."""

    def __init__(self, ground: Ground, log: Path, code: Path | None = None) -> None:
        super().__init__([sys.executable, "-m", "bench.runner", json.dumps(asdict(ground))], log, code)

    @cached_property
    def ready(self) -> str:
        """Waits for the session; then Spark's id of the application."""
        return self.answer()

    def drain(self, drain: Drain) -> Drained:
        if not self.ready:
            raise AssertionError
        self.tell(json.dumps(asdict(drain)))
        return Drained(**json.loads(self.answer()))


class Flink(Process):
    """The program of `bench/peers`, built into the folder `program`."""

    def __init__(self, ground: Ground, log: Path, program: Path) -> None:
        super().__init__(flink.command(program, ground), log)
        self._ground = ground
        self._conf = program / "conf"

    def drain(self, drain: Drain) -> Drained:
        begun = perf_counter()
        for statement in flink.script(drain, WORKLOADS[drain.workload], self._ground, self._conf):
            self.tell(statement)
        self.answer()
        return Drained(perf_counter() - begun, [], {})
