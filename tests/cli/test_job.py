"""Jobs of every end: exit code, and one line. Those with signals or threads run in a process of their own."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from hivesink.cli.codes import Leaving
from hivesink.cli.job import main
from hivesink.cli.run import backoff
from hivesink.spark import query
from tests.cli.site import REPOSITORY, Capsys, command

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(REPOSITORY)}


def _command(job: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "hivesink.cli", "run", str(job), *arguments]


def _job(folder: Path, *lines: str) -> Path:
    path = folder / "clicks.py"
    path.write_text("\n".join(lines) + "\n")
    return path


def _run(job: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return command("run", job, *arguments)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The child's own program in this process, which is left as it was."""
    handler = signal.getsignal(signal.SIGTERM)
    quiet = logging.getLogger("py4j")
    monkeypatch.setattr(quiet, "propagate", True)
    monkeypatch.setattr(quiet, "handlers", [])
    own = logging.getLogger("hivesink")
    monkeypatch.setattr(own, "handlers", [])
    monkeypatch.setattr(own, "level", own.level)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setattr(query, "newest", {})
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    # It ends a process that failed, whatever its threads do.
    monkeypatch.setattr(threading, "Timer", lambda *_: threading.Thread())
    yield
    signal.signal(signal.SIGTERM, handler)


def _code(*arguments: str) -> int:
    leaving = Leaving()
    main(list(arguments), leaving)
    return leaving.code


IMPORT = "from hivesink.errors import EpochTaken, MetastoreUnreachable"
DOWN = "raise MetastoreUnreachable('thrift://h:1', 'refused')"


@pytest.mark.parametrize(
    ("lines", "code", "told"),
    [
        (["print('fine')"], 0, None),
        ([IMPORT, DOWN], 75, "the metastore at thrift://h:1 can't"),
        ([IMPORT, "raise EpochTaken('/log', 7)"], 65, "epoch 7 in /log was committed by another run"),
        (["", "1 / 0"], 1, "clicks.py: ZeroDivisionError: division by zero (exit code 1; --debug shows"),
        (["def f(:"], 1, "SyntaxError"),
        (["import sys", "sys.exit(3)"], 3, None),
        (["import sys", "sys.exit('why')"], 1, "why"),
    ],
)
@pytest.mark.usefixtures("here")
def test_every_end_has_its_code_and_its_line(
    lines: Sequence[str], code: int, told: str | None, tmp_path: Path, capsys: Capsys
) -> None:
    assert _code(str(_job(tmp_path, *lines))) == code
    err = capsys.readouterr().err
    assert len(err.splitlines()) == (told is not None)
    assert (told or "") in err


QUERY = """
import sys, threading, time
from types import SimpleNamespace
from hivesink.errors import BadRecord, FencedOut, HiveSinkError, MetastoreUnreachable, StoreUnavailable
from hivesink.spark.query import HiveQuery
from pyspark.errors import StreamingQueryException

DOWN = MetastoreUnreachable("thrift://h:1", "refused")
BAD = BadRecord("demo.t", "a.json", None, "no number")

class Waits:
    figures = SimpleNamespace(hear=lambda: None)
    def __init__(self, finish=None):
        self.error = finish
    def finish(self, *, roll):
        print("finished")
        if self.error: raise self.error
    def tell_end(self):
        pass

class Query:
    isActive, status = True, {"isTriggerActive": False, "isDataAvailable": False}
    def __init__(self, failure):
        self.failure, self.over = failure, threading.Event()
        self.isActive = failure is None
    def exception(self):
        return StreamingQueryException("Spark's text") if self.failure else None
    def awaitTermination(self, timeout=None):
        if self.failure: raise self.exception()
        return self.over.wait(timeout)
    def stop(self):
        print("stopped")
        self.isActive = False
        self.over.set()

def start(failure=None, finish=None, own=True, log="/log"):
    # Longer than any run of the suite: a query that its job leaves open would print in the middle of another test.
    day = SimpleNamespace(total_seconds=lambda: 86400)
    config = {"sink.on-stop": None, "sink.rolling-policy.check-interval": day}
    spec = SimpleNamespace(config=config, target=SimpleNamespace(name="demo.t"))
    setup = SimpleNamespace(spec=spec, context=SimpleNamespace(log=SimpleNamespace(location=log)))
    stored = failure if isinstance(failure, HiveSinkError) else None
    run = SimpleNamespace(setup=setup, failure=stored, late_failure=None, committer=Waits(finish), group=None)
    return HiveQuery(Query(failure), run, own=own)

def catch(call):
    try: call()
    except Exception: print("caught")
"""


