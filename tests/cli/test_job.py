"""Jobs of every end, each in a process of its own: exit code, and one line."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hivesink.cli import job
from hivesink.cli.job import main
from hivesink.spark import query
from tests.cli.site import hivesink

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

REPOSITORY = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(REPOSITORY)}


def _command(job: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "hivesink.cli", "run", str(job), *arguments]


def _job(folder: Path, *lines: str) -> Path:
    path = folder / "clicks.py"
    path.write_text("\n".join(lines) + "\n")
    return path


def _run(job: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(_command(job, *arguments), env=ENVIRONMENT, capture_output=True, text=True, check=False)


def _wait_for_new(before: set[threading.Thread]) -> None:
    for thread in set(threading.enumerate()) - before:
        if not thread.daemon:
            thread.join()


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
    monkeypatch.setattr(query, "_newest", {})
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    monkeypatch.setattr(job, "_wait_for_threads", partial(_wait_for_new, set(threading.enumerate())))
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    yield
    signal.signal(signal.SIGTERM, handler)


IMPORT = "from hivesink.errors import EpochTaken, MetastoreUnreachable, TaskFailed"


@pytest.mark.parametrize(
    ("lines", "code", "told"),
    [
        (["print('fine')"], 0, None),
        (
            [IMPORT, "raise MetastoreUnreachable('thrift://h:1', 'refused')"],
            75,
            "the metastore at thrift://h:1 doesn't",
        ),
        ([IMPORT, "raise EpochTaken('/log', 7)"], 65, "epoch 7 in /log was committed by another run"),
        ([IMPORT, "raise TaskFailed('disk full', retryable=True)"], 75, "a task failed: disk full"),
        (["", "1 / 0"], 1, "ZeroDivisionError: division by zero (line 2); --debug"),
        (["def f(:"], 1, "SyntaxError"),
        (["import sys", "sys.exit(3)"], 3, None),
        (["raise ConnectionError('kafka is gone')"], 75, "ConnectionError: kafka is gone"),
    ],
)
@pytest.mark.usefixtures("here")
def test_every_end_has_its_code_and_its_line(
    lines: Sequence[str], code: int, told: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([str(_job(tmp_path, *lines))])
    assert ended.value.code == code
    err = capsys.readouterr().err
    if told is None:
        assert err == ""
    else:
        (line,) = err.splitlines()
        assert line.startswith("hivesink: ")
        assert told in line


QUERY = """
import sys, threading, time
from contextlib import nullcontext
from types import SimpleNamespace
from hivesink.errors import BadRecord, FencedOut, HiveSinkError, MetastoreUnreachable, StoreUnavailable
from hivesink.spark.query import HiveQuery
from pyspark.errors import StreamingQueryException

DOWN = MetastoreUnreachable("thrift://h:1", "refused")
BAD = BadRecord("demo.t", "a.json", None, "no number")

