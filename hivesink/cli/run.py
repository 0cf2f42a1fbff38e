"""`hivesink run`: a job file in its own process, restarted if that may help."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperCommand

from hivesink.cli.codes import BY_SIGNAL, JobFailed, meaning
from hivesink.cli.command import Debug, Json, Metastore, existing, given, reporting
from hivesink.cli.output import Report, tell
from hivesink.cli.screen import is_live
from hivesink.cli.supervise import Backoff, Restart, lifeline, supervise
from hivesink.core.log import require_writer_name
from hivesink.errors import WrongUsage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import FrameType


class PassingOn(TyperCommand):
    """A command that leaves options which it doesn't know to its arguments, but for those that look misspelt."""

    ignore_unknown_options = True

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Raises WrongUsage for a word before `--` that is one typing error away from an option."""
        options = [option for parameter in self.get_params(ctx) for option in parameter.opts if option[:2] == "--"]
        for word in takewhile(lambda word: word != "--", args):
            name = word.partition("=")[0]
            meant = next((option for option in options if _is_misspelt(name, option)), None)
            if name not in options and meant is not None:
                problem = f"{name} is no option of run: did you mean {meant}?"
                raise WrongUsage((f"{problem} If it is the job's own, put it after --: JOB.py -- {name}",))
        return super().parse_args(ctx, args)


def _is_misspelt(word: str, option: str) -> bool:
    """Whether `word` is `option` but for one letter that is missing, wrong or too much, or two that changed places."""
    written = word.lower().replace("_", "-")
    for at in range(len(option) + 1):
        rest, wanted = written[at:], option[at:]
        is_near = rest == wanted[1:] or rest[1:] in {wanted, wanted[1:]} or rest[1::-1] + rest[2:] == wanted
        if is_near and written[:at] == option[:at]:
            return True
    return False


def _python(path: Path) -> Path:
    existing(path)
    if path.suffix != ".py":
        message = f"'{path}' is not a .py file: a job is a Python program"
        raise typer.BadParameter(message)
    return path


Job = Annotated[
    Path,
    typer.Argument(metavar="JOB.py", help="The job file.", dir_okay=False, readable=True, callback=_python),
]
Arguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="[ARGS]...", help="The job's own arguments. Everything after -- goes to the job."),
]
RestartOption = Annotated[
    bool, typer.Option("--restart", help="Restart the job, after a growing delay, if that may help.")
]
MostRestarts = Annotated[
    int | None, typer.Option("--max-restarts", min=0, help="With --restart: how many at most. Default: no limit.")
]
Named = Annotated[
    str | None, typer.Option("--writer", help="The writer's name. Default: the job file's name without .py.")
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
    """Run a job file as a program, in its own process. The file's name without .py is the default writer.

    Exit codes: 0 done; 75 worth another try (metastore, Kafka, Spark, disk); 65 needs a person; 1 the job itself
    failed; 2 wrong usage. --restart restarts the job after 75 and after a death by signal. SIGTERM and SIGINT end the
    job without a restart: its queries stop after their current batch. A second signal stops them at once.

    Example: hivesink run jobs/flights.py --restart
    """
    with reporting(as_json=json, debug=debug) as out:
        if writer is not None:
            # The stem is not checked here: the job may give its sink another name.
            with given():
                require_writer_name(writer)
        environment = {**os.environ, "HIVESINK_WRITER": writer or job.stem}
        if metastore:
            environment["HIVESINK_METASTORE"] = metastore
        flags = [flag for flag, wanted in (("--json", json), ("--debug", debug)) if wanted]
        command = [sys.executable, "-m", "hivesink.cli.job", *flags, str(job), *(arguments or ())]
        child = _Child(command, environment, quiet=json)
        with child.signals():
            ended = supervise(
                child.run,
                stopped=child.stop_asked.is_set,
                wait=child.stop_asked.wait,
                on_restart=_announce,
                backoff=Backoff(),
                max_restarts=max_restarts if restart else 0,
            )
        if child.killed_by is not None and not child.stop_asked.is_set():
            out.fail(JobFailed(job, _killed(child.killed_by), retryable=True))
        if json:
            data = {"job": str(job), "exit_code": ended.code, "meaning": meaning(ended.code)}
            out.show(Report({**data, "restarts": ended.restarts}, []))
        raise typer.Exit(ended.code)


@dataclass(slots=True)
class _Child:
    """The job's process, one at a time. It gets this process's signals, and ends with it."""

    command: Sequence[str]
    environment: Mapping[str, str]
    quiet: bool
    stop_asked: threading.Event = field(default_factory=threading.Event)
    killed_by: int | None = None
    """The signal that killed it last, so that it could report nothing itself."""
    _process: subprocess.Popen[bytes] | None = None

    def run(self) -> int:
        """Run it once. Returns its exit code, or 128 + n if signal n killed it."""
        environment = dict(self.environment)
        with lifeline(environment) as descriptor:
            # In a new session Ctrl-C reaches it once, through us, and not from the terminal as well.
            self._process = subprocess.Popen(  # noqa: S603  the command is our own, the job file the user's
                self.command,
                env=environment,
                stdout=sys.stderr if self.quiet else None,
                start_new_session=True,
                pass_fds=(descriptor,),
            )
            if self.stop_asked.is_set():
                self._process.terminate()
            code = self._process.wait()
        if code and is_live(sys.stderr, self.environment):
            Console(stderr=True).show_cursor()  # A job that was killed had hidden it.
        self._process = None
        self.killed_by = -code if code < 0 else None
        return BY_SIGNAL - code if code < 0 else code

    @contextmanager
    def signals(self) -> Iterator[None]:
        """Pass SIGTERM and SIGINT on to the job while the block runs."""
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
            # SIGTERM for both: PySpark handles SIGINT itself, by cancelling what runs.
            process.terminate()


def _killed(number: int) -> str:
    memory = ", or the kernel for lack of memory (dmesg shows that)" if number == signal.SIGKILL else ""
    text = f"signal {number} ({signal.strsignal(number)}) killed the job's process: somebody sent it{memory}"
    return f"{text}; start the job again, it finishes what is open and goes on; --restart does that by itself"


def _announce(restart: Restart) -> None:
    text = f"hivesink: the job ended with {restart.code} ({meaning(restart.code)})"
    tell(f"{text}; restart {restart.number} in {restart.after:.1f} s")