@pytest.mark.parametrize(
    ("lines", "code", "printed", "told"),
    [
        ("start()", 0, "stopped finished", None),
        ("start(); sys.exit(0)", 0, "stopped finished", None),
        ("start(); sys.exit(4)", 4, "", None),
        ("start().stop()", 0, "stopped finished", None),
        ("start(finish=DOWN)", 75, "stopped finished", "the metastore at thrift://h:1 can't answer"),
        ("catch(start(finish=DOWN).stop)", 75, "stopped finished caught finished", "the metastore at"),
        ("start(BAD)", 65, "stopped", "bad record for demo.t at a.json"),
        ("start(BAD, own=False)", 65, "stopped", "bad record for demo.t at a.json"),
        ("start().run.failure = BAD", 65, "stopped", "bad record"),
        ("start(own=False).run.failure = BAD", 0, "stopped finished", None),
        ("start('kafka')", 65, "stopped", "StreamingQueryException: Spark's text"),
        ("start(BAD); start(finish=DOWN, log='/b')", 65, "stopped stopped finished", "bad record"),
        ("start(BAD); start()", 0, "stopped finished", None),
        ("catch(start(BAD).awaitTermination)", 0, "caught finished", None),
        ("catch(start(BAD, finish=DOWN).awaitTermination)", 75, "caught finished", "the metastore at"),
        ("catch(start(FencedOut('/log', 1, 2)).awaitTermination)", 0, "caught", None),
    ],
)
@pytest.mark.usefixtures("here")
def test_a_job_is_not_done_before_its_queries_are(
    lines: str, code: int, printed: str, told: str | None, *, tmp_path: Path, capsys: Capsys
) -> None:
    got = _code(str(_job(tmp_path, QUERY, lines)))
    said = capsys.readouterr()
    assert (got, sorted(said.out.split())) == (code, sorted(printed.split()))
    assert len(said.err.splitlines()) == (told is not None)
    assert (told or "") in said.err


def test_the_job_gets_its_arguments_its_writer_and_its_folder(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("WORD = 'neighbour'\n")
    job = _job(
        tmp_path,
        "import os, sys, beside",
        "print(sys.argv[1:], os.environ['HIVESINK_WRITER'], os.environ['HIVESINK_METASTORE'], beside.WORD, __name__)",
    )
    done = _run(job, "a", "--metastore", "thrift://h:1", "--", "--rows", "5")
    assert done.stdout == "['a', '--rows', '5'] clicks thrift://h:1 neighbour __main__\n"
    assert _run(job, "--writer", "w", "--metastore", "x", "--", "--restart").stdout.startswith("['--restart'] w x")


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("my job.py", ("--restrat",), "--restart"),
        ("my job.py", ("--writer", "../demo.other/w"), "the writer's name '../demo.other/w' can't be used"),
        ("t.sql", (), "t.sql' is not a .py file"),
        ("my job.py", ("--metrics", "9464m"), "--metrics = '9464m': write host:port"),
        ("my job.py", ("--metrics", "192.0.2.1:9464"), "192.0.2.1:9464 for metrics can't be used"),
        ("my job.py", ("--metrics-file", "/proc/none"), "/proc/none for metrics can't be used"),
    ],
)
def test_wrong_usage_is_told_before_anything_runs(
    name: str, arguments: Sequence[str], told: str, tmp_path: Path
) -> None:
    refused = _run(_job(tmp_path, "print('it ran')").rename(tmp_path / name), *arguments)
    assert (refused.returncode in {2, 65}, refused.stdout) == (True, "")
    assert told in refused.stderr


def test_json_reports_the_end_and_keeps_the_jobs_output_apart_and_debug_shows_the_trace(tmp_path: Path) -> None:
    job = _job(tmp_path, "print('noise')", IMPORT, "raise EpochTaken('/log', 7)")
    done = _run(job, "--json")
    report = json.loads(done.stdout)
    assert (report["exit_code"], report["restarts"]) == (65, 0)
    noise, error = done.stderr.splitlines()
    assert (noise, json.loads(error)["error"]["type"]) == ("noise", "EpochTaken")
    traced = _run(job, "--debug").stderr
    assert "Traceback (most recent call last)" in traced
    assert traced.splitlines()[-1].startswith("hivesink: ")


def test_restart_tries_again_what_may_pass(tmp_path: Path) -> None:
    first = "from pathlib import Path; seen = Path(__file__).with_name('seen'); first = not seen.exists(); seen.touch()"
    second = f"if first: {DOWN}\nprint('second time')\nraise EpochTaken('/log', 7)"
    done = _run(_job(tmp_path, IMPORT, first, second), "--restart")
    # What needs a person isn't tried again.
    assert (done.returncode, done.stdout) == (65, "second time\n")
    assert done.stderr.count("; restart ") == 1
    assert "the job ended with 75; restart 1 in" in done.stderr


def test_a_job_that_is_killed_is_told_and_restarted(tmp_path: Path) -> None:
    lines = "import os, signal", "from pathlib import Path; seen = Path(__file__).with_name('seen')"
    job = _job(tmp_path, *lines, "seen.exists() or os.kill(os.getpid(), signal.SIGKILL)", "print('up')")
    done = _run(job)
    assert done.returncode == 128 + signal.SIGKILL
    assert done.stderr.startswith(f"hivesink: {job}: signal 9 (Killed) killed the job's process: ")
    _job(tmp_path, *lines, "seen.exists() or (seen.touch(), os.kill(os.getpid(), signal.SIGKILL))", "print('up')")
    done = _run(job, "--restart")
    assert (done.returncode, done.stdout) == (0, "up\n")
    assert "the job ended with 137; restart 1 in" in done.stderr