class Waits:
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
    config = {"sink.on-stop": None, "sink.rolling-policy.on-epoch": True, "sink.registration.retry-interval": day}
    rule, target = SimpleNamespace(waits=False), SimpleNamespace(name="demo.t")
    spec = SimpleNamespace(config=config, commit_rule=rule, target=target)
    setup = SimpleNamespace(spec=spec, context=SimpleNamespace(log=SimpleNamespace(location=log)))
    stored = failure if isinstance(failure, HiveSinkError) else None
    run = SimpleNamespace(setup=setup, failure=stored, late_failure=None, committer=Waits(finish), awaited=nullcontext)
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
        ("start(finish=DOWN)", 75, "stopped finished", "the metastore at thrift://h:1 doesn't answer"),
        ("catch(start(finish=DOWN).stop)", 75, "stopped finished caught finished", "the metastore at"),
        ("start(BAD)", 65, "stopped", "bad record for demo.t at a.json"),
        ("start(BAD, own=False)", 65, "stopped", "bad record for demo.t at a.json"),
        ("start()._run.failure = BAD", 65, "stopped", "bad record"),
        ("start(own=False)._run.failure = BAD", 0, "stopped finished", None),
        (
            "query = start(); query._run.awaited = None; query.awaitTermination('5')",
            65,
            "",
            "timeout = '5': write a number of seconds",
        ),
        ("start('kafka')", 75, "stopped", "StreamingQueryException: Spark's text"),
        (
            "start(BAD); start(finish=DOWN, log='/other'); start(log='/third')",
            65,
            "stopped stopped finished stopped finished",
            "bad record",
        ),
        ("start(BAD); start()", 0, "stopped finished", None),
        ("catch(start(BAD).awaitTermination)", 0, "caught finished", None),
        ("assert start('kafka').exception()", 0, "finished", None),
        ("catch(start(BAD, finish=DOWN).awaitTermination)", 75, "caught finished", "the metastore at"),
        ("catch(start(FencedOut('/log', 1, 2)).awaitTermination)", 0, "caught", None),
        ("threading.Thread(target=lambda: (time.sleep(0.2), start(BAD))).start()", 65, "stopped", "bad record"),
    ],
)
@pytest.mark.usefixtures("here")
def test_a_job_is_not_done_before_its_queries_are(
    lines: str, code: int, printed: str, told: str | None, *, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([str(_job(tmp_path, QUERY, lines))])
    said = capsys.readouterr()
    assert (ended.value.code, sorted(said.out.split())) == (code, sorted(printed.split()))
    assert len(said.err.splitlines()) == (told is not None)
    assert (told or "") in said.err


@pytest.mark.usefixtures("here")
def test_debug_shows_the_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--debug", str(_job(tmp_path, "1 / 0"))])
    err = capsys.readouterr().err
    assert "Traceback (most recent call last)" in err
    assert err.splitlines()[-1].startswith("hivesink: ")


def test_the_job_gets_its_arguments_its_writer_and_its_folder(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("WORD = 'neighbour'\n")
    job = _job(
        tmp_path,
        "import os, sys, beside",
        "print(sys.argv[1:], os.environ['HIVESINK_WRITER'], os.environ['HIVESINK_METASTORE'], beside.WORD, __name__)",
    )
    done = _run(job, "a", "--rows", "5", "--metastore", "thrift://h:1")
    assert done.stdout == "['a', '--rows', '5'] clicks thrift://h:1 neighbour __main__\n"
    assert _run(job, "--writer", "w", "--metastore", "x", "--", "--restart").stdout.startswith("['--restart'] w x")
    assert _run(job, "--start=1", "-r", "--metastore", "x", "--", "--restrat").stdout.startswith(
        "['--start=1', '-r', '--re"
    )


@pytest.mark.parametrize(
    ("word", "option"),
    [
        *(("--restrat", "--restart"), ("--max_restart=3", "--max-restarts"), ("--write", "--writer")),
        *(("--jsonn", "--json"), ("-restart", "--restart"), ("--Debug", "--debug"), ("--helo", "--help")),
    ],
)
def test_a_misspelt_option_is_not_passed_on(
    word: str, option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = hivesink(capsys, "run", _job(tmp_path, "print('it ran')"), word)
    assert (said.code, said.out) == (2, "")
    name = word.partition("=")[0]
    assert f"{name} is no option of run: did you mean {option}? If it is the job's own, put it after --" in said.error


def test_an_odd_stem_is_the_jobs_own_matter_and_an_odd_writer_is_refused_before_it_runs(tmp_path: Path) -> None:
    job = _job(tmp_path, "print('it ran')").rename(tmp_path / "my job.py")
    assert _run(job).stdout == "it ran\n"
    refused = _run(job, "--writer", "../demo.other/w")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "the writer's name '../demo.other/w' can't be used" in refused.stderr


def test_a_file_that_is_no_program_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.sql").write_text("CREATE TABLE demo.t (id INT)")
    refused = _run(tmp_path / "t.sql")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "t.sql' is not a .py file" in refused.stderr


def test_json_reports_the_end_and_keeps_the_jobs_output_apart(tmp_path: Path) -> None:
    done = _run(_job(tmp_path, "print('noise')", IMPORT, "raise EpochTaken('/log', 7)"), "--json")
    assert json.loads(done.stdout)["exit_code"] == 65
    noise, error = done.stderr.splitlines()
    assert noise == "noise"
    assert json.loads(error)["error"]["type"] == "EpochTaken"


def test_restart_tries_again_what_may_pass(tmp_path: Path) -> None:
    job = _job(
        tmp_path,
        IMPORT,
        "from pathlib import Path",
        "seen = Path(__file__).with_name('seen')",
        "first = not seen.exists()",
        "seen.touch()",
        "if first:",
        "    raise MetastoreUnreachable('thrift://h:1', 'refused')",
        "print('second time')",
    )
    done = _run(job, "--restart")
    assert done.returncode == 0
    assert done.stdout == "second time\n"
    assert "the job ended with 75 (worth another try); restart 1 in" in done.stderr


def test_restart_leaves_to_a_person_what_is_a_persons(tmp_path: Path) -> None:
    done = _run(_job(tmp_path, IMPORT, "raise EpochTaken('/log', 7)"), "--restart")
    assert done.returncode == 65
    assert len(done.stderr.splitlines()) == 1


def test_a_job_that_is_killed_is_restarted_as_often_as_allowed(tmp_path: Path) -> None:
    job = _job(tmp_path, "import os, signal", "print('up', flush=True)", "os.kill(os.getpid(), signal.SIGKILL)")
    done = _run(job, "--restart", "--max-restarts", "1")
    assert done.returncode == 128 + signal.SIGKILL
    assert done.stdout == "up\nup\n"
    announced, last = done.stderr.splitlines()
    assert "restart 1 in" in announced
    assert last.startswith(f"hivesink: {job}: signal 9 (Killed) killed the job's process: ")
    assert "start the job again" in last


def test_a_job_may_end_its_own_processes(tmp_path: Path) -> None:
    job = _job(
        tmp_path,
        "import multiprocessing, time",
        "process = multiprocessing.get_context('fork').Process(target=time.sleep, args=(600,))",
        "process.start(); process.terminate(); process.join()",
        "print(process.exitcode)",
    )
    done = _run(job)
    assert (done.returncode, done.stdout) == (0, f"-{signal.SIGTERM:d}\n")


def test_a_process_that_the_job_forks_leaves_its_queries_alone(tmp_path: Path) -> None:
    lines = "import os; start(); os.fork() and (os.wait(), print('alone'))"
    done = _run(_job(tmp_path, QUERY, lines))
    assert (done.returncode, done.stdout) == (0, "alone\nstopped\nfinished\n")


def test_the_work_of_a_pool_belongs_to_the_job(tmp_path: Path) -> None:
    lines = "import concurrent.futures as c; c.ThreadPoolExecutor(1).submit(lambda: (time.sleep(0.5), start(BAD)))"
    done = _run(_job(tmp_path, QUERY, lines))
    assert (done.returncode, done.stdout) == (65, "stopped\n")
    assert "bad record" in done.stderr


IMPORTS = "import concurrent.futures as c, multiprocessing as m, subprocess as s"


@pytest.mark.parametrize(
    ("work", "ends"),
    [
        ("c.ThreadPoolExecutor(1).submit(time.sleep, 600)", "stopped\nfinished\n"),
        ("threading.Thread(target=time.sleep, args=(600,)).start()", "stopped\nfinished\n"),
        ("c.ProcessPoolExecutor(1).submit(time.sleep, 600)", "stopped\nfinished\n"),
        ("m.get_context('fork').Process(target=time.sleep, args=(600,)).start()", ""),
        ("s.Popen(['sleep', '600'])", ""),
    ],
)
def test_a_job_that_fails_ends_though_its_threads_and_processes_work_on(work: str, ends: str, tmp_path: Path) -> None:
    # Whatever of it lived on would have these pipes.
    done = _run(_job(tmp_path, QUERY, IMPORTS, f"start(); {work}; raise DOWN"))
    assert (done.returncode, done.stdout) == (75, ends)
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("kind", ["Thread", "Process"])
def test_a_pool_without_work_ends_with_the_job_that_fails(kind: str, tmp_path: Path) -> None:
    lines = f"import atexit, concurrent.futures as c; pool = c.{kind}PoolExecutor(1); pool.submit(abs, -1).result()"
    done = _run(_job(tmp_path, QUERY, lines, "atexit.register(print, 'tidied up'); raise DOWN"))
    assert (done.returncode, done.stdout) == (75, "tidied up\n")


def test_threads_that_start_threads_keep_the_job(tmp_path: Path) -> None:
    lines = "def beat(left): print(left); left and threading.Timer(0.1, beat, (left - 1,)).start()"
    done = _run(_job(tmp_path, QUERY, lines, "start(); beat(5)"))
    assert (done.returncode, done.stdout.split()) == (0, [*"543210", "stopped", "finished"])


def test_an_error_that_ends_a_thread_fails_the_job(tmp_path: Path) -> None:
    lines = "def work(): raise DOWN", "threading.Thread(target=work).start()", "start()"
    done = _run(_job(tmp_path, QUERY, *lines))
    assert (done.returncode, done.stdout) == (75, "stopped\nfinished\n")
    # When it happens, and at the end.
    assert [line[:37] for line in done.stderr.splitlines()] == ["hivesink: the metastore at thrift://h"] * 2
    assert _run(_job(tmp_path, QUERY, "threading.Thread(target=sys.exit, args=(3,)).start()")).returncode == 0


@pytest.mark.parametrize(
    "lines",
    [
        "manager = m.Manager()",
        (
            "def wait():\n    while threading.main_thread().is_alive(): time.sleep(0.1)\n"
            "threading.Thread(target=wait).start()"
        ),
        (
            "queue = m.get_context('fork').SimpleQueue(); m.get_context('fork').Process(target=queue.get).start()\n"
            "import atexit; atexit.register(queue.put, None)"
        ),
        (
            "pool = c.ProcessPoolExecutor(1)\ndef work(n): return n\n"
            "done = [pool.submit(work, n) for n in range(20)]\n"
            "import atexit; atexit.register(lambda: sum(one.result() for one in done) == 190 or print('lost'))"
        ),
    ],
)
def test_what_ends_with_the_interpreter_does_not_keep_a_job(lines: str, tmp_path: Path) -> None:
    done = _run(_job(tmp_path, QUERY, IMPORTS, "start()", lines))
    assert (done.returncode, done.stdout, done.stderr) == (0, "stopped\nfinished\n", "")


@pytest.mark.parametrize(
    "lines",
    [
        "def beat(): threading.Timer(0.2, beat).start()\nbeat()",
        (
            "def stay(): s.signal(s.SIGTERM, s.SIG_IGN); print('up', flush=True); time.sleep(600)\n"
            "import signal as s; m.get_context('fork').Process(target=stay).start(); time.sleep(0.5)"
        ),
    ],
)
def test_a_job_that_fails_ends_whatever_goes_on(lines: str, tmp_path: Path) -> None:
    done = _run(_job(tmp_path, QUERY, IMPORTS, lines, "raise DOWN"))
    assert done.returncode == 75
    assert len(done.stderr.splitlines()) == 1


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


@pytest.mark.parametrize(("end", "code"), [("", 0), ("raise DOWN", 75)])
def test_a_thread_in_a_library_does_not_abort_the_process_at_its_end(end: str, code: int, tmp_path: Path) -> None:
    done = _run(_job(tmp_path, QUERY, IN_ARROW, end))
    assert (done.returncode, len(done.stderr.splitlines())) == (code, int(bool(end)))


def test_a_signal_while_the_failure_is_told_changes_nothing(tmp_path: Path) -> None:
    lines = "class Odd(Exception):\n    def __str__(self): os.kill(os.getpid(), 15); return 'odd'"
    done = _run(
        _job(
            tmp_path, QUERY, "import os", lines, "threading.Thread(target=time.sleep, args=(600,)).start()", "raise Odd"
        )
    )
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1


def test_a_failure_that_nobody_hears_has_its_code(tmp_path: Path) -> None:
    lines = "threading.Thread(target=time.sleep, args=(600,)).start(); sys.stderr = None; raise DOWN"
    assert _run(_job(tmp_path, QUERY, lines)).returncode == 75


def test_a_job_that_fails_keeps_what_it_has_written(tmp_path: Path) -> None:
    done = _run(_job(tmp_path, f"file = open({str(tmp_path / 'out')!r}, 'w')", "file.write('precious')", "1 / 0"))
    assert (done.returncode, (tmp_path / "out").read_text()) == (1, "precious")


@pytest.mark.parametrize(("code", "said"), [("ValueError('why')", "why\n"), ("'why'", "why\n"), ("(1, 2)", "(1, 2)\n")])
def test_an_exit_code_that_is_no_number_is_told(code: str, said: str, tmp_path: Path) -> None:
    done = _run(_job(tmp_path, "import sys", f"sys.exit({code})"))
    assert (done.returncode, done.stderr) == (1, said)


def test_a_signal_while_a_failed_job_ends_changes_no_code(tmp_path: Path) -> None:
    lines = "threading.Thread(target=time.sleep, args=(600,)).start(); print('up', flush=True); raise DOWN"
    with subprocess.Popen(
        _command(_job(tmp_path, QUERY, lines)),
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "up\n"
        assert process.stderr.readline().startswith("hivesink: ")
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate()
    assert (process.returncode, err) == (75, "")


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


def test_a_pool_that_the_job_leaves_open_does_not_keep_it(tmp_path: Path) -> None:
    job = _job(
        tmp_path,
        "from concurrent.futures import ProcessPoolExecutor",
        "pool = ProcessPoolExecutor(1)",
        "if __name__ == '__main__': print(*pool.map(abs, [-1]))",
    )
    done = _run(job)
    assert (done.returncode, done.stdout) == (0, "1\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_job_and_the_restarts(number: signal.Signals, tmp_path: Path) -> None:
    job = _job(
        tmp_path,
        "import threading",
        "try:",
        "    print('up', flush=True)",
        "    threading.Event().wait()",
        "finally:",
        "    print('tidied up', flush=True)",
    )
    with subprocess.Popen(
        _command(job, "--restart"), env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(number)
        out, err = process.communicate()
    assert process.returncode == 128 + signal.SIGTERM
    assert out == "tidied up\n"
    assert "stopped before its first batch or in the middle of one" in err


def test_the_job_ends_with_its_supervisor(tmp_path: Path) -> None:
    job = _job(
        tmp_path,
        "import subprocess, threading",
        # As a JVM that PySpark is still starting: it doesn't notice the end of its starter.
        "subprocess.Popen(['sleep', '600'])",
        "try:",
        "    print('up', flush=True)",
        "    threading.Event().wait(60)",
        "    print('alone', flush=True)",
        "finally:",
        "    print('tidied up', flush=True)",
    )
    with subprocess.Popen(
        _command(job, "--restart"), env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.kill()
        # The job and its child have these pipes too: they are at their end when both are gone.
        out, err = process.communicate(timeout=60)
    assert out == "tidied up\n"
    assert "stopped before its first batch or in the middle of one" in err
