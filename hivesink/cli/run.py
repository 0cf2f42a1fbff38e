"""`hivesink run`: a job file in a process of its own, restarted where that may help."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from hivesink.cli import lifeline
from hivesink.cli.codes import meaning
from hivesink.cli.options import Debug, Json, Metastore
from hivesink.cli.output import Report
from hivesink.cli.reporting import reporting
from hivesink.cli.supervise import Backoff, Ended, Restart, supervise
from hivesink.core.log import require_writer_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import FrameType

Job = Annotated[
    Path, typer.Argument(metavar="JOB.py", help="The job file.", exists=True, dir_okay=False, readable=True)
]
Arguments = Annotated[
    Optional[list[str]],  # noqa: UP045  typer reads this at run time, on Python 3.10 too
    typer.Argument(metavar="[ARGS]...", help="The job's own arguments; after -- whatever they are called."),
]
RestartOption = Annotated[
    bool, typer.Option("--restart", help="Start it again, after a growing delay, where that may help.")
]
MostRestarts = Annotated[
    Optional[int],  # noqa: UP045  typer reads this at run time, on Python 3.10 too
    typer.Option("--max-restarts", min=0, help="With --restart: give up after so many. No limit without it."),
]
Named = Annotated[
    Optional[str],  # noqa: UP045  typer reads this at run time, on Python 3.10 too
    typer.Option("--writer", help="The writer's name. Without it, the job file's stem."),
]


def run(
    job: Job,
    arguments: Arguments = None,
    *,
    restart: RestartOption = False,
    max_restarts: MostRestarts = None,
    writer: Named = None,
    metastore: Metastore = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Run a job file as its own program, in a process of its own. Its stem is the default writer.

    Exit codes: 0 done; 75 worth another try (metastore, Kafka, Spark, disk); 65 needs a person; 1 the job itself
    failed; 2 wrong usage. --restart starts again after 75 and after a death by signal. SIGTERM and SIGINT end the
    restarts and the job: its queries stop after the batch that they are in; a second one cuts that off.

    Example: hivesink run jobs/flights.py --restart
    """
    with reporting(as_json=json, debug=debug) as out:
        if writer is not None:
            # A stem is judged by the job's own sink, which may be given another name.
            require_writer_name(writer)
        environment = {**os.environ, "HIVESINK_WRITER": writer or job.stem}
        if metastore:
            environment["HIVESINK_METASTORE"] = metastore
        child = _Child(_command(job, arguments or [], as_json=json, debug=debug), environment, quiet=json)
        with child.signals():
            ended = supervise(
                child.run,
                stopped=child.stop_asked.is_set,
                wait=child.pause,
                tick=time.monotonic,
                chance=random.random,
                told=_tell,
                backoff=Backoff(),
                most_restarts=max_restarts if restart else 0,
            )
        if json:
            out.show(_report(job, ended))
        raise typer.Exit(ended.code)


def _command(job: Path, arguments: Sequence[str], *, as_json: bool, debug: bool) -> list[str]:
    flags = [flag for flag, wanted in (("--json", as_json), ("--debug", debug)) if wanted]
    return [sys.executable, "-m", "hivesink.cli.job", *flags, str(job), *arguments]


@dataclass(slots=True)
class _Child:
    """The job's process, one at a time. Signals of this process are passed on to it, and it ends with this one."""

    command: Sequence[str]
    environment: Mapping[str, str]
    quiet: bool
    stop_asked: threading.Event = field(default_factory=threading.Event)
    _process: subprocess.Popen[bytes] | None = None

    def run(self) -> int:
        """Run it once; 128 + n where signal n killed it."""
        environment = dict(self.environment)
        with lifeline.held(environment) as held:
            # A session of its own: Ctrl-C reaches it once, through us, and not from the terminal as well.
            self._process = subprocess.Popen(  # noqa: S603  the command is our own, the job file the user's
                self.command,
                env=environment,
                stdout=sys.stderr if self.quiet else None,
                start_new_session=True,
                pass_fds=(held,),
            )
            if self.stop_asked.is_set():
                self._process.terminate()
            code = self._process.wait()
        self._process = None
        return 128 - code if code < 0 else code

    def pause(self, seconds: float) -> None:
        """Wait, unless the end is asked for."""
        self.stop_asked.wait(seconds)

    @contextmanager
    def signals(self) -> Iterator[None]:
        """Pass SIGTERM and SIGINT on while the block runs."""
        before = {number: signal.signal(number, self._pass_on) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _pass_on(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002  the signal module's form
        self.stop_asked.set()
        process = self._process
        if process is not None and process.poll() is None:
            # Both mean: end. PySpark answers SIGINT itself, by cutting off what runs.
            process.terminate()


def _tell(restart: Restart) -> None:
    text = f"hivesink: the job ended with {restart.code} ({meaning(restart.code)})"
    print(f"{text}; restart {restart.number} in {restart.after:.1f} s", file=sys.stderr)


def _report(job: Path, ended: Ended) -> Report:
    data: dict[str, Any] = {
        "job": str(job),
        "exit_code": ended.code,
        "meaning": meaning(ended.code),
        "restarts": ended.restarts,
    }
    return Report(data, [])