def test_delays_double_up_to_the_longest() -> None:
    assert [backoff(failures) for failures in (1, 2, 3, 6, 7, 8, 10_000)] == [1, 2, 4, 32, 60, 60, 60]


def test_a_process_that_the_job_forks_leaves_its_queries_alone(tmp_path: Path) -> None:
    # A signal that comes before Python has ended the fork is lost; before `signal.pause`, its handler never runs.
    waits = "[time.sleep(0.05) for _ in range(1200)]"
    ready = f"read, write = os.pipe(); child = os.fork(); child or (os.write(write, b'x'), {waits})"
    lines = f"import os, time; start(); {ready}; os.read(read, 1); os.kill(child, 15)"
    done = _run(_job(tmp_path, QUERY, lines, "print(os.waitstatus_to_exitcode(os.wait()[1]))"))
    assert (done.returncode, done.stdout) == (0, "143\nstopped\nfinished\n")


IMPORTS = "import concurrent.futures as c, subprocess as s"


@pytest.mark.parametrize(
    "work",
    [
        "c.ThreadPoolExecutor(1).submit(time.sleep, 600)",
        pytest.param("c.ProcessPoolExecutor(1).submit(time.sleep, 600)", marks=pytest.mark.long),
        "s.Popen(['sleep', '600'])",
        pytest.param("def beat(): threading.Timer(0.2, beat).start()\nbeat()", marks=pytest.mark.long),
    ],
)
def test_a_job_that_fails_ends_though_its_threads_and_processes_work_on(work: str, tmp_path: Path) -> None:
    # Whatever of it lived on would have these pipes.
    done = _run(_job(tmp_path, QUERY, IMPORTS, f"start()\n{work}\nraise DOWN"))
    assert done.returncode == 75
    assert len(done.stderr.splitlines()) == 1


def test_the_jobs_threads_end_with_it_and_an_error_of_theirs_is_its_own(tmp_path: Path) -> None:
    lines = "def beat(left): print(left); left and threading.Timer(0.1, beat, (left - 1,)).start()"
    done = _run(_job(tmp_path, QUERY, lines, "beat(3)"))
    assert (done.returncode, done.stdout.split()) == (0, [*"3210"])
    done = _run(_job(tmp_path, QUERY, "def work(): raise DOWN", "threading.Thread(target=work).start()"))
    assert done.returncode == 75
    assert done.stderr.startswith("hivesink: the metastore at thrift://h")


IN_ARROW = """
import sys, time, pyarrow
class Slow:
    closed = False
    def read(self, size=-1): time.sleep(0.2); return b"0"
class Taken:
    def __init__(self): self.sleep = time.sleep
    def __del__(self): self.sleep(1)
sys.taken = Taken()
def work():
    file = pyarrow.BufferedInputStream(pyarrow.PythonFile(Slow(), mode="r"), 1)
    while True: file.read(1)
threading.Thread(target=work, daemon=True).start()
"""


def test_a_thread_in_a_library_does_not_abort_the_process_at_its_end(tmp_path: Path) -> None:
    done = _run(_job(tmp_path, QUERY, IN_ARROW, "raise DOWN"))
    assert (done.returncode, len(done.stderr.splitlines())) == (75, 1)


def test_sigterm_stops_the_queries_of_every_session(tmp_path: Path) -> None:
    # The second one starts when the job was told to end.
    lines = "query = start(); print('up', flush=True); query.awaitTermination(); start(log='/other').awaitTermination()"
    with subprocess.Popen(
        _command(_job(tmp_path, QUERY, lines)), env=ENVIRONMENT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate()
    assert (process.returncode, out) == (0, "stopped\nfinished\n" * 2)


WAITS = """
import subprocess, threading
# As a JVM that PySpark is still starting: it doesn't notice the end of its starter.
subprocess.Popen(['sleep', '600'])
try:
    print('up', flush=True)
    threading.Event().wait(60)
    print('alone', flush=True)
finally:
    print('tidied up', flush=True)
"""


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long), signal.SIGKILL]
)
def test_a_signal_ends_the_job_with_its_processes_and_the_restarts(number: signal.Signals, tmp_path: Path) -> None:
    command = _command(_job(tmp_path, WAITS), "--restart")
    with subprocess.Popen(
        command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(number)
        # The job and its child have these pipes too: they are at their end when all are gone.
        out, err = process.communicate(timeout=60)
    assert process.returncode == (-signal.SIGKILL if number is signal.SIGKILL else 128 + signal.SIGTERM)
    assert out == "tidied up\n"
    assert "stopped before its first batch or in the middle of one" in err
