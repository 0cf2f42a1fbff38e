"""The commands of README and docs, word for word and in order, as a newcomer runs them in a fresh clone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks_run_by, copy_to, shell

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

JOB, OWN_DATA = blocks_run_by(__file__, "README.md")


class Newcomer:
    """A shell in a clone after `make venv`. Whoever has Kafka's usual port on this machine keeps it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.broker = "127.0.0.1:9092"
        self.home = ".hivesink-local"

    def __call__(self, script: str, code: int = 0) -> str:
        """Run a script; return what it printed. It has to end with `code`."""
        script = script.replace("localhost:9092", self.broker)
        # The venv's own hivesink is the checkout's that it was made in.
        own = {"PYTHONPATH": str(self.folder), "HIVESINK_HOME": str(self.folder / self.home)}
        done = shell(self.folder, f"PATH=$PWD/.venv/bin:$PATH; {script}", own, check=False)
        assert done.returncode == code, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Newcomer]:
    """The clone, with a broker and a metastore, which end with the tests."""
    folder = copy_to(tmp_path_factory.mktemp("newcomer") / "hivesink")
    (folder / ".venv").symlink_to(ROOT / ".venv")
    run = Newcomer(folder)
    try:
        up = next(line for line in JOB.text.splitlines() if "cluster up" in line)
        run.broker = re.findall(r"127\.0\.0\.1:\d+", run(up))[-1]
        run("hivesink metastore start")
        yield run
    finally:
        run("hivesink metastore stop; python -m jobs.cluster down")


def test_a_job(newcomer: Newcomer) -> None:
    said = newcomer(JOB.text)
    assert "3 records written" in said
    assert re.search(r"│ 20\d\d-\d\d-\d\d--\d\d +│ 3 ", said)


# In each run, tests/integration/test_s3.py has these commands on S3.
@pytest.mark.long
def test_your_own_data(newcomer: Newcomer) -> None:
    (newcomer.folder / "events").mkdir()
    records = ({"id": 1, "at": "2024-01-02T03:04:05Z"}, {"id": 2, "at": "2024-01-02T05:00:00Z"})
    (newcomer.folder / "events" / "a.json").write_text("".join(f"{json.dumps(one)}\n" for one in records))
    said = newcomer(OWN_DATA.text)
    assert "2 of 2 records fit" in said
    assert re.search(r"│ 2 +│ 2024-01-02 05:00:00", said)


def test_a_topic_of_the_cluster(newcomer: Newcomer) -> None:
    page = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
    commands = re.findall(r"`(\.venv/bin/python -m jobs\.cluster topic [^`]+)`", page)
    made = [re.findall(r"topic (\w+) of 127.0.0.1:", newcomer(command)) for command in commands]
    assert made == [["userinfo"]]


FLIGHTS = [{"year": 2013, "carrier": "UA", "time_hour": f"2013-01-01T1{hour}:00:00Z"} for hour in (1, 2)]


def a_source_with_a_bad_record(newcomer: Newcomer) -> None:
    """For `init`: a folder and a topic. It looks at the records, and lets the bad one go to the dead letters."""
    newcomer("rm -rf events ddl/events.sql jobs/events.py checkpoints/events")
    (newcomer.folder / "events").mkdir()
    records = "".join(f"{json.dumps(one)}\n" for one in FLIGHTS)
    (newcomer.folder / "events" / "a.json").write_text(records)
    (newcomer.folder / "events" / "b.json").write_text("not JSON\n")
    click = '{"at": "2024-01-02T03:04:05Z", "page": "/"}'
    newcomer(f"echo '{click}' | python -m jobs.cluster topic clicks")


def only_good_records(newcomer: Newcomer) -> None:
    newcomer("mkdir later && mv events/b.json later")


def a_table_with_a_rejected_record(newcomer: Newcomer) -> None:
    newcomer("mv later/b.json events && hivesink ddl apply ddl/events.sql")
    newcomer("TRIGGER=availableNow hivesink run jobs/events.py")


def a_mended_record(newcomer: Newcomer) -> None:
    exported = newcomer.folder / "mend.jsonl"
    (record,) = map(json.loads, exported.read_text().splitlines())
    exported.write_text(json.dumps({**record, "value": json.dumps(FLIGHTS[0])}) + "\n")


BEFORE: dict[str, Callable[[Newcomer], None]] = {
    "hivesink init --from events": a_source_with_a_bad_record,
    "hivesink preview --table": only_good_records,
    "hivesink show": a_table_with_a_rejected_record,
    "hivesink rejects replay demo.events --mended": a_mended_record,
}
"""What the page takes for granted at a command."""

CODES = {"hivesink rejects replay demo.events --dry-run": 1}
"""Exit codes other than 0, as the page explains them."""


@pytest.fixture
def another_home(newcomer: Newcomer) -> Iterator[None]:
    """The other page has a table of the same name."""
    before, newcomer.home = newcomer.home, "other"
    newcomer("hivesink metastore start")
    yield
    newcomer("hivesink metastore stop")
    newcomer.home = before


# Each run of the suite has test_snippets.py: every command exists, with its options.
@pytest.mark.long
@pytest.mark.usefixtures("another_home")
def test_each_command_of_the_pages(newcomer: Newcomer) -> None:
    """docs/cli.md from top to bottom, then docs/operations.md."""
    said: dict[str, str] = {}
    for one in blocks_run_by(__file__, "docs/cli.md") + blocks_run_by(__file__, "docs/operations.md"):
        for command in one.text.splitlines():
            for beginning, prepare in BEFORE.items():
                if command.startswith(beginning):
                    prepare(newcomer)
            printed = newcomer(f"export TRIGGER=availableNow; {command}", CODES.get(command, 0))
            said[command.partition("  #")[0]] = printed
    assert "2 of 3 records fit" in said["hivesink init --from events --table demo.events"]
    assert "2 of 2 records fit" in said["hivesink preview --table demo.flights --from events"]
    assert re.search(r"│ 2 ", said['hivesink query "SELECT count(*) FROM demo.flights"'])
    assert "not JSON" in said["hivesink rejects demo.events"]
