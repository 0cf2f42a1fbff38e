"""A real Airflow in an environment of its own, in the cache, and its servers on SQLite."""

from __future__ import annotations

import configparser
import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from hivesink.config.cache import cache_folder
from hivesink.embedded.server import free_port, locked

REPOSITORY = Path(__file__).parents[2]
VERSIONS = ("2.11.2", "3.3.2")
SECONDS = 900
"""For the first run, which downloads 700 MB of packages."""


def python_of(version: str) -> Path:
    """The Python of an environment with that Airflow and what hivesink needs; skips the test if it can't be made."""
    folder = cache_folder() / f"airflow-{version}"
    python, done = folder / "bin" / "python", folder / "done"
    with locked(folder):
        if not done.exists():
            config = configparser.ConfigParser()
            config.read(REPOSITORY / "setup.cfg")
            needed = config["options"]["install_requires"].splitlines()
            # The sensor starts no Spark.
            packages = [line for line in needed if line and not line.startswith(("#", "pyspark"))]
            make = [sys.executable, "-m", "venv", str(folder)]
            install = [str(python), "-m", "pip", "install", "--quiet", f"apache-airflow=={version}", *packages]
            for command in (make, install):
                ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=SECONDS)
                if ended.returncode:
                    said = (ended.stderr or ended.stdout).strip().splitlines()
                    pytest.skip(f"no environment with Airflow {version} can be made: {said[-1] if said else command}")
            done.touch()
    return python


@dataclass(frozen=True)
class Airflow:
    """One version, with a home (database, logs) of its own in `home`, which exists."""

    version: str
    python: Path
    home: Path

    def environment(self, **own: str) -> dict[str, str]:
        ports = {name: str(free_port()) for name in ("API", "WORKER")}
        return {
            **os.environ,
            "PATH": f"{self.python.parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(REPOSITORY),
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_FOLDER": str(Path(__file__).with_name("dags")),
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": ports["WORKER"],
            # Airflow 3: tasks talk to the server of its API.
            "AIRFLOW__API__PORT": ports["API"],
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{ports['API']}/execution/",
            "AIRFLOW__API_AUTH__JWT_SECRET": "a secret of this test, long enough for every digest that there is: 64 B.",
            **own,
        }

    def run(self, *arguments: str | Path, **own: str) -> str:
        """What Airflow's Python prints, on both streams; an end with an error fails the test."""
        ended = subprocess.run(
            [self.python, *arguments],
            check=False,
            env=self.environment(**own),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
        )
        assert ended.returncode == 0, ended.stdout
        return ended.stdout

    @contextlib.contextmanager
    def servers(self, **own: str) -> Iterator[None]:
        """The scheduler, and what else it needs."""
        environment, commands = self.environment(**own), [["scheduler"]]
        if not self.version.startswith("2."):
            port = environment["AIRFLOW__API__PORT"]
            commands += [["api-server", "--host", "127.0.0.1", "--port", port, "--workers", "1"], ["dag-processor"]]
        started = []
        try:
            for command in commands:
                with (self.home / f"{command[0]}.out").open("w") as out:
                    line = [str(self.python), "-m", "airflow", *command]
                    started.append(psutil.Popen(line, env=environment, stdout=out, stderr=out, cwd=self.home))
            yield
        finally:
            everything = [one for server in started for one in [*server.children(recursive=True), server]]
            for server in started:
                server.terminate()
            _, alive = psutil.wait_procs(everything, timeout=20)
            for one in alive:
                with contextlib.suppress(psutil.NoSuchProcess):
                    one.kill()
            psutil.wait_procs(alive, timeout=20)

    def logged(self, pattern: str) -> str:
        """The text of all logs of tasks whose names match, so far."""
        return "".join(path.read_text() for path in sorted((self.home / "logs").rglob(pattern)))


@pytest.fixture(params=VERSIONS)
def airflow(request: pytest.FixtureRequest, tmp_path: Path) -> Airflow:
    """With an empty database."""
    home = tmp_path / "airflow"
    home.mkdir()
    made = Airflow(request.param, python_of(request.param), home)
    made.run("-m", "airflow", "db", "migrate")
    return made
