"""A run in several processes goes on after tests that hang where pytest-timeout can't end them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

FILES = {
    "pytest.ini": "[pytest]",
    "conftest.py": """
        from tests import workers
        workers.GRACE, workers.TEARDOWN = 0.5, 4
    """,
    "test_end.py": """
        import subprocess, pytest
        @pytest.fixture
        def server():
            with subprocess.Popen(["sleep", "90"]) as process:
                yield process
        def test_before(): pass
        def test_waits(server): assert not server
        def test_after(): pass
    """,
    "test_native.py": """
        import ctypes, pytest, signal
        @pytest.mark.timeout(1)
        def test_deaf():
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
            ctypes.PyDLL(None).sleep(90)
        def test_after(): pass
    """,
    # A worker that runs one of these waits until it knows the next.
    **{f"test_{name}.py": "def test_it(): pass" for name in "vwxyz"},
}


def test_tests_that_hang_fail_with_their_stacks_and_the_others_run(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(textwrap.dedent(text))
    options = "-n 2 --dist loadfile --timeout 80 -rfp -p tests.workers -p no:hypothesispytest -p no:cacheprovider"
    command = [sys.executable, "-m", "pytest", *options.split(), str(tmp_path)]
    environment = {**os.environ, "PYTEST_ADDOPTS": ""}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    crashed = re.findall(r"^worker .* crashed while running '(.*)'$", run.stdout, re.MULTILINE)
    assert sorted(crashed) == ["test_end.py::test_waits", "test_native.py::test_deaf"]
    assert sorted(re.findall(r"^PASSED .*?([^/\n]*)$", run.stdout, re.MULTILINE)) == [
        *("test_end.py::test_after", "test_end.py::test_before", "test_native.py::test_after"),
        *(f"test_{name}.py::test_it" for name in "vwxyz"),
    ]
    assert all(f", line {line} in {place}" in run.stderr for line, place in ((5, "server"), (6, "test_deaf")))
